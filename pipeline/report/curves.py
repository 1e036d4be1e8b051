"""Histories to curves: mean and standard deviation over seeds at each round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fedcore.errors import DataError
from fedcore.lazy import pd
from pipeline.report.collect import history_of, made, notes_of, one_kind
from pipeline.targets import Curves, PlannedRun

KEYS = ["row", "column", "round"]


def tidy(
    paper: str,
    target: str,
    figure: Curves,
    cells: Mapping[tuple[str, str], Sequence[PlannedRun]],
    root: Path = Path(),
    finished: bool = False,
) -> pd.DataFrame:
    """Return one line for each algorithm (row), panel (column) and round in which any run measured it.

    Args:
        paper, target: names of what is collected.
        figure: which column of the histories, in what unit.
        cells: the runs of each (algorithm, panel); ``seeds`` of a line is how many.
        root: the folder that holds results/.
        finished: leave out runs that are not made yet.

    Raises:
        DataError: a run is missing, foreign or damaged, or the runs are of several scales or variants.
    """
    asked = [(cell, run) for cell, found in cells.items() for run in found]
    runs = [(cell, run) for cell, run in asked if not finished or made(run, root)]
    one_kind([run for _, run in runs])
    long = pd.concat([_history(cell, run, figure, root) for cell, run in runs], ignore_index=True)
    grouped = long.groupby(KEYS, sort=False)
    lines = grouped["value"].agg(mean="mean", std="std", n="count").reset_index()
    lines["seeds"] = [len(cells[cell]) for cell in zip(lines["row"], lines["column"], strict=True)]
    notes = grouped[["data_state", "data"]].first().reset_index(drop=True)
    lines.insert(0, "target", target)
    lines.insert(0, "paper", paper)
    first = runs[0][1]
    lines = lines.assign(
        scale=first.scale, variant=first.spec["variant"], data=notes["data"], data_state=notes["data_state"]
    )
    return lines[lines["n"] > 0].reset_index(drop=True)


def _history(cell: tuple[str, str], run: PlannedRun, figure: Curves, root: Path) -> pd.DataFrame:
    values = figure.series(run, root) if figure.series else measured(run, figure.metric, root) * figure.factor
    state, note = notes_of(run, root)
    return pd.DataFrame(
        {
            "row": cell[0],
            "column": cell[1],
            "round": values.index,
            "value": (values.cummax() if figure.so_far else values).to_numpy(),
            "data": note,
            "data_state": state,
        }
    )


def measured(run: PlannedRun, metric: str, root: Path) -> pd.Series[float]:
    """Return a column of a run's history by round.

    Raises:
        DataError: the run is missing, foreign or damaged, or did not measure that.
    """
    history = history_of(run, root)
    if metric not in history:
        path = root / run.folder / "history.csv"
        raise DataError(f"{path}: no column '{metric}'; there are {', '.join(history.columns)}")
    return history.set_index("round")[metric]
