"""What runs at a paper's own scale found: cells that agree, claims, and the tables that are kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.fidelity.reference import FOLDER
from pipeline.fidelity.scoreboard import claims, scoreboard
from pipeline.papers import papers

READINGS = {"paper": "as the text reads", "released": "as the authors' code reads it"}
NOTHING = "No run at the paper's own scale has been kept yet."
ADDRESS = "../img/reference"


def found(name: str, folder: Path = FOLDER) -> Iterator[str]:
    """Return the lines of a paper's page about what was measured.

    Args:
        name: the paper.
        folder: the kept results, `reports/reference`.
    """
    if not (folder / name).exists():
        yield NOTHING
        return
    lines = scoreboard(folder)
    own = lines[(lines["paper"] == name) & (lines["measured"] > 0)]
    for line in own.to_dict("records"):
        yield (
            f"- {READINGS[line['reading']].capitalize()}: {line['measured']} of {line['published']} "
            f"published cells are measured, {line['near']} of them near (within a point or two published "
            f"standard deviations); the best method is the printed one in {line['same_best']} of "
            f"{line['columns']} columns."
        )
    yield from _claims(name, list(own["reading"]) or ["paper"], folder)
    yield from _reports(name, folder / name)


def _claims(name: str, readings: list[str], folder: Path) -> Iterator[str]:
    rows = [
        f"| {claim['text']} | {claim['target']} | {claim['verdict']} |"
        for reading in readings
        for claim in claims(name, reading, folder).to_dict("records")
        if claim["verdict"] in {"reproduced", "not reproduced"}
    ]
    if rows:
        yield from ("", "| Claim | Target | |", "|:--|:--|:--|", *dict.fromkeys(rows))


def _reports(name: str, folder: Path) -> Iterator[str]:
    for target, made in papers()[name].targets.items():
        path = next((p for p in (folder / f"{target}.md", folder / f"{target}.svg") if p.exists()), None)
        if path is None:
            continue
        if path.suffix == ".svg":
            yield from (
                "",
                f'??? abstract "{made.title} ({target})"',
                f"    ![{target}]({ADDRESS}/{name}/{path.name})",
            )
            continue
        text = path.read_text(encoding="utf-8").splitlines()
        yield from ("", f'??? abstract "{made.title} ({target})"', *(f"    {line}".rstrip() for line in text))
