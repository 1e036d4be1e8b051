"""From parameters to runs: paper x setting x algorithm x seed, each a resolved specification with a path.

Everything here is computed when the Snakefile is parsed, so nothing imports torch, and a specification
is validated once for all its seeds.

    results/<paper>/<scale>/<regime>-<dataset>-<split>/<algorithm>-<hash>/seed<k>/
    results/<paper>/<scale>/partitions/<dataset>-<split>-<hash>/seed<k>/
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from fedcore.base.errors import SpecError
from fedcore.base.files import digest
from fedcore.base.options import nearest
from fedcore.spec import parse
from pipeline.catalogue.params import STUDIES, ScaledParams, overlay
from pipeline.catalogue.schema import StudyParams
from pipeline.catalogue.specification import place_of, specification
from pipeline.catalogue.targets import Cell, Paper, PlannedPartition, PlannedRun, Query, Sources, Target

WEIGHTS = {"mobilenetv2_head": "mobilenetv2"}
WEIGHT_EDITIONS = ("full", "tflite")


class Planned(NamedTuple):
    """What a paper's targets need, by folder: runs, the runs that differ in their seeds, and partitions.

    Targets of partitions alone have no runs.
    """

    runs: Mapping[str, PlannedRun]
    groups: Mapping[str, list[PlannedRun]]
    partitions: Mapping[str, PlannedPartition]


class Catalogue:
    """All runs that the papers' targets need, at one scale, and those of the studies.

    It raises SpecError if the parameters are of a paper that is not among ``papers``.
    """

    def __init__(self, params: ScaledParams, papers: Mapping[str, Paper]) -> None:
        self.params = params
        for name in params.papers:
            if name not in papers:
                hint = f"{nearest(name, papers)}; known: {', '.join(papers)}"
                raise SpecError(f"papers.{name}: no such paper{hint}")
        self.papers: Mapping[str, Paper] = {name: papers[name] for name in params.papers}
        self._runs_by_query: dict[tuple[str, Query], tuple[PlannedRun, ...]] = {}
        self._planned: dict[str, Planned] = {}
        self._cells: dict[tuple[str, str], Mapping[Cell, tuple[PlannedRun, ...]]] = {}

    def target(self, paper: str, name: str) -> Target:
        """Return a paper's table or figure, or raise SpecError with the names that are most like it."""
        if paper not in self.papers or name not in self.papers[paper].targets:
            raise SpecError(f"reports/{paper}/{name}: no such report; {self.nearest(f'{paper}/{name}')}")
        return self.papers[paper].targets[name]

    def named(self, report: str) -> tuple[str, str]:
        """Return paper and target of a report's path; without a paper, the primary one's."""
        path = Path(report)
        paper = self.params.primary if path.parent.name in {"", "reports"} else path.parent.name
        return paper, path.name.partition(".")[0]

    def names(self) -> list[str]:
        """Return all targets as ``<paper>/<target>``."""
        return [f"{paper}/{name}" for paper, name, _ in self.targets()]

    def targets(self) -> Iterator[tuple[str, str, Target]]:
        """Yield the paper, the name and the declaration of each target."""
        for paper, declared in self.papers.items():
            for name, target in declared.targets.items():
                yield paper, name, target

    def nearest(self, name: str, beside: Iterable[str] = ()) -> str:
        """Return the reports, and names ``beside`` them, that are most like one, and what lists all.

        Those of a study in a folder of studies/ are made by its file.
        """
        paper = name.partition("/")[0]
        for file in sorted(Path(STUDIES).glob("*/**/*.yaml")):
            if file.stem == paper and paper not in self.papers:
                return f"`fedcore build {file}` makes those of the study {paper}"
        short = {key: f"{self.params.primary}/{key}" for key in self.papers[self.params.primary].targets}
        known = short | {key: key for key in (*self.names(), *beside)}
        name = name.removeprefix(f"{self.params.primary}/")
        same = [report for report in self.names() if report.partition("/")[2] == name.rpartition("/")[2]]
        close = map(known.__getitem__, difflib.get_close_matches(name, known))
        near = ", ".join(f"reports/{report}" for report in dict.fromkeys([*same, *close]))
        return f"{f'the nearest: {near}; ' if near else ''}`fedcore targets` lists all"

    def cells(self, paper: str, target: str) -> Mapping[Cell, tuple[PlannedRun, ...]]:
        """Return the runs of each cell of a table, or of each curve of a figure; raises as ``runs`` does."""
        if (paper, target) not in self._cells:
            try:
                queries_by_cell = self.target(paper, target).cells(self.params.papers[paper])
            except SpecError as error:
                raise self.params.refusal(paper, error) from None
            self._cells[paper, target] = {
                cell: tuple({run.folder: run for q in queries for run in self.runs(paper, q)}.values())
                for cell, queries in queries_by_cell.items()
            }
        return self._cells[paper, target]

    def sources(self, paper: str, target: str, root: Path = Path(), earlier: Path | None = None) -> Sources:
        """Return what a target is built from: ``root`` holds results/, ``earlier`` is its csv of before."""
        return Sources(
            paper=paper,
            name=target,
            target=self.target(paper, target),
            declared=self.papers[paper],
            params=self.params.papers[paper],
            scale=self.params.scale_of(paper),
            cells=self.cells(paper, target),
            root=root,
            earlier=earlier,
            layout=self.params.layout,
        )

    def needed(self, paper: str, target: str) -> list[PlannedRun]:
        """Return the runs that a target needs, each once; of some targets only the partitions count."""
        return self.sources(paper, target).runs

    def runs(self, paper: str, query: Query) -> tuple[PlannedRun, ...]:
        """Return one run for each seed of a setting and algorithm.

        Raises:
            SpecError: the parameters make no valid specification; the line names the key.
        """
        if (paper, query) in self._runs_by_query:
            return self._runs_by_query[paper, query]
        params = self.params.papers[paper]
        try:
            shared = params.common if isinstance(params, StudyParams) else self.params.common
            common = shared.model_dump(exclude_none=True)
            values = overlay(common, specification(params, query))
            parsed = parse({"seed": 0, "variant": params.variant} | values)
        except SpecError as error:
            raise self.params.refusal(paper, place_of(params, query, str(error))) from None
        resolved = parsed.resolved()
        method = digest({key: value for key, value in resolved.items() if key != "seed"})[:8]
        division = digest({key: resolved[key] for key in ("data", "partition")})[:8]
        runs = self._runs_by_query[paper, query] = tuple(
            PlannedRun(
                paper=paper,
                scale=self.params.scale_of(paper),
                setting=query.setting,
                dataset=query.dataset,
                algorithm=query.algorithm,
                method=f"{query.algorithm}-{method}",
                seed=seed,
                spec=resolved | {"seed": seed},
                division=f"{query.dataset}-{query.split}-{division}",
                recipe=parsed.recipe,
            )
            for seed in query.seeds or params.seeds
        )
        return runs

    def planned(self, paper: str) -> Planned:
        """Return what all targets of a paper need; raises as ``runs`` does."""
        if paper not in self._planned:
            needed: dict[str, dict[str, PlannedRun]] = {"runs": {}, "partitions": {}}
            for name, target in self.papers[paper].targets.items():
                needed[target.needs] |= {run.folder: run for run in self.needed(paper, name)}
            groups: dict[str, list[PlannedRun]] = {}
            for run in needed["runs"].values():
                groups.setdefault(run.group, []).append(run)
            all_runs = (run for runs in needed.values() for run in runs.values())
            partitions = {run.partition: _partition_of(run) for run in all_runs}
            self._planned[paper] = Planned(needed["runs"], groups, partitions)
        return self._planned[paper]

    @cached_property
    def index(self) -> Mapping[str, PlannedRun]:
        """All runs of all papers by folder."""
        return {folder: run for paper in self.papers for folder, run in self.planned(paper).runs.items()}

    @cached_property
    def partitions(self) -> Mapping[str, PlannedPartition]:
        """All partitions by folder."""
        planned = (self.planned(paper).partitions for paper in self.papers)
        return {folder: partition for partitions in planned for folder, partition in partitions.items()}

    @cached_property
    def data(self) -> Mapping[str, Mapping[str, Any]]:
        """The data plug-ins, and weights of models, and editions in use, by ``<name>-<edition>``."""
        sections = [partition.spec["data"] for partition in self.partitions.values()]
        sections += [section for run in self.index.values() if (section := weights(run))]
        return {f"{data['name']}-{data.get('edition', 'given')}": data for data in sections}


def weights(run: PlannedRun) -> Mapping[str, Any] | None:
    """Return the model data that a run starts from, as name and edition; None for a model without."""
    model = run.spec["model"]
    name, edition = WEIGHTS.get(model["name"]), str(model.get("weights", ""))
    return {"name": name, "edition": edition} if name and edition in WEIGHT_EDITIONS else None


def _partition_of(run: PlannedRun) -> PlannedPartition:
    """Return a run's partition; it depends on data, partition and seed, so the rest is the same for all."""
    fields = {key: run.spec[key] for key in ("data", "partition", "seed")}
    training = {"rounds": 1, "batch_size": 1, "lr": 1.0}
    rest = {"model": {"name": "linear"}, "algorithm": {"name": "fedavg"}, "training": training}
    return PlannedPartition(run.partition, fields | rest)
