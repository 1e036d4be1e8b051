"""The claim ledger: what a paper says it found, as checks on tidy results, each with a verdict.

``pipeline/papers/<paper>/claims.yaml`` lists the claims; ``pipeline.claims.checks`` is their vocabulary.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveInt, SerializeAsAny, StringConstraints, model_validator

from fedcore.base import core_yaml
from fedcore.base.errors import SpecError
from fedcore.base.lazy import DataFrame, Series, pd
from fedcore.base.options import Options, suggestion, validate
from pipeline.catalogue.targets import Cell
from pipeline.claims.checks import CHECKS, Check, Judgement
from pipeline.reports.agreement import ACCURACIES, CHANGE, ON_A_PART, stands_in
from pipeline.reports.significance import parse_samples

LEDGER = "claims.yaml"
ZEROS = "zeros"
"""How many diverged runs of a cell count as 0: a key of its line."""
Status = Literal[
    "reproduced",
    "not reproduced",
    "on a part of the data",
    "not enough runs",
    "not tested at this scale",
    "held by a test",
    "untested",
]
WORDS = {True: "holds", False: "fails"}
HOLDS: Mapping[str, bool] = {"reproduced": True, "not reproduced": False}
FEWEST_ROUNDS = 5  # of which a swing is a standard deviation of changes
# What the means of a curve over seeds, by round, come to as one number.
SUMMARIES: Mapping[str, Callable[[Series[float]], float]] = {
    "mean": lambda curve: curve.mean(skipna=False),
    "swing": lambda curve: curve.diff().std() if len(curve) >= FEWEST_ROUNDS else math.nan,
    "peak": lambda curve: math.nan if curve.isna().any() else float(curve.index[int(curve.argmax())]),
}
PAPERS = Path(__file__).parents[1] / "papers"
Lines = Mapping[Cell, Mapping[Any, Any]]


class Claim(Options):
    """One claim of a paper: with a check on a target's numbers, a test of the code, or why it has neither.

    Attributes:
        paper: the paper's name.
        id: unique within the paper.
        statement: the number of the paper's statement; several claims may be parts of one.
        text: the claim, in our words.
        source: section, table or figure of the paper.
        target: the report whose numbers are checked, if any.
        check: the check.
        test: the test of the code that holds it, where no run is needed, as ``tests/x/test_y.py::test_z``.
        untested: why nothing decides it: what is not said, what cannot be had, or which target would show it.
        scales: scales at which it is tested; at others its result is shown but not judged.
        runs: finished runs that each cell needs, if the table asked for fewer.
        printed: whether the published numbers support the claim.
    """

    paper: str
    id: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    text: Annotated[str, Field(min_length=1)]
    statement: Annotated[str, StringConstraints(pattern=r"^([a-z][0-9]+)?$")] = ""
    source: Annotated[str, Field(min_length=1)]
    target: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]*$")] = ""
    check: SerializeAsAny[Check] | None = None
    test: Annotated[str, StringConstraints(pattern=r"^(tests/[a-z_/]+\.py::test_\w+)?$")] = ""
    untested: str = ""
    scales: tuple[str, ...] = ("paper",)
    runs: PositiveInt = 1
    printed: Literal["holds", "fails", "no numbers"] = "holds"

    @model_validator(mode="after")
    def _decided(self) -> Self:
        if sum(map(bool, (self.target and self.check, self.test, self.untested))) != 1:
            raise ValueError("expected one of target with check, test and untested")
        return self


@dataclass(frozen=True)
class Verdict:
    """What became of a claim, the numbers behind it or what is missing, and whether it holds so far.

    Where nothing is decided, ``so_far`` says what fewer seeds, rounds or rows than the paper's show, if they
    show anything.
    """

    status: Status
    detail: str
    so_far: bool | None = None


@cache
def ledger(paper: str) -> tuple[Claim, ...]:
    """Return a paper's claims; none if it has no ledger."""
    path = PAPERS / paper / LEDGER
    return load(path, paper) if path.exists() else ()


def load(path: Path, paper: str) -> tuple[Claim, ...]:
    """Read a ledger, or raise SpecError with file, claim, key, what was found and what was expected."""
    entries = core_yaml.read(path, "ledger")
    if not isinstance(entries, list):
        raise SpecError(f"{path}: expected a list of claims, got {type(entries).__name__}")
    claims = {}
    for index, values in enumerate(entries):
        claim = _claim(values, f"{path}[{index}]", paper)
        if claim.id in claims:
            raise SpecError(f"{path}: two claims have the id '{claim.id}', expected each once")
        claims[claim.id] = claim
    return tuple(claims.values())


def judge(claim: Claim, cells: Lines, scale: str) -> Verdict:
    """Judge a claim on the cells of its own target, which were made at a scale.

    With ``seeds``, a cell needs that many runs; with ``data_state``, one on a part of the data decides
    nothing. A diverged run counts as an accuracy of 0, unless no run of any cell finished. Without a check
    the verdict is what the ledger says.
    """
    if claim.check is None:
        return Verdict("held by a test", claim.test) if claim.test else Verdict("untested", claim.untested)
    check, rows = claim.check, tuple(dict.fromkeys(row for row, _ in cells))
    needed = dict.fromkeys(cell for part in check.parts() for cell in check.needs(part, rows))
    lines = {cell: cells[cell] for cell in needed if cell in cells}
    if check.of == "mean" and any(_counts(line)[0] for line in lines.values()):
        lines = {cell: _with_zeros(line) for cell, line in lines.items()}
    missing = {cell: why for cell in needed if (why := _lacking(lines.get(cell), claim.runs, check.of))}
    usable = {cell: line for cell, line in lines.items() if cell not in missing}
    anywhere = _finding(check, rows, usable)
    if scale not in claim.scales:
        undecided = anywhere.holds is None
        detail = _missing(missing, len(needed)) if undecided else f"at {scale} scale {anywhere.detail}"
        return Verdict("not tested at this scale", detail, anywhere.holds)
    finding = _finding(check, rows, _on_full_data(usable))
    if finding.holds is not None:
        return Verdict("reproduced" if finding.holds else "not reproduced", finding.detail)
    if anywhere.holds is not None:
        return Verdict(ON_A_PART, f"there it {WORDS[anywhere.holds]}: {anywhere.detail}", anywhere.holds)
    so_far, detail = _so_far(check, rows, lines)
    return Verdict("not enough runs", _missing(missing, len(needed)) + detail, so_far)


def _claim(values: Any, where: str, paper: str) -> Claim:
    if not isinstance(values, dict):
        raise SpecError(f"{where}: expected keys and values, got {values!r}")
    name = f"{where} {values['id']}" if "id" in values else where
    check = values.get("check")
    if check is not None:
        if not isinstance(check, dict):
            raise SpecError(f"{name}: check: expected keys and values with a kind, got {check!r}")
        kind = str(check.get("kind"))
        if kind not in CHECKS:
            raise SpecError(f"{name}: check.kind: no check named {kind!r}{suggestion(kind, CHECKS)}")
        check = validate(CHECKS[kind], check, f"{name}: check")
    return validate(Claim, {**values, "paper": paper, "check": check}, f"{name}: claim")


def cells_of(report: DataFrame) -> Lines:
    """Return the cells of one target's tidy results, each with its line.

    In a figure's lines, which have a ``round``, a cell's column is ``COLUMN@ROUND``, ``COLUMN@last`` for the
    last round there is, and ``COLUMN@`` with a word of ``SUMMARIES`` for the whole curve, or with ``late-``
    before the word for the last quarter of its rounds. These look at rounds that all curves of a column have,
    and have no number where a curve ends before others, as those of diverged runs do. A line's ``decimals``
    are those of the report's published numbers; None where there are none.
    """
    published = report["published_mean"].dropna() if "published_mean" in report else ()
    exact = (Decimal(f"{number:.15g}").normalize().as_tuple().exponent for number in published)
    decimals = max((max(0, -int(exponent)) for exponent in exact), default=None)
    cells: dict[Cell, Mapping[Any, Any]] = {}
    curves: dict[str, dict[str, dict[int, float]]] = {}
    for line in report.assign(decimals=decimals).to_dict("records"):
        row, column, at_round = str(line["row"]), str(line["column"]), line.get("round")
        if pd.isna(at_round):
            cells[row, column] = line
        else:
            cells |= {(row, f"{column}@{at}"): line for at in (int(at_round), "last")}
            curves.setdefault(column, {}).setdefault(row, {})[int(at_round)] = line["mean"]
    for column, by_row in curves.items():
        end = max(map(max, by_row.values()))
        whole = {row: curve for row, curve in by_row.items() if max(curve) == end}
        shared = set.intersection(*map(set, whole.values()))
        for row, curve in by_row.items():
            last = cells[row, f"{column}@last"]
            series = pd.Series({at: mean for at, mean in curve.items() if at in shared}, dtype=float)
            means = {"last": last["mean"] if row in whole else math.nan}
            for prefix, part in (("", series), ("late-", series[4 * series.index > 3 * end])):
                for word, summary in SUMMARIES.items():
                    means[prefix + word] = summary(part) if row in whole and len(part) else math.nan
            cells |= {(row, f"{column}@{word}"): {**last, "mean": mean} for word, mean in means.items()}
    return cells


def _with_zeros(line: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return a cell's line, an accuracy's with its diverged runs in ``n`` and, as 0, in the mean."""
    finished, seeds, diverged = _counts(line)
    lost = min(diverged, seeds - finished)
    if lost <= 0 or line.get("published_unit") not in ACCURACIES:
        return line
    mean = finished * float(line["mean"]) / (finished + lost) if finished else 0.0
    return {**line, "mean": mean, "n": finished + lost, ZEROS: lost}


def _finding(check: Check, rows: tuple[str, ...], lines: Lines) -> Judgement:
    result = check.judge({cell: check.read(line) for cell, line in lines.items()}, rows)
    zeros = [f"{line[ZEROS]} of {line['n']} in {'/'.join(c)}" for c, line in lines.items() if ZEROS in line]
    return replace(result, detail=f"{result.detail}; diverged, so 0: {', '.join(zeros)}") if zeros else result


def _counts(line: Mapping[Any, Any]) -> tuple[int, int, int]:
    counts = (line.get(name, 0) for name in ("n", "seeds", "diverged"))
    finished, seeds, diverged = (0 if pd.isna(count) else int(count) for count in counts)
    return finished, seeds, diverged


def _lacking(line: Mapping[Any, Any] | None, runs: int, of: str) -> str:
    if line is None:
        return "no such cell"
    finished, seeds, diverged = _counts(line)
    if finished < (needed := max(runs, seeds)):
        return f"{finished} of {needed} runs" + (f", {diverged} diverged" if diverged else "")
    return "no number" if pd.isna(line[of]) else ""


def _so_far(check: Check, rows: tuple[str, ...], lines: Lines) -> tuple[bool | None, str]:
    """Say what the finished runs would decide, on full data or else on all; nothing if a cell lacks any.

    Cells are compared on the runs that all of a column's have.
    """
    begun = {cell: line for cell, line in lines.items() if not _lacking({**line, "seeds": 1}, 1, check.of)}
    for known, where in ((_on_full_data(begun), ""), (begun, ", on a part of the data,")):
        means = shared_means(known) if check.of == "mean" else {c: line["mean"] for c, line in known.items()}
        result = _finding(check, rows, {cell: {**known[cell], "mean": mean} for cell, mean in means.items()})
        if result.holds is not None:
            return result.holds, f"; so far{where} it {WORDS[result.holds]}: {result.detail}"
    return None, ""


def _on_full_data(lines: Lines) -> Lines:
    units = ((cell, line.get("data_state"), line.get("published_unit")) for cell, line in lines.items())
    return {cell: lines[cell] for cell, state, unit in units if not stands_in(state, unit)}


def _missing(missing: Mapping[Cell, str], needed: int) -> str:
    if not missing:
        return "the numbers don't decide it"
    (row, column), why = next(iter(missing.items()))
    return f"{len(missing)} of {needed} cells can't be used, such as {row}/{column}: {why}"


def shared_means(cells: Lines) -> dict[Cell, float]:
    """Return each cell's mean over the pairs of partition and seed that all given cells of its column have.

    A cell that is a change against a row can't be taken apart, so it is left out if it rests on other pairs
    too. Lines without ``values``, as those of a figure, keep their means, and so do those with diverged runs.
    """
    means = {cell: float(line["mean"]) for cell, line in cells.items() if ZEROS in line}
    rest = {cell: line for cell, line in cells.items() if cell not in means}
    for column in dict.fromkeys(column for _, column in rest):
        samples = {c: parse_samples(line.get("values")) for c, line in rest.items() if c[1] == column}
        shared = set.intersection(*(set(sample) for sample in samples.values()))
        for cell, sample in samples.items():
            if sample.keys() == shared:
                means[cell] = float(cells[cell]["mean"])
            elif shared and cells[cell].get("published_unit") != CHANGE:
                means[cell] = fmean(sample[pair] for pair in sorted(shared))
    return means
