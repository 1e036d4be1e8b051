"""What a workflow tells a person: what each job does, and where the reports are in the end."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from html import unescape
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from fedcore.base.errors import plain
from fedcore.execution.integrity import PROVENANCE
from pipeline.catalogue import Catalogue
from pipeline.catalogue.targets import RESULTS
from pipeline.fidelity.board import board
from pipeline.reports import style
from pipeline.reports.results import REPRODUCTION

MARKS = re.compile(r"\*\*|</?u>|<br>.*")
BAR, ESCAPED = re.compile(r"(?<!\\)\|"), re.compile(r"\\([\\`*\[\]|])")
MEANING = {
    "demo": "Demo scale: it shows that everything works. It does not reproduce the paper.",
    "quick": "Quick scale: short runs, mostly on full data. It does not reproduce the paper.",
}
NEXT = {"demo": "quick", "quick": REPRODUCTION}
MANY = 4
WIDEST = 10_000


def job_name(catalogue: Catalogue, rule: str, wildcards: Mapping[str, str]) -> str:
    """Return what a job of a rule does, in the words of its paper."""
    papers = catalogue.papers
    datasets = papers[wildcards["paper"]].datasets if "paper" in wildcards else {}
    match dict(wildcards):
        case {"paper": paper, "scale": scale, "setting": setting, "method": method} if papers[paper].is_study:
            what = _methods(catalogue, paper)[f"{RESULTS}/{paper}/{scale}/{setting}/{method}"]
        case {"setting": setting, "method": method}:
            regime, dataset, split = setting.split("-")
            label = style.label(method.rpartition("-")[0])
            what = f"{label} on {datasets.get(dataset, dataset)} ({split}, {regime.replace('_', ' ')})"
        case {"division": division}:
            dataset, split, _ = division.split("-")
            what = f"who holds which rows of {datasets.get(dataset, dataset)} ({split})"
        case {"paper": paper, "table": name} | {"paper": paper, "figure": name}:
            what = f"reports/{paper}/{name}" + (" as PDF" if rule == "pdf" else "")
        case _:
            what = " ".join([rule, *wildcards.values()])
    return what + (f", seed {wildcards['seed']}" if "seed" in wildcards else "")


@cache
def _methods(catalogue: Catalogue, study: str) -> Mapping[str, str]:
    """Return the row and the column of each group of runs of a study."""
    labels: dict[str, str] = {}
    for name in catalogue.papers[study].targets:
        sources = catalogue.sources(study, name)
        rows, columns = style.labels(sources)
        for (row, column), runs in sources.cells.items():
            for run in runs if sources.target.needs == "runs" else ():
                labels.setdefault(run.group, f"{rows[row]} on {columns[column]}")
    return labels


def show(catalogue: Catalogue, names: Iterable[str], console: Console) -> None:
    """Print where each report of these files is, a table if not too wide, what it means, what comes next."""
    reports: dict[str, list[Path]] = {}
    for path in sorted(map(Path, names)):
        if path.is_file() and path.suffix and not path.name.endswith(PROVENANCE):
            reports.setdefault(str(path).partition(".")[0], []).append(path)
    for name, files in reports.items():
        more = f" (also {', '.join(path.name.partition('.')[2] for path in files[1:])})" if files[1:] else ""
        console.print(plain(f"{files[0]}{more}"), markup=False, style="bold", soft_wrap=True)
        page = Path("reports", *catalogue.named(name)).with_suffix(".md")
        if len(reports) <= MANY and page.is_file():
            show_table(page, console)
    for line in _means(catalogue, list(reports)):
        console.print(plain(line), markup=False, soft_wrap=True)


def show_table(page: Path, console: Console) -> None:
    """Print the table of a report's .md file if the console is wide enough for it."""
    lines = [line.strip().strip("|") for line in page.read_text("utf-8").split("\n") if line.startswith("|")]
    if len(lines) < 3:
        return
    texts = ([ESCAPED.sub(r"\1", MARKS.sub("", cell)) for cell in BAR.split(line)] for line in lines)
    cells = ([plain(unescape(text).strip()) for text in row] for row in texts)
    head, _, *body = (list(map(escape, row)) for row in cells)
    table = Table(*head, box=box.SIMPLE_HEAD)
    for row in body:
        table.add_row(*row)
    if Measurement.get(console, console.options.update(max_width=WIDEST), table).maximum <= console.width:
        console.print(table)


def _means(catalogue: Catalogue, reports: list[str]) -> Iterator[str]:
    scale = catalogue.params.scale
    known = [name for name in map(catalogue.named, reports) if "/".join(name) in catalogue.names()]
    names = [name for name in known if not catalogue.papers[name[0]].is_study]
    if len(names) < len(known):
        yield "Its page, with the runs behind each number: uv run fedcore site"
    if not names:
        return
    if scale == REPRODUCTION:
        yield from _agreement(names)
        yield "What was measured beside what the papers print: uv run fedcore fidelity"
    else:
        yield MEANING.get(scale, f"Scale {scale}.")
        if scale in NEXT:
            form = "svg" if catalogue.target(*names[0]).drawn else "html"
            file = f"reports/{'/'.join(names[0])}.{form}"
            yield f"Next: uv run snakemake --cores all {file} --config scale={NEXT[scale]}"


def _agreement(names: list[tuple[str, str]]) -> Iterator[str]:
    fidelity = board(REPRODUCTION)
    for paper, target in names:
        query = f"paper == {paper!r} and target == {target!r}"
        verdicts = fidelity.claims.query(query)["verdict"].value_counts()
        for line in fidelity.tables.query(query).to_dict("records"):
            near = f"{line['near']} of {line['judged']} judged cells near"
            yield f"{paper}/{target}: {near}; {line['compared']} of {line['cells']} published cells measured."
        if len(verdicts):
            listed = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
            yield f"{paper}/{target}: claims: {listed}."
