"""Numbers of runs to tidy lines of a drawing: mean and standard deviation over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedcore.base.lazy import pd
from pipeline.catalogue.targets import Cell, PlannedRun
from pipeline.reports.results import final_of, history_of

Values = Sequence[float | None]


def line(row: str, column: str, values: Values, **more: Any) -> dict[str, Any]:
    """Return one tidy line; a run without a number (None or not finite) counts in ``seeds``, not in ``n``."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    return {
        "row": row,
        "column": column,
        **more,
        "mean": statistics.fmean(known) if known else math.nan,
        "std": statistics.stdev(known) if len(known) > 1 else math.nan,
        "n": len(known),
        "seeds": len(values),
    }


def over_seeds(
    cells: Mapping[Cell, Sequence[PlannedRun]], value: Callable[[PlannedRun], float | None]
) -> pd.DataFrame:
    """Return one line per cell."""
    return pd.DataFrame([line(*cell, [value(run) for run in runs]) for cell, runs in cells.items()])


def by_round(
    cells: Mapping[Cell, Sequence[PlannedRun]], metric: str, factor: float, root: Path
) -> pd.DataFrame:
    """Return one line per cell and round that any of its runs measured."""
    lines = []
    for cell, runs in cells.items():
        found = [history_of(run, root).set_index("round")[metric] * factor for run in runs]
        for number in sorted({int(at) for series in found for at in series.dropna().index}):
            values = [float(series.get(number, math.nan)) for series in found]
            lines.append(line(*cell, values, round=number))
    return pd.DataFrame(lines)


def accuracy(root: Path) -> Callable[[PlannedRun], float | None]:
    """Return the measure of a run's test accuracy after the last round, in per cent; None if it diverged."""

    def measured(run: PlannedRun) -> float | None:
        final = final_of(run, root)
        return 100 * final["test_accuracy"] if final else None

    return measured
