"""The claim ledger: what a paper says it found, as checks on tidy results, each with a verdict.

``pipeline/papers/<paper>/claims.yaml`` lists the claims; ``pipeline.fidelity.checks`` is their vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt, SerializeAsAny, StringConstraints

from fedcore.base import core_yaml
from fedcore.base.errors import SpecError
from fedcore.base.lazy import pd
from fedcore.base.options import Options, suggestion, validate
from pipeline.fidelity.checks import CHECKS, Cell, Check
from pipeline.papers import FOLDER
from pipeline.reports.agreement import CHANGE, ON_STAND_IN, stands_in
from pipeline.reports.significance import parsed

Status = Literal[
    "reproduced", "not reproduced", "not tested at this scale", "not enough runs", "on stand-in data"
]
LEDGER = "claims.yaml"
Lines = Mapping[Cell, Mapping[Any, Any]]


class Claim(Options):
    """One headline claim of a paper.

    Attributes:
        paper: the paper's name.
        id: unique within the paper.
        text: the claim, in our words.
        source: section, table or figure of the paper.
        target: the report whose numbers are checked.
        check: the check.
        scales: scales at which it is tested; at others its result is shown but not judged.
        runs: finished runs that each cell needs, if the table asked for fewer.
        printed: whether the published numbers support the claim.
    """

    paper: str
    id: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    text: Annotated[str, Field(min_length=1)]
    source: Annotated[str, Field(min_length=1)]
    target: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+$")]
    check: SerializeAsAny[Check]
    scales: tuple[str, ...] = ("paper",)
    runs: PositiveInt = 1
    printed: Literal["holds", "fails", "no numbers"] = "holds"


@dataclass(frozen=True)
class Verdict:
    """What became of a claim, the numbers behind it or what is missing, and whether these say anything."""

    status: Status
    detail: str
    told: bool = True


@cache
def ledger(paper: str) -> tuple[Claim, ...]:
    """Return a paper's claims; none if it has no ledger."""
    path = FOLDER / paper / LEDGER
    return load(path, paper) if path.exists() else ()


def load(path: Path, paper: str) -> tuple[Claim, ...]:
    """Read a ledger.

    Raises:
        SpecError: one line that names the file, the claim and the key, what was found and what was expected.
    """
    written = core_yaml.read(path, "ledger")
    if not isinstance(written, list):
        raise SpecError(f"{path}: expected a list of claims, got {type(written).__name__}")
    claims = {}
    for place, values in enumerate(written):
        claim = _claim(values, f"{path}[{place}]", paper)
        if claim.id in claims:
            raise SpecError(f"{path}: two claims have the id '{claim.id}', expected each once")
        claims[claim.id] = claim
    return tuple(claims.values())


def judge(claim: Claim, cells: Lines, scale: str) -> Verdict:
    """Judge a claim on the cells of its own target, which were made at a scale.

    With ``seeds``, a cell needs that many finished runs; with ``data_state``, one on a part of the data
    decides nothing.
    """
    rows = tuple(dict.fromkeys(row for row, _ in cells))
    needed = dict.fromkeys(cell for part in claim.check.parts() for cell in claim.check.needs(part, rows))
    missing = {cell: why for cell in needed if (why := _lacking(cells.get(cell), claim.runs))}
    means = {cell: float(cells[cell]["mean"]) for cell in needed if cell not in missing}
    anywhere = claim.check.judge(means, rows)
    if scale not in claim.scales:
        undecided = anywhere.holds is None
        told = _missing(missing, len(needed)) if undecided else f"at {scale} scale {anywhere.detail}"
        return Verdict("not tested at this scale", told, not undecided)
    full = {cell: mean for cell, mean in means.items() if not _on_stand_in(cells[cell])}
    finding = claim.check.judge(full, rows)
    if finding.holds is not None:
        return Verdict("reproduced" if finding.holds else "not reproduced", finding.detail)
    if anywhere.holds is not None:
        return Verdict(ON_STAND_IN, f"there it {anywhere.word}: {anywhere.detail}")
    so_far = _so_far(claim, {cell: cells[cell] for cell in needed if cell in cells}, rows)
    return Verdict("not enough runs", _missing(missing, len(needed)) + so_far, bool(so_far))


def _claim(values: Any, where: str, paper: str) -> Claim:
    if not isinstance(values, dict):
        raise SpecError(f"{where}: expected keys and values, got {values!r}")
    name = f"{where} {values['id']}" if "id" in values else where
    asked = values.get("check")
    if not isinstance(asked, dict):
        raise SpecError(f"{name}: check: expected keys and values with a kind, got {asked!r}")
    kind = str(asked.get("kind"))
    if kind not in CHECKS:
        raise SpecError(f"{name}: check.kind: no check named {kind!r}{suggestion(kind, CHECKS)}")
    check = validate(CHECKS[kind], asked, f"{name}: check")
    return validate(Claim, {**values, "paper": paper, "check": check}, f"{name}: claim")


def cells_of(report: pd.DataFrame) -> Lines:
    """Return the cells of one target's tidy results, each with its line.

    In a figure's lines, which have a ``round``, a cell's column is ``COLUMN@ROUND``, and ``COLUMN@last`` for
    the last round there is.
    """
    cells: dict[Cell, Mapping[Any, Any]] = {}
    for line in report.to_dict("records"):
        row, column, place = str(line["row"]), str(line["column"]), line.get("round")
        there = [column] if pd.isna(place) else [f"{column}@{int(place)}", f"{column}@last"]
        cells |= {(row, name): line for name in there}
    return cells


def _lacking(line: Mapping[Any, Any] | None, runs: int) -> str:
    """Say what a cell lacks; nothing if it can be used."""
    if line is None:
        return "no such cell"
    counts = (line.get(name, 0) for name in ("n", "seeds", "diverged"))
    done, seeds, diverged = (0 if pd.isna(count) else int(count) for count in counts)
    if done < (asked := max(runs, seeds)):
        return f"{done} of {asked} runs" + (f", {diverged} diverged" if diverged else "")
    return "no number" if pd.isna(line["mean"]) else ""


def _so_far(claim: Claim, cells: Mapping[Cell, Mapping[Any, Any]], rows: tuple[str, ...]) -> str:
    """Say what the finished runs would decide, if each cell that counts has one; else nothing.

    Cells are compared on the runs that all of a column's have.
    """
    alone = ((cell, line, {**line, "seeds": 1}) for cell, line in cells.items())
    begun = {cell: line for cell, line, one in alone if not _lacking(one, 1) and not _on_stand_in(line)}
    finding = claim.check.judge(shared_means(begun), rows)
    return "" if finding.holds is None else f"; so far it {finding.word}: {finding.detail}"


def _on_stand_in(line: Mapping[Any, Any]) -> bool:
    return stands_in(line.get("data_state"), line.get("published_unit"))


def _missing(missing: Mapping[Cell, str], needed: int) -> str:
    (row, column), why = next(iter(missing.items()))
    return f"{len(missing)} of {needed} cells can't be used, such as {row}/{column}: {why}"


def shared_means(cells: Lines) -> dict[Cell, float]:
    """Return each cell's mean over the pairs of partition and seed that all given cells of its column have.

    A cell that is a change against a row can't be taken apart, so it is left out if it rests on other pairs
    too. Lines without ``values``, as those of a figure, keep their means.
    """
    found: dict[Cell, float] = {}
    for column in dict.fromkeys(column for _, column in cells):
        samples = {cell: parsed(line.get("values")) for cell, line in cells.items() if cell[1] == column}
        shared = set.intersection(*(set(sample) for sample in samples.values()))
        for cell, sample in samples.items():
            if sample.keys() == shared:
                found[cell] = float(cells[cell]["mean"])
            elif shared and cells[cell].get("published_unit") != CHANGE:
                found[cell] = fmean(sample[pair] for pair in sorted(shared))
    return found
