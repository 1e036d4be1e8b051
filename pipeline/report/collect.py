"""Runs to tidy numbers: what was measured, over how many seeds, beside what was published."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedcore.errors import DataError
from fedcore.files import canonical_json, sha256_text
from pipeline.catalogue import Run
from pipeline.targets import Table

COLUMNS = (
    "paper",
    "target",
    "row",
    "column",
    "mean",
    "std",
    "n",
    "seeds",
    "diverged",
    "published_mean",
    "published_std",
    "difference",
    "verdict",
    "scale",
    "variant",
    "data",
    "data_state",
    "specs",
)
REPRODUCTION = "paper"
Summary = Mapping[str, Any]


def summary_of(run: Run, root: Path) -> Summary | None:
    """Read a run's summary; None if there is none.

    Raises:
        DataError: the summary is damaged or was made by another specification.
    """
    path = root / run.folder / "summary.json"
    if not path.exists():
        return None
    try:
        found: Summary = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise DataError(f"{path}: not valid JSON; delete the folder and build it again") from None
    expected = sha256_text(canonical_json(run.spec))
    if found.get("spec_sha256") != expected:
        raise DataError(f"{path}: made by another specification; delete the folder and build it again")
    return found


def tidy(
    paper: str,
    target: str,
    table: Table,
    cells: Mapping[tuple[str, str], Sequence[Run]],
    published: Path,
    root: Path = Path(),
) -> pd.DataFrame:
    """Return one line a cell: mean and standard deviation over seeds, and the published numbers.

    The standard deviation has n - 1 in its denominator and is missing for one seed. A diverged run
    counts in ``diverged`` and not in the mean.

    Args:
        paper, target: names of what is collected.
        table: which measurement, in what unit.
        cells: the runs of each (row, column).
        published: the paper's published.csv.
        root: the folder that holds results/.

    Raises:
        DataError: a summary is damaged or foreign, or the runs are of several scales or variants.
    """
    one_kind([run for runs in cells.values() for run in runs])
    known = published_cells(published, target)
    lines = [_line(paper, target, table, cell, runs, known.get(cell), root) for cell, runs in cells.items()]
    return pd.DataFrame(lines, columns=list(COLUMNS))


def one_kind(runs: Sequence[Run]) -> None:
    """Refuse to put runs of several scales or variants side by side.

    Raises:
        DataError: they are.
    """
    for what, found in (
        ("scales", {run.scale for run in runs}),
        ("variants", {str(run.spec["variant"]) for run in runs}),
    ):
        if len(found) > 1:
            raise DataError(f"one table can't mix {what}: {', '.join(sorted(found))}")


def published_cells(path: Path, target: str) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the published mean and standard deviation (NaN if not given) of each cell of a target."""
    frame = pd.read_csv(path)
    own = frame[frame["target"] == target]
    return {
        (str(row), str(column)): (float(mean), float(std))
        for row, column, mean, std in own[["row", "column", "mean", "std"]].itertuples(index=False)
    }


def _line(
    paper: str,
    target: str,
    table: Table,
    cell: tuple[str, str],
    runs: Sequence[Run],
    known: tuple[float, float] | None,
    root: Path,
) -> tuple[Any, ...]:
    found = [summary for run in runs if (summary := summary_of(run, root)) is not None]
    values = [table.factor * s["final"][table.metric] for s in found if s["status"] == "completed"]
    mean = statistics.fmean(values) if values else math.nan
    std = statistics.stdev(values) if len(values) > 1 else math.nan
    published_mean, published_std = known or (math.nan, math.nan)
    difference = mean - published_mean
    scale = runs[0].scale
    return (
        paper,
        target,
        *cell,
        mean,
        std,
        len(values),
        len(runs),
        sum(summary["status"] != "completed" for summary in found),
        published_mean,
        published_std,
        difference,
        verdict(difference, published_std, scale),
        scale,
        runs[0].spec["variant"],
        _joined(summary["data_note"] for summary in found),
        _joined(summary["data_state"] for summary in found),
        _joined(summary["spec_sha256"][:12] for summary in found),
    )


def verdict(difference: float, published_std: float, scale: str) -> str:
    """Say whether a cell agrees with the published one: within two of its deviations or one point.

    Only full-scale runs are compared.
    """
    if math.isnan(difference):
        return ""
    if scale != REPRODUCTION:
        return f"not tested at {scale} scale"
    allowed = max(1.0, 0.0 if math.isnan(published_std) else 2 * published_std)
    return "agrees" if abs(difference) <= allowed else "differs"


def _joined(parts: Any) -> str:
    return " ".join(dict.fromkeys(parts)) if parts else ""
