"""Commands that keep results and the repository's generated files: references, records, schema, pictures."""

import re
import shlex
import shutil
import subprocess
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

import typer

from fedcore.base.errors import DataError, FedcoreError, say
from fedcore.base.files import exclusive, write_text
from fedcore.cli.options import Json, completing, show
from pipeline.catalogue import Catalogue
from pipeline.catalogue.params import configuration
from pipeline.claims import points as open_points
from pipeline.cli.names import PARAMS, Overlay, StudyFiles
from pipeline.cli.names import names as known
from pipeline.fidelity import package
from pipeline.fidelity import reference as keeping
from pipeline.fidelity.scoreboard import CLAIMS, answer, markdown, scoreboard, write_picture
from pipeline.papers import catalogue_of, papers
from pipeline.reports.kept import REFERENCE
from pipeline.reports.results import REPRODUCTION, read_tidy
from pipeline.reports.schema_docs import FILES
from pipeline.site import pictures as paper_pictures
from pipeline.workflow.adopt import alone, apply, forget, inspect
from pipeline.workflow.dvc import dvc_yaml
from pipeline.workflow.expected import orphans, remove

RULEGRAPH = "snakemake --cores 1 --quiet all --rulegraph --config scale=quick -- reports/all"
DRAWN = Path("docs/img/rulegraph.svg")
GRAPH = """graph [bgcolor=white, margin=0.1];
node [shape=box, style=rounded, fontname=sans, fontsize=11];
edge [color="#777777"];"""


def reference(
    reports: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAMES]...",
            help="Reports as <paper>/<target>, or papers; all that have runs by default.",
            autocompletion=completing(known),
        ),
    ] = None,
    scale: Annotated[
        Literal["paper", "quick"],
        typer.Option(help="Scale of the runs; quick has a folder of its own, quick/."),
    ] = REPRODUCTION,
    overlay: Overlay = None,
    study: StudyFiles = None,
) -> None:
    """Keep what was measured, of papers at paper scale: reports/reference/, and what docs/fidelity.md counts.

    Example: fedcore reference fedomw/table3
    """
    catalogue = catalogue_of(PARAMS, scale, overlay, studies=study or ())
    folder = REFERENCE if scale == REPRODUCTION else REFERENCE / scale
    studies = {path.stem for path in study or ()}
    names = [name for name in catalogue.names() if not studies or name.partition("/")[0] in studies]
    listed = chain.from_iterable(_of_paper(given, catalogue.names()) for given in reports or names)
    named = list(dict.fromkeys("/".join(catalogue.named(name)) for name in listed))
    with exclusive(REFERENCE):
        kept, paths = _kept(catalogue, named, folder)
    say(*(f"wrote {path}" for path in paths))
    if reports:
        say(*(f"left out {name}: {reason}" for name, reason in kept.left.items()), error=True)


def _kept(catalogue: Catalogue, named: list[str], folder: Path) -> tuple[keeping.Kept, list[Path]]:
    """Keep reports, and write what counts all that is kept; return what was kept, and all files written."""
    kept = keeping.keep(catalogue, named, folder=folder)
    pictures = write_picture(REFERENCE)
    fidelity, scores = Path("docs/fidelity.md"), scoreboard(REFERENCE)
    parts = {
        "kept": (REFERENCE / "README.md", keeping.contents(REFERENCE)),
        "answer": (fidelity, answer(scores, read_tidy(REFERENCE / f"{CLAIMS}.csv"))),
        "scoreboard": (fidelity, markdown(scores)),
        "readings": (Path("docs/readings.md"), open_points.markdown(papers())),
        "headlines": (fidelity, keeping.decided(REFERENCE, "headlines")),
        "decisions": (Path("docs/benchmark.md"), keeping.decided(REFERENCE, "decisions")),
    }
    for name, (page, part) in parts.items():
        try:
            write_text(page, keeping.inserted(page.read_text(encoding="utf-8"), name, part))
        except DataError as error:
            raise DataError(f"{page}: {error}") from None
    return kept, [*kept.written, *dict(parts.values()), *pictures, package.write(REFERENCE)]


def _of_paper(given: str, names: list[str]) -> list[str]:
    paper = f"{given.removeprefix('reports/').rstrip('/')}/"
    return [name for name in names if name.startswith(paper)] or [given]


def adopt(as_json: Json = False) -> None:
    """After `dvc checkout` or `dvc pull` into a used folder: let hashes decide which files are up to date.

    Example: fedcore adopt
    """
    with alone():
        decision = inspect(catalogue_of(PARAMS))
        forget()
        moved = apply(decision)
    show(as_json, {"believed": [*decision.believed], "stale": [*decision.stale]}, [decision])
    if moved:
        say(moved, error=as_json)


def prune(
    delete: Annotated[bool, typer.Option(help="Delete them; otherwise they are only listed.")] = False,
    overlay: Overlay = None,
    as_json: Json = False,
) -> None:
    """List runs in results/ that no target needs any more, at any scale and with data/editions.yaml too.

    Example: fedcore prune --delete
    """
    folders = orphans(PARAMS, Path("results"), overlay)
    show(as_json, {"runs": folders, "deleted": delete}, folders)
    if delete:
        remove(folders)
    say(f"{len(folders)} {'deleted' if delete else 'not needed; --delete removes them'}", error=True)


def schema() -> None:
    """Write params.schema.json and docs/params.md from the schema.

    Example: fedcore schema
    """
    for path, text in FILES.items():
        write_text(Path(path), text())
        say(f"wrote {path}")


def dvc() -> None:
    """Write dvc.yaml from the catalogue.

    Example: fedcore dvc
    """
    write_text(Path("dvc.yaml"), dvc_yaml(PARAMS))
    say("wrote dvc.yaml")


def pictures() -> None:
    """Draw front pages' pictures: the primary paper's table1.pdf, scores, claims and curves. Needs pdftoppm.

    Example: fedcore pictures
    """
    target = Path("docs/img/table1.png")
    paper_pictures.front(Path("reports"), configuration(PARAMS)["primary_paper"], target)
    figure = REFERENCE / f"{paper_pictures.FIGURE}.svg"
    catalogue = catalogue_of(PARAMS, "paper")
    paper_pictures.redrawn(catalogue, paper_pictures.FIGURE, REFERENCE, figure)
    say(*(f"wrote {path}" for path in (target, figure, *write_picture(REFERENCE))))


def rulegraph() -> None:
    """Draw docs/img/rulegraph.svg: the rules between the data and the site. Needs Graphviz.

    Example: fedcore rulegraph
    """
    if shutil.which("dot") is None:
        raise FedcoreError("dot: not found; install Graphviz to draw the graph of rules")
    process = subprocess.run(shlex.split(RULEGRAPH), capture_output=True, text=True, check=False)
    if process.returncode:
        reason = [f"it ended with {process.returncode}", *process.stderr.strip().splitlines()][-1]
        raise FedcoreError(f"snakemake --rulegraph: {reason}")
    graph = _plain(process.stdout)
    for command in (["tred"], ["dot", "-Tsvg"]):
        graph = subprocess.run(command, input=graph, capture_output=True, text=True, check=True).stdout
    write_text(DRAWN, graph)
    say(f"wrote {DRAWN}")


def _plain(graph: str) -> str:
    """Return a graph of rules without Snakemake's colours, which differ from call to call."""
    nodes = dict(re.findall(r'(\d+)\s*\[\s*label\s*=\s*"([^"]+)"', graph))
    edges = sorted({(nodes[a], nodes[b]) for a, b in re.findall(r"(\d+)\s*->\s*(\d+)", graph)})
    lines = [f'"{a}" -> "{b}";' for a, b in edges]
    return "\n".join(["digraph rules {", "rankdir=LR;", GRAPH, *lines, "}"]) + "\n"
