"""What users type: options that several commands share, and the names of reports, scales and papers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from fedcore.base.errors import SpecError
from fedcore.cli.options import completing
from pipeline.catalogue import Catalogue
from pipeline.catalogue.params import configuration
from pipeline.papers import papers

PARAMS = Path("params.yaml")
BESIDE = {
    "all": "reports/all",
    "site": "reports/site/index.html",
    "fidelity": "reports/fidelity.html",
}


def names() -> Iterator[str]:
    """Yield what `fedcore targets` lists, without and with the folder's name."""
    for prefix in ("", "reports/"):
        for paper, about in papers().items():
            yield from (f"{prefix}{paper}/{target}" for target in about.targets)


def whole() -> Iterator[str]:
    """Yield what can be built besides single reports: papers, all, the site and the fidelity board."""
    yield from (*BESIDE, *papers())


Report = Annotated[
    str,
    typer.Argument(
        help="A report as people type it: rfedavg/table1, reports/rfedavg/table1.csv, table1.",
        autocompletion=completing(names),
    ),
]
Reports = Annotated[
    list[str],
    typer.Argument(
        help="Reports (rfedavg/table2, table1.tex), papers (rfedavg), all, site, fidelity, or result files.",
        autocompletion=completing(lambda: (*whole(), *names())),
    ),
]
Params = Annotated[Path, typer.Option(help="Parameters with all that was laid over them.")]
Overlay = Annotated[
    Path | None, typer.Option(help="A file laid over params.yaml, as Snakemake's --configfile would.")
]
Scale = Annotated[
    str | None,
    typer.Option(
        help="Scale of the runs; that of params.yaml by default.",
        autocompletion=completing(lambda: configuration(PARAMS)["scales"]),
    ),
]


def path_of(catalogue: Catalogue, typed: str) -> str:
    """Return the file, or the name of several, that Snakemake makes for what a user typed.

    Raises:
        SpecError: there is no such report, or no such form of it.
    """
    name = os.path.relpath(typed)
    if name.startswith(("results/", "data/")):
        return name
    name = name.removeprefix("reports/")
    if name in BESIDE or f"reports/{name}" in BESIDE.values():
        return BESIDE.get(name, f"reports/{name}")
    stem, dot, form = name.partition(".")
    if not dot and stem in catalogue.papers:
        return f"reports/{stem}"
    folder, _, target = stem.rpartition("/")
    paper = folder or catalogue.params.primary
    if f"{paper}/{target}" not in catalogue.names():
        raise SpecError(f"{typed}: no such report; {catalogue.nearest(stem)}")
    forms = (*catalogue.target(paper, target).files, "pdf", "provenance.json")
    if dot and form not in forms:
        raise SpecError(f"{typed}: no such form; expected {stem} with one of .{', .'.join(forms)}")
    return f"reports/{name}"
