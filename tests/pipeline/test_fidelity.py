"""The fidelity board, on constructed reports where every verdict is known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pytest

from fedcore.base.errors import DataError
from pipeline.claims.checks import Beats
from pipeline.claims.ledger import Claim
from pipeline.fidelity.board import Board, board, by_table, compare, judged, printed_cells, ranked, read
from pipeline.fidelity.scoreboard import _best
from pipeline.papers import papers, published
from pipeline.reports.style import Labels
from pipeline.site.board import write

NAN = math.nan
PRINTED = """target,row,column,mean,std,unit,mark,note
table1,a,x,90.0,0.2,percent,,
table1,b,x,80.0,3,percent,,
table1,c,x,70.0,,percent,,
table1,a,y,60.0,,percent,,
table2,a,size,0.25,,ratio,,
table2,b,size,0.5,,ratio,,
table3,fedavg,x,82.0,,percent,,
table3,m,x,2.0,,relative_percent,,
table3,k,x,-3.0,,relative_percent,,
table4,a,x,50.0,,percent,,
"""


def report(
    *cells: tuple[str, str, float, float, int, int], scale: str = "paper", **more: str
) -> pd.DataFrame:
    frame = pd.DataFrame(list(cells), columns=["row", "column", "mean", "std", "n", "seeds"])
    return frame.assign(scale=scale, **{"variant": "paper", **more})


@pytest.fixture
def printed(tmp_path: Path) -> pd.DataFrame:
    path = tmp_path / "published.csv"
    path.write_text(PRINTED, encoding="utf-8")
    return printed_cells("p", path)


def reports(scale: str = "paper") -> dict[tuple[str, str], pd.DataFrame]:
    return {
        ("p", "table1"): report(
            ("a", "x", 91.0, 0.1, 5, 5),  # a point off: near, but five runs are sure that it is not 90
            ("b", "x", 86.1, 5.0, 5, 5),  # just over two published deviations
            ("c", "x", 70.0, 1.0, 5, 6),
            scale=scale,
        ),
        ("p", "table1_released"): report(
            ("a", "x", 70.0, 1.0, 3, 3), ("b", "x", 80.0, 1.0, 3, 3), scale=scale
        ),
        ("p", "table2"): report(
            ("a", "size", 0.2549, NAN, 1, 1), ("b", "size", 0.56, NAN, 1, 1), scale=scale
        ),
        ("p", "table3"): report(
            ("fedavg", "x", 75.0, 1.0, 3, 3),
            ("m", "x", 1.5, 1.0, 3, 3),
            ("k", "x", -9.0, 1.0, 3, 3),
            scale=scale,
        ),
    }


def column_of(cells: pd.DataFrame, name: str, target: str, column: str = "x") -> dict[str, object]:
    rows = cells[(cells["target"] == target) & (cells["column"] == column)]
    return dict(zip(rows["row"], rows[name], strict=True))


def test_each_published_cell_has_its_verdict(printed: pd.DataFrame) -> None:
    cells = compare(printed, reports(), "paper")
    assert column_of(cells, "verdict", "table1") == {"a": "agrees", "b": "differs", "c": "not enough runs"}
    assert column_of(cells, "verdict", "table1", "y") == {"a": "no such cell"}
    assert column_of(cells, "verdict", "table4") == {"a": "not built"}
    assert column_of(cells, "within_interval", "table1") == {"a": False, "b": True, "c": True}
    assert column_of(cells, "difference", "table1")["b"] == pytest.approx(6.1)


def test_a_cell_with_a_diverged_run_is_measured_and_not_near(printed: pd.DataFrame) -> None:
    """A run that hasn't ended leaves it open; each that diverged counts as one that has."""
    cells = {"a": (NAN, 0, 3, 3), "b": (80.0, 2, 3, 1), "c": (NAN, 0, 3, 2)}
    frame = report(*((row, "x", mean, 1.0, n, seeds) for row, (mean, n, seeds, _) in cells.items()))
    frame["diverged"] = [diverged for *_, diverged in cells.values()]
    found = compare(printed, {("p", "table1"): frame.assign(verdict=[NAN, "agrees", NAN])}, "paper")
    assert column_of(found, "verdict", "table1") == {"a": "differs", "b": "differs", "c": "not enough runs"}
    assert column_of(found, "within_margin", "table1") == dict.fromkeys("abc", False)


def test_a_ratio_has_no_point_to_spare(printed: pd.DataFrame) -> None:
    """0.25 is printed, so 0.2549 rounds to something near; 0.56 is not 0.5, though far less than 1 off."""
    cells = compare(printed, reports(), "paper")
    assert column_of(cells, "verdict", "table2", "size") == {"a": "agrees", "b": "differs"}


def test_released_is_a_variant_beside_the_same_cells(printed: pd.DataFrame) -> None:
    cells = compare(printed, reports(), "paper")
    released = cells[cells["target"] == "table1_released"]
    assert set(released["beside"]) == {"table1"}
    assert set(released["variant"]) == {"released"}
    assert column_of(cells, "verdict", "table1_released") == {"a": "differs", "b": "agrees"}
    assert set(released["tau"]) == {-1.0}
    assert set(cells[cells["target"] == "table1"]["variant"]) == {"paper", ""}


def test_a_released_row_is_a_variant_too(printed: pd.DataFrame) -> None:
    rows = report(("a", "x", 90.0, 1.0, 3, 3), ("a_released", "x", 50.0, 1.0, 3, 3))
    cells = compare(printed, {("p", "table1"): rows}, "paper")
    assert column_of(cells, "mean", "table1")["a"] == 90
    assert column_of(cells, "mean", "table1_released") == {"a": 50}


def test_only_a_released_report_leaves_the_own_one_unbuilt(printed: pd.DataFrame) -> None:
    released = ("p", "table1_released")
    cells = compare(printed, {released: reports()[released]}, "paper")
    assert set(column_of(cells, "verdict", "table1").values()) == {"not built"}


def test_the_order_of_changes_counts_the_base_as_no_change(printed: pd.DataFrame) -> None:
    """Published m > fedavg > k, and ours the same; m below nought turns one of three pairs."""
    assert set(column_of(compare(printed, reports(), "paper"), "tau", "table3").values()) == {1.0}
    worse = reports()
    worse["p", "table3"].loc[1, "mean"] = 0.5
    near = column_of(compare(printed, worse, "paper"), "tau", "table3")
    assert set(near.values()) == {1.0}, "a small gain is still more than the baseline's own change"
    worse["p", "table3"].loc[1, "mean"] = -1.0
    tau = column_of(compare(printed, worse, "paper"), "tau", "table3")
    assert tau == pytest.approx(dict.fromkeys(("fedavg", "m", "k"), 1 / 3))


def test_reduced_scale_is_never_judged(printed: pd.DataFrame) -> None:
    cells = compare(printed, reports("demo"), "demo")
    assert set(cells["verdict"]) == {"not tested at demo scale", "no such cell", "not built"}


def test_no_comparison_where_the_report_makes_none(printed: pd.DataFrame) -> None:
    other = report(("a", "x", 90.0, 1.0, 3, 3), verdict=NAN)  # type: ignore[arg-type]
    cells = compare(printed, {("p", "table1"): other}, "paper")
    assert column_of(cells, "verdict", "table1")["a"] == "not comparable"
    line = by_table(cells).set_index("target").loc["table1"]
    assert (line["compared"], line["judged"]) == (1, 0), "a number of ours that nothing is said of"
    assert pd.isna(line["within_interval"])


@pytest.mark.parametrize(("unit", "expected"), [("percent", "on a part of the data"), ("bytes", "agrees")])
def test_a_cell_on_a_part_of_the_data_is_not_compared(
    printed: pd.DataFrame, unit: str, expected: str
) -> None:
    part = report(("a", "x", 90.0, 1.0, 3, 3), ("b", "x", 85.0, 1.0, 3, 3), published_unit=unit)
    cells = compare(printed, {("p", "table1"): part.assign(data_state=["subset", "real subset"])}, "paper")
    verdicts = column_of(cells, "verdict", "table1")
    assert verdicts == {"a": expected, "b": expected, "c": "no such cell"}
    assert cells["within_margin"].notna().any() == (expected == "agrees")


def test_a_table_has_one_line(printed: pd.DataFrame) -> None:
    tables = by_table(compare(printed, reports(), "paper")).set_index("target")
    assert list(tables.index) == ["table1", "table2", "table3", "table4", "table1_released"]
    first = tables.loc["table1"]
    assert (first["cells"], first["compared"]) == (4, 3)
    assert (first["near"], first["judged"]) == (1, 2), "a cell with too few seeds is not judged"
    assert first["within_interval"] == pytest.approx(2 / 3)
    assert tables.loc["table4", "compared"] == 0


def claim(**more: object) -> Claim:
    check = Beats(kind="beats", row=("a",), over=("b",), columns=("x",))
    values: Mapping[str, object] = {"id": "a-wins", "text": "a beats b", "source": "Table 1", "check": check}
    return Claim(paper="p", target="table1", **{**values, **more})  # type: ignore[arg-type]


def verdict_of(own: Mapping[tuple[str, str], pd.DataFrame], scale: str = "paper") -> tuple[str, str]:
    line = judged([claim()], own, scale).iloc[0]
    return line["verdict"], line["detail"]


def test_a_report_that_names_no_variant_is_the_papers(printed: pd.DataFrame) -> None:
    bare = report(("a", "x", 90.0, 0.1, 3, 3)).drop(columns="variant")
    cells = compare(printed, {("p", "table1"): bare}, "paper").set_index(["target", "row", "column"])
    assert cells.loc[("table1", "a", "x"), "variant"] == "paper"
    assert cells.loc[("table1", "b", "x"), "variant"] == ""


def test_names_that_look_like_numbers_stay_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "p" / "table1.csv"
    path.parent.mkdir()
    path.write_text("target,row,column,mean,std,unit\ntable1,010,05,90,,percent\n")
    printed = printed_cells("p", path)
    assert printed[["row", "column", "unit", "paper"]].to_numpy().tolist() == [["010", "05", "percent", "p"]]
    assert printed["published_mean"].dtype == printed["published_std"].dtype == "float64"
    frame = report(("010", "05", 91.0, 0.1, 3, 3))
    frame.to_csv(path, index=False)
    frames = read([("p", "table1"), ("p", "none")], tmp_path, "paper")
    assert list(frames) == [("p", "table1")]
    assert column_of(compare(printed, frames, "paper"), "verdict", "table1", "05") == {"010": "agrees"}


def test_a_report_says_its_own_variant_and_may_count_runs_as_asked_for(printed: pd.DataFrame) -> None:
    frame = report(("a", "x", 90.0, 0.1, 3, 3), ("b_released", "x", 80.0, 0.1, 3, 3), variant="cohort")
    frame = frame.drop(columns=["seeds", "std"])
    cells = compare(printed, {("p", "table1"): frame}, "paper").set_index(["target", "row", "column"])
    assert [cells[name]["table1", "a", "x"] for name in ("variant", "n", "seeds")] == ["cohort", 3.0, 3.0]
    assert cells.loc[("table1_released", "b", "x"), "variant"] == "released"
    assert cells["std"].isna().all()


def test_a_figures_lines_are_no_cells_of_a_table(printed: pd.DataFrame) -> None:
    curve = report(("a", "x", 90.0, 0.1, 3, 3)).assign(round=5)
    cells = compare(printed, {("p", "table1"): curve}, "paper")
    assert column_of(cells, "verdict", "table1")["a"] == "no such cell"


def test_reports_of_another_reading_are_read_too(tmp_path: Path) -> None:
    cell = pd.read_csv(published("rfedavg"), dtype=str).iloc[0]
    (tmp_path / "rfedavg").mkdir()
    frame = report((cell["row"], cell["column"], 1.0, NAN, 1, 1))
    frame.to_csv(tmp_path / "rfedavg" / f"{cell['target']}_released.csv", index=False)
    cells = board("paper", tmp_path).cells
    seen = cells[cells["mean"].notna()]
    assert seen[["target", "variant", "beside"]].to_numpy().tolist() == [
        [f"{cell['target']}_released", "released", cell["target"]]
    ]


def test_a_claim_with_flipped_numbers_is_not_reproduced() -> None:
    right = report(("a", "x", 91.0, 0.1, 3, 3), ("b", "x", 86.0, 0.1, 3, 3))
    flipped = right.assign(mean=right["mean"].to_numpy()[::-1])
    assert verdict_of({("p", "table1"): right})[0] == "reproduced"
    assert verdict_of({("p", "table1"): flipped})[0] == "not reproduced"
    assert verdict_of({("p", "table1"): flipped}, "demo")[0] == "not tested at this scale"
    assert verdict_of({("p", "table1"): right.assign(n=2)})[0] == "not enough runs"
    assert verdict_of({}) == ("not enough runs", "reports/p/table1.csv: not built")
    assert judged([claim()], {}, "paper")["so_far"].isna().all()
    assert verdict_of({}, "demo")[0] == "not tested at this scale"


def test_a_report_of_another_scale_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    reports("quick")["p", "table1"].to_csv(tmp_path / "p/table1.csv", index=False)
    with pytest.raises(DataError, match=r"table1\.csv: made at quick scale, expected demo"):
        read([("p", "table1")], tmp_path, "demo")


def test_a_report_with_a_word_for_a_number_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    reports("demo")["p", "table1"].astype({"mean": str}).assign(mean="abc").to_csv(tmp_path / "p/table1.csv")
    with pytest.raises(DataError, match=r"table1\.csv: no table: could not convert string to float: 'abc'"):
        read([("p", "table1")], tmp_path, "demo")


def test_without_reports_every_published_cell_is_listed_as_missing(tmp_path: Path) -> None:
    result = board("demo", tmp_path)
    printed = {paper: len(pd.read_csv(published(paper))) for paper in papers()}
    assert result.cells.groupby("paper").size().to_dict() == printed
    assert set(result.cells["verdict"]) == {"not built"}
    assert not {"reproduced", "not reproduced"} & {*result.claims["verdict"]}


def test_published_numbers_as_results_agree_everywhere(tmp_path: Path) -> None:
    """A perfect reproduction: each table's order is the published one, and no cell differs."""
    for paper in papers():
        numbers = pd.read_csv(published(paper), dtype={"row": str, "column": str})
        (tmp_path / paper).mkdir()
        for target, rows in numbers.groupby("target"):
            rows.assign(n=3, seeds=3, scale="paper").to_csv(tmp_path / paper / f"{target}.csv", index=False)
    result = board("paper", tmp_path)
    assert set(result.cells["verdict"]) == {"agrees"}
    assert result.tables["near"].equals(result.tables["judged"])
    assert set(result.tables["tau"].dropna().round(12)) == {1.0}
    kept = result.claims[result.claims["target"].isin(result.cells["target"])]
    in_print = {"reproduced": "holds", "not reproduced": "fails"}
    same = kept[kept["verdict"].isin(in_print) & kept["printed"].isin(in_print.values())]
    assert len(same) > 50
    assert list(same["verdict"].map(in_print)) == list(same["printed"])


def written(board: Board, folder: Path, names: Mapping[tuple[str, str], Labels] = {}) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in write(board, names, folder)]


def test_the_page_escapes_and_warns(printed: pd.DataFrame, tmp_path: Path) -> None:
    cells = compare(printed, reports("demo"), "demo")
    cells.loc[0, "column"] = "<script>alert(1)</script>"
    claims = judged([claim(text="a > b & <b>c</b> | d")], reports("demo"), "demo")
    result = Board("demo", cells, by_table(cells), claims)
    *_, text, page = written(result, tmp_path)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "a &gt; b &amp; &lt;b&gt;c&lt;/b&gt; | d" in page
    assert "src=" not in page
    assert "://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "Demo scale: not a reproduction. At a reduced scale no cell is judged" in page
    assert r"&lt;b&gt;c&lt;/b&gt; \| d" in text
    assert "**Demo scale: not a reproduction." in text
    assert written(result, tmp_path)[-2:] == [text, page]


def test_no_watermark_at_paper_scale(printed: pd.DataFrame, tmp_path: Path) -> None:
    cells = compare(printed, reports(), "paper")
    result = Board("paper", cells, by_table(cells), judged([claim()], reports(), "paper"))
    page = written(result, tmp_path)[-1]
    assert "not a reproduction" not in page
    assert page.count('role="group" aria-label=') == page.count("<table") == 1 + 1 + 5


def test_the_page_shows_labels_where_they_are_known(printed: pd.DataFrame, tmp_path: Path) -> None:
    cells = compare(printed, reports(), "paper")
    result = Board("paper", cells, by_table(cells), judged((), reports(), "paper"))
    names = {("p", "table1"): ({"a": "Method <A>"}, {"x": "Set X 10%"})}
    page = written(result, tmp_path, names)[-1]
    assert page.count("Method &lt;A&gt;</th>") == 3  # twice in table1, once where the released code is read
    assert page.count(">Set X 10%</td>") == 5
    assert "Set X 10%" not in written(result, tmp_path)[-1]


def test_the_best_method_of_changes_is_that_of_the_largest_change() -> None:
    """A base row is printed as a score, which is larger than all changes against it."""
    cells = pd.DataFrame(
        {
            "paper": "p",
            "target": "t",
            "column": "x",
            "row": ["base", "up", "down"],
            "unit": ["percent", "relative_percent", "relative_percent"],
            "mean": [82.0, -3.0, -5.0],
            "published_mean": [82.9, 3.0, -5.0],
        }
    )
    assert _best(ranked(cells), "mean") == {"base"}
    assert _best(ranked(cells), "published_mean") == {"up"}
    assert _best(ranked(cells.assign(unit="bytes")), "mean") == {"down"}
