"""`fedcore evaluate`: kept results made again on this machine, with a report that a referee can file."""

import shutil
import time
from collections import Counter
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from markdown_it import MarkdownIt
from markupsafe import Markup

from fedcore.base.errors import SpecError, say
from fedcore.base.files import exclusive, write_json, write_text
from fedcore.base.lazy import torch
from fedcore.base.options import suggestion
from fedcore.cli.options import Json, Mirror, Root, completing, show
from fedcore.data import Source
from fedcore.execution.machine import commit, processor
from fedcore.execution.runner import Settings
from pipeline.catalogue import Catalogue
from pipeline.catalogue.params import EDITIONS
from pipeline.cli.names import PARAMS, TEMPLATES
from pipeline.fidelity import package
from pipeline.fidelity.evaluation import TOLERANCE, Evaluation, Recheck
from pipeline.fidelity.evaluation import evaluate as make_again
from pipeline.papers import catalogue_of, papers
from pipeline.reports import REPORTS
from pipeline.reports.kept import REFERENCE
from pipeline.reports.render import rendered
from pipeline.reports.results import REPRODUCTION
from pipeline.reports.style import labels
from pipeline.workflow.estimate import duration

OUT = REPORTS / "evaluation"
INTERRUPTED = 130  # what shells report of a command that Ctrl+C ended
LINE = "{report}: {cell}: {said} (runs: {runs}, {seconds:.0f} s)"


def evaluate(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Papers; all with kept results by default.", autocompletion=completing(papers)),
    ] = None,
    minutes: Annotated[float, typer.Option(min=0.1, help="How long it may take.")] = 10.0,
    by: Annotated[str, typer.Option(help="Who evaluates: the report and the badges say so.")] = "",
    seed: Annotated[int, typer.Option(help="Another seed chooses other cells.")] = 0,
    fill: Annotated[bool, typer.Option(help="Take cells without kept histories, and keep these.")] = False,
    root: Root = Path("data"),
    mirror: Mirror = None,
    as_json: Json = False,
) -> None:
    """Make kept results again, as many as fit into the time, and say what agrees: reports/evaluation/.

    Example: fedcore evaluate fedomw --minutes 10
    """
    catalogue = catalogue_of(PARAMS, REPRODUCTION, EDITIONS)
    known = [name for name in papers() if name in catalogue.papers]
    chosen = list(dict.fromkeys(names or known))
    for name in chosen:
        if name not in known:
            raise SpecError(f"{name}: no such paper{suggestion(name, known)}")
    began = time.monotonic()

    def note(what: Recheck | str) -> None:
        say(what if isinstance(what, str) else LINE.format_map(_check(catalogue, what)), error=True)

    settings = Settings(source=Source(root, mirror), device="cpu")
    with exclusive(OUT), exclusive(REFERENCE) if fill else nullcontext():
        if (work := OUT / "work").exists():
            shutil.rmtree(work)
        evaluation = make_again(catalogue, chosen, 60 * minutes, work, settings, seed, note, fill=fill)
        if fill:
            say(f"wrote {package.write(REFERENCE)}", error=as_json)
        facts: dict[str, Any] = {  # docs/evaluate.md describes the keys
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "by": by,
            "minutes": minutes,
            "seed": seed,
            "tolerance": TOLERANCE,
            "commit": commit(),
            "machine": {"processor": processor(), "torch": torch.__version__, "numpy": np.__version__},
            "papers": [_paper(evaluation, name, minutes) for name in chosen],
            "checks": [_check(catalogue, check) for check in evaluation.checks],
            "rebuilt": evaluation.rebuilt,
            "absent": evaluation.absent,
            "interrupted": round((time.monotonic() - began) / 60, 1) if evaluation.interrupted else None,
        }
        text = rendered("evaluation.md", facts, TEMPLATES)
        write_json(OUT / "evaluation.json", facts)
        write_text(OUT / "evaluation.md", text)
        page = MarkdownIt("js-default").render(text)
        write_text(OUT / "evaluation.html", rendered("evaluation.html", {"page": Markup(page)}, TEMPLATES))
        for badge in OUT.glob("*.svg"):
            badge.unlink()
        for item in facts["papers"]:
            if item["checked"]:
                badge_text = rendered("badge.svg", {**facts, "own": item}, TEMPLATES)
                write_text(OUT / f"{item['paper']}.svg", badge_text)
    lines = [f"{item['paper']}: {item['said']}" for item in facts["papers"]]
    show(as_json, facts, [*lines, f"wrote {OUT}/evaluation.html, .md and .json"])
    if evaluation.interrupted:
        raise typer.Exit(INTERRUPTED)


def _paper(evaluation: Evaluation, paper: str, minutes: float) -> dict[str, Any]:
    checks = [check for check in evaluation.checks if check.unit.paper == paper]
    agreeing = sum(check.agrees for check in checks)
    runs, seconds = evaluation.left[paper]
    verdict = f"{agreeing} of {len(checks)} cells and figures reproduced" if checks else "nothing checked"
    if not checks and (least := evaluation.least.get(paper, 0)) > minutes:
        verdict += f": its quickest cell or figure takes --minutes {least}"
    rest = f"; {runs:,} kept runs are left, about {duration(seconds)} on one core" if runs else ""
    return {
        "paper": paper,
        "checked": len(checks),
        "agreeing": agreeing,
        "left_runs": runs,
        "left_seconds": round(seconds),
        "said": verdict + rest,
    }


def _check(catalogue: Catalogue, check: Recheck) -> dict[str, Any]:
    unit, counted = check.unit, Counter[str](check.outcomes)
    cell = "the figure"
    if unit.row:
        rows, columns = labels(catalogue.sources(unit.paper, unit.target))
        cell = f"{rows[unit.row]}, {columns[unit.column]}"
    parts = (f"{outcome} {count}x" if len(counted) > 1 else outcome for outcome, count in counted.items())
    return {
        "report": f"{unit.paper}/{unit.target}",
        "row": unit.row,
        "column": unit.column,
        "cell": cell,
        "runs": len(check.outcomes),
        "outcomes": dict(counted),
        "said": ", ".join(parts),
        "largest_difference": None if check.largest == float("inf") else check.largest,
        "agrees": check.agrees,
        "seconds": round(check.seconds, 1),
    }
