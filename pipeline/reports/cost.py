"""Tables of what a method takes to reach a target: rounds, and traffic in megabytes."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedcore.base.lazy import DataFrame, Series, pd
from pipeline.catalogue.targets import Cell, Column, Sources
from pipeline.reports.results import RunFacts, pair_key, read
from pipeline.reports.tables import NEVER, Table, measured

KINDS = {"rounds": ("rounds", 1), "traffic": ("MB", 2)}
MEGABYTE = 1e6
LEVEL = "level"


@dataclass(frozen=True, kw_only=True)
class Cost(Table):
    """A table of the first measured round at which a run has reached a target, and of megabytes until then.

    A run that never does counts in no mean, and its cell says so. Megabytes are printed with so many decimals
    that the smallest number has two digits or more.

    ``metric`` is a column of histories; if ``falling``, small values are good. Without a ``target``, the
    value to reach is the last one at the same seed of that row of ``base`` which is best on average.
    """

    metric: str = "test_accuracy"
    falling: bool = False
    target: float | None = None
    base: tuple[str, ...] = ()

    def build(self, sources: Sources, outputs: Mapping[str, Path]) -> None:
        """Write the table in all its forms."""
        runs = read(sources.cells, sources.root, sources.kept_folder)
        levels = self.levels(runs)
        means = {setting: mean_of(by_pair) for setting, by_pair in levels.items()}

        def measure(facts: RunFacts, column: str) -> float | None:
            kind, setting = split(column)
            level = levels[setting].get(pair_key(facts.run), means[setting])
            return self.cost(facts.history, kind, level) if facts.final else None

        def finish(frame: DataFrame) -> DataFrame:
            return frame.assign(**{LEVEL: [means[split(column)[1]] for column in frame["column"]]})

        exact = replace(self, measure=measure, finish=finish)
        traffic = ((column, facts) for (_, column), facts in runs.items() if _is_traffic(column))
        costs = (cost for column, facts in traffic for _, cost in measured(exact, column, facts))
        smallest = min((cost for cost in costs if cost and cost != NEVER), default=1.0)
        decimals = max(KINDS["traffic"][1], 1 - math.floor(math.log10(smallest)))
        columns = tuple(
            replace(column, decimals=decimals) if _is_traffic(column.key) else column
            for column in self.columns(sources.params)
        )
        Table.build(replace(exact, columns=lambda params: columns), sources, outputs)

    def levels(self, cells: Mapping[Cell, Sequence[RunFacts]]) -> dict[str, dict[str, float]]:
        """Return the value to reach of each setting, by what runs that are compared share."""
        settings = dict.fromkeys(split(column)[1] for _, column in cells)
        if self.target is not None:
            return {setting: {"": self.target} for setting in settings}
        best, levels = min if self.falling else max, {}
        for setting in settings:
            rows = (cells[row, f"rounds-{setting}"] for row in self.base)
            ends = ({pair_key(run.run): run.final[self.metric] for run in runs if run.final} for runs in rows)
            levels[setting] = best(filter(None, ends), key=mean_of, default={})
        return levels

    def cost(self, history: DataFrame, kind: str, level: float) -> float:
        """Return a run's rounds or megabytes until it first reaches a level; ``NEVER`` if it doesn't."""
        first = rounds_to(history.set_index("round")[self.metric], level, falling=self.falling)
        if kind == "rounds" or first == NEVER:
            return first
        sent = history.loc[history["round"] <= first, ["bytes_down", "bytes_up"]]
        return float(sent.to_numpy().sum()) / MEGABYTE


def rounds_to(
    values: Series[float], level: float, *, falling: bool = False, interpolated: bool = False
) -> float:
    """Return the round at which values by round first reach a level; ``NEVER`` if they don't.

    If ``falling``, small values are good. If ``interpolated``, it is a fraction of a round: the crossing of
    the straight line between the best value so far before that round and the one after it (McMahan et al.
    2017, Table 1).
    """
    values = (-values if falling else values).dropna().cummax()
    level = -level if falling else level
    reached = values[values >= level]
    if reached.empty:
        return NEVER
    first, before = float(reached.index[0]), values[values < level]
    if not interpolated or before.empty:
        return first
    share = (level - before.iloc[-1]) / (reached.iloc[0] - before.iloc[-1])
    return float(before.index[-1] + share * (first - before.index[-1]))


def mean_of(known: Mapping[str, float]) -> float:
    """Return the mean of a setting's values to reach; NaN, which nothing reaches, without any."""
    return statistics.fmean(known.values()) if known else math.nan


def _is_traffic(column: str) -> bool:
    return split(column)[0] == "traffic"


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


def levels_note(form: Callable[[float], str], labels: Mapping[str, str]) -> Callable[[DataFrame], str]:
    """Return a note on the value to reach of each setting, a mean over seeds where it is not given."""

    def note(frame: DataFrame) -> str:
        keys = (split(column)[1] for column in frame["column"])
        means = dict(zip(keys, pd.to_numeric(frame[LEVEL]), strict=True))
        parts = (f"{labels[key]} {form(mean)}" for key, mean in means.items() if pd.notna(mean))
        return f"To be reached: {'; '.join(parts) or 'nothing, as the runs that set it diverged'}."

    return note
