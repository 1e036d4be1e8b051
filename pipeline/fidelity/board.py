"""Published and measured cells, the order of the methods, and the claims: reports in, frames out.

A report whose name ends in one of ``READINGS``, like ``table1_released``, is another reading of the paper's
own table, and so is such a row: both are compared with the same published cells, as a table of their own.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fedcore.base.errors import DataError
from fedcore.base.lazy import DataFrame, pd
from pipeline.claims.ledger import Claim, Status, Verdict, cells_of, judge, ledger
from pipeline.papers import papers, published
from pipeline.reports import agreement
from pipeline.reports.grid import missed
from pipeline.reports.results import read_tidy, untested

READINGS = {  # by the ending of their names: what they are called in print
    "released": "authors' code",
    "by_client": "draw per client",
    "cohort": "deltas of the round",
    "symmetric": "pixels -1 to 1",
}
KEY = ["paper", "target", "row", "column"]
PUBLISHED, MEASURED = ["published_mean", "published_std"], ["mean", "std", "n", "seeds", "diverged"]
ANSWERS = ["within_margin", "within_interval"]
CELLS = ["paper", "target", "beside", "variant", "row", "column", "unit", *PUBLISHED, *MEASURED]
CELLS += ["difference", *ANSWERS, "methods", "tau", "scale", "verdict"]
TABLES = ["paper", "target", "variant", "cells", "compared", "near", "judged", "within_interval", "tau"]
CLAIMS = ["paper", "id", "statement", "text", "source", "target"]
CLAIMS += ["scale", "verdict", "detail", "so_far", "printed"]
RANKED = agreement.PERCENTAGES | {"bytes"}
NOT_BUILT, NO_CELL, NO_RUN = "not built", "no such cell", "no finished run"
SHORT: Final = "not enough runs"
NOT_JUDGED = "not comparable"
Reports = Mapping[tuple[str, str], DataFrame]


@dataclass(frozen=True)
class Board:
    """What the board shows at a scale: lines of published cells and tables, each by variant, and of claims.

    Columns are as in ``CELLS``, ``TABLES`` and ``CLAIMS``. Of tables, ``near`` of the ``judged`` cells lie
    within the margin (a cell is judged once it has all its seeds), ``within_interval`` is a share, and
    ``tau`` is the mean over columns.
    """

    scale: str
    cells: DataFrame
    tables: DataFrame
    claims: DataFrame


def board(scale: str, folder: Path = Path("reports")) -> Board:
    """Compare the reports of a folder with what the papers print and claim; raises as ``read`` does."""
    claims = [claim for paper in papers() for claim in ledger(paper)]
    printed = pd.concat([printed_cells(paper, published(paper)) for paper in papers()], ignore_index=True)
    names = {*printed[["paper", "target"]].itertuples(index=False, name=None)}
    names |= {(paper, f"{target}_{reading}") for paper, target in names for reading in READINGS}
    names |= {(claim.paper, claim.target) for claim in claims}
    reports = read(sorted(names), folder, scale)
    cells = compare(printed, reports, scale)
    return Board(scale, cells, by_table(cells), judged(claims, reports, scale))


def read(names: Iterable[tuple[str, str]], folder: Path, scale: str) -> Reports:
    """Read those of the named (paper, target) reports that exist; DataError if one has another scale."""
    reports = {}
    for paper, target in names:
        path = folder / paper / f"{target}.csv"
        if not path.exists():
            continue
        frame = read_tidy(path, {"mean": float, "std": float})
        scales = set(frame["scale"]) if "scale" in frame else {scale}
        if others := sorted(map(str, scales - {scale})):
            raise DataError(f"{path}: made at {others[0]} scale, expected {scale}; build it again")
        reports[paper, target] = frame
    return reports


def printed_cells(paper: str, path: Path) -> DataFrame:
    """Return a paper's published cells."""
    frame = read_tidy(path, {"mean": float, "std": float})
    frame = frame.rename(columns={"mean": "published_mean", "std": "published_std"}).assign(paper=paper)
    return frame[[*KEY, "unit", *PUBLISHED]]


def compare(printed: DataFrame, reports: Reports, scale: str) -> DataFrame:
    """Return every published cell, see ``printed_cells``, with the measured one, if there is one.

    ``reports`` are tidy ones by (paper, target). Cells are judged at paper scale alone.
    """
    measured = ours(reports)
    first = printed.assign(beside=printed["target"])
    variants = [first.assign(target=first["target"] + f"_{reading}") for reading in READINGS]
    cells = pd.concat([first, *(variant.merge(measured[KEY], on=KEY) for variant in variants)])
    cells = cells.sort_values("paper", kind="stable")
    frame = cells.merge(measured, on=KEY, how="left").astype(dict.fromkeys(MEASURED, "float64"))
    frame["variant"] = frame["variant"].fillna("")
    frame["difference"] = frame["mean"] - frame["published_mean"]
    comparable = frame["comparable"].eq(True)
    near = agreement.within_margin(frame.rename(columns={"unit": "published_unit"}))
    frame["within_margin"] = near.mask(frame["unscored"] > 0, False).where(comparable)
    frame["within_interval"] = agreement.within_interval(frame).where(comparable)
    frame["built"] = (frame["paper"] + "/" + frame["beside"]).isin(map("/".join, reports))
    frame["scale"] = scale
    frame["verdict"] = [_verdict(line) for line in frame.to_dict("records")]
    return frame.merge(agreement.ordering(ranked(frame)), on=agreement.COLUMN, how="left")[CELLS]


def ours(reports: Reports) -> DataFrame:
    """Return our cells of all tables as one frame, with whether the report itself compares them."""
    frames = [_tidy(*name, frame) for name, frame in reports.items() if {"mean", "row"} <= {*frame}]
    columns = [*KEY, *MEASURED, "unscored", "variant", "comparable", "part_of_data"]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)


def ranked(cells: DataFrame) -> DataFrame:
    """Return the cells of columns whose rows are methods.

    Where a column gives changes against one row, that row's own change is 0.
    """
    compared = cells[cells["unit"].isin(RANKED)].copy()
    change = compared["unit"].eq(agreement.CHANGE)
    of_changes = change.groupby([compared[key] for key in agreement.COLUMN]).transform("any")
    for name in ("mean", "published_mean"):
        compared[name] = compared[name].mask(of_changes & ~change & compared[name].notna(), 0.0)
    return compared


def by_table(cells: DataFrame) -> DataFrame:
    """Return a line for each table and variant; see ``Board``."""
    keys = ["paper", "target"]
    known = cells[cells["published_mean"].notna()].astype({"within_interval": "Float64"})
    verdicts = known["verdict"]
    known = known.assign(near=verdicts.eq(agreement.AGREES), judged=verdicts.isin(agreement.VERDICTS))
    table = known.groupby(keys, sort=False).agg(
        variant=("variant", "max"),
        cells=("row", "size"),
        compared=("mean", "count"),
        near=("near", "sum"),
        judged=("judged", "sum"),
        within_interval=("within_interval", "mean"),
    )
    tau = cells.drop_duplicates([*keys, "column"]).groupby(keys)["tau"].mean()
    kinds = {"near": int, "judged": int, "within_interval": float}
    return table.join(tau).reset_index().astype(kinds)[TABLES]


def judged(claims: Iterable[Claim], reports: Reports, scale: str) -> DataFrame:
    """Return a line for each claim, with its verdict and the numbers behind it."""
    lines = []
    cells = {
        name: cells_of(frame) for name, frame in reports.items() if {"row", "column", "mean", "n"} <= {*frame}
    }
    for claim in claims:
        target_cells = cells.get((claim.paper, claim.target))
        if target_cells is not None or claim.check is None:
            verdict = judge(claim, target_cells or {}, scale)
        else:
            status: Status = SHORT if scale in claim.scales else "not tested at this scale"
            file = f"reports/{claim.paper}/{claim.target}.csv"
            verdict = Verdict(status, f"{file}: {NOT_BUILT}")
        lines.append({**dict(claim), **vars(verdict), "scale": scale, "verdict": verdict.status})
    return pd.DataFrame(lines, columns=CLAIMS)


def split_reading(name: str) -> tuple[str, str]:
    """Return the name of a report or row in the text's reading, and which of ``READINGS`` it is, or ""."""
    reading = next((reading for reading in READINGS if name.endswith(f"_{reading}")), "")
    return (name.removesuffix(f"_{reading}"), reading) if reading else (name, "")


def _tidy(paper: str, target: str, frame: DataFrame) -> DataFrame:
    columns = ["row", "column", *MEASURED, "variant", "verdict", "data_state", "published_unit"]
    cells = (frame if "round" not in frame else frame.iloc[:0]).reindex(columns=columns)
    plain, report_reading = split_reading(target)
    rows = [split_reading(row) for row in cells["row"]]
    reading = pd.Series([report_reading or row_reading for _, row_reading in rows], cells.index, object)
    states = zip(cells["data_state"], cells["published_unit"], strict=True)
    partial = pd.Series([agreement.stands_in(*state) for state in states], cells.index, bool)
    diverged = cells["diverged"].fillna(0)
    unscored = diverged + missed(frame).reindex(cells.index)
    judges = (cells["verdict"].notna() & cells["verdict"].ne("")) | ("verdict" not in frame) | (unscored > 0)
    return cells.astype({"mean": float, "std": float, "variant": object}).assign(
        paper=paper,
        target=(plain + "_" + reading).where(reading != "", plain),
        row=[row for row, _ in rows],
        seeds=cells["seeds"].fillna(cells["n"]),
        diverged=diverged,
        unscored=unscored,
        variant=lambda frame: frame["variant"].fillna("paper").mask(reading != "", reading),
        comparable=judges & ~partial,
        part_of_data=judges & partial,
    )


def _verdict(line: Mapping[Hashable, Any]) -> str:
    if pd.isna(line["n"]):
        return NO_CELL if line["built"] else NOT_BUILT
    if pd.isna(line["mean"]) and not line["unscored"]:
        return NO_RUN
    if words := untested(line["scale"]):
        return words
    if line["part_of_data"] is True:
        return agreement.ON_A_PART
    if line["n"] + line["unscored"] < line["seeds"]:
        return SHORT
    if not line["comparable"]:
        return NOT_JUDGED
    return agreement.AGREES if line["within_margin"] else agreement.DIFFERS
