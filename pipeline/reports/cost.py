"""Tables of what a method takes to reach a target: rounds, and traffic in megabytes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedcore.base.lazy import pd
from pipeline.catalogue.targets import Cell, Column, Sources
from pipeline.reports.results import RunFacts, pair_key, read
from pipeline.reports.tables import NEVER, Table

KINDS = {"rounds": ("rounds", 1), "traffic": ("MB", 2)}
MEGABYTE = 1e6
LEVEL = "level"


@dataclass(frozen=True, kw_only=True)
class Cost(Table):
    """A table of the first measured round at which a run has reached a target, and of the bytes until then.

    A run that never does counts in no mean, and its cell says so.

    Attributes:
        metric: the column of a run's history.
        factor: what it is multiplied by in print.
        falling: whether small values are good.
        target: the value to reach; None for the last one of ``base`` at the same seed: of these rows the
            best one on average.
        base: rows.
    """

    metric: str = "test_accuracy"
    factor: float = 100.0
    falling: bool = False
    target: float | None = None
    base: tuple[str, ...] = ()

    def build(self, sources: Sources, outputs: Mapping[str, Path]) -> None:
        """Write the table in all its forms."""
        levels = self.levels(read(sources.cells, sources.root))

        def measure(facts: RunFacts, column: str) -> float | None:
            kind, setting = split(column)
            known = levels[setting]
            level = known.get(pair_key(facts.run), mean_of(known))
            return None if not facts.final else self.cost(facts.history, kind, level)

        def with_levels(frame: pd.DataFrame) -> pd.DataFrame:
            own = {setting: mean_of(known) for setting, known in levels.items()}
            return frame.assign(**{LEVEL: [own[split(column)[1]] for column in frame["column"]]})

        Table.build(replace(self, measure=measure, relative=with_levels), sources, outputs)

    def levels(self, cells: Mapping[Cell, Sequence[RunFacts]]) -> dict[str, dict[str, float]]:
        """Return the value to reach of each setting, by what runs that are compared share."""
        found: dict[str, dict[str, float]] = {}
        for setting in dict.fromkeys(split(column)[1] for _, column in cells):
            if self.target is not None:
                found[setting] = {"": self.target}
                continue
            every = [cells[row, f"rounds-{setting}"] for row in self.base]
            ends = [
                {pair_key(own.run): own.final[self.metric] for own in runs if own.final} for runs in every
            ]
            best = min if self.falling else max
            found[setting] = best(filter(None, ends), key=mean_of, default={})
        return found

    def cost(self, history: pd.DataFrame, kind: str, level: float) -> float:
        """Return a run's rounds or megabytes until it first reaches a level; ``NEVER`` if it doesn't."""
        first = rounds_to(history.set_index("round")[self.metric], level, falling=self.falling)
        if kind == "rounds" or first == NEVER:
            return first
        sent = history.loc[history["round"] <= first, ["bytes_down", "bytes_up"]]
        return float(sent.to_numpy().sum()) / MEGABYTE


def rounds_to(
    values: pd.Series[float], level: float, *, falling: bool = False, interpolated: bool = False
) -> float:
    """Return the round at which a measurement first reaches a level; ``NEVER`` if it doesn't.

    Args:
        values: what was measured, by round.
        level: the value to reach.
        falling: whether small values are good.
        interpolated: count the crossing of the straight line between the best value so far before that round
            and the one after it, a fraction of a round (McMahan et al. 2017, Table 1).
    """
    values = (-values if falling else values).dropna().cummax()
    level = -level if falling else level
    there = values[values >= level]
    if there.empty:
        return NEVER
    first, before = float(there.index[0]), values[values < level]
    if not interpolated or before.empty:
        return first
    share = (level - before.iloc[-1]) / (there.iloc[0] - before.iloc[-1])
    return float(before.index[-1] + share * (first - before.index[-1]))


def mean_of(known: Mapping[str, float]) -> float:
    """Return the mean of a setting's values to reach; NaN, which nothing reaches, without any."""
    return statistics.fmean(known.values()) if known else math.nan


def split(column: str) -> tuple[str, str]:
    """Return the kind of cost and the setting of a column."""
    kind, _, setting = column.partition("-")
    return kind, setting


def columns(settings: Mapping[str, tuple[str, str]]) -> tuple[Column, ...]:
    """Return a column of rounds and one of traffic for each setting, given its group and label."""
    return tuple(
        Column(f"{kind}-{key}", label, " ".join(filter(None, heading)), decimals)
        for key, heading in settings.items()
        for kind, (label, decimals) in KINDS.items()
    )


def levels_note(factor: float, unit: str, labels: Mapping[str, str]) -> Callable[[pd.DataFrame], str]:
    """Return a note on the value to reach of each setting, a mean over seeds where it is not given."""

    def note(frame: pd.DataFrame) -> str:
        known = dict(zip(map(split, frame["column"]), pd.to_numeric(frame[LEVEL]), strict=True))
        own = {setting: level for (_, setting), level in known.items()}
        said = (f"{labels[key]} {factor * level:.2f}{unit}" for key, level in own.items() if level == level)
        return f"To be reached: {'; '.join(said) or 'nothing, as the runs that set it diverged'}."

    return note
