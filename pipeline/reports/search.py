"""Grid searches: candidates out of options, and how a candidate scores on validation rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from fedcore.base.lazy import pd
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Best, PlannedRun
from pipeline.reports.results import final_of

LONG = 100
ENOUGH = 3
Value = float | str
Choice = Mapping[str, Value]


@dataclass(frozen=True)
class Option:
    """One hyperparameter.

    Attributes:
        key: its place in a specification, such as ``training.lr``.
        label: its name in print.
        values: the whole grid.
        few: the values that are tried where runs are too short to tell more.
    """

    key: str
    label: str
    values: tuple[Value, ...]
    few: tuple[Value, ...]

    def tried(self, rounds: int) -> tuple[Value, ...]:
        """Return the values to try in runs of so many rounds."""
        return self.values if rounds >= LONG or not self.few else self.few


def seeds(params: PaperParams) -> tuple[int, ...] | None:
    """Return the seeds of a search: the first of three or more; None, which means all, of fewer."""
    return params.seeds[:1] if len(params.seeds) >= ENOUGH else None


def combinations(options: Iterable[tuple[Option, Iterable[Value]]]) -> dict[str, Choice]:
    """Return every combination of the options' values, by the name of its row."""
    options = [(option, tuple(values)) for option, values in options]
    found: dict[str, Choice] = {}
    for chosen in product(*(values for _, values in options)):
        named = [(option.key, value) for (option, _), value in zip(options, chosen, strict=True)]
        found["-".join(f"{key.rpartition('.')[2]}_{shown(value)}" for key, value in named)] = dict(named)
    return found


def labels(candidates: Mapping[str, Choice], options: Iterable[Option]) -> dict[str, str]:
    """Return each candidate's row as it is printed."""
    options = tuple(options)
    return {
        name: ", ".join(f"{option.label} = {shown(choice[option.key])}" for option in options)
        for name, choice in candidates.items()
    }


def shown(value: Value) -> str:
    """Return a value as a row's name shows it."""
    return value if isinstance(value, str) else f"{value:g}"


def best(cells: pd.DataFrame, wanted: Best) -> str | None:
    """Return the row that a search chooses in one column, of those without a diverged run.

    Args:
        cells: the column's lines of the search's tidy table.
        wanted: which mean is best.

    Returns:
        The first of equal ones; None if the column has no best, or a candidate is missing.
    """
    means = cells[cells["diverged"] == 0].set_index("row")["mean"].dropna()
    if wanted == "none" or means.empty or (cells["n"] + cells["diverged"] < cells["seeds"]).any():
        return None
    return str(means.idxmax() if wanted == "largest" else means.idxmin())


def validation_score(run: PlannedRun, root: Path, metric: str = "accuracy") -> float | None:
    """Return a run's last score on validation rows in per cent; None if it diverged."""
    final = final_of(run, root)
    return 100 * final[f"validation_{metric}"] if final else None
