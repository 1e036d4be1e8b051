"""The scoreboard: one line per paper and reading, with the published cells reproduced at paper scale."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fedcore.base.lazy import pd
from pipeline.fidelity.board import READINGS, SHORT, Board, judged, read, split_reading
from pipeline.fidelity.board import board as board_of
from pipeline.fidelity.claims import ledger
from pipeline.papers import papers
from pipeline.reports.agreement import AGREES, DIFFERS, ON_STAND_IN, PERCENTAGES
from pipeline.reports.render import md_table, number
from pipeline.reports.results import REPRODUCTION

SAME = 1 - 1e-9
KEYS = {"paper": "Paper", "reading": "Reading"}
CELLS = {
    "published": "Published cells",
    "measured": "Measured",
    "near": "Near",
    "in_part": "In part",
    "near_in_part": "Near, in part",
    "on_stand_in": "On stand-ins",
    "mean_difference": "Mean difference",
}
ORDER = {
    "columns": "Columns compared",
    "same_best": "Same best method",
    "same_order": "Same order",
    "claims": "Claims",
    "reproduced": "Reproduced",
    "not_reproduced": "Not reproduced",
}


def scoreboard(folder: Path, names: Iterable[str] = ()) -> pd.DataFrame:
    """Count what agrees, from reports at paper scale.

    Args:
        folder: holds ``<paper>/<target>.csv``.
        names: the papers; all by default.

    Returns:
        A line per paper and reading with columns as in ``KEYS``, ``CELLS`` and ``ORDER``. ``measured``:
        published cells that have all their runs on full data; ``near``: those that agree, see
        ``agreement.RULE``; ``in_part``, ``near_in_part``: the same for cells with fewer seeds than the
        paper's; ``on_stand_in``: cells measured on a part of the data, which are not compared;
        ``mean_difference``: mean absolute difference of the measured scores, in points; ``columns``: those
        with two methods or more; ``same_best``, ``same_order``: of them, where the best method is the
        published one, and where the whole order is; the claims that could be tested.

    Raises:
        DataError: a report is of another scale.
    """
    board = board_of(REPRODUCTION, folder)
    readings = ("paper", *READINGS)
    lines = [_line(board, name, own, folder) for name in names or papers() for own in readings]
    frame = pd.DataFrame(lines)
    return frame[(frame["reading"] == "paper") | begun(frame)].reset_index(drop=True)


def begun(frame: pd.DataFrame) -> pd.Series[bool]:
    """Say of each line of a scoreboard whether any of its cells was measured."""
    return frame[["measured", "in_part", "on_stand_in"]].sum(axis=1) > 0


def _line(board: Board, paper: str, reading: str, folder: Path) -> dict[str, object]:
    cells = board.cells[board.cells["paper"] == paper]
    cells = cells[[(split_reading(target)[1] or "paper") == reading for target in cells["target"]]]
    done = cells[cells["verdict"].isin([AGREES, DIFFERS])]
    short = cells[cells["verdict"] == SHORT]
    scores = done[done["unit"].isin(PERCENTAGES)]
    columns = [own for _, own in done.groupby(["target", "column"]) if own["tau"].notna().any()]
    verdicts = claims(paper, reading, folder)["verdict"]
    return {
        "paper": paper,
        "reading": reading,
        "published": len(cells),
        "measured": len(done),
        "near": int((done["verdict"] == AGREES).sum()),
        "in_part": len(short),
        "near_in_part": int(short["within_margin"].eq(True).sum()),
        "on_stand_in": int((cells["verdict"] == ON_STAND_IN).sum()),
        "mean_difference": scores["difference"].abs().mean(),
        "columns": len(columns),
        "same_best": sum(_best(own, "mean") & _best(own, "published_mean") != set() for own in columns),
        "same_order": sum(bool((own["tau"] >= SAME).all()) for own in columns),
        "claims": len(verdicts),
        "reproduced": int((verdicts == "reproduced").sum()),
        "not_reproduced": int((verdicts == "not reproduced").sum()),
    }


def _best(own: pd.DataFrame, name: str) -> set[str]:
    return set(own.loc[own[name] == own[name].max(), "row"])


def claims(paper: str, reading: str, folder: Path) -> pd.DataFrame:
    """Judge a paper's claims on reports of one reading, those that it has; columns as the board's.

    Raises:
        DataError: a report is of another scale.
    """
    known, own = papers()[paper].targets, []
    for claim in ledger(paper):
        as_read = reading in {"paper", split_reading(claim.target)[1]}
        target = claim.target if as_read else f"{claim.target}_{reading}"
        if target in known:
            own.append(claim.model_copy(update={"target": target}))
    reports = read(sorted({(claim.paper, claim.target) for claim in own}), folder, REPRODUCTION)
    return judged(own, reports, REPRODUCTION)


def markdown(frame: pd.DataFrame) -> str:
    """Return the scoreboard as two Markdown tables: of cells, and of orders and claims."""
    lines = frame.to_dict("records")
    return "\n".join(
        md_table(
            [*KEYS.values(), *(f"{name}:" for name in headings.values())],
            (
                [*(line[key] for key in KEYS), *(number(line[key], "{:.3g}") for key in headings)]
                for line in lines
            ),
        )
        for headings in (CELLS, ORDER)
    )
