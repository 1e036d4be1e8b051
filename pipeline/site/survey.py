"""What exists: the state of every target and run, read from reports/ and results/."""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from html import unescape
from pathlib import Path
from typing import Any

from fedcore.base.errors import DataError
from fedcore.base.lazy import DataFrame, pd
from fedcore.execution.integrity import PROVENANCE
from pipeline.catalogue import Catalogue
from pipeline.catalogue.params import EDITIONS, laid_over
from pipeline.catalogue.targets import Cell, PlannedRun, Sources, Target
from pipeline.fidelity.board import READINGS
from pipeline.papers import build_catalogue
from pipeline.reports import REPORTS, report_changes
from pipeline.reports.captions import watermark
from pipeline.reports.drawings import Curves
from pipeline.reports.grid import missed
from pipeline.reports.kept import HISTORIES, KEY, REFERENCE, RUNS, histories_of, lines_of
from pipeline.reports.listings import Listing
from pipeline.reports.results import REPRODUCTION, facts, is_made, short_hash
from pipeline.reports.style import Labels, labels
from pipeline.reports.tables import Table

CAPTION = "caption.md"
FORMS = ("html", "md", "tex", "standalone.tex", "pdf", "svg", "png", "csv", CAPTION)
NUMBERS = ["mean", "std", "n", "seeds", "diverged", "published_mean", "published_std", "difference", "round"]
# Columns without which a report's csv can't be shown, by its target's class.
NEEDED: Mapping[type[Target], set[str]] = {
    Table: {"row", "column", *NUMBERS} - {"round"},
    Curves: {"row", "column", "round", "mean"},
    Listing: {"row", "column", "value"},
}
DAMAGED = "damaged: "
# What a target's name ends in that shows another side of one in print.
KINDS = READINGS | {"readings": "readings", "ranks": "ranks"}
FINISHED = frozenset({"completed", "diverged"})
MEANING = {
    "kept": "measured at the paper's own scale, and kept with the code",
    "made": "built from all its runs",
    "outdated": "built, but the parameters ask for other runs now",
    "partly": "some of its runs are finished",
    "missing": "none of its runs is finished",
}


@dataclass(frozen=True)
class Evidence:
    """What is known of a run.

    Attributes:
        facts: what ``fedcore explain`` says of it.
        used: the targets that need it, as ``<paper>/<target>``.
        kept: whether it is known from the kept results alone.
        history: its kept history, if it has one.
    """

    run: PlannedRun
    facts: Mapping[str, Any]
    used: list[str]
    kept: bool = False
    history: DataFrame | None = None

    @property
    def name(self) -> str:
        """Its name in files and addresses: its folder below results/, with dots for slashes."""
        return self.run.folder.split("/", 1)[1].replace("/", ".")

    @property
    def finished(self) -> bool:
        """Whether its results are here, diverged or not."""
        return not self.kept and self.facts.get("status") in FINISHED


@dataclass(frozen=True, kw_only=True)
class TargetStatus(Sources):
    """A target as it stands, at the scale at which it was built, or would be.

    Attributes:
        cells: the runs of each cell, as the parameters ask for them now; those that are known of a kept one.
        frame: its tidy csv, None where it was not built.
        files: its forms that exist, by ending.
        changed: what was changed in its files after they were written.
        begun: whether there is anything of it or its runs here, be it damaged.
        reference: whether these are the numbers in reports/reference, in place of those that were built here.
    """

    frame: DataFrame | None
    files: Mapping[str, Path]
    finished: int = 0
    changed: Sequence[str] = ()
    reference: bool = False
    begun: bool = False

    @property
    def kept(self) -> bool:
        """Whether it was measured at the paper's own scale before."""
        return self.reference and self.frame is not None

    @property
    def folder(self) -> str:
        """Where the site has its files."""
        return f"files/{'kept' if self.reference else 'own'}/{self.paper}"

    @property
    def scaled(self) -> bool:
        """Whether what it shows changes with the papers' scale."""
        return self.target.scaled and not self.declared.is_study

    @property
    def heading(self) -> str:
        """Its name in its paper, and which reading it is where that is not the text's."""
        reading = next((words for word, words in KINDS.items() if self.name.endswith(f"_{word}")), "")
        return self.target.published + (f" ({reading})" if reading else "")

    @cached_property
    def labels(self) -> Labels:
        """The printed labels of its rows and columns."""
        return labels(self)

    @cached_property
    def lines(self) -> Mapping[Cell, Mapping[Hashable, Any]]:
        """The csv's line of each cell; of a figure, a cell's last."""
        if self.frame is None or not {"row", "column"} <= {*self.frame}:
            return {}
        return {(line["row"], line["column"]): line for line in self.frame.to_dict("records")}

    @cached_property
    def places(self) -> Mapping[Cell, int]:
        """The place of each cell among all, by which a page's script knows it."""
        return {cell: place for place, cell in enumerate(self.cells)}

    @property
    def caption(self) -> tuple[str, str]:
        """The sentences of a figure's caption, without the warning of a reduced scale, and its notes."""
        text = self.files[CAPTION].read_text(encoding="utf-8") if CAPTION in self.files else ""
        first, _, notes = unescape(re.sub(r"\\(.)", r"\1", text)).partition("\n\n")
        return first.removeprefix(watermark(self.scale)).strip(), notes

    @property
    def numbers(self) -> str:
        """How many of its runs' values it holds, in words."""
        if self.frame is None or not {"n", "seeds"} <= {*self.frame}:
            return "whole"
        held, planned = map(int, self.frame[["n", "seeds"]].sum())
        return "whole" if held == planned else f"{held:,} of {planned:,} values"

    @cached_property
    def state(self) -> str:
        """How far it is, in one word; ``MEANING`` explains each."""
        if self.reference:
            return "kept" if self.kept else "missing"
        begun = "partly" if self.finished else "missing"
        if self.frame is None:
            return begun
        if "specs" in self.frame and {"row", "column"} <= {*self.frame}:
            planned = {cell: {*map(short_hash, runs)} for cell, runs in self.cells.items()}
            written = {cell: {*line["specs"].split()} for cell, line in self.lines.items()}
            if {*written} != {*planned} or any(not written[cell] <= planned[cell] for cell in planned):
                return "outdated"
        if {"n", "diverged", "seeds"} <= {*self.frame} and any(
            self.frame["n"] + self.frame["diverged"] + missed(self.frame) < self.frame["seeds"]
        ):
            return begun
        return "outdated" if 0 < self.finished < len(self.runs) else "made"


@dataclass(frozen=True)
class Survey:
    """Everything that the pages show.

    Attributes:
        targets: all targets in the papers' order, as far as they were built here.
        reference: the papers' targets in their order, as far as reports/reference keeps them.
        evidence: all runs of these targets by folder, finished or not.
    """

    targets: tuple[TargetStatus, ...]
    reference: tuple[TargetStatus, ...]
    evidence: Mapping[str, Evidence]

    @property
    def kept(self) -> list[TargetStatus]:
        """The targets that reports/reference keeps."""
        return [shown for shown in self.reference if shown.kept]

    @cached_property
    def own(self) -> Mapping[tuple[str, str], TargetStatus]:
        """The targets of which something was built here, by paper and name."""
        return {(shown.paper, shown.name): shown for shown in self.targets if shown.begun}

    def diverged(self, run: PlannedRun) -> bool:
        """Whether a run diverged, as far as that is known."""
        return run.folder in self.evidence and self.evidence[run.folder].facts.get("status") == "diverged"


def survey(config: Mapping[str, Any], root: Path = Path()) -> Survey:
    """Look at what exists below ``root``; ``config`` is params.yaml, with what the command line changed.

    It raises SpecError if that is wrong, and DataError if a report's csv is.
    """
    catalogue = build_catalogue(config)
    catalogues: dict[str, Catalogue] = {catalogue.params.scale: catalogue}
    reference, evidence = _kept(config, root)
    targets = []
    for paper, name, target in catalogue.targets():
        frame, files = _built(root / REPORTS / paper, name, target)
        scale = "" if frame is None or frame.empty or "scale" not in frame else str(frame["scale"].iloc[0])
        if scale not in catalogues and scale in config["scales"]:
            catalogues[scale] = build_catalogue({**config, "scale": scale})
        sources = catalogues.get(scale, catalogue).sources(paper, name, root)
        targets.append(_state_here(sources, frame, files, evidence))
    return Survey(tuple(targets), reference, evidence)


def _state_here(
    sources: Sources, frame: DataFrame | None, files: dict[str, Path], evidence: dict[str, Evidence]
) -> TargetStatus:
    """Return a target as it was built here, and note what is known of its runs."""
    root, report = sources.root, f"{sources.paper}/{sources.name}"
    records = [_evidence(evidence, run, root) for run in sources.trained]
    for record in records:
        if report not in record.used:
            record.used.append(report)
    finished = sum(record.finished for record in records)
    if sources.target.needs == "partitions":
        finished = sum(is_made(run, root, partition=True) for run in sources.runs)
    hurt = any(record.facts["status"].startswith(DAMAGED) for record in records)
    provenance = root / REPORTS / f"{report}.{PROVENANCE}"
    changed = report_changes(provenance) if files and provenance.exists() else ()
    begun = bool(files or finished or hurt)
    return _status(sources, frame=frame, files=files, finished=finished, changed=changed, begun=begun)


def _status(sources: Sources, **values: Any) -> TargetStatus:
    return TargetStatus(**{field.name: getattr(sources, field.name) for field in fields(sources)} | values)


def _built(folder: Path, name: str, target: Target) -> tuple[DataFrame | None, dict[str, Path]]:
    paths = {form: folder / f"{name}.{form}" for form in FORMS}
    files = {form: path for form, path in paths.items() if path.exists()}
    frame = read_csv(files["csv"]) if "csv" in files else None
    needed = next((columns for sort, columns in NEEDED.items() if isinstance(target, sort)), set())
    if frame is not None and (lacking := needed - {*frame}):
        raise DataError(f"{files['csv']}: no column '{min(lacking)}'; build it again")
    return frame, files


def _kept(config: Mapping[str, Any], root: Path) -> tuple[tuple[TargetStatus, ...], dict[str, Evidence]]:
    """Return the papers' targets as reports/reference has them, and what is known of their runs."""
    measured = laid_over(config, root / EDITIONS) if (root / EDITIONS).exists() else config
    catalogue = build_catalogue({**measured, "scale": REPRODUCTION, "studies": {}})
    folders = [root / REFERENCE / paper for paper in sorted(catalogue.papers)]
    lines = [line for folder in folders for line in lines_of(folder / RUNS).values()]
    by_run, by_spec = ({line[key]: line for line in lines} for key in (KEY, "spec_sha256"))
    curves = {run: kept for folder in folders for run, kept in histories_of(folder / HISTORIES).items()}
    targets: list[TargetStatus] = []
    evidence: dict[str, Evidence] = {}
    for paper, name, target in catalogue.targets():
        frame, files = _built(root / REFERENCE / paper, name, target)
        sources = catalogue.sources(paper, name, root)
        cells = {
            cell: tuple(run for run in runs if frame is None or run.spec_sha256 in by_spec)
            for cell, runs in sources.cells.items()
        }
        shown = _status(sources, cells=cells, frame=frame, files=files, reference=True)
        for run in shown.runs if shown.kept else ():
            line = by_run.get(run.folder) or by_spec[run.spec_sha256]
            run_facts = {**line, "final": line, "spec": line["spec_sha256"]}
            record = Evidence(run, run_facts, [], True, curves.get(run.folder))
            evidence.setdefault(run.folder, record).used.append(f"{paper}/{name}")
        targets.append(shown)
    return tuple(targets), evidence


def read_csv(path: Path) -> DataFrame:
    """Read a report's csv: texts stay texts, and known numbers become numbers, NaN where there are none."""
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except ValueError as error:
        raise DataError(f"{path}: not a csv file ({' '.join(str(error).split())}); build it again") from None
    for name in set(NUMBERS) & set(frame.columns):
        frame[name] = pd.to_numeric(frame[name], errors="coerce")
    return frame


def _evidence(evidence: dict[str, Evidence], run: PlannedRun, root: Path) -> Evidence:
    if run.folder not in evidence or evidence[run.folder].kept:
        try:
            run_facts = facts(run, root=root)
        except DataError as error:
            run_facts = {"seed": run.seed, "status": f"{DAMAGED}{error}"}
        if run.folder not in evidence or run_facts["status"] in FINISHED:
            evidence[run.folder] = Evidence(run, run_facts, [], "kept" in run_facts)
    return evidence[run.folder]
