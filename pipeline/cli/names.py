"""What users type: options that several commands share, and the names that complete them."""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fedcore.base.registry import plugins
from fedcore.cli.options import completing
from pipeline.catalogue.params import STUDIES, configuration, study_names
from pipeline.papers import catalogue_of, papers
from pipeline.workflow.reports import BESIDE

PARAMS = Path("params.yaml")
TEMPLATES = Path(__file__).parent / "templates"
ALGORITHMS, DATA = (completing(partial(plugins, kind)) for kind in ("algorithm", "data"))


def names() -> list[str]:
    """Return what `fedcore targets` lists, with and without the folder, and the primary paper's in short."""
    catalogue = catalogue_of(PARAMS)
    listed, short = catalogue.names(), catalogue.papers[catalogue.params.primary].targets
    return [*short, *listed, *(f"reports/{name}" for name in listed)]


def everything() -> Iterator[str]:
    """Yield all that can be built: all, site, fidelity board, papers, studies and single reports."""
    yield from (*BESIDE, *papers(), *study_names(), *names())


def elsewhere(targets: Iterable[str]) -> list[Path]:
    """Return the studies' files among targets that are not in the folder of studies."""
    files = (path for path in map(Path, targets) if path.suffix == ".yaml" and path.parent != Path(STUDIES))
    return [path for path in files if path.parts[0] not in {"results", "data"}]


StudyFiles = Annotated[list[Path] | None, typer.Option("--study", help="A study's file outside of studies/.")]
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
        help="Reports (rfedavg/table2, table1.tex), papers (rfedavg), studies (a name or a file), all, site, "
        "fidelity, or result files.",
        autocompletion=completing(everything),
    ),
]
TARGET = typer.Argument(
    help="A report (rfedavg/table2), a paper (rfedavg), a study's file, or all.",
    autocompletion=completing(everything),
)
Params = Annotated[Path, typer.Option(help="Parameters with all that was laid over them.")]
Overlay = Annotated[Path | None, typer.Option(help="A file to lay over params.yaml, like --configfile.")]
Scale = Annotated[
    str | None,
    typer.Option(
        help="Scale of the runs; that of params.yaml by default.",
        autocompletion=completing(lambda: configuration(PARAMS)["scales"]),
    ),
]
