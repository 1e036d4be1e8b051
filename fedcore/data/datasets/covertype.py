"""Covertype: forest cover from cartographic variables, as two classes (RADFed) or seven."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedcore.base.rng import Streams
from fedcore.data import Dataset, Options, Plugin, Rows, Size, Source
from fedcore.data.download import Entry, cache, declared, fetch
from fedcore.data.readers import read_npz, read_numbers
from fedcore.data.standardise import SCALINGS

QUANTITATIVE, WILDERNESS, SOIL = 10, 4, 40
FEATURES = QUANTITATIVE + WILDERNESS + SOIL
SHARES = {1: 43, 2: 57}  # of the two classes, in percent
TEST_SHARE = 0.2
DECLARATION = declared(__file__)["covertype"]


class CovertypeOptions(Options):
    """How Covertype is taken.

    Attributes:
        task: ``binary`` is classes 1 and 2 only, in RADFed's proportion 43 : 57 and a number of rows that is
            a multiple of 1,000 (211,560 and 280,440 of the full data); ``seven`` is all rows.
        scaling: of the ten quantitative columns: by all training rows (``standard`` is RADFed's -G), or
            ``by_client`` (RADFed's -L), which leaves them for whoever knows the clients.
        pool: train rows are all rows, for a split by client; a fixed fifth of the rows are test rows.
    """

    edition: Literal["full", "subset92962", "kaggle15120", "demo"] = "full"
    task: Literal["binary", "seven"] = "binary"
    scaling: Literal["as_shipped", "minmax", "standard", "by_client"] = "standard"
    pool: bool = False


def table(edition: str, source: Source) -> NDArray[np.int64]:
    """Return all rows [n, 55] in integer units: 54 features and the class 1 to 7."""
    if edition == "demo":
        path = fetch.demo_file(source, "covertype/covertype.npz")
        numbers, wilderness, soil, classes = read_npz(path, "numbers", "wilderness", "soil", "classes")
        one_hot = [np.eye(WILDERNESS, dtype=np.int64)[wilderness], np.eye(SOIL, dtype=np.int64)[soil]]
        return np.hstack([numbers, *one_hot, classes[:, None]])
    paths = fetch.obtain(DECLARATION, edition, source)
    arrays = cache.derived(source, f"covertype-{edition}-1", paths, lambda: _parse(*paths.values()))
    return arrays["rows"].astype(np.int64)


def _parse(path: Path) -> dict[str, NDArray[Any]]:
    header = path.suffix == ".csv"
    rows = read_numbers(path, columns=FEATURES + 1 + header, header=header)
    return {"rows": rows[:, int(header) :].astype(np.int16)}


def counts(edition: str, source: Source) -> dict[str, int]:
    """Return the number of rows, all and by class."""
    classes = table(edition, source)[:, -1]
    by_class = np.bincount(classes, minlength=8)[1:]
    return {"rows": len(classes)} | {f"class {label}": int(n) for label, n in enumerate(by_class, 1)}


def binary_rows(classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows of RADFed's two-class form: the first ones of classes 1 and 2, 43 : 57."""
    pairs = [(np.flatnonzero(classes == label), share) for label, share in SHARES.items()]
    total = min(len(rows) * 100 // share for rows, share in pairs) // 1000 * 1000
    return np.sort(np.concatenate([rows[: total * share // 100] for rows, share in pairs]))


def build(options: CovertypeOptions, source: Source) -> Dataset:
    """Load Covertype: x float32 [n, d]; ``client_features`` are wilderness area and soil type."""
    rows = table(options.edition, source)
    binary, detail = options.task == "binary", ""
    if binary:
        rows = rows[binary_rows(rows[:, -1])]
        detail = f"classes 1 and 2 ({len(rows):,} rows)"
    x, y = rows[:, :-1].astype(np.float64), rows[:, -1] - 1
    held_out = Streams(0).get("covertype/test").permutation(len(y)) < round(TEST_SHARE * len(y))
    train = np.ones(len(y), np.bool_) if options.pool else ~held_out
    numbers = SCALINGS[options.scaling](x[train, :QUANTITATIVE], x[:, :QUANTITATIVE])[1]
    varies = (x != x[0]).any(axis=0)
    all_rows = Rows(np.hstack([numbers, x[:, QUANTITATIVE:]])[:, varies].astype(np.float32), y)
    return DECLARATION.dataset(
        options.edition,
        all_rows.take(train),
        all_rows.take(held_out),
        detail,
        classes=2 if binary else 7,
        standardise_by_client=options.scaling == "by_client",
        client_features={
            "wilderness": rows[train, QUANTITATIVE : QUANTITATIVE + WILDERNESS].argmax(axis=1),
            "soil": rows[train, QUANTITATIVE + WILDERNESS : FEATURES].argmax(axis=1),
        },
    )


PLUGIN = Plugin(
    "covertype",
    CovertypeOptions,
    build,
    "forest cover from 54 cartographic variables, 2 or 7 classes",
    "Blackard 1998; RADFed, section IV-B",
    size=lambda options: Size(
        DECLARATION.editions[options.edition].counts["rows"], (54,), 2 if options.task == "binary" else 7
    ),
)
ENTRY = Entry(DECLARATION, counts)
