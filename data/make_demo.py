"""Make data/demo from the full data: small real subsets, the same bytes every time.

    python data/make_demo.py MIRROR [--root data]

MIRROR is a folder that holds the upstream files (compressed or not). Files are drawn class by class
with a fixed stream, written as compressed npz without timestamps, and listed with checksum, source and
licence in MANIFEST.json.
"""

from __future__ import annotations

import argparse
import io
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base.files import atomic, sha256_file, write_json
from fedcore.base.rng import Streams
from fedcore.data import Source
from fedcore.data.datasets import covertype, eicu, femnist, images, libsvm, shakespeare
from fedcore.data.download import Declaration

MOST_BYTES, MOST_IN_ALL = 3 << 20, 10 << 20


@dataclass(frozen=True)
class Made:
    """One demo file: its place, its arrays, where they come from, and the rows by use."""

    path: str
    arrays: dict[str, NDArray[Any]]
    declaration: Declaration
    rows: dict[str, int]


def draw(labels: NDArray[Any], total: int, purpose: str) -> NDArray[np.int64]:
    """Return sorted row indices: ``total`` rows, classes in their own proportions (largest remainders)."""
    classes, counts = np.unique(labels, return_counts=True)
    shares = counts * min(total, len(labels)) / len(labels)
    take = np.floor(shares).astype(int)
    rest = np.argsort(take - shares, kind="stable")[: min(total, len(labels)) - take.sum()]
    take[rest] += 1
    rng = Streams(0).get(f"demo/{purpose}")
    return np.sort(
        np.concatenate(
            [rng.permutation(np.flatnonzero(labels == c))[:k] for c, k in zip(classes, take, strict=True)]
        )
    )


def image_sets(source: Source) -> Iterator[Made]:
    """MNIST 2,000 + 1,000 and CIFAR-10 600 + 300 images."""
    for name, train, test in (("mnist", 2000, 1000), ("cifar10", 600, 300)):
        x, y, test_x, test_y = images.pixels(name, "full", source)
        some, others = draw(y, train, f"{name}/train"), draw(test_y, test, f"{name}/test")
        arrays: dict[str, NDArray[Any]] = {
            "train_x": x[some],
            "train_y": y[some].astype(np.uint8),
            "test_x": test_x[others],
            "test_y": test_y[others].astype(np.uint8),
        }
        yield Made(f"{name}/{name}.npz", arrays, images.DECLARATIONS[name], {"train": train, "test": test})


def libsvm_sets(source: Source) -> Iterator[Made]:
    """The LIBSVM sets, whole where they are small; rebuilt files where that is what the mirror has."""
    for declaration in libsvm.DECLARATIONS:
        edition = "rebuilt" if "rebuilt" in declaration.editions else "full"
        x, y, test_x, test_y = libsvm.raw(declaration, edition, source)
        rows = dict(declaration.edition("demo").counts)
        some = draw(y, rows["train"], f"{declaration.name}/train")
        others = draw(test_y, rows["test"], f"{declaration.name}/test")
        arrays: dict[str, NDArray[Any]] = {
            "train_x": x[some].astype(np.float32),
            "train_y": y[some].astype(np.int8),
            "test_x": test_x[others].astype(np.float32),
            "test_y": test_y[others].astype(np.int8),
        }
        yield Made(f"libsvm/{declaration.name}.npz", arrays, declaration, rows)


def writers(source: Source) -> Iterator[Made]:
    """All images of 30 FEMNIST writers."""
    data = femnist.pixels("sample", source)
    rng = Streams(0).get("demo/femnist")
    chosen = np.sort(rng.permutation(1 + data["train_writer"].max())[:30])
    arrays: dict[str, NDArray[Any]] = {"names": data["names"][chosen]}
    for use in ("train", "test"):
        keep = np.isin(data[f"{use}_writer"], chosen)
        arrays |= {f"{use}_{part}": data[f"{use}_{part}"][keep] for part in ("x", "y")}
        arrays[f"{use}_writer"] = np.searchsorted(chosen, data[f"{use}_writer"][keep]).astype(np.uint8)
    counts = {use: len(arrays[f"{use}_y"]) for use in ("train", "test")}
    yield Made(femnist.WRITERS, arrays, femnist.DECLARATION, counts | {"writers": len(chosen)})


def forest(source: Source) -> Iterator[Made]:
    """12,000 rows of Covertype, classes in proportion; the 0/1 columns as indices."""
    rows = covertype.table("subset92962", source)
    rows = rows[draw(rows[:, -1], 12000, "covertype")]
    first, last = covertype.QUANTITATIVE, covertype.QUANTITATIVE + covertype.WILDERNESS
    arrays: dict[str, NDArray[Any]] = {
        "numbers": rows[:, :first].astype(np.int16),
        "wilderness": rows[:, first:last].argmax(axis=1).astype(np.uint8),
        "soil": rows[:, last:-1].argmax(axis=1).astype(np.uint8),
        "classes": rows[:, -1].astype(np.uint8),
    }
    yield Made("covertype/covertype.npz", arrays, covertype.DECLARATION, {"rows": len(rows)})


def roles(source: Source) -> Iterator[Made]:
    """What 24 middling roles of the plays say, in symbols of the alphabet."""
    texts = {
        name: said for name, said in shakespeare.texts("full", source).items() if 2000 < len(said) < 9000
    }
    order = Streams(0).get("demo/shakespeare").permutation(len(texts))[:24]
    names = [list(texts)[index] for index in sorted(order)]
    arrays: dict[str, NDArray[Any]] = {
        "names": np.array(names),
        "ends": np.cumsum([len(texts[name]) for name in names]),
        "symbols": np.concatenate([texts[name] for name in names]),
    }
    yield Made("shakespeare/roles.npz", arrays, shakespeare.DECLARATION, {"roles": len(names)})


def intensive_care(source: Source) -> Iterator[Made]:
    """The stays of the open eICU demo as variables, with blocks and with hospitals."""
    for edition, name in (("cohort", "demo"), ("hospitals", "demo_hospitals")):
        found = eicu.stays(edition, source)
        arrays: dict[str, NDArray[Any]] = {
            "x": found.x,
            "died": found.died.astype(np.uint8),
            "place": found.place.astype(np.uint16),
            "names": np.array(found.names, str),
        }
        yield Made(f"eicu/{name}.npz", arrays, eicu.DECLARATION, {"stays": len(found.died)})


PARTS: tuple[Callable[[Source], Iterator[Made]], ...] = (
    image_sets,
    libsvm_sets,
    writers,
    forest,
    roles,
    intensive_care,
)


def write_npz(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write an npz whose bytes depend on its arrays alone."""
    with (
        atomic(path) as handle,
        zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
    ):
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, buffer.getvalue())


def main() -> None:
    """Write every demo file and the manifest."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("mirror", help="folder with the upstream files")
    parser.add_argument("--root", type=Path, default=Path("data"), help="the data folder (cache and demo)")
    arguments = parser.parse_args()
    source = Source(arguments.root, arguments.mirror, offline=True)
    folder = arguments.root / "demo"
    listed: dict[str, dict[str, Any]] = {}
    for part in PARTS:
        for made in part(source):
            path = folder / made.path
            write_npz(path, made.arrays)
            size = path.stat().st_size
            if size > MOST_BYTES:
                raise SystemExit(f"{path}: {size:,} bytes, more than {MOST_BYTES:,}")
            listed[made.path] = {
                "bytes": size,
                "sha256": sha256_file(path),
                "rows": made.rows,
                "source": made.declaration.upstream,
                "citation": made.declaration.citation,
                "licence": made.declaration.licence,
            }
            print(f"{made.path}: {size:,} bytes, {made.rows}")
    total = sum(entry["bytes"] for entry in listed.values())
    if total > MOST_IN_ALL:
        raise SystemExit(f"{folder}: {total:,} bytes in all, more than {MOST_IN_ALL:,}")
    write_json(folder / "MANIFEST.json", {"files": listed})
    print(f"{len(listed)} files, {total:,} bytes")


if __name__ == "__main__":
    main()
