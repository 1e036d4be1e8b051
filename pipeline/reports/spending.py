"""What a benchmark's runs took: their number, core hours, and seconds against the base's."""

from collections.abc import Mapping

from fedcore.base.lazy import DataFrame, pd
from pipeline.catalogue.targets import Asked, Cell, Target
from pipeline.reports.grid import PrintedCell
from pipeline.reports.render import in_print
from pipeline.reports.results import RunFacts
from pipeline.reports.standings import BoardContent, boards
from pipeline.reports.trials import Plan

HOUR = 3600
PLACE = ["workload", "processor"]
COLUMNS = {"runs": "Runs", "hours": "Core hours", "ratio": "Seconds", "low": "Lower", "high": "Upper"}


def spending(plan: Plan, cells: Asked) -> dict[str, Target]:
    """Return the report of what all runs of these cells took, which have final runs."""
    first, numbers = (plan.benchmark.seed,), range(plan.params.tune.trials or 0)
    stages = {
        cell: (
            *(plan.query(*cell, number, first) for number in numbers),
            *(plan.query(*cell, number, plan.benchmark.seeds) for number in plan.best[cell]),
            plan.query(*cell, plan.winners[cell]),
        )
        for cell in cells
        if cell[0] not in plan.controls
    }
    parts = {"cost": ("what its runs took", _said, "Method")}
    return boards(plan, stages, parts, words=False, measure=times)


def times(plan: Plan, cells: Mapping[Cell, tuple[RunFacts, ...]]) -> DataFrame:
    """Return a line for each run that was made: what it is, the kind of its processor, and its seconds."""
    lines = [
        (method, setting, timing.get("processor", ""), float(timing["seconds"]))
        for (method, setting), runs in cells.items()
        for facts in runs
        if facts.summary is not None and "seconds" in (timing := facts.timing or {})
    ]
    return pd.DataFrame(lines, columns=["method", *PLACE, "seconds"])


def _said(plan: Plan, run_times: DataFrame) -> BoardContent:
    base, by_cell = plan.benchmark.base, run_times.groupby([*PLACE, "method"])["seconds"]
    medians, counts = (
        each.unstack().reindex(columns=[*plan.labels]) for each in (by_cell.median(), by_cell.size())
    )
    quartiles = medians.div(medians[base], axis=0).quantile([0.5, 0.25, 0.75]).T
    columns = [counts.sum(), (counts * medians).sum() / HOUR, *(quartiles[at] for at in quartiles)]
    frame = pd.concat(columns, axis=1, keys=[*COLUMNS]).query("runs > 0").sort_values("ratio")
    rows = [
        (
            plan.labels[name],
            (PrintedCell(f"{runs:,.0f}"), *(PrintedCell(in_print(x, "{:.2f}")) for x in rest)),
        )
        for name, runs, *rest in frame.itertuples()
    ]
    note = (
        f"{frame['runs'].sum():,.0f} runs of all stages, without those of controls, in "
        f"{frame['hours'].sum():.1f} core hours ({run_times['seconds'].sum() / HOUR:.1f} by the clock): a "
        "method's median seconds in a setting times its runs there, since a machine that sleeps during a run "
        f"makes that one long. Seconds: medians against {plan.labels[base]}'s in the same setting on the "
        "same kind of processor; median over these pairs, and quartiles. They depend on the machine and on "
        "what else runs there; bytes and rows, on the board, do not."
    )
    return BoardContent(frame.rename_axis("row").reset_index(), COLUMNS, rows, note)
