"""The targets of a study, from its file: what a paper's folder declares, without a line of Python."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from math import ceil
from pathlib import Path

import numpy as np

from fedcore.base.errors import SpecError
from fedcore.base.files import digest
from fedcore.base.lazy import pd
from fedcore.partitions.figure import labels as draw_labels
from pipeline.catalogue.grids import Row, Setting, alike, data_set, rows, settings
from pipeline.catalogue.params import StudyError, require_known
from pipeline.catalogue.schema import PaperParams, StudyParams
from pipeline.catalogue.targets import Best, Column, Paper, Query, Target
from pipeline.reports import benchmark, cost, figures, ranks, significance, style
from pipeline.reports.cost import Cost
from pipeline.reports.drawings import Curves, Drawing, Inputs, Panel, Picture, by_label
from pipeline.reports.results import RunFacts
from pipeline.reports.search import Choice, Search, held_out, on_held_out, searches, seeds, tried
from pipeline.reports.tables import Table

BASE = "fedavg"
PARTITION = "partition"
PRINTED = {"accuracy": "test accuracy", "f1": "test F1", "auc": "test AUC", "loss": "test loss"}
MEASURED = {"f1": (("evaluation.metrics", ("f1",)),), "auc": (("evaluation.metrics", ("auc",)),)}


def study_paper(file: str, params: StudyParams) -> Paper:
    """Return a study's targets.

    Raises:
        StudyError: the grid or a variant is wrong; the line names file and key.
    """
    try:
        places = settings(params)
        _refuse_unused(params, places)
        targets = _targets(params, rows(params), places)
        if params.benchmark:
            kept = {PARTITION + "s": targets[PARTITION + "s"]}
            targets = kept | benchmark.benchmark_targets(Path(file).stem, params, places)
    except SpecError as error:
        raise StudyError(f"{file}: {error}") from None
    shown = (*params.report.show, *tuned(params))
    return Paper(
        title=params.title,
        citation=file,
        datasets={name: params.report.labels.get(name, name) for name in params.datasets},
        targets={name: target for name, target in targets.items() if params.benchmark or name in shown},
        numbers=None,
        code=__name__,
        shown=digest(params.model_dump(mode="json")),
    )


def _refuse_unused(params: StudyParams, places: Mapping[str, Setting]) -> None:
    """Refuse keys that would change nothing.

    Raises:
        SpecError: the line names the key.
    """
    splits = [
        (f"datasets.{name}.splits.{split}", split, section.model_extra or {})
        for name, dataset in params.datasets.items()
        for split, section in dataset.splits.items()
    ]
    named = {**params.regimes, **params.datasets, **{split: section for _, split, section in splits}}
    for number, entry in enumerate(params.chosen):
        require_known(f"chosen.{number}.at", entry.at, {**named, **places})
        require_known(f"chosen.{number}.of", entry.of or "", {**params.algorithms, "": None})
    report = params.report
    sides = {name: client for client, servers in report.factorial.items() for name in (client, *servers)}
    printed = {**params.algorithms, **report.controls, **sides, **named}
    for name in report.labels:
        require_known("report.labels", name, printed)
    bare = [where for where, _, section in splits if not section.get("selection")]
    if params.tune.held_out == "selection" and tuned(params) and bare:
        raise SpecError(f"{bare[0]}.selection: missing, but tune.held_out is 'selection'")
    used = {f"datasets.{name}.tune": dataset.tune for name, dataset in params.datasets.items()}
    used |= {f"report.{key}": getattr(report, key) for key in ("controls", "headlines", "factorial")}
    unused = [key for key, value in used.items() if value and params.benchmark is None]
    if unused:
        raise SpecError(f"{unused[0]}: given, but the study is no benchmark, which alone has it")


def _targets(
    params: StudyParams, methods: Mapping[str, Row], places: Mapping[str, Setting]
) -> dict[str, Target]:
    report, title = params.report, params.title.rstrip(". ")
    loss = report.metric == "loss"
    metric, printed = f"test_{report.metric}", PRINTED[report.metric]
    factor, sign, decimals = (1.0, "", 4) if loss else (100.0, "%", 2)
    best: Best = "smallest" if loss else "largest"
    names = {key: row.label for key, row in methods.items()}
    headings = {key: f"{col.group} {col.label}" for key, col in places.items()}
    printed_data = {key: report.labels.get(col.dataset, col.dataset) for key, col in places.items()}

    def query(row: str, column: str) -> Query:
        return places[column].query(methods[row], *MEASURED.get(report.metric, ()))

    def measure(facts: RunFacts, column: str) -> float | None:
        if facts.diverged and report.diverged == "untrained":
            return factor * float(facts.untrained[metric])
        return factor * facts.final[metric] if facts.final else None

    def candidate(params: PaperParams, column: str, search: Search, choice: Choice) -> Query:
        plain = Row(search.method, search.label, (*held_out(params), *choice.items()))
        trial = places[column].query(plain, *MEASURED.get(report.metric, ()))
        return replace(trial, seeds=seeds(params))

    table = Table(
        title=f"{title} {printed.capitalize()}" if title.endswith("?") else f"{title}: {printed}",
        published="Table",
        columns=lambda params: tuple(Column(key, col.label, col.group) for key, col in places.items()),
        rows=lambda params: names,
        query=query,
        measure=measure,
        dataset=lambda row, column: printed_data[column],
        unit=sign or "no unit",
        decimals=decimals,
        best=best,
        test=report.test,
        note=partial(_note, params, names, headings, sign and " points"),
        untrained=report.diverged == "untrained",
    )
    panels = (Panel(key, headings[key], col.regime, col.dataset, col.split) for key, col in places.items())
    base = _base(params)
    first = report.labels.get(base) or style.label(params.algorithms[base].name or base)
    ends = f"the {printed} with which {first} ends at the same seed"
    reached = f"a {printed} of {report.target:g}" if report.target else ends
    return {
        "table": table,
        "curves": Curves(
            title=f"{printed.capitalize()} over rounds",
            published="Curves",
            panels=tuple(panels),
            across=min(2, len(places)),
            rows=lambda params: names,
            queries=lambda params: {(row, key): query(row, key) for key in places for row in names},
            metric=metric,
            factor=factor,
            axis=printed + (sign and f" ({sign})"),
        ),
        "ranks": ranks.summary(
            replace(table, published="Mean ranks"),
            title="Ranks of the methods in each column, 1 being the best",
            dataset={key: data_set(params, col) for key, col in places.items()},
        ),
        "cost": Cost(
            title=f"Rounds and traffic until {reached}",
            published="Cost",
            columns=lambda params: cost.columns({key: (col.group, col.label) for key, col in places.items()}),
            rows=lambda params: names,
            query=lambda row, column: query(row, cost.split(column)[1]),
            dataset=lambda row, column: printed_data[cost.split(column)[1]],
            unit="rounds; megabytes both ways, all clients",
            best="smallest",
            test="none",
            when="",
            note=cost.levels_note(factor, sign, headings),
            metric=metric,
            falling=loss,
            target=report.target,
            base=tuple(key for key, row in methods.items() if row.algorithm == base),
        ),
        "partitions": Drawing(
            title="Who holds which labels, at the first seed",
            published="Partitions",
            queries=lambda params: {
                (PARTITION, key): replace(query(next(iter(methods)), key), seeds=params.seeds[:1])
                for key in places
            },
            draw=partial(_draw_partitions, headings),
            rows=lambda params: {PARTITION: "Partition"},
            needs="partitions",
        ),
        **searches(
            tuned(params),
            candidate,
            f"Candidates of {{}}: {printed.removeprefix('test ')} on held-out rows",
            table.columns,
            on_held_out(lambda facts: report.metric, factor, params.tune),
            dataset=table.dataset,
            unit=table.unit,
            decimals=decimals,
            best=best,
        ),
    }


def tuned(params: StudyParams) -> dict[str, Search]:
    """Return the search of each method that has values to try, by the name of its report.

    Raises:
        SpecError: a key, or one that excludes it, is in the grid or in a variant too.
    """
    by_report = {}
    for name, algorithm in params.algorithms.items():
        if keys := tried(params, name):
            cases = [*params.variants.values(), *algorithm.variants.values()]
            taken = {key: "variants" for case in cases for key in case}
            taken |= dict.fromkeys((*params.grid, *algorithm.grid), "grid")
            for key, other in product(keys, taken):
                if other in alike(key):
                    raise SpecError(
                        f"algorithms.{name}: '{key}' is in tune and in {taken[other]}, expected one of them"
                    )
            label = params.report.labels.get(name) or style.label(algorithm.name or name)
            by_report[f"tune_{name}"] = Search(name, label, "Tuning")
    return by_report


def _note(
    params: StudyParams,
    names: Mapping[str, str],
    headings: Mapping[str, str],
    unit: str,
    frame: "pd.DataFrame",
) -> str:
    """Say for the caption what values were chosen from, and what is equivalent where a margin is given."""
    margin, source = params.report.margin, ""
    if tuned(params):
        named = ", ".join(sorted({entry.source.partition(":")[0] for entry in params.chosen}))
        source = f"Values were chosen on held-out rows, by {named}." if named else "No value is chosen yet."
    if margin is None:
        return source
    base = next(key for key, row in rows(params).items() if row.algorithm == _base(params))
    tested = {
        f"{names[row]} on {headings[column]} ({apart:+.2f}, p = {p:.2g})": p
        for column, samples in significance.complete(frame).items()
        for row, (apart, p) in significance.equivalent(samples, base, margin).items()
    }
    near = "; ".join(line for line, p in tested.items() if p < significance.ALPHA) or "none"
    return (
        f"{source} Less than {margin:g}{unit} from {names[base]} (two one-sided paired t-tests, p "
        f"below {significance.ALPHA:g} after Holm's correction over the methods of a column): "
        f"{near if tested else f'not tested: {significance.FEW}'}."
    ).strip()


def _base(params: StudyParams) -> str:
    """Return the method that others are compared with: FedAvg, or the first where there is none."""
    named = {algorithm.name or name: name for name, algorithm in reversed(params.algorithms.items())}
    return named.get(BASE, next(iter(params.algorithms)))


def _draw_partitions(titles: Mapping[str, str], inputs: Inputs) -> Picture:
    """Draw who holds which labels in each setting; settings that share a partition have one picture."""
    first: dict[str, tuple[str, RunFacts]] = {}
    for (_, column), (facts, *_) in inputs.cells.items():
        first.setdefault(facts.run.partition, (column, facts))
    drawn = dict(first.values())
    across = min(2, len(drawn))
    shown = {key: titles[key] for key in drawn}
    figure, panels = figures.panels(shown, 0.5 + 2.2 * ceil(len(drawn) / across), across)
    frames = []
    for column, facts in drawn.items():
        axes, listed = panels[column], facts.statistics.get("label_counts")
        axes.set_xlabel("client")
        if listed is None:
            axes.text(0.5, 0.5, "too many labels to list", ha="center", transform=axes.transAxes)
            continue
        counts = np.array(listed)
        draw_labels(axes, counts)
        frames.append(by_label(counts, row=PARTITION, column=column))
    return Picture(pd.concat(frames or [pd.DataFrame()], ignore_index=True), figure, ())
