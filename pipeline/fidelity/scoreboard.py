"""The scoreboard: one line per paper and reading, with the published cells reproduced at paper scale.

Its picture shows how far each measured score lies from the published one, one row per table.
"""

from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

from fedcore.base.files import atomic, write_text
from fedcore.base.lazy import DataFrame, Figure, pd
from pipeline.claims.ledger import HOLDS, WORDS, ledger
from pipeline.claims.points import points as open_points
from pipeline.claims.readings import CLAIM, ENDING
from pipeline.fidelity.board import READINGS, SHORT, judged, ranked, read, split_reading
from pipeline.fidelity.board import board as board_of
from pipeline.papers import papers
from pipeline.reports import figures
from pipeline.reports.agreement import AGREES, DEVIATIONS, ON_A_PART, PERCENTAGES, POINTS, VERDICTS
from pipeline.reports.kept import SHORTER
from pipeline.reports.render import in_print, md_table
from pipeline.reports.results import REPRODUCTION, read_tidy
from pipeline.reports.style import GREEN, SKY_BLUE, VERMILION, YELLOW

SAME = 1 - 1e-9
KEYS = {"paper": "Paper", "reading": "Reading"}
CELLS = {
    "published": "Published cells",
    "measured": "Measured",
    "near": "Near",
    "in_part": "In part",
    "near_in_part": "Near, in part",
    "part_of_data": "On a part of the data",
    "mean_difference": "Mean absolute difference",
}
STATUSES = ("reproduced", "not reproduced", "held by a test", "untested")
ORDER = {
    "columns": "Columns compared",
    "same_best": "Same best method",
    "same_order": "Same order",
    "statements": "Statements",
    "claims": "Claims",
    **{status.replace(" ", "_"): status.capitalize() for status in STATUSES},
}
NAMES = {"paper": "text", **READINGS}
PICTURE, CLAIMS = "agreement", "claims_by_reading"
TICKS = (-50, -20, -10, -5, -2, -1, 0, 1, 2, 5, 10, 20, 50)
SPREAD, GOLDEN, LINEAR = 0.56, 0.618034, 2
GREY = "#8A8A8A"
# What a claim's kind is called in the legend, its colour, and its column in the answer.
KINDS = {
    "all": ("holds in every reading measured", GREEN, "Hold"),
    "holds": ("holds in the only one measured", "#8FD3BE", "Hold"),
    "some": ("holds in some, fails in others", YELLOW, "Differ by reading"),
    "fails": ("fails in the only one measured", "#F0B48F", "Fail"),
    "none": ("fails in every reading measured", VERMILION, "Fail"),
    "test": ("held by a test of the code", SKY_BLUE, "Hold"),
    "holds so far": ("holds with fewer runs or rows", "#B9C9C4", "Wait"),
    "fails so far": ("fails with fewer runs or rows", "#CDBFB6", "Wait"),
    "waits": ("no runs yet", "#DADADA", "Wait"),
    "untested": ("can't be tested", "white", "Not testable"),
}
OUTCOMES = {kind: outcome for kind, (_, _, outcome) in KINDS.items()}
# What a kind of cell is called in the legend, its colour and marker, and whether it is filled.
DOTS = {
    "near": ("near the published score", GREEN, "o", True),
    "far": ("not near", VERMILION, "^", True),
    "near, fewer seeds": ("near, with fewer seeds", GREEN, "o", False),
    "far, fewer seeds": ("not near, with fewer seeds", VERMILION, "^", False),
    ON_A_PART: ("on a part of the data: not judged", GREY, "s", True),
}
EXPLAINED = (
    f"Each mark is one cell of a paper's table. Near: within {POINTS:g} percentage point (grey band)\nor "
    f"{DEVIATIONS:g} published standard deviations. Axis: linear within ±{LINEAR:g} points, then logarithmic."
)


def scoreboard(folder: Path, names: Iterable[str] = ()) -> DataFrame:
    """Count what agrees in ``<folder>/<paper>/<target>.csv`` of runs at paper scale, of some or all papers.

    Returns:
        A line per paper and reading with columns as in ``KEYS``, ``CELLS`` and ``ORDER``. ``measured``:
        published cells that have all their runs on full data; ``near``: those that agree, see
        ``agreement.RULE``; ``in_part``, ``near_in_part``: the same for cells with fewer seeds than the
        paper's; ``part_of_data``: cells measured on a part of the data, which are not compared;
        ``mean_difference``: mean absolute difference of the measured scores, in points; ``columns``: those
        with two methods or more; ``same_best``, ``same_order``: of them, where the best method is the
        published one, and where the whole order is; the paper's statements, and its claims by verdict.

    It raises as ``board.read`` does.
    """
    board = board_of(REPRODUCTION, folder)
    of_reading = board.cells["target"].map(lambda target: split_reading(target)[1] or "paper")
    lines = []
    for paper, reading in product(names or papers(), NAMES):
        cells = board.cells[(board.cells["paper"] == paper) & (of_reading == reading)]
        if reading == "paper" or cells["verdict"].isin({*VERDICTS, SHORT, ON_A_PART}).any():
            lines.append(_line(cells, paper, reading, folder))
    return pd.DataFrame(lines)


def _line(cells: DataFrame, paper: str, reading: str, folder: Path) -> dict[str, object]:
    measured = cells[cells["verdict"].isin(VERDICTS)]
    short = cells[cells["verdict"] == SHORT]
    scores = measured[measured["unit"].isin(PERCENTAGES)]
    by_column = ranked(measured).groupby(["target", "column"])
    groups = [group for _, group in by_column if group["mean"].count() > 1]
    columns = [group for group in groups if group["tau"].notna().any()]
    verdicts = claims(paper, reading, folder)
    return {
        "paper": paper,
        "reading": reading,
        "published": len(cells),
        "measured": len(measured),
        "near": int((measured["verdict"] == AGREES).sum()),
        "in_part": len(short),
        "near_in_part": int(short["within_margin"].eq(True).sum()),
        "part_of_data": int((cells["verdict"] == ON_A_PART).sum()),
        "mean_difference": scores["difference"].abs().mean(),
        "columns": len(columns),
        "same_best": sum(_best(group, "mean") & _best(group, "published_mean") != set() for group in columns),
        "same_order": sum(bool((group["tau"] >= SAME).all()) for group in columns),
        "statements": verdicts["statement"].nunique(),
        "claims": len(verdicts),
        **{name.replace(" ", "_"): int((verdicts["verdict"] == name).sum()) for name in STATUSES},
    }


def _best(cells: DataFrame, name: str) -> set[str]:
    """Return the rows with the highest score, or with the fewest bytes."""
    value = cells[name].min() if cells["unit"].eq("bytes").any() else cells[name].max()
    return set(cells.loc[cells[name] == value, "row"])


def claims(paper: str, reading: str, folder: Path, scale: str = REPRODUCTION) -> DataFrame:
    """Judge a paper's claims on reports of one reading, those that it has; columns as the board's.

    ``folder`` holds ``<paper>/<target>.csv`` of runs at a scale. It raises as ``board.read`` does.
    """
    targets, selected = papers()[paper].targets, []
    for claim in ledger(paper):
        as_read = reading in {"paper", split_reading(claim.target)[1]}
        target = claim.target if as_read else f"{claim.target}_{reading}"
        if target in targets or (reading == "paper" and claim.check is None):
            selected.append(claim.model_copy(update={"target": target}))
    reports = read(sorted({(claim.paper, claim.target) for claim in selected}), folder, scale)
    return judged(selected, reports, scale)


def markdown(frame: DataFrame) -> str:
    """Return the scoreboard as two Markdown tables: of cells, and of orders and claims."""
    tables = []
    for headings in (CELLS, ORDER):
        names = [*KEYS.values(), *(f"{name}:" for name in headings.values())]
        shown = frame[[*headings]].map(in_print, form="{:.3g}")
        tables.append(md_table(names, frame[[*KEYS]].replace({"reading": NAMES}).join(shown).to_numpy()))
    return "\n".join(tables)


def answer(frame: DataFrame, kinds: DataFrame) -> str:
    """Return a line per paper as a Markdown table: the scoreboard's cells, and its claims by outcome."""
    names = [*dict.fromkeys(OUTCOMES.values())]
    counts = pd.crosstab(kinds["paper"], kinds["kind"].map(OUTCOMES))
    counts = counts.reindex(index=frame["paper"].unique(), columns=names, fill_value=0)
    lines = []
    for paper, group in frame.groupby("paper", sort=False):
        readings = group[(group["measured"] > 0) | (group["reading"] == "paper")].to_dict("records")
        near = (f"{NAMES[line['reading']]}: {line['near']} of {line['measured']}" for line in readings)
        numbers = (readings[0]["published"], "<br>".join(near), counts.loc[paper].sum(), *counts.loc[paper])
        lines.append((f"[{paper}](evidence/{paper}.md)", *numbers))
    heads = ("Paper", "Printed numbers:", "Near, of those measured", "Claims:")
    return md_table((*heads, *(f"{name}:" for name in names)), lines)


def points(folder: Path) -> DataFrame:
    """Return a line per measured score: ``paper``, ``target``, ``row``, ``column``, ``difference`` in points,
    and ``kind``, one of ``DOTS``; ``folder`` holds ``<paper>/<target>.csv`` of runs at the papers' own scale.
    """
    cells = board_of(REPRODUCTION, folder).cells
    measured = cells["verdict"].isin([*VERDICTS, SHORT, ON_A_PART])
    cells = cells[measured & cells["unit"].isin(PERCENTAGES) & cells["difference"].notna()]
    near = cells["within_margin"].eq(True).map({True: "near", False: "far"})
    kind = near.mask(cells["verdict"] == SHORT, near + ", fewer seeds")
    kind = kind.mask(cells["verdict"] == ON_A_PART, ON_A_PART)
    named = cells[["paper", "target", "row", "column"]]
    return named.assign(difference=cells["difference"].round(6), kind=kind).reset_index(drop=True)


def figure_of(measured: DataFrame) -> Figure:
    """Draw them: tables from top to bottom, differences from left to right, linear up to two points."""
    tables = measured.groupby(["paper", "target"], sort=False)
    offsets = (tables.cumcount() * GOLDEN) % 1 - 0.5
    heights = tables.ngroup() + SPREAD * offsets
    labels = [_label(str(paper), str(target)) for (paper, target), _ in tables]
    figure = figures.framed(1.0 + 0.27 * len(labels))
    axes = figure.subplots()
    axes.set_xscale("symlog", linthresh=LINEAR, linscale=1.2)
    axes.axvspan(-POINTS, POINTS, color="0.92", linewidth=0)
    axes.axvline(0, color="0.6", linewidth=0.6)
    for kind, (label, colour, marker, filled) in DOTS.items():
        of_kind = measured["kind"] == kind
        if of_kind.any():
            x, y, face = measured.loc[of_kind, "difference"], heights[of_kind], colour if filled else "none"
            look: Any = {"marker": marker, "facecolors": face, "edgecolors": colour, "linewidths": 0.8}
            axes.scatter(x, y, s=12, label=label, **look)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)
    axes.set_xticks(TICKS, [*map(in_print, TICKS)])
    axes.minorticks_off()
    axes.grid(visible=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("← measured below the paper · percentage points · measured above the paper →")
    if labels:
        figure.legend(loc="outside upper center", ncols=3, title=f"{len(measured):,} cells. {EXPLAINED}")
    return figure


def write_picture(folder: Path) -> list[Path]:
    """Write the pictures into the folder of kept results, and their numbers beside them."""
    shown = {PICTURE: (points, figure_of), CLAIMS: (claims_by_reading, figure_of_claims)}
    for name, (find, draw) in shown.items():
        frame = find(folder)
        write_text(folder / f"{name}.csv", frame.to_csv(index=False))
        with atomic(folder / f"{name}.svg") as handle, figures.styled(columns=2):
            figures.save(draw(frame), {"svg": handle})
    return [folder / f"{name}.{ending}" for name in shown for ending in ("csv", "svg")]


def claims_by_reading(folder: Path, names: Iterable[str] = ()) -> DataFrame:
    """Return a line per claim: ``paper``, ``claim``, the number of ``readings`` under which kept runs decide
    it, the ``share`` of them in which it holds, and its ``kind``, one of ``KINDS``.

    A kept report of readings that has the claim counts its combinations in place of the named readings; what
    the tables of these say, which may have more seeds, comes before what their combinations say. Where
    nothing at the papers' scale says anything, runs at a shorter scale do, if ``folder`` has kept some.
    """
    lines = []
    for paper in names or papers():
        combined: dict[str, dict[str, bool]] = {}
        for path in sorted((folder / paper).glob(f"*{ENDING}.csv")):
            combined |= _combined(paper, read_tidy(path))
        sources = product(((folder, REPRODUCTION), (folder / SHORTER, SHORTER)), NAMES)
        frames = (claims(paper, reading, *source).assign(reading=reading) for source, reading in sources)
        verdicts = pd.concat(frames)
        for claim, group in verdicts.groupby("id", sort=False):
            at_scale = group[group["scale"] == REPRODUCTION].set_index("reading")
            answers = at_scale["verdict"].map(HOLDS).dropna().to_dict()
            if known := combined.get(str(claim)):
                answers = {name: answers.get(name, holds) for name, holds in known.items()}
            share = round(float(pd.Series(answers, dtype=float).mean()), 6)
            lines.append((paper, claim, len(answers), share, _kind(len(answers), share, group)))
    return pd.DataFrame(lines, columns=["paper", "claim", "readings", "share", "kind"])


def _combined(paper: str, report: DataFrame) -> dict[str, dict[str, bool]]:
    """Return for each claim of a report of readings in which it holds; the text's and the code's by name."""
    known = open_points(paper)
    keys = [str(key) for key in report if key in known]
    named = {"released": [known[key].code for key in keys], "paper": [known[key].paper for key in keys]}
    names = {"-".join(map("_".join, zip(keys, taken, strict=True))): name for name, taken in named.items()}
    answers = {}
    decided = report.loc[report["row"] == CLAIM, ["column", "in", "out"]].astype(object).fillna("")
    for line in decided.to_dict("records"):
        sides = ((line[side].split(), side == "in") for side in ("in", "out"))
        answers[line["column"]] = {names.get(name, name): holds for side, holds in sides for name in side}
    return answers


def _kind(count: int, share: float, verdicts: DataFrame) -> str:
    if count > 1:
        return "all" if share == 1 else "some" if share else "none"
    if count:
        return "holds" if share else "fails"
    shown = verdicts["so_far"].combine_first(verdicts["verdict"].map(HOLDS)).dropna()
    begun = f"{WORDS[bool(shown.iloc[0])]} so far" if len(shown) else "waits"
    return {"held by a test": "test", "untested": "untested"}.get(verdicts["verdict"].iloc[0], begun)


def figure_of_claims(claims_by_kind: DataFrame) -> Figure:
    """Draw how many claims of each paper are of each kind, as one bar a paper."""
    counts = claims_by_kind.groupby(["paper", "kind"]).size().unstack(fill_value=0)
    counts = counts.reindex(columns=[*KINDS], fill_value=0).rename(columns=lambda kind: KINDS[kind][0])
    figure = figures.framed(1.4 + 0.3 * len(counts))
    axes = figure.subplots()
    look: Any = {"color": [colour for _, colour, _ in KINDS.values()], "edgecolor": "0.6", "width": 0.7}
    counts.plot.barh(stacked=True, legend=False, ax=axes, **look)
    bars: Any = axes.containers
    for container in bars:
        axes.bar_label(container, label_type="center", fmt=lambda width: f"{width:.0f}" if width > 1 else "")
        for bar in (bar for bar in container if bar.get_width() == 1):
            text: Any = {"ha": "center", "va": "bottom", "fontsize": figures.SMALL}
            axes.text(bar.get_x() + 0.5, bar.get_y(), "1", **text)
    axes.set(xlabel="claims of the paper", ylabel="")
    axes.invert_yaxis()
    axes.grid(visible=False)
    figure.legend(loc="outside upper center", ncols=3)
    return figure


def _label(paper: str, target: str) -> str:
    plain, reading = split_reading(target)
    published = f"{paper} {papers()[paper].targets[plain].published}"
    return f"{published}, {NAMES[reading]}" if reading else published
