"""What any data set must do: load the same arrays again, match its declaration, keep its clients' names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedcore.base.options import validate
from fedcore.base.registry import Plugin
from fedcore.conformance import Check, Skipped, disturb
from fedcore.data import Dataset, Rows, Source
from fedcore.data.download import inventory

HEAVY = ("torch", "pandas", "scipy", "sklearn", "matplotlib")
STATES = ("real", "subset", "rebuilt", "synthetic")
IMPORT = """
import sys
from pathlib import Path
from fedcore.conformance.plugin import alone
alone(Path(sys.argv[1]))
print(*sys.modules)
"""


def checks(
    plugin: Plugin, options: Mapping[str, Any], source: Source, path: Path
) -> Iterator[tuple[str, Check]]:
    """Yield the requirements of a data set, each with its check.

    Args:
        plugin: the data set.
        options: values of its options, where a default is missing or another is wanted.
        source: where its files come from.
        path: the plug-in's file.

    Raises:
        SpecError: the options are wrong.
    """
    checked = validate(plugin.options, dict(options), "data")
    datasets: list[Dataset] = []

    def loads() -> str:
        datasets.append(plugin.build(checked, source))
        return ""

    yield "it loads", loads
    if not datasets:
        return
    (loaded,) = datasets
    yield "rows, labels and clients fit one another", partial(_fits, loaded)
    yield "the same arrays again", partial(_again, plugin, checked, source, loaded)
    yield "captions can say what it is", partial(_described, plugin, loaded)
    yield "its declared counts are what is loaded", partial(_counts, plugin, dict(options), source)
    yield "no test row is a training row", partial(_apart, loaded)
    yield "reading a specification stays quick", partial(_light, path)


def _fits(loaded: Dataset) -> str:
    uses = {"train": loaded.train, "test": loaded.test, "validation": loaded.validation}
    for use, rows in uses.items():
        if rows is not None and (wrong := _rows(rows, loaded)):
            return f"{use}: {wrong}"
    if not len(loaded.train):
        return "there are no training rows"
    if loaded.test.x.shape[1:] != loaded.train.x.shape[1:]:
        return f"test rows have shape {loaded.test.x.shape[1:]}, training rows {loaded.train.x.shape[1:]}"
    lengths = {name: len(column) for name, column in loaded.client_features.items()}
    wrong_length = [name for name, length in lengths.items() if length != len(loaded.train)]
    return f"client_features '{wrong_length[0]}' has not one value a training row" if wrong_length else ""


def _rows(rows: Rows, loaded: Dataset) -> str:
    """Say what is wrong with rows of one use."""
    x, y = rows.x, rows.y
    if len(x) != len(y):
        return f"{len(x)} rows of x, {len(y)} labels"
    if y.dtype != np.int64:
        return f"labels are {y.dtype}, expected int64"
    if x.dtype not in (np.float32, np.float64, np.int64):
        return f"x is {x.dtype}, expected float32, float64, or int64 for tokens"
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        return "x has nan or inf"
    if x.dtype == np.int64 and loaded.vocabulary is None:
        return "x holds token indices, but vocabulary is not given"
    if len(y) and not 0 <= y.min() <= y.max() < loaded.classes:
        return f"labels from {y.min()} to {y.max()}, expected 0 to {loaded.classes - 1}"
    if rows.groups is None:
        return ""
    if len(rows.groups) != len(y):
        return f"{len(rows.groups)} groups for {len(y)} rows"
    last, names = int(rows.groups.max(initial=-1)), len(loaded.group_names)
    return f"group {last} has no name; {names} names are given" if last >= names else ""


def _again(plugin: Plugin, options: Any, source: Source, loaded: Dataset) -> str:
    disturb(1)
    if plugin.build(options, source).sha256() == loaded.sha256():
        return ""
    return "a second load gave other arrays; draw random numbers from fedcore.base.rng.Streams"


def _described(plugin: Plugin, loaded: Dataset) -> str:
    if loaded.state not in STATES:
        return f"state is {loaded.state!r}, expected one of {', '.join(STATES)}"
    if not loaded.note.strip() or "\n" in loaded.note:
        return (
            "note is empty or has several lines; expected a short phrase such as '2,000 + 1,000 images of X'"
        )
    return (
        "" if loaded.name == plugin.name else f"it calls itself '{loaded.name}', its plug-in '{plugin.name}'"
    )


def _counts(plugin: Plugin, options: Mapping[str, Any], source: Source) -> str:
    if plugin.name not in inventory.entries():
        raise Skipped("it has no ENTRY, so it declares no files")
    entry = inventory.entry(plugin.name)
    edition = str(options.get("edition") or getattr(plugin.options(), "edition", ""))
    if edition not in entry.declaration.editions:
        return f"edition '{edition}' of its options is not declared"
    declared, loaded = entry.declaration.editions[edition].counts, entry.counts(edition, source)
    wrong = [key for key, count in declared.items() if loaded.get(key) != count]
    return "; ".join(f"{key}: {loaded.get(key)}, declared {declared[key]}" for key in wrong)


def _apart(loaded: Dataset) -> str:
    if loaded.train is loaded.test:
        return "test rows are the training rows; accuracy on them says nothing about other data"
    train = {row.tobytes() for row in np.ascontiguousarray(loaded.train.x.reshape(len(loaded.train), -1))}
    test = np.ascontiguousarray(loaded.test.x.reshape(len(loaded.test), -1))
    same = sum(row.tobytes() in train for row in test)
    return f"{same} of {len(test)} test rows are among the training rows" if same else ""


def _light(path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT, str(path)], capture_output=True, text=True, check=True
    )
    heavy = sorted(set(HEAVY) & set(done.stdout.split()))
    return (
        f"importing the file imports {', '.join(heavy)}; import them from fedcore.base.lazy" if heavy else ""
    )
