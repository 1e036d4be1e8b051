"""The files below reports/ that a rule can make, the names that stand for several, and names as typed."""

import os
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import chain
from pathlib import Path

from fedcore.base.errors import SpecError
from fedcore.execution.integrity import PROVENANCE
from pipeline.catalogue import Catalogue
from pipeline.catalogue.params import STUDIES
from pipeline.catalogue.targets import PlannedRun
from pipeline.reports import render
from pipeline.reports.kept import REFERENCE
from pipeline.workflow import dvc

BESIDE = {"all": "reports/all", "site": "reports/site/index.html", "fidelity": "reports/fidelity.html"}


def path_of(catalogue: Catalogue, typed: str) -> str:
    """Return the file, or name of several, that Snakemake makes for what a user typed, or raise SpecError."""
    name = os.path.relpath(typed or ".")
    typed = typed or "''"
    if name.startswith(("results/", "data/")):
        return name
    name = name.removeprefix("reports/")
    if name in BESIDE or f"reports/{name}" in BESIDE.values():
        return BESIDE.get(name, f"reports/{name}")
    name = name.removeprefix(f"{STUDIES}/")
    if name.endswith(".yaml") and Path(name).stem in catalogue.params.files:
        name = Path(name).stem
    stem, dot, form = name.partition(".")
    if not dot and stem in catalogue.papers:
        return f"reports/{stem}"
    folder, _, target = stem.rpartition("/")
    paper = folder or catalogue.params.primary
    if f"{paper}/{target}" not in catalogue.names():
        raise SpecError(f"{typed}: no such report; {catalogue.nearest(stem, [*catalogue.papers, *BESIDE])}")
    forms = (*catalogue.target(paper, target).files, "pdf", *(["provenance.json"] if folder else []))
    if dot and form not in forms:
        raise SpecError(f"{typed}: no such form; expected {stem} with one of .{', .'.join(forms)}")
    return f"reports/{name}"


def targets_of(catalogue: Catalogue, typed: str) -> list[tuple[str, str]]:
    """Return paper and name of a report, of a paper's reports or of all, ``typed`` as in ``path_of``."""
    path = path_of(catalogue, typed)
    paper, every = path.removeprefix("reports/"), path in BESIDE.values()
    found = [(key, name) for key, name, _ in catalogue.targets() if every or key == paper]
    return found or [catalogue.named(path)]


def runs_of(catalogue: Catalogue, typed: str) -> list[PlannedRun]:
    """Return the runs that these reports are made of, each once."""
    runs = (run for one in targets_of(catalogue, typed) for run in catalogue.sources(*one).trained)
    return list({run.folder: run for run in runs}.values())


def one_of(names: Iterable[str]) -> str:
    """Return a wildcard constraint that matches these names and nothing else."""
    return "|".join(map(re.escape, sorted(names))) or r"(?!)"


class ReportFiles:
    """The files of a catalogue's reports; the primary paper's have a copy at the top of reports/."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.primary = catalogue.params.primary
        self.printed = ("pdf",) if render.engine() else ()
        self.files = {
            paper: [
                f"reports/{paper}/{name}.{ending}"
                for name, target in declared.targets.items()
                for ending in (*target.files, *(() if target.drawn else self.printed), PROVENANCE)
            ]
            for paper, declared in catalogue.papers.items()
        }
        names = [Path(path).name for path in self.files[self.primary] if not path.endswith(PROVENANCE)]
        self.top = one_of(names)
        self.copies = [f"reports/{name}" for name in names]

    def all_of(self, paper: str) -> list[str]:
        """Return the paths of a paper's reports, and of its numbers for DVC."""
        return [*self.files[paper], f"reports/{paper}/{dvc.METRICS}"]

    def all(self) -> list[str]:
        """Return the paths of all papers' reports, and of the copies at the top."""
        return [*(path for paper in self.files for path in self.all_of(paper)), *self.copies]

    def numbers(self) -> list[str]:
        """Return the numbers of all papers' reports, which the fidelity board compares."""
        printed = (paper for paper, declared in self.catalogue.papers.items() if not declared.is_study)
        return [path for paper in printed for path in self.files[paper] if path.endswith(".csv")]

    @cached_property
    def named(self) -> Mapping[str, list[str]]:
        """The files of each paper, and of each report, by the name that stands for all of them."""
        files_by_name = {f"reports/{paper}": self.all_of(paper) for paper in self.files}
        for path in (*chain.from_iterable(self.files.values()), *self.copies):
            files_by_name.setdefault(path.partition(".")[0], []).append(path)
        return files_by_name

    @property
    def unknown(self) -> str:
        """What no rule can make, as a wildcard constraint: wrong names of reports."""
        forms = ("pdf", "provenance.json")
        beside = (f"reports/{name}.{form}" for name in self.catalogue.names() for form in forms)
        board = r"reports/(site/index\.html|fidelity(-claims)?\.(csv|md|html))"
        return rf"(?!(results|data|logs|{REFERENCE})/|({board}|{one_of({*self.all(), *beside})})$).+"

    def refusal(self, typed: str) -> str:
        """Say in one line what to ask for in place of a report that no rule makes."""
        try:
            path = path_of(self.catalogue, typed)
        except SpecError as error:
            return str(error)
        if path.endswith(".pdf") and not self.printed:
            return f"{typed}: {render.NO_TEX}"
        why = "got a slash at its end, " if path == typed else ""  # Snakemake takes it away
        return f"{typed}: {why}expected {path}"
