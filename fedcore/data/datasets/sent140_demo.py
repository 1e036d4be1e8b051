"""A stand-in for Sent140 without files: two-topic word sequences of users with vocabularies of their own.

Synthetic, and labelled so wherever it shows. A sequence of class c is made of words of topic c (30%), of
the other topic (12%) and of neutral words; each user knows only 30 words of a topic and 80 neutral ones, so
users differ as people do, and a user never seen in training uses words that others used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcore.base.rng import Streams
from fedcore.data import Rows

TOPIC_WORDS, NEUTRAL_WORDS, WIDTH = 100, 398, 50
FIRST_WORD = 2
VOCABULARY = FIRST_WORD + 2 * TOPIC_WORDS + NEUTRAL_WORDS
SHARES = (0.30, 0.12)
KNOWN = (30, 80)
SHORTEST = 5


def generate(users: int, messages: int, length: int, seed: int) -> tuple[Rows, Rows, NDArray[np.float32]]:
    """Make training and test rows of different users, and word vectors [vocabulary, 50].

    Rows are sequences of word indices; 0 pads, 1 stands for an unknown word.

    Args:
        users: number of users; every fifth is a test user.
        messages: mean number of messages a user (geometric from 2).
        length: tokens a message; shorter ones are padded on the right.
        seed: of the generator.
    """
    streams = Streams(seed)
    parts = [_user(streams, user, messages, length) for user in range(users)]
    groups = np.repeat(np.arange(users), [len(y) for _, y in parts])
    every = Rows(np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts]), groups)
    held_out = groups % 5 == 4
    normal = streams.get("sent140-demo/vectors").standard_normal((VOCABULARY, WIDTH))
    vectors = normal.astype(np.float32) * 0.4
    vectors[0] = 0.0
    return every.take(~held_out), every.take(held_out), vectors


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
