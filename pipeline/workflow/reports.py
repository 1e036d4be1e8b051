"""The files below reports/ that a rule can make, and the names that stand for several of them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from functools import cached_property

from pipeline.catalogue import Catalogue
from pipeline.workflow import dvc


def one_of(names: Iterable[str]) -> str:
    """Return a wildcard constraint that matches these names and nothing else."""
    return "|".join(map(re.escape, sorted(names))) or r"(?!)"


class ReportFiles:
    """The files of a catalogue's reports; the primary paper's have a copy at the top of reports/."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.primary = catalogue.params.primary
        self.printed = ("pdf",) if shutil.which("pdflatex") else ()

    def of(self, paper: str) -> list[str]:
        """Return the files of a paper's targets below reports/; tables as PDF where there is a TeX."""
        return [
            f"{paper}/{name}.{ending}"
            for name, target in self.catalogue.papers[paper].targets.items()
            for ending in (*target.files, *(() if target.drawn else self.printed))
        ]

    @property
    def copies(self) -> list[str]:
        """The files at the top of reports/."""
        return [path.removeprefix(f"{self.primary}/") for path in self.of(self.primary)]

    @property
    def top(self) -> str:
        """The files at the top of reports/, as a wildcard constraint."""
        return one_of(self.copies)

    def all_of(self, paper: str) -> list[str]:
        """Return the paths of a paper's reports, and of its numbers for DVC."""
        return [*(f"reports/{path}" for path in self.of(paper)), f"reports/{paper}/{dvc.METRICS}"]

    def all(self) -> list[str]:
        """Return the paths of all papers' reports, and of the copies at the top."""
        own = [path for paper in self.catalogue.papers for path in self.all_of(paper)]
        return own + [f"reports/{path}" for path in self.copies]

    def numbers(self) -> list[str]:
        """Return the numbers of all papers' reports, which the fidelity board compares."""
        own = (path for paper in self.catalogue.papers for path in self.all_of(paper))
        return [path for path in own if path.endswith(".csv")]

    @cached_property
    def named(self) -> Mapping[str, list[str]]:
        """The files of each paper, and of each report, by the name that stands for all of them."""
        found = {f"reports/{paper}": self.all_of(paper) for paper in self.catalogue.papers}
        for path in [*(path for paper in self.catalogue.papers for path in self.of(paper)), *self.copies]:
            found.setdefault(f"reports/{path.partition('.')[0]}", []).append(f"reports/{path}")
        return found

    @property
    def known(self) -> str:
        """The files below reports/ that a rule can make, as a wildcard constraint."""
        own = (path.removeprefix("reports/") for files in self.named.values() for path in files)
        beside = (f"{name}.{form}" for name in self.catalogue.names() for form in ("pdf", "provenance.json"))
        return one_of({*own, *beside})

    def refusal(self, report: str) -> str:
        """Say in one line why there is no such file, with the names of those that are most like it."""
        name, dot, _ = report.partition(".")
        files = self.named.get(f"reports/{name}")
        if not files:
            return f"reports/{report}: no such report; {self.catalogue.nearest(name)}"
        if not dot:
            return f"reports/{report}: got a slash at its end, expected reports/{report}"
        return f"reports/{report}: no such form; there are {', '.join(files)}"
