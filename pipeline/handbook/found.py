"""What runs at a paper's own scale found: cells that agree, claims, and the tables that are kept."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fedcore.base.lazy import pd
from pipeline.fidelity.reference import REFERENCE
from pipeline.fidelity.scoreboard import begun, claims, scoreboard
from pipeline.papers import papers
from pipeline.reports.agreement import RULE

READINGS = {
    "paper": "as the text reads",
    "released": "as the authors' code reads it",
    "by_client": "with a Dirichlet draw per client",
}
NOTHING = "No run at the paper's own scale has been kept yet."
ADDRESS = "../img/reference"


def found(name: str, folder: Path = REFERENCE) -> Iterator[str]:
    """Return the lines of a paper's page about what was measured.

    Args:
        name: the paper.
        folder: the kept results, `reports/reference`.
    """
    if not (folder / name).exists():
        yield NOTHING
        return
    lines = scoreboard(folder)
    own = lines[(lines["paper"] == name) & begun(lines)]
    yield from map(_agreement, own.to_dict("records"))
    yield from _claims(name, list(own["reading"]) or ["paper"], folder)
    yield from _reports(name, folder / name)


def _agreement(line: Mapping[Hashable, Any]) -> str:
    """Say how many published cells were measured in one reading, and how many of them agree."""
    parts = [f"- {READINGS[line['reading']].capitalize()}, of {line['published']} published cells"]
    if line["measured"]:
        parts.append(
            f"{line['measured']} are measured, {line['near']} of them near ({RULE}); the best method is the "
            f"printed one in {line['same_best']} of {line['columns']} columns."
        )
    if line["in_part"]:
        besides = "more " if line["measured"] else ""
        parts.append(
            f"{line['in_part']} {besides}are measured with fewer seeds than asked for, "
            f"{line['near_in_part']} of them near."
        )
    if line["on_stand_in"]:
        parts.append(f"{line['on_stand_in']} were measured on a part of the data, which is no comparison.")
    first, *rest = parts[1:]
    return " ".join([f"{parts[0]} {first}", *(f"{more[0].upper()}{more[1:]}" for more in rest)])


def _claims(name: str, readings: list[str], folder: Path) -> Iterator[str]:
    judged = pd.concat([claims(name, reading, folder) for reading in readings])
    judged = judged.drop_duplicates(["target", "id"])
    told = judged[judged["told"]]
    if len(told):
        yield from ("", "| Claim | Target | Verdict | What was found |", "|:--|:--|:--|:--|")
    for claim in told.to_dict("records"):
        yield f"| {claim['text']} | {claim['target']} | {claim['verdict']} | {claim['detail']} |"
    waiting = len(judged) - len(told)
    if waiting:
        yield from (
            "",
            f"{waiting} {'claims have' if waiting > 1 else 'claim has'} too few runs to say anything yet.",
        )


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
