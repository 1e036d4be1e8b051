"""What users type: options that several commands share, and the names that complete them."""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, get_args

import typer

from fedcore.base.registry import plugins
from fedcore.cli.options import completing
from pipeline.catalogue.params import STUDIES, configuration, study_names
from pipeline.catalogue.schema import Shown
from pipeline.claims.readings import ENDING
from pipeline.papers import papers
from pipeline.workflow.reports import BESIDE

PARAMS = Path("params.yaml")
TEMPLATES = Path(__file__).parent / "templates"
ALGORITHMS, DATA = (completing(partial(plugins, kind)) for kind in ("algorithm", "data"))


def names() -> Iterator[str]:
    """Yield what `fedcore targets` lists, with and without the folder, and the primary paper's in short."""
    config = configuration(PARAMS) if PARAMS.exists() else {}
    sections, primary = config.get("papers", {}), config.get("primary_paper", "")
    yield from (papers()[primary].targets if primary in papers() else ())
    for prefix in ("", "reports/"):
        for paper, declared in papers().items():
            readings = (table + ENDING for table in (sections.get(paper) or {}).get("readings", {}))
            yield from (f"{prefix}{paper}/{target}" for target in (*declared.targets, *readings))
        yield from (f"{prefix}{study}/{target}" for study in study_names() for target in get_args(Shown))


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
