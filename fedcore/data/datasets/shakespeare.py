"""Shakespeare by speaking role: the next character after 80, over an alphabet of 80 symbols."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from fedcore.base.errors import DataError
from fedcore.base.options import Options
from fedcore.base.registry import Plugin
from fedcore.base.rng import Streams
from fedcore.data import Dataset, Rows, Size, Source
from fedcore.data.datasets.images import pooled
from fedcore.data.download import Declaration, Edition, Entry, File, Form, fetch
from fedcore.data.readers import read_leaf, read_moby, read_npz, read_role_files, read_tff

ALPHABET = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
LAST = len(ALPHABET) - 1
LENGTH = 80
Samples = tuple[NDArray[Any], NDArray[Any]]


def _tff(name: str, sha256: str, size: int) -> File:
    archive = Form(
        "shakespeare.tar.bz2",
        "sha256:0285be9906cb5f268092eee4edeeacfc2af4574f2941f7cc2f08a321d7f5c707",
        ("https://storage.googleapis.com/tff-datasets-public/shakespeare.tar.bz2",),
        member=name,
    )
    return File(f"shakespeare/{name}", sha256, size, forms=(archive,))


def _moby(name: str, size: int, sha256: str, gz: str) -> File:
    return File(f"shakespeare/{name}", sha256, size, forms=(Form(f"{name}.gz", f"sha256:{gz}"),))


def _leaf(use: str, size: int, sha256: str, gz: str) -> File:
    name = f"leaf_all_data_niid_023_keep_64_{use}_9.json"
    return File(f"shakespeare/{name}", sha256, size, forms=(Form(f"{name}.gz", f"sha256:{gz}"),))


ROLES = File(
    "shakespeare/leaf_by_play_and_character.tar",
    "01ea44ab69d400b3531fc871be6d190e55649ffc6ea04ccca5620a514e663cde",
    2693120,
    forms=(
        Form(
            "leaf_by_play_and_character.tar.xz",
            "sha256:bd716fb3dfd64b2c0ef52ca8ffe8eb8a007072694380e6720869ff14f30c3a34",
        ),
    ),
)
DECLARATION = Declaration(
    name="shakespeare",
    title="Shakespeare by speaking role",
    papers=("radfed",),
    citation="The Complete Works of William Shakespeare; Caldas et al.: LEAF, 2018",
    licence="public domain text; LEAF's preprocessing BSD-2",
    redistributable=True,
    shape="[80] character indices",
    classes=len(ALPHABET),
    upstream="https://github.com/TalwalkarLab/leaf/tree/master/data/shakespeare",
    editions={
        "full": Edition(
            "real",
            "Shakespeare",
            (ROLES,),
            {"roles": 572},
            extras=(
                File(
                    "shakespeare/leaf_users_and_plays.json",
                    "f69587ac26bc47067505343df98ef254e795c93e4dd6f3db4c54705d6d13144e",
                    58845,
                ),
            ),
            how="run the first stage of LEAF's preprocessing and pack its by_play_and_character folder",
        ),
        "moby": Edition(
            "real",
            "Shakespeare (Moby text)",
            (
                _moby(
                    "moby-comedies.txt",
                    1784616,
                    "cf08a65b440fa05d5b1f71aa10f7e1a3d349278028b44f750fec288c02ad0090",
                    "a92119ddb9ff62fc9e4ec491cc689d06a126647d746db1a07294d98f4a77cb3a",
                ),
                _moby(
                    "moby-histories.txt",
                    1479035,
                    "2897735d37b8424949492d100de7545424e7fd2c9d8aa777838d635628b677eb",
                    "64bd817d40b74d2659d2f22a8584f6d28b0d1dc83aac25ef2a1113d1e4db34b9",
                ),
                _moby(
                    "moby-tragedies.txt",
                    1752440,
                    "f9f9dca700c5f78733f5c08b35e20dcfef12641bcce7f7eaa262a8cdcf24124b",
                    "b9cc259a156acaf7d08529250d806735e141f9f3f6d82bcc71f5fd1cea9101d4",
                ),
            ),
            {"plays": 37},
        ),
        "tff": Edition(
            "real",
            "Shakespeare (TensorFlow Federated)",
            (
                _tff(
                    "shakespeare_train.h5",
                    "67100f52adfb6d5ece73c1a942b6863731a477bf09421a3c79c9937612895344",
                    4035752,
                ),
                _tff(
                    "shakespeare_test.h5",
                    "55d3a635bffe5c4f71610a8d0cf86c1b369bfd7793e0635b5a83cde1f195689e",
                    2745814,
                ),
            ),
            {"roles": 715},
        ),
        "leaf": Edition(
            "subset",
            "Shakespeare, a sample by LEAF",
            (
                _leaf(
                    "train",
                    3738594,
                    "b9eadd4e91c0fa03641730bd62ae6cdf4200989974e69a2e7d5f648a64491a01",
                    "315e08b509c100007ba3f5873edcd3bb8563fa1f8fbb7d274eb84883a7ff2ac6",
                ),
                _leaf(
                    "test",
                    346482,
                    "20f7fc3e48d5292d6a0dc1b4f377bc392a69a4a6ad8d64b51ed5d635cb276de5",
                    "3dc91843684e7fc9d8f509584a948acf6618a646a0c0745793e04b21cb7aa3be",
                ),
            ),
            {"roles": 10, "train": 41990, "test": 3881},
        ),
        "demo": Edition("subset", "Shakespeare", counts={"roles": 24}),
    },
)


class ShakespeareOptions(Options):
    """How the plays become samples.

    Attributes:
        roles: how many roles are drawn (RADFed has 143), or None for all that have a sample; all of them
            where there are fewer.
        length: characters a sample.
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
    seed: Annotated[int, Field(ge=0)] = 0


def texts(edition: str, source: Source) -> dict[str, NDArray[np.uint8]]:
    """Return what each role says, as indices of the alphabet."""
    if edition == "demo":
        path = fetch.demo_file(source, "shakespeare/roles.npz")
        names, ends, said = read_npz(path, "names", "ends", "symbols")
        return dict(zip(map(str, names), np.split(said, ends[:-1]), strict=True))
    readers: Mapping[str, Callable[[list[Path]], dict[str, str]]] = {
        "full": lambda paths: read_role_files(paths[0]),
        "moby": read_moby,
        "tff": _both_parts,
    }
    paths = list(fetch.obtain(DECLARATION, edition, source).values())
    return {name: encode(text) for name, text in readers[edition](paths).items()}


def _both_parts(paths: list[Path]) -> dict[str, str]:
    train, test = (read_tff(path) for path in paths)
    return {name: "\n".join(part[name] for part in (train, test) if name in part) for name in train | test}


def ready_made(source: Source) -> dict[str, list[Samples]]:
    """Return the training and test samples of LEAF's own sample by role."""
    found: dict[str, list[Samples]] = {}
    for path in fetch.obtain(DECLARATION, "leaf", source).values():
        for name, (x, y) in read_leaf([path]).items():
            if {len(text) for text in x} - {LENGTH} or {len(symbol) for symbol in y} - {1}:
                raise DataError(f"{path}: expected {LENGTH} characters and the next one")
            found.setdefault(name, []).append((symbols("".join(x)).reshape(-1, LENGTH), symbols("".join(y))))
    return found


def counts(edition: str, source: Source) -> dict[str, int]:
    """Return the numbers of roles, of plays where they are named, of samples where they come ready-made."""
    if edition == "leaf":
        train, test = zip(*ready_made(source).values(), strict=True)
        samples = {"train": sum(len(y) for _, y in train), "test": sum(len(y) for _, y in test)}
        return {"roles": len(train)} | samples
    found = texts(edition, source)
    plays = {"plays": len({name.split(": ")[0] for name in found})} if edition == "moby" else {}
    return {"roles": len(found)} | plays


def encode(text: str) -> NDArray[np.uint8]:
    """Turn a role's text into symbols; line ends and runs of spaces become one space (LEAF)."""
    return symbols(re.sub(r"  +", " ", text.replace("\r\n", " ").replace("\n", " ")))


def symbols(text: str) -> NDArray[np.uint8]:
    """Return places in the alphabet; other characters count as its last symbol (LEAF's one-hot vectors)."""
    codes = np.frombuffer(text.encode("utf-32-le"), "<u4")
    known = np.full(256, LAST, np.uint8)
    known[[ord(letter) for letter in ALPHABET]] = np.arange(len(ALPHABET))
    return np.where(codes < 256, known[np.minimum(codes, 255)], LAST).astype(np.uint8)


def windows(said: NDArray[np.uint8], length: int, stride: int) -> Samples:
    """Return every ``stride``-th window x [n, length] and the symbol after it y [n]; n may be 0."""
    if len(said) <= length:
        return np.empty((0, length), np.uint8), np.empty(0, np.uint8)
    view = np.lib.stride_tricks.sliding_window_view(said, length + 1)[::stride]
    return view[:, :length], view[:, length]


def split(samples: Samples, options: ShakespeareOptions) -> list[Samples]:
    """Split a role's samples in time, leaving out the test samples that overlap the last training sample."""
    x, y = samples
    cut = len(y) - int(len(y) * options.test_share)
    start = cut + -(-options.length // options.stride)
    return [(x, y) if options.pool else (x[:cut], y[:cut]), (x[start:], y[start:])]


def build(options: ShakespeareOptions, source: Source) -> Dataset:
    """Load the plays: x int64 [n, length], y in 0..79, one group a role.

    Raises:
        DataError: files are missing or damaged, or no role is long enough.
    """
    if options.edition == "leaf":
        found = ready_made(source)
    else:
        said = texts(options.edition, source)
        found = {
            name: split(windows(text, options.length, options.stride), options)
            for name, text in said.items()
            if len(text) > options.length
        }
    if not found:
        raise DataError(f"shakespeare: no role says more than {options.length} characters")
    order = Streams(options.seed).get("shakespeare/roles").permutation(len(found))
    names = [list(found)[index] for index in sorted(order[: options.roles])]
    train, test = (_rows([found[name][use] for name in names]) for use in (0, 1))
    if options.pool and options.edition == "leaf":
        train = pooled(train, test)
    edition = DECLARATION.edition(options.edition)
    return Dataset(
        "shakespeare",
        train,
        test,
        len(ALPHABET),
        edition.state,
        f"{edition.note}, {len(names)} speaking roles",
        group_names=tuple(names),
        vocabulary=len(ALPHABET),
    )


def _rows(parts: list[Samples]) -> Rows:
    x = np.concatenate([x for x, _ in parts], dtype=np.int64)
    y = np.concatenate([y for _, y in parts], dtype=np.int64)
    return Rows(x, y, np.repeat(np.arange(len(parts)), [len(y) for _, y in parts]))


def clients(options: ShakespeareOptions) -> int | None:
    """Return the number of roles that are drawn: all of the edition's where it has fewer."""
    known = DECLARATION.edition(options.edition).counts.get("roles")
    return min((number for number in (options.roles, known) if number is not None), default=None)


PLUGIN = Plugin(
    "shakespeare",
    ShakespeareOptions,
    build,
    "next character after 80, by speaking role",
    "Caldas et al. 2018 (LEAF); RADFed, section IV-B",
    clients=clients,
    size=lambda options: Size(
        (20_000 if options.edition == "demo" else 600_000) // options.stride,
        (options.length,),
        90,
        clients(options) or 100,
        vocabulary=90,
    ),
)
ENTRY = Entry(DECLARATION, counts)
