"""Sent140: sentiment of short messages, by user. The demo is a declared generator of word sequences."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveInt

from fedcore.base.errors import DataError
from fedcore.base.lazy import pd
from fedcore.base.rng import Streams
from fedcore.data import Dataset, Options, Plugin, Rows, Size, Source
from fedcore.data.datasets import glove
from fedcore.data.download import Entry, cache, declared, fetch
from fedcore.data.readers import read_leaf, reading

WORD = re.compile(r"[\w']+|[.,!?;]")
COLUMNS = ("polarity", "id", "date", "query", "user", "text")
TEXT = 4
PADDING, UNKNOWN = 0, 1
FIRST_WORD = UNKNOWN + 1  # of the generated demo, as what follows
TOPIC_WORDS, NEUTRAL_WORDS = 100, 398  # how many words each of two topics has, and no topic
VOCABULARY = FIRST_WORD + 2 * TOPIC_WORDS + NEUTRAL_WORDS
SHARES = 0.30, 0.12  # of a message's words, those of its own topic and of the other
KNOWN = 30, 80  # how many words a user knows of a topic, and of no topic
SHORTEST = 5  # words of a message
SHARED, SHIFT = 10, 0.8  # on how many axes a topic's words lie on one side, and how far
DECLARATION = declared(__file__)["sent140"]


class Sent140Options(Options):
    """How messages become samples.

    Attributes:
        length: tokens per message; longer ones are cut, shorter ones padded at the end or the start.
        vectors: which GloVe vectors turn words into indices.
        min_messages: users with fewer are left out.
        users: of the generated demo; ``messages`` is their mean number of messages.
        seed: of the split of users 4 : 1 into training and test users, and of the demo.
    """

    edition: Literal["full", "leaf_test", "manual", "demo"] = "full"
    length: PositiveInt = 25
    padding: Literal["end", "start"] = "end"
    vectors: Literal["full", "top40000"] = "full"
    min_messages: PositiveInt = 1
    users: Annotated[int, Field(ge=5)] = 200
    messages: Annotated[int, Field(ge=2)] = 12
    seed: NonNegativeInt = 0


def messages(edition: str, source: Source) -> tuple[list[str], NDArray[np.int64], NDArray[Any]]:
    """Return texts, labels (0 negative, 1 positive) and user names, neutral messages left out."""
    (path,) = fetch.obtain(DECLARATION, edition, source).values()
    if path.suffix == ".json":
        return _leaf(path)
    with reading(path, "a csv table in Latin-1"):
        frame = pd.read_csv(path, header=None, encoding="latin-1", keep_default_na=False, low_memory=False)
    if frame.shape[1] != len(COLUMNS):
        raise DataError(f"{path}: {frame.shape[1]} columns, expected {len(COLUMNS)}")
    frame = frame.set_axis(COLUMNS, axis="columns")
    frame = frame[frame.polarity != 2]
    if not frame.polarity.isin((0, 4)).all():
        raise DataError(f"{path}: a polarity is none of 0, 2, 4")
    labels = (frame.polarity == 4).to_numpy().astype(np.int64)
    return frame.text.astype(str).tolist(), labels, frame.user.astype(str).to_numpy(object)


def _leaf(path: Path) -> tuple[list[str], NDArray[np.int64], NDArray[Any]]:
    users = read_leaf([path])
    rows = [(name, x, y) for name, (xs, ys) in users.items() for x, y in zip(xs, ys, strict=True)]
    if not all(isinstance(x, list) and len(x) > TEXT and y in (0, 1) for _, x, y in rows):
        raise DataError(f"{path}: expected x = [id, date, query, user, text, ...] and y of 0 or 1")
    texts = [str(x[TEXT]) for _, x, _ in rows]
    return texts, np.array([y for *_, y in rows], np.int64), np.array([name for name, *_ in rows], object)


def size(options: Sent140Options) -> Size:
    """Return how large an edition is."""
    rows = DECLARATION.editions[options.edition].counts.get("messages", options.users * options.messages)
    words = VOCABULARY if options.edition == "demo" else 40_000 if options.vectors == "top40000" else 400_000
    return Size(rows, (options.length,), 2, vocabulary=words, vectors=(words, glove.WIDTH))


def counts(edition: str, source: Source) -> dict[str, int]:
    """Return the numbers of messages (without neutral ones) and of users."""
    if edition == "demo":
        demo = build(Sent140Options(edition="demo"), source)
        return {"messages": len(demo.train) + len(demo.test), "users": len(demo.group_names)}
    _, labels, users = messages(edition, source)
    return {"messages": len(labels), "users": len(set(users))}


def tokens(texts: Sequence[str], words: Sequence[str], length: int) -> NDArray[np.int32]:
    """Turn texts into word indices [n, length]: 0 pads at the end, 1 is an unknown word, then ``words``.

    A word is a run of letters, digits and apostrophes, in lower case, or one of . , ! ? ; (LEAF).
    """
    index = {word: place for place, word in enumerate(words, UNKNOWN + 1)}
    out = np.zeros((len(texts), length), np.int32)
    for row, text in enumerate(texts):
        indices = [index.get(word, UNKNOWN) for word in WORD.findall(text.lower())[:length]]
        out[row, : len(indices)] = indices
    return out


def pad_start(x: NDArray[Any]) -> NDArray[Any]:
    """Move the padding of rows [n, length] from their end to their start."""
    return np.take_along_axis(x, np.argsort(x != PADDING, axis=1, kind="stable"), axis=1)


def build(options: Sent140Options, source: Source) -> Dataset:
    """Load the messages as word indices: x int64 [n, length], labels 0 (negative) and 1 (positive).

    Train and test users are disjoint. Users appear by number, never by name.
    """
    if options.edition == "demo":
        users = options.users
        train, test, vectors = generate(users, options.messages, options.length, options.seed)
    else:
        words, rows = glove.vectors(options.vectors, source)
        train, test, users = _split(_indexed(options, words, source), options)
        vectors = np.vstack([np.zeros((UNKNOWN + 1, rows.shape[1]), np.float32), rows])
    if options.padding == "start":
        train, test = (Rows(pad_start(part.x), part.y, part.groups) for part in (train, test))
    names = tuple(f"user{user}" for user in range(users))
    return DECLARATION.dataset(
        options.edition, train, test, group_names=names, vocabulary=len(vectors), embeddings=vectors
    )


def _indexed(options: Sent140Options, words: Sequence[str], source: Source) -> dict[str, NDArray[Any]]:
    paths = fetch.obtain(DECLARATION, options.edition, source)

    def make() -> dict[str, NDArray[Any]]:
        texts, labels, names = messages(options.edition, source)
        users = np.unique(names.astype(str), return_inverse=True)[1]
        return {"x": tokens(texts, words, options.length), "y": labels, "users": users}

    name = f"sent140-{options.edition}-{options.vectors}-{options.length}-1"
    return cache.derived(source, name, paths, make)


def _split(data: dict[str, NDArray[Any]], options: Sent140Options) -> tuple[Rows, Rows, int]:
    """Split by user, 4 : 1; users are numbered anew, training users first."""
    x, y, users = data["x"].astype(np.int64), data["y"], data["users"].astype(np.int64)
    enough = np.flatnonzero(np.bincount(users) >= options.min_messages)
    if len(enough) < 2:
        raise DataError(
            f"sent140: {len(enough)} users have {options.min_messages} messages, expected 2 or more"
        )
    order = Streams(options.seed).get("sent140/users").permutation(enough)
    cut = min(len(order) - 1, round(0.8 * len(order)))
    number = np.full(users.max() + 1, -1)
    number[np.sort(order[:cut])] = np.arange(cut)
    number[np.sort(order[cut:])] = np.arange(cut, len(order))
    groups = number[users]
    rows = Rows(x, y, groups)
    return rows.take((groups >= 0) & (groups < cut)), rows.take(groups >= cut), len(order)


def generate(users: int, messages: int, length: int, seed: int) -> tuple[Rows, Rows, NDArray[np.float32]]:
    """Make training and test rows of different users, and word vectors [vocabulary, 50], in place of tweets.

    Rows are sequences of word indices. A sequence of class c is made of words of topic c (30%), of the other
    topic (12%) and of neutral words; each user knows only 30 words of a topic and 80 neutral ones, so users
    differ as people do, and a user never seen in training uses words that others used. Every fifth is a test
    user. Numbers of messages are geometric from 2, ``messages`` in the mean; short ones are padded.
    As in trained word vectors, the words of a topic lie on one side of some axes: here of the first 10.
    """
    streams = Streams(seed)
    parts = [_user(streams, user, messages, length) for user in range(users)]
    groups = np.repeat(np.arange(users), [len(y) for _, y in parts])
    rows = Rows(np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts]), groups)
    held_out = groups % 5 == 4
    normal = streams.get("sent140-demo/vectors").standard_normal((VOCABULARY, glove.WIDTH))
    vectors = normal.astype(np.float32) * 0.4
    for topic, sign in enumerate((-1, 1)):
        first = FIRST_WORD + topic * TOPIC_WORDS
        vectors[first : first + TOPIC_WORDS, :SHARED] += sign * SHIFT
    vectors[0] = 0.0
    return rows.take(~held_out), rows.take(held_out), vectors


def _user(
    streams: Streams, user: int, messages: int, length: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Make one user's messages [n, length] and labels [n]."""
    rng = streams.get("sent140-demo/user", client=user)
    words = [FIRST_WORD + c * TOPIC_WORDS + rng.permutation(TOPIC_WORDS)[: KNOWN[0]] for c in (0, 1)]
    topics = np.stack(words)
    neutral = FIRST_WORD + 2 * TOPIC_WORDS + rng.permutation(NEUTRAL_WORDS)[: KNOWN[1]]
    count = 1 + int(rng.geometric(1 / max(1, messages - 1)))
    y = (rng.random(count) < rng.beta(2.0, 2.0)).astype(np.int64)
    shape = (count, length)
    kind = np.searchsorted(np.cumsum(SHARES), rng.random(shape))
    topic = np.where(kind == 0, y[:, None], 1 - y[:, None])
    of_none = neutral[rng.integers(0, KNOWN[1], shape)]
    x = np.where(kind == 2, of_none, topics[topic, rng.integers(0, KNOWN[0], shape)])
    sizes = rng.integers(min(SHORTEST, length), length + 1, count)
    return np.where(np.arange(length) < sizes[:, None], x, 0), y


PLUGIN = Plugin(
    "sent140",
    Sent140Options,
    build,
    "sentiment of short messages by user, 2 classes",
    "Go et al. 2009",
    size=size,
)
ENTRY = Entry(DECLARATION, counts)
