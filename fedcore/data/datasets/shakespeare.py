"""Shakespeare by speaking role: the next character after 80, over an alphabet of 80 symbols."""

import math
import re
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveInt

from fedcore.base.errors import DataError
from fedcore.base.rng import Streams
from fedcore.data import Dataset, Options, Plugin, Rows, Size, Source
from fedcore.data.download import Entry, declared, fetch
from fedcore.data.readers import read_leaf, read_moby, read_npz, read_role_files, read_tff

ALPHABET = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
PLACES = np.array([ALPHABET.find(chr(code)) % len(ALPHABET) for code in range(256)], np.uint8)
LENGTH = 80
ROLE_SAYS = 4_200  # characters, on average
Samples = tuple[NDArray[Any], NDArray[Any]]
DECLARATION = declared(__file__)["shakespeare"]


class ShakespeareOptions(Options):
    """How the plays become samples.

    Attributes:
        roles: how many roles are drawn (RADFed has 143), or None for all that have a sample; all of them
            where there are fewer.
        length: characters per sample.
        stride: characters from one sample to the next.
        test_share: share of a role's samples, its last ones, that are for testing; those that overlap a
            training sample are left out.
        pool: train rows are all samples, for a split by client.
        seed: of the draw of roles.

    The edition ``leaf`` comes cut into samples and split: ``length``, ``stride``, ``test_share`` don't apply.
    """

    edition: Literal["full", "moby", "tff", "leaf", "demo"] = "full"
    roles: PositiveInt | None = 143
    length: PositiveInt = LENGTH
    stride: PositiveInt = 1
    test_share: Annotated[float, Field(gt=0, lt=1)] = 0.2
    pool: bool = False
    seed: NonNegativeInt = 0


def texts(edition: str, source: Source) -> dict[str, NDArray[np.uint8]]:
    """Return what each role says, as indices of the alphabet."""
    if edition == "demo":
        path = fetch.demo_file(source, "shakespeare/roles.npz")
        names, ends, spoken = read_npz(path, "names", "ends", "symbols")
        return dict(zip(map(str, names), np.split(spoken, ends[:-1]), strict=True))
    paths = list(fetch.obtain(DECLARATION, edition, source).values())
    if edition == "tff":
        train, test = map(read_tff, paths)
        roles = {name: "\n".join(its[name] for its in (train, test) if name in its) for name in train | test}
    else:
        roles = read_moby(paths) if edition == "moby" else read_role_files(paths[0])
    return {name: encode(text) for name, text in roles.items()}


def ready_made(source: Source) -> dict[str, list[Samples]]:
    """Return the training and test samples, x [n, 80] and y [n], of LEAF's own sample by role."""
    roles: dict[str, list[Samples]] = {}
    for path in fetch.obtain(DECLARATION, "leaf", source).values():
        for name, (x, y) in read_leaf([path]).items():
            if {len(text) for text in x} - {LENGTH} or {len(symbol) for symbol in y} - {1}:
                raise DataError(f"{path}: expected {LENGTH} characters and the next one")
            roles.setdefault(name, []).append((symbols("".join(x)).reshape(-1, LENGTH), symbols("".join(y))))
    return roles


def counts(edition: str, source: Source) -> dict[str, int]:
    """Return the numbers of roles, of plays where they are named, of samples where they come ready-made."""
    if edition == "leaf":
        train, test = zip(*ready_made(source).values(), strict=True)
        samples = {"train": sum(len(y) for _, y in train), "test": sum(len(y) for _, y in test)}
        return {"roles": len(train)} | samples
    roles = texts(edition, source)
    plays = {"plays": len({name.split(": ")[0] for name in roles})} if edition == "moby" else {}
    return {"roles": len(roles)} | plays


def encode(text: str) -> NDArray[np.uint8]:
    """Turn a role's text into symbols; line ends and runs of spaces become one space (LEAF)."""
    return symbols(re.sub(r"  +", " ", text.replace("\r\n", " ").replace("\n", " ")))


def symbols(text: str) -> NDArray[np.uint8]:
    """Return places in the alphabet; other characters count as its last symbol (LEAF's one-hot vectors)."""
    codes = np.frombuffer(text.encode("utf-32-le"), "<u4")
    places: NDArray[np.uint8] = PLACES[np.minimum(codes, 255)]
    return places


def windows(text: NDArray[np.uint8], length: int, stride: int) -> Samples:
    """Return every ``stride``-th window x [n, length] and the symbol after it y [n]; n may be 0."""
    if len(text) <= length:
        return np.empty((0, length), np.uint8), np.empty(0, np.uint8)
    view = np.lib.stride_tricks.sliding_window_view(text, length + 1)[::stride]
    return view[:, :length], view[:, length]


def split(samples: Samples, options: ShakespeareOptions) -> list[Samples]:
    """Split a role's samples in time, leaving out the test samples that overlap the last training sample."""
    x, y = samples
    cut = len(y) - int(len(y) * options.test_share)
    start = cut + math.ceil(options.length / options.stride)
    return [(x, y) if options.pool else (x[:cut], y[:cut]), (x[start:], y[start:])]


def build(options: ShakespeareOptions, source: Source) -> Dataset:
    """Load the plays: x int64 [n, length], y in 0..79, one group per role."""
    if options.edition == "leaf":
        roles = ready_made(source)
    else:
        roles = {
            name: split(windows(text, options.length, options.stride), options)
            for name, text in texts(options.edition, source).items()
            if len(text) > options.length
        }
    if not roles:
        raise DataError(f"shakespeare: no role says more than {options.length} characters")
    order = Streams(options.seed).get("shakespeare/roles").permutation(len(roles))
    names = [list(roles)[index] for index in sorted(order[: options.roles])]
    train, test = (_rows([roles[name][use] for name in names]) for use in (0, 1))
    if options.pool and options.edition == "leaf":
        train = train.joined(test)
    more = {"group_names": tuple(names), "vocabulary": len(ALPHABET)}
    return DECLARATION.dataset(options.edition, train, test, f"{len(names)} speaking roles", **more)


def _rows(parts: list[Samples]) -> Rows:
    x = np.concatenate([x for x, _ in parts], dtype=np.int64)
    y = np.concatenate([y for _, y in parts], dtype=np.int64)
    return Rows(x, y, np.repeat(np.arange(len(parts)), [len(y) for _, y in parts]))


def clients(options: ShakespeareOptions) -> int | None:
    """Return the number of roles that are drawn: all of the edition's where it has fewer."""
    available = DECLARATION.edition(options.edition).counts.get("roles")
    return min((number for number in (options.roles, available) if number is not None), default=None)


PLUGIN = Plugin(
    "shakespeare",
    ShakespeareOptions,
    build,
    "next character after 80, by speaking role",
    "Caldas et al. 2018 (LEAF); RADFed, section IV-B",
    clients=clients,
    size=lambda options: Size(
        ROLE_SAYS * (clients(options) or 143) // options.stride,
        (options.length,),
        len(ALPHABET),
        clients(options) or 100,
        vocabulary=len(ALPHABET),
    ),
)
ENTRY = Entry(DECLARATION, counts)
