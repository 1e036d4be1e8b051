"""The vocabulary of claims: small declarative checks on a table's numbers, each with its result.

A check counts in how many of its parts (columns, or rows where it looks along columns) its statement is
true, and holds where that share is reached. Parts without numbers leave it open, unless it holds or fails
whatever they turn out to be: one data set of nine is enough to refute a claim about all nine. Where one
method beats another, the other is not the best, whatever the rest turn out to be. Ties:
``beats`` and ``falls`` and ``rises`` need a strict difference, ``best`` lets equal means share a place.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from statistics import fmean, pstdev
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BeforeValidator, Field, NonNegativeFloat, PositiveFloat, model_validator

from fedcore.base.lazy import scipy
from fedcore.base.options import Options
from pipeline.catalogue.targets import Cell
from pipeline.reports.agreement import ROUNDING
from pipeline.reports.significance import ALPHA, DIGITS, Samples, holm, paired, parse_samples

Means = Mapping[Cell, Any]
SHOWN = 6


def _as_names(value: Any) -> Any:
    """Accept one name as a list of one name, and a whole number as its digits."""
    listed = value if isinstance(value, list | tuple) else [value]
    return [str(item) if isinstance(item, int) else item for item in listed]


Names = Annotated[tuple[str, ...], BeforeValidator(_as_names), Field(min_length=1)]
Share = Annotated[float, Field(gt=0, le=1)]


@dataclass(frozen=True)
class Judgement:
    """Whether a check holds, None while that is open, and the numbers that say so."""

    holds: bool | None
    detail: str


class Check(Options):
    """Base of all checks: ``columns`` are looked at; the statement must hold in ``in_share`` of the parts.

    ``methods``: the fields that name rows. ``of``: the number of a cell that is looked at, its mean, the
    standard deviation over runs, or in which share of the draws an inequality holds.
    """

    methods: ClassVar[tuple[str, ...]]
    columns: Names
    of: Literal["mean", "std", "holds"] = "mean"
    in_share: Share = 1.0

    def named(self) -> tuple[str, ...]:
        """Return the rows that the check names."""
        values = [getattr(self, name) or () for name in self.methods]
        return tuple(row for value in values for row in ([value] if isinstance(value, str) else value))

    def read(self, line: Mapping[Any, Any]) -> Any:
        """Return what the check looks at in a cell's line; a mean has the decimals that the table prints."""
        decimals = line.get("decimals") if self.of == "mean" else None
        return float(line[self.of]) if decimals is None else round(float(line[self.of]), decimals)

    @abstractmethod
    def _part(self, name: str, means: Means) -> tuple[bool | None, str]:
        """Return whether the statement is true of one part, None where its numbers don't say, and these."""

    def _known(self, name: str, means: Means) -> Self | None:
        """Return what the statement says of those rows alone that have numbers, if it implies that."""
        return None

    def _among(self, rows: Sequence[str], name: str, means: Means) -> tuple[str, ...]:
        return tuple(row for row in rows if (row, name) in means)

    def parts(self) -> tuple[str, ...]:
        """Return the names of the parts that are counted."""
        return self.columns

    def needs(self, part: str, rows: Sequence[str]) -> tuple[Cell, ...]:
        """Return the cells that must be there to judge one part, given the rows that the table has."""
        return tuple((row, part) for row in self.named())

    def judge(self, means: Means, rows: Sequence[str]) -> Judgement:
        """Judge the check on the means of the available cells, given the rows of the table."""
        parts, holding, failing = self.parts(), [], []
        for name in parts:
            complete = all(cell in means for cell in self.needs(name, rows))
            if check := self if complete else self._known(name, means):
                true, text = check._part(name, means)
                if true is False:
                    failing.append(text)
                elif true and complete:
                    holding.append(text)
        total, open_parts = len(parts), len(parts) - len(holding) - len(failing)
        enough = self.in_share * total - ROUNDING
        shown = failing or holding
        numbers = "; ".join(shown[:SHOWN]) + ("; ..." if len(shown) > SHOWN else "")
        required = f", asked for {self.in_share:.0%}" if self.in_share < 1 else ""
        unknown = f" ({open_parts} without a number)" if open_parts else ""
        label = "not where " if failing else ""
        holds = True if len(holding) >= enough else False if total - len(failing) < enough else None
        return Judgement(holds, f"true in {len(holding)} of {total}{unknown}{required}: {label}{numbers}")


class Beats(Check):
    """Each of ``row`` lies above every row of ``over``, by at least ``by_at_least`` if that is given."""

    kind: Literal["beats"]
    methods = ("row", "over")
    row: Names
    over: Names
    by_at_least: NonNegativeFloat = 0.0

    def _known(self, name: str, means: Means) -> Self | None:
        row, over = self._among(self.row, name, means), self._among(self.over, name, means)
        return self.model_copy(update={"row": row, "over": over}) if row and over else None

    def _part(self, name: str, means: Means) -> tuple[bool, str]:
        worst = min(self.row, key=lambda row: means[row, name])
        rival = max(self.over, key=lambda row: means[row, name])
        mine, theirs = means[worst, name], means[rival, name]
        who = "" if len(self.row) == 1 else f"{worst} "
        text = f"{name} {who}{_short(mine)} against {rival} {_short(theirs)}"
        return _exceeds(mine - theirs, self.by_at_least), text


class Best(Check):
    """The best of ``rows`` is at least as good as every row of ``against`` (all other rows unless given).

    ``base``: a number that it has to reach as well, such as 0 where cells are changes against a row left out.
    """

    kind: Literal["best"]
    methods = ("rows", "against")
    rows: Names
    against: Names | None = None
    smallest: bool = False
    base: float | None = None

    def needs(self, part: str, rows: Sequence[str]) -> tuple[Cell, ...]:
        """Return all cells of the column, or those of the listed rows."""
        compared = self.named() if self.against else dict.fromkeys((*self.rows, *rows))
        return tuple((row, part) for row in compared)

    def _known(self, name: str, means: Means) -> Self | None:
        against = self._among(self.against, name, means) if self.against else self.against
        complete = self._among(self.rows, name, means) == self.rows
        return self.model_copy(update={"against": against}) if complete and against != () else None

    def _part(self, name: str, means: Means) -> tuple[bool, str]:
        sign = -1 if self.smallest else 1
        rivals = self.against or tuple(row for row, key in means if key == name and row not in self.rows)
        best = max(self.rows, key=lambda row: sign * means[row, name])
        value = means[best, name]
        if not rivals:
            return True, f"{name} {best} {_short(value)}, alone"
        rival = max(rivals, key=lambda row: sign * means[row, name])
        goals = [means[rival, name], *([] if self.base is None else [self.base])]
        ahead = all(sign * (value - goal) >= -ROUNDING for goal in goals)
        return ahead, f"{name} {best} {_short(value)}, best other {rival} {_short(means[rival, name])}"


class Close(Check):
    """The largest and the smallest of ``rows``, and of ``base`` if given, are at most ``within`` apart.

    ``base``: a number that counts as one more row, such as 0 where cells are changes against a row left out.
    """

    kind: Literal["close"]
    methods = ("rows",)
    rows: Names
    within: PositiveFloat
    base: float | None = None

    def _known(self, name: str, means: Means) -> Self | None:
        rows = self._among(self.rows, name, means)
        apart = len(rows) > (1 if self.base is None else 0)
        return self.model_copy(update={"rows": rows}) if apart else None

    def _part(self, name: str, means: Means) -> tuple[bool, str]:
        values = [means[row, name] for row in self.rows] + ([] if self.base is None else [self.base])
        low, high = min(values), max(values)
        return high - low <= self.within + ROUNDING, f"{name} from {_short(low)} to {_short(high)}"


class Between(Check):
    """What is asked of each of ``row`` lies between ``at_least`` and ``at_most``; one may be left out.

    That is the cell's number; less that of ``minus``; divided by that of ``over``, or of ``over_column``; its
    place among the rows ``ranked``, 1 being the highest; or, ``from_printed``, its difference from the number
    that the paper prints, also in standard deviations of our runs. ``largest``: only the largest counts of
    what the columns give.
    """

    kind: Literal["between"]
    methods = ("row", "minus", "over", "ranked")
    row: Names
    minus: str | None = None
    over: str | None = None
    over_column: str | None = None
    ranked: Names | None = None
    from_printed: Literal["difference", "deviations"] | None = None
    largest: bool = False
    at_least: float | None = None
    at_most: float | None = None

    @model_validator(mode="after")
    def _given(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("neither at_least nor at_most is given, expected one of them or both")
        return self

    def read(self, line: Mapping[Any, Any]) -> Any:
        """Return the cell's number, or its difference from the printed one."""
        number = super().read(line)
        difference = number - float(line.get("published_mean", number))
        if self.from_printed == "deviations":
            return _ratio(difference, line["std"]) if difference else 0.0
        return difference if self.from_printed else number

    def parts(self) -> tuple[str, ...]:
        """Return the columns, or the first for all; of several rows, each row in each of them."""
        columns = self.columns[:1] if self.largest else self.columns
        parts = tuple(f"{row} {name}" for row in self.row for name in columns)
        return parts if len(self.row) > 1 else columns

    def needs(self, part: str, rows: Sequence[str]) -> tuple[Cell, ...]:
        """Return the cell, and those that it is compared with."""
        row, columns = self._cells(part)
        return tuple(dict.fromkeys(cell for column in columns for cell in self._compared(row, column)))

    def _compared(self, row: str, column: str) -> list[Cell]:
        others = [(name, column) for name in (self.minus, *(self.ranked or ())) if name]
        return [(row, column), *others, (self.over or row, self.over_column or column)]

    def _cells(self, part: str) -> tuple[str, tuple[str, ...]]:
        """Return the row and the columns that a part is about."""
        row, _, column = part.rpartition(" ")
        return row or self.row[0], self.columns if self.largest else (column,)

    def _known(self, name: str, means: Means) -> Self | None:
        row, columns = self._cells(name)
        columns = tuple(key for key in columns if {*self._compared(row, key)} <= means.keys())
        if not (self.largest and columns and self.at_most is not None):
            return None
        return self.model_copy(update={"columns": columns, "at_least": None})

    def _part(self, name: str, means: Means) -> tuple[bool | None, str]:
        row, columns = self._cells(name)
        values = {column: self._value((row, column), means) for column in columns}
        top = max(values, key=values.__getitem__)
        text = f"{row + ' ' if len(self.row) > 1 else ''}{top} {_short(values[top])}"
        if any(map(math.isnan, values.values())):
            return None, text
        high_enough = self.at_least is None or values[top] >= self.at_least - ROUNDING
        low_enough = self.at_most is None or values[top] <= self.at_most + ROUNDING
        return high_enough and low_enough, text

    def _value(self, cell: Cell, means: Means) -> float:
        row, column = cell
        value: float = means[cell] - (means[self.minus, column] if self.minus else 0.0)
        if self.over or self.over_column:
            value = _ratio(value, means[self.over or row, self.over_column or column])
        if self.ranked:
            value = 1.0 + sum(means[rival, column] > means[cell] + ROUNDING for rival in self.ranked)
        return value


class Trend(Check):
    """Each of ``rows`` goes down (``falls``) or up (``rises``) along ``columns`` in the order written.

    ``by_at_least``: how far from the first column to the last.
    ``changes_from``: the row of which the others' cells are changes in per cent; they are turned back.
    """

    kind: Literal["falls", "rises"]
    methods = ("rows",)
    rows: Names
    columns: Annotated[Names, Field(min_length=2)]
    by_at_least: NonNegativeFloat = 0.0
    changes_from: str | None = None

    def parts(self) -> tuple[str, ...]:
        """Return the rows: each is one part."""
        return self.rows

    def needs(self, part: str, rows: Sequence[str]) -> tuple[Cell, ...]:
        """Return the cells in all columns of the row, and of the one that it is a change of."""
        return tuple(product(dict.fromkeys((part, self.changes_from or part)), self.columns))

    def _known(self, name: str, means: Means) -> Self | None:
        rows = {name, self.changes_from or name}
        columns = tuple(column for column in self.columns if {*product(rows, (column,))} <= means.keys())
        known = {"columns": columns, "by_at_least": 0.0}
        return self.model_copy(update=known) if len(columns) > 1 else None

    def _part(self, name: str, means: Means) -> tuple[bool, str]:
        sign = -1 if self.kind == "falls" else 1
        values = [means[name, column] for column in self.columns]
        if self.changes_from not in {None, name}:
            bases = (means[str(self.changes_from), column] for column in self.columns)
            values = [base * (1 + value / 100) for base, value in zip(bases, values, strict=True)]
        steps = [sign * (after - before) for before, after in pairwise(values)]
        moved = sign * (values[-1] - values[0])
        steady = all(step > ROUNDING for step in steps)
        text = ", ".join(map(_short, values))
        return steady and _exceeds(moved, self.by_at_least), f"{name} {text}"


class GainLargestIn(Check):
    """The gain of ``row`` over ``over`` is larger in each of ``columns`` than in any of ``than``.

    Gains are differences, ``in_percent`` of ``over``; where that is left out, the cells are gains already.
    """

    kind: Literal["gain_largest_in"]
    methods = ("row", "over")
    row: str
    over: str | None = None
    in_percent: bool = False
    than: Names

    @model_validator(mode="after")
    def _of_a_base(self) -> Self:
        if self.in_percent and self.over is None:
            raise ValueError("in_percent: true without over, expected over")
        return self

    def needs(self, part: str, rows: Sequence[str]) -> tuple[Cell, ...]:
        """Return the cells of the column and of those that it is compared with."""
        return tuple(product(self.named(), (part, *self.than)))

    def _gain(self, column: str, means: Means) -> float:
        base: float = means[self.over, column] if self.over else 0.0
        gain: float = means[self.row, column] - base
        return 100 * _ratio(gain, abs(base)) if self.in_percent else gain

    def _part(self, name: str, means: Means) -> tuple[bool | None, str]:
        mine, others = self._gain(name, means), {column: self._gain(column, means) for column in self.than}
        rival = max(others, key=lambda column: others[column])
        open_still = any(math.isnan(mine - other) for other in others.values())
        text = f"{name} {mine:+.4g} against {rival} {others[rival]:+.4g}"
        return None if open_still else _exceeds(mine - others[rival]), text


class Significant(Check):
    """Each of ``row`` has a higher mean than each of ``over``, and a two-sided test gives p < .05.

    The test compares the runs that share partition and seed. Numbers without their runs, as papers print
    them, are compared by Student's t-test, with ``printed_runs`` runs each. ``holm``: p is corrected for all
    comparisons of the claim; both p are told. ``better``: false where the claim is that nothing is found.
    ``above``: in place of p, the mean difference over its deviation (divided by n) and the root of n must be
    above this, which numbers without their runs don't say.
    """

    kind: Literal["significant"]
    methods = ("row", "over")
    row: Names
    over: Names
    of: Literal["std"] = "std"
    test: Literal["t", "wilcoxon"] = "t"
    holm: bool = False
    better: bool = True
    above: float | None = None
    printed_runs: Annotated[int, Field(ge=2)]

    @model_validator(mode="after")
    def _one_test(self) -> Self:
        if self.above is not None and (self.holm or not self.better):
            raise ValueError("above: goes with neither holm nor better: false")
        return self

    def read(self, line: Mapping[Any, Any]) -> Any:
        """Return the runs' numbers by partition and seed, their mean and their deviation."""
        return parse_samples(line.get("values")), float(line["mean"]), float(line["std"])

    def needs(self, part: str, rows: Sequence[str]) -> tuple[Cell, ...]:
        """Return the cells of the column; those of all columns, where p is corrected for all."""
        columns = self.columns if self.holm else (part,)
        return tuple((row, column) for column in columns for row in self.named())

    def _part(self, name: str, means: Means) -> tuple[bool | None, str]:
        if self.above is not None:
            return self._over(self.above, name, means)
        pairs = [(row, over, column) for column in self.columns for row in self.row for over in self.over]
        tests = {" ".join(pair): self._test(means, *pair) for pair in pairs}
        plain = {key: p for key, (p, _) in tests.items()}
        corrected = holm(plain)
        keys = [" ".join(pair) for pair in pairs if pair[2] == name]
        seen = [tests[key][1] > 0 and (corrected if self.holm else plain)[key] < ALPHA for key in keys]
        worst = max(keys, key=plain.__getitem__)
        text = f"{worst}: {tests[worst][1]:+.3g}, p {plain[worst]:.2g}, by Holm {corrected[worst]:.2g}"
        return all(seen) if self.better else not any(seen), text

    def _over(self, least: float, name: str, means: Means) -> tuple[bool | None, str]:
        found: dict[str, float] = {}
        for row, over in product(self.row, self.over):
            gains = [round(gain, DIGITS) for gain in _differences(means[row, name][0], means[over, name][0])]
            if len(gains) < 2:
                return None, ""
            statistic = _ratio(fmean(gains), pstdev(gains) / math.sqrt(len(gains))) if any(gains) else 0.0
            found[f"{row} {over} {name}"] = statistic
        worst = min(found, key=found.__getitem__)
        return found[worst] > least, f"{worst}: {found[worst]:.3g}, asked for {least:g}"

    def _test(self, means: Means, row: str, over: str, column: str) -> tuple[float, float]:
        if not {(row, column), (over, column)} <= means.keys():
            return 1.0, 0.0
        (values, *ours), (rival_values, *theirs) = means[row, column], means[over, column]
        if values and rival_values:
            differences = _differences(values, rival_values)
            return paired(differences, self.test), fmean(differences or [0.0])
        n = self.printed_runs
        return float(scipy.stats.ttest_ind_from_stats(*ours, n, *theirs, n).pvalue), ours[0] - theirs[0]


CHECKS: Mapping[str, type[Check]] = {
    kind: check
    for check in Check.__subclasses__()
    for kind in get_args(check.model_fields["kind"].annotation)
}


def _differences(values: Samples, rival_values: Samples) -> list[float]:
    return [values[run] - rival_values[run] for run in values if run in rival_values]


def _short(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 9999.5 else f"{value:.0f}"


def _ratio(value: float, divisor: float) -> float:
    if divisor:
        return value / divisor
    return math.copysign(math.inf, value) if value else math.nan


def _exceeds(margin: float, least: float = 0.0) -> bool:
    return margin >= least - ROUNDING if least else margin > ROUNDING
