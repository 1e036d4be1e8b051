"""What any data set must do: load the same arrays again, match its declaration, keep its clients' names."""

import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

from fedcore.base.options import validate
from fedcore.base.registry import Plugin
from fedcore.conformance import Checks, Skipped, disturb, require
from fedcore.data import Dataset, DataState, Source, misfits
from fedcore.data.download import inventory

HEAVY = ("torch", "pandas", "scipy", "sklearn", "matplotlib")
STATES = get_args(DataState)
IMPORT = """
import sys
from pathlib import Path
from fedcore.conformance import alone
alone(Path(sys.argv[1]))
print(*sys.modules)
"""


def checks(plugin: Plugin, options: Mapping[str, Any], source: Source, path: Path) -> Checks:
    """Yield the requirements of the data set of a file, each with its check; refuse wrong options."""
    checked = validate(plugin.options, dict(options), "data")
    datasets: list[Dataset] = []
    yield "it loads", lambda: datasets.append(plugin.build(checked, source))
    if not datasets:
        return
    (loaded,) = datasets
    yield "rows, labels and clients fit one another", partial(_fits, loaded)
    yield "the same arrays again", partial(_again, plugin, checked, source, loaded)
    yield "captions can say what it is", partial(_described, plugin, loaded)
    yield "its declared counts are what is loaded", partial(_counts, plugin, checked, source)
    yield "no test or validation row is a training row", partial(_apart, loaded)
    yield "reading a specification stays quick", partial(_light, path)


def _fits(loaded: Dataset) -> None:
    wrong = next(misfits(loaded), "")
    require(not wrong, wrong)
    numbers = loaded.train.x.dtype != np.int64 or loaded.vocabulary is not None
    require(numbers, "train: x holds token indices, but vocabulary is not given")


def _again(plugin: Plugin, options: Any, source: Source, loaded: Dataset) -> None:
    disturb(1)
    same = plugin.build(options, source).sha256() == loaded.sha256()
    require(same, "a second load gave other arrays; draw random numbers from fedcore.base.rng.Streams")


def _described(plugin: Plugin, loaded: Dataset) -> None:
    require(loaded.state in STATES, f"state is {loaded.state!r}, expected one of {', '.join(STATES)}")
    wrong = "note is empty or has several lines; expected a short phrase such as '2,000 + 1,000 images of X'"
    require(loaded.note.strip() and "\n" not in loaded.note, wrong)
    require(loaded.name == plugin.name, f"it calls itself '{loaded.name}', its plug-in '{plugin.name}'")


def _counts(plugin: Plugin, options: Any, source: Source) -> None:
    if plugin.name not in inventory.entries():
        raise Skipped("it has no ENTRY, so it declares no files")
    entry = inventory.entry(plugin.name)
    edition = str(getattr(options, "edition", ""))
    editions = entry.declaration.editions
    require(edition in editions, f"edition '{edition}' of its options is not declared")
    declared, loaded = editions[edition].counts, entry.counts(edition, source)
    wrong = [key for key, count in declared.items() if loaded.get(key) != count]
    require(not wrong, "; ".join(f"{key}: {loaded.get(key)}, declared {declared[key]}" for key in wrong))


def _apart(loaded: Dataset) -> None:
    shared = "test rows are the training rows; accuracy on them says nothing about other data"
    require(loaded.train is not loaded.test, shared)
    train = {row.tobytes() for row in np.ascontiguousarray(loaded.train.x)}
    for use, rows in {"test": loaded.test, "validation": loaded.validation}.items():
        same = 0 if rows is None else sum(row.tobytes() in train for row in np.ascontiguousarray(rows.x))
        require(not same, f"{same} of {len(rows or ())} {use} rows are among the training rows")


def _light(path: Path) -> None:
    command = [sys.executable, "-c", IMPORT, str(path)]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    heavy = sorted(set(HEAVY) & set(process.stdout.split()))
    require(not heavy, f"importing the file imports {', '.join(heavy)}; import them from fedcore.base.lazy")
