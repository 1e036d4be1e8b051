"""One page per paper: its README, what was measured, and pictures of its targets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from pipeline.catalogue.targets import Target
from pipeline.handbook.found import found
from pipeline.papers import FOLDER, papers
from pipeline.site.pictures import MADE

HEAD = """# The papers

This page is for readers who choose a paper. The five papers are about federated learning with data that
differ between clients. Each paper has a page with its claims, its tables and figures, its settings and its
open points.
"""


def names() -> tuple[str, ...]:
    """Return the papers' names."""
    return tuple(papers())


def index(pictures: Path) -> str:
    """Return the page that lists the papers."""
    rows = [
        f"| [{paper.title}]({name}.md)<br>{paper.citation} | `{name}` | {len(paper.targets)} |"
        for name, paper in papers().items()
    ]
    table = ["| Paper | Name | Targets |", "|:--|:--|--:|", *rows]
    return "\n".join([HEAD, *table, "", _made(pictures), ""])


def page(name: str, pictures: Path) -> str:
    """Return a paper's page.

    Args:
        name: the paper.
        pictures: the folder of pictures, of which `<paper>/<target>.webp` are shown.
    """
    paper = papers()[name]
    text = (FOLDER / name / "README.md").read_text(encoding="utf-8")
    _, _, rest = text.partition("\n")
    head = [
        f"# {paper.title}",
        "",
        f"`{name}` in commands and files: `snakemake --cores 2 reports/{name}`.",
        "",
    ]
    measured = [
        "",
        "## What we found so far",
        "",
        *found(name),
        "",
        FOUND,
        "",
        "## Pictures",
        "",
        _made(pictures),
    ]
    return "\n".join([*head, rest.strip(), *measured, "", *_gallery(name, pictures)]) + "\n"


FOUND = """[Do the papers' numbers hold?](../fidelity.md) says what was tried where a number is far from
the published one. `uv run fedcore fidelity` compares every published number and claim with your
own `results/`."""


def kind(target: Target) -> str:
    """Return what a target is, in a word."""
    return "figure" if target.drawn else target.kind


def _gallery(name: str, pictures: Path) -> Iterator[str]:
    yield '<div class="pictures" markdown>'
    for target, made in papers()[name].targets.items():
        if not (pictures / name / f"{target}.webp").exists():
            continue
        address = f"../img/papers/{name}/{target}.webp"
        said = made.title.replace('"', "'").replace("[", "(").replace("]", ")")
        yield f"\n[![{target}: {said}]({address})]({address})\n`{target}` ({kind(made)}): {made.title}.\n"
    yield "</div>"


def _made(pictures: Path) -> str:
    """Say when and from what the pictures were made."""
    if not (pictures / MADE).exists():
        return "No pictures have been made: `fedcore pictures` makes them of what is in reports/."
    made = json.loads((pictures / MADE).read_text(encoding="utf-8"))
    return (
        f"Pictures are of the scale `{made['scale']}`, of {made['date']}, commit {made['commit']}. "
        "The demo scale shows that everything works, not what a paper found, and says so on every picture."
    )
