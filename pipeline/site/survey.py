"""What exists: the state of every target and run, read from reports/ and results/."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from fedcore.base.errors import DataError
from fedcore.base.files import canonical_json, sha256_text
from fedcore.base.lazy import pd
from fedcore.execution.integrity import PROVENANCE
from pipeline.catalogue import Catalogue
from pipeline.catalogue.targets import Cell, Paper, PlannedRun, Sources, Target
from pipeline.papers import build_catalogue
from pipeline.reports import report_changes
from pipeline.reports.results import facts

State = Literal["made", "outdated", "partly", "missing"]
FORMS = ("html", "md", "tex", "standalone.tex", "pdf", "svg", "png", "csv")
NUMBERS = (
    "mean",
    "std",
    "n",
    "seeds",
    "diverged",
    "published_mean",
    "published_std",
    "difference",
    "round",
)
MEANING = {
    "made": "built from all its runs",
    "outdated": "built, but the parameters ask for other runs now",
    "partly": "some of its runs are finished",
    "missing": "none of its runs is finished",
}


@dataclass(frozen=True)
class Evidence:
    """A run, and what is known of it.

    Attributes:
        run: which run.
        facts: what ``pipeline explain`` says of it.
        used: the targets that need it, as ``<paper>/<target>``.
    """

    run: PlannedRun
    facts: Mapping[str, object]
    used: tuple[str, ...]

    @property
    def name(self) -> str:
        """A file name of its own."""
        return name_of(self.run)

    @property
    def finished(self) -> bool:
        """Whether it has a summary, diverged or not."""
        return self.facts.get("status") in {"completed", "diverged"}


@dataclass(frozen=True)
class TargetStatus:
    """A target as it stands.

    Attributes:
        paper, name: which one.
        about: its declaration.
        home: the catalogue of the scale at which it was built, or of the parameters' scale.
        frame: its tidy csv, None where it was not built.
        files: its forms that exist, by ending.
        cells: the runs of each cell, as the parameters ask for them now.
        finished: how many of its runs are finished.
        changed: what was changed in its files after they were written.
        state: in one word.
    """

    paper: str
    name: str
    about: Target
    home: Catalogue
    frame: pd.DataFrame | None
    files: Mapping[str, Path]
    cells: Mapping[Cell, tuple[PlannedRun, ...]]
    finished: int
    changed: tuple[str, ...]
    state: State

    @property
    def scale(self) -> str:
        """The scale at which it was built, or would be."""
        return self.home.params.scale

    @property
    def declared(self) -> Paper:
        """The paper's declaration."""
        return self.home.papers[self.paper]

    @property
    def drawn(self) -> bool:
        """Whether it is a figure."""
        return self.about.drawn

    @property
    def scaled(self) -> bool:
        """Whether it changes with the scale."""
        return self.about.changes_with_scale

    def sources(self, root: Path = Path()) -> Sources:
        """What it is built from, at its scale."""
        return self.home.sources(self.paper, self.name, root)

    @cached_property
    def runs(self) -> tuple[PlannedRun, ...]:
        """Its runs, each once."""
        return tuple({run.folder: run for runs in self.cells.values() for run in runs}.values())


@dataclass(frozen=True)
class Survey:
    """Everything that the pages show.

    Attributes:
        scale: the parameters' scale.
        targets: all targets, in the papers' order.
        evidence: all runs of these targets by folder, finished or not.
    """

    scale: str
    targets: tuple[TargetStatus, ...]
    evidence: Mapping[str, Evidence]

    @property
    def papers(self) -> Mapping[str, Paper]:
        """The papers that have targets."""
        return {shown.paper: shown.declared for shown in self.targets}

    @property
    def finished(self) -> list[Evidence]:
        """The runs that have a page."""
        return [one for one in self.evidence.values() if one.finished]

    def diverged(self, run: PlannedRun) -> bool:
        """Whether a run diverged, as far as that is known."""
        return run.folder in self.evidence and self.evidence[run.folder].facts.get("status") == "diverged"

    @property
    def scales(self) -> list[str]:
        """The scales of the reports that exist, or of the parameters where there are none."""
        return sorted({shown.scale for shown in self.targets if shown.files and shown.scaled}) or [self.scale]

    @property
    def newest(self) -> str:
        """When the newest run finished, or nothing."""
        return max((str(one.facts.get("finished", "")) for one in self.finished), default="")


def survey(config: Mapping[str, Any], root: Path = Path()) -> Survey:
    """Look at what exists.

    Args:
        config: params.yaml, with what was changed on the command line.
        root: the folder that holds results/ and reports/.

    Raises:
        SpecError: the configuration is wrong.
    """
    own = build_catalogue(config)
    others: dict[str, Catalogue] = {own.params.scale: own}
    known: dict[str, Mapping[str, object]] = {}
    targets = []
    for name in own.names():
        paper, target = name.split("/")
        files = _files(root / "reports" / paper, target)
        frame = read_csv(files["csv"]) if "csv" in files else None
        scale = _scale(frame) or own.params.scale
        if scale not in others and scale in config["scales"]:
            others[scale] = build_catalogue({**config, "scale": scale})
        targets.append(_shown(others.get(scale, own), paper, target, frame, files, known, root))
    used: dict[str, list[str]] = {}
    runs: dict[str, PlannedRun] = {}
    for shown in targets:
        for run in shown.runs if shown.about.needs == "runs" else ():
            runs[run.folder] = run
            used.setdefault(run.folder, []).append(f"{shown.paper}/{shown.name}")
    evidence = {folder: Evidence(run, known[folder], tuple(used[folder])) for folder, run in runs.items()}
    return Survey(own.params.scale, tuple(targets), evidence)


def name_of(run: PlannedRun) -> str:
    """Return a run's name for files and addresses: its folder below results/, with dots for slashes."""
    return run.folder.split("/", 1)[1].replace("/", ".")


def read_csv(path: Path) -> pd.DataFrame:
    """Read a report's csv: texts stay texts, and known numbers become numbers, NaN where there are none."""
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (ValueError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a csv file ({' '.join(str(error).split())}); build it again") from None
    for name in set(NUMBERS) & set(frame.columns):
        frame[name] = pd.to_numeric(frame[name], errors="coerce")
    return frame


def _shown(
    home: Catalogue,
    paper: str,
    target: str,
    frame: pd.DataFrame | None,
    files: Mapping[str, Path],
    known: dict[str, Mapping[str, object]],
    root: Path,
) -> TargetStatus:
    about = home.target(paper, target)
    cells = home.cells(paper, target)
    runs = {run.folder: run for runs in cells.values() for run in runs}
    for folder, run in runs.items():
        if about.needs == "runs" and folder not in known:
            known[folder] = _facts(run, root)
    if about.needs == "partitions":
        finished = sum((root / run.partition / "stats.json").exists() for run in runs.values())
    else:
        finished = sum(known[folder].get("status") in {"completed", "diverged"} for folder in runs)
    state = _state(frame, cells, finished, len(runs))
    provenance = root / "reports" / paper / f"{target}.{PROVENANCE}"
    changed = tuple(report_changes(provenance)) if files and provenance.exists() else ()
    return TargetStatus(paper, target, about, home, frame, files, cells, finished, changed, state)


def _facts(run: PlannedRun, root: Path) -> Mapping[str, object]:
    try:
        return facts(run, root=root)
    except DataError as error:
        return {"seed": run.seed, "status": f"damaged: {error}"}


def _files(folder: Path, target: str) -> dict[str, Path]:
    paths = {form: folder / f"{target}.{form}" for form in FORMS}
    return {form: path for form, path in paths.items() if path.exists()}


def _scale(frame: pd.DataFrame | None) -> str | None:
    if frame is None or frame.empty or "scale" not in frame:
        return None
    return str(frame["scale"].iloc[0])


def _state(
    frame: pd.DataFrame | None, cells: Mapping[Cell, tuple[PlannedRun, ...]], finished: int, needed: int
) -> State:
    if frame is None:
        return "partly" if finished else "missing"
    if "specs" in frame and {"row", "column"} <= set(frame.columns):
        written = {(line["row"], line["column"]): line["specs"] for line in frame.to_dict("records")}
        asked = {cell: _specs(runs) for cell, runs in cells.items()}
        if set(written) != set(asked) or any(
            not set(written[cell].split()) <= set(asked[cell]) for cell in asked
        ):
            return "outdated"
    if _lacks_runs(frame):
        return "partly" if finished else "missing"
    return "outdated" if 0 < finished < needed else "made"


def _lacks_runs(frame: pd.DataFrame) -> bool:
    """Whether a table was written from the runs that there were, before all were finished."""
    counted = {"n", "diverged", "seeds"} <= set(frame.columns)
    return counted and bool((frame["n"] + frame["diverged"] < frame["seeds"]).any())


def _specs(runs: Iterable[PlannedRun]) -> list[str]:
    return [sha256_text(canonical_json(run.spec))[:12] for run in runs]
