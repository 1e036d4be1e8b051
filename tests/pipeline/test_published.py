"""The published numbers: every cell of every table is there, under names that the library knows."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from fedcore.base.errors import DataError
from fedcore.base.registry import plugins
from pipeline.claims.ledger import PAPERS, ledger
from pipeline.papers import catalogue_of, papers, published
from pipeline.reports.results import Published, published_cells
from pipeline.reports.tables import Table

COLUMNS = ["target", "row", "column", "mean", "std", "unit", "mark", "note"]
COUNTS = {
    "rfedavg": {"table1": 48, "table2": 48, "table3": 8, "fig10": 2},
    "fedavgr": {"table1": 36, "table2": 45, "table3": 30, "fig_mmd": 4},
    "comfed": {"table4": 320},
    "fedomw": {"table1": 24, "table2": 12, "table3": 18, "table4": 24, "table5": 24, "theorem2": 2},
    "radfed": {"table1": 35, "table2": 21, "table3": 90},
    "mcmahan2017": {"table1_2nn": 16, "table1_cnn": 19, "table2_mnist": 18, "table2_shakespeare": 12},
}
DASHES = {("mcmahan2017", "table1_2nn"): 4, ("mcmahan2017", "table1_cnn"): 1}
OF_WORK = {"mcmahan2017"}
UNITS = {
    "percent",
    "relative_percent",
    "f1_percent",
    "auc_percent",
    "score",
    "count",
    "ratio",
    "bytes",
    "mmd",
    "nats",
    "rounds",
}
SIZES = ["training_size", "testing_size", "classes"]
ABLATIONS = ("_non", "_w", "_p", "_phi", "_mmd")
COVERTYPE = {"covcls", "covfeat", "covcls_g", "covcls_l", "covfeat_g", "covfeat_l"}
STATISTICS = {("fedavgr", "table1"), ("fedomw", "table1"), ("radfed", "table1"), ("radfed", "table2")}


@cache
def frame(paper: str) -> pd.DataFrame:
    return pd.read_csv(published(paper), dtype={"row": str, "column": str}, keep_default_na=True)


def cell(paper: str, target: str, row: str, column: str) -> Published:
    return published_cells(published(paper), target)[row, column]


def test_every_paper_with_numbers_is_counted_here() -> None:
    with_numbers = [path for path in PAPERS.glob("*/published.csv") if path.read_text().count("\n") > 1]
    assert {path.parent.name for path in with_numbers} == set(COUNTS)


@pytest.mark.parametrize("paper", COUNTS)
def test_each_table_has_all_its_cells_once(paper: str) -> None:
    cells = frame(paper)
    assert list(cells.columns) == COLUMNS
    assert cells.groupby("target").size().to_dict() == COUNTS[paper]
    assert not cells.duplicated(["target", "row", "column"]).any()
    assert cells["mean"].notna().all()


@pytest.mark.parametrize("paper", COUNTS)
def test_tables_are_full_rectangles(paper: str) -> None:
    for target, cells in frame(paper).groupby("target"):
        dashes = DASHES.get((paper, str(target)), 0)
        assert len(cells) + dashes == cells["row"].nunique() * cells["column"].nunique()


def test_a_number_that_is_none_is_refused_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / "published.csv"
    file.write_text("target,row,column,mean,std\ntable1,fedavg,mnist,ninety,\n")
    with pytest.raises(DataError, match=rf"^{file}: no table: could not convert string to float: 'ninety'"):
        published_cells(file, "table1")


@pytest.mark.parametrize("paper", COUNTS)
def test_units_and_ranges(paper: str) -> None:
    cells = frame(paper)
    assert set(cells["unit"]) <= UNITS
    share = cells[cells["unit"].isin({"percent", "f1_percent", "auc_percent", "score"})]
    assert share[~share["mean"].between(10, 100)].to_dict("records") == []
    assert cells["std"].dropna().between(0.001, 11).all()
    relative = cells[cells["unit"] == "relative_percent"]
    assert relative["mean"].between(-2, 6).all()
    assert set(cells["mark"].dropna()) <= {"bold", "underlined"}


def is_algorithm(name: str) -> bool:
    algorithms = plugins("algorithm")
    bare = [name.removesuffix(ending) for ending in ABLATIONS if name.endswith(ending)]
    return name in algorithms or any(stem in algorithms for stem in bare)


def is_data_set(name: str) -> bool:
    name = name.partition("-")[0]
    return name in plugins("data") or name in COVERTYPE or name in {"mnist_1", "mnist_01", "avg"}


@pytest.mark.parametrize("paper", sorted({*COUNTS} - OF_WORK))
def test_rows_and_columns_are_names_of_the_library(paper: str) -> None:
    for target, cells in frame(paper).groupby("target"):
        if target == "theorem2":
            continue
        expected = is_data_set if (paper, target) in STATISTICS else is_algorithm
        assert [row for row in cells["row"].unique() if not expected(row)] == []
        if expected is is_data_set or (paper, target) in {("rfedavg", "table3"), ("rfedavg", "fig10")}:
            continue
        numbers = (paper, target) in {("comfed", "table4"), ("fedavgr", "fig_mmd")}
        good = str.isdigit if numbers else is_data_set
        assert [column for column in cells["column"].unique() if not good(column)] == []


def test_printed_numbers_are_about_cells_of_their_tables() -> None:
    planned = catalogue_of(PAPERS.parents[1] / "params.yaml", "paper")
    for paper in papers():
        targets = planned.papers[paper].targets
        for target, cells in frame(paper).groupby("target"):
            if isinstance(targets[str(target)], Table):
                named = {*zip(cells["row"], cells["column"], strict=True)}
                assert named - {*planned.cells(paper, str(target))} == set(), f"{paper}/{target}"


def test_ablations_are_explained() -> None:
    endings = set()
    for paper in {*COUNTS} - OF_WORK:
        cells = frame(paper)
        unknown = cells[cells["row"].map(lambda row: is_algorithm(row) and row not in plugins("algorithm"))]
        assert unknown["note"].notna().all()
        endings |= {ending for ending in ABLATIONS if unknown["row"].str.endswith(ending).any()}
    assert endings == set(ABLATIONS)


@pytest.mark.parametrize(
    ("paper", "target", "row", "column", "mean", "std"),
    [
        ("rfedavg", "table1", "fedavg", "mnist-sim0", 97.07, 0.34),
        ("rfedavg", "table1", "fedavg", "sent140-iid", 75.75, 0.26),
        ("rfedavg", "table1", "rfedavg_plus", "mnist-sim0", 98.02, 0.03),
        ("rfedavg", "table1", "rfedavg_plus", "sent140-iid", 75.69, 0.34),
        ("rfedavg", "table1", "qfedavg", "sent140-iid", 60.07, 5.36),
        ("rfedavg", "table2", "fedavg", "mnist-sim0", 94.38, 0.26),
        ("rfedavg", "table2", "qfedavg", "mnist-sim0", 74.42, 10.17),
        ("rfedavg", "table2", "rfedavg_plus", "sent140-iid", 77.74, 0.16),
        ("rfedavg", "table3", "rfedavg", "cross_silo-cnn", 56160, None),
        ("rfedavg", "table3", "rfedavg_plus", "cross_device-rnn", 1784, None),
        ("fedavgr", "table1", "a1a", "classes", 2, None),
        ("fedavgr", "table1", "mnist", "features", 784, None),
        ("fedavgr", "table2", "oneshot", "a1a", 76.86, 0.30),
        ("fedavgr", "table2", "fedavgr", "svmguide1", 91.77, 1.01),
        ("fedavgr", "table2", "fedavgr", "mnist", 97.34, 0.06),
        ("fedavgr", "table3", "fedavgr_non", "svmguide1", 89.05, None),
        ("fedavgr", "table3", "fedavgr", "synthetic", 96.23, None),
        ("fedavgr", "fig_mmd", "fedavgr", "0", 0.766, None),
        ("fedavgr", "fig_mmd", "fedavgr", "100", 0.019, None),
        ("comfed", "table4", "fedavg", "100", 33.1, None),
        ("comfed", "table4", "fedavg", "2000", 75.4, None),
        ("comfed", "table4", "prox_yogi", "300", 59.3, None),
        ("comfed", "table4", "scaf_yogi", "100", 43.2, None),
        ("comfed", "table4", "scaf_yogi", "2000", 74.3, None),
        ("fedomw", "table1", "letter", "classes", 26, None),
        ("fedomw", "table2", "dl_u", "usps", 91.53, 0.25),
        ("fedomw", "table2", "dl_opt", "mnist", 96.29, 0.13),
        ("fedomw", "table3", "fedavg", "usps", 90.82, 0.26),
        ("fedomw", "table3", "fedomw", "letter", 63.57, 0.46),
        ("fedomw", "table4", "dl_opt_non", "usps", 91.61, None),
        ("fedomw", "table4", "dl_opt", "mnist", 96.40, None),
        ("fedomw", "table5", "fedomw_w", "satimage", 79.65, None),
        ("fedomw", "table5", "fedomw", "mnist", 96.39, None),
        ("radfed", "table1", "cifar10", "min", 2, None),
        ("radfed", "table1", "eicu", "c_score", 0.06, None),
        ("radfed", "table2", "shakespeare", "radfed_i-gamma", 0.8, None),
        ("radfed", "table3", "fedavg", "cifar10", 82.88, None),
        ("radfed", "table3", "fedadapt", "covfeat_l", -1.50, None),
        ("radfed", "table3", "radfed_m", "avg", 1.71, None),
        ("mcmahan2017", "table1_2nn", "c0.0", "iid-bfull", 1455, None),
        ("mcmahan2017", "table1_2nn", "c1.0", "shards-b10", 380, None),
        ("mcmahan2017", "table1_cnn", "c0.5", "shards-bfull", 1067, None),
        ("mcmahan2017", "table1_cnn", "c1.0", "shards-b10", 97, None),
        ("mcmahan2017", "table2_mnist", "e1-bfull", "iid", 626, None),
        ("mcmahan2017", "table2_mnist", "e20-b10", "shards", 173, None),
        ("mcmahan2017", "table2_shakespeare", "e5-b10", "roles", 41, None),
    ],
)
def test_corners(paper: str, target: str, row: str, column: str, mean: float, std: float | None) -> None:
    expected = (mean, std or float("nan"))
    assert cell(paper, target, row, column)[:2] == pytest.approx(expected, nan_ok=True)


def test_marks_that_the_texts_show() -> None:
    fedomw = frame("fedomw")
    bold = fedomw[fedomw["mark"] == "bold"]
    assert set(bold["row"]) == {"dl_opt", "fedomw"}
    assert len(bold) == 4 * 6
    fedavgr = frame("fedavgr")
    underlined = fedavgr[fedavgr["mark"] == "underlined"]
    assert sorted(zip(underlined["row"], underlined["column"], strict=True)) == [
        ("fedavg", "a1a"),
        ("fedavg", "satimage"),
        ("fedavg", "splice"),
        ("fedprox", "a1a"),
        ("fedprox", "splice"),
    ]


@pytest.mark.parametrize("target", ["table2", "table3", "table4", "table5"])
def test_what_is_bold_is_the_largest(target: str) -> None:
    cells = frame("fedomw").query("target == @target")
    best = cells.loc[cells.groupby("column")["mean"].idxmax()]
    assert (best["mark"] == "bold").all()


def test_radfed_averages_are_changes_of_the_mean_score() -> None:
    """The AVG row follows from the other rows, which a wrong digit anywhere would break."""
    table = frame("radfed").query("target == 'table3'").pivot(index="row", columns="column", values="mean")
    printed = table.pop("avg")
    scores = table.loc["fedavg"]
    assert scores.mean() == pytest.approx(printed["fedavg"], abs=0.006)
    changed = table.drop(index="fedavg")
    average = 100 * ((scores * (1 + changed / 100)).mean(axis=1) / scores.mean() - 1)
    assert (average - printed.drop("fedavg")).abs().max() < 0.012


def test_comfed_curves_are_best_so_far() -> None:
    """Each row can only rise, as the best model so far is reported."""
    table = frame("comfed").pivot(index="row", columns="column", values="mean")
    table = table[[str(column) for column in sorted(map(int, table.columns))]]
    assert list(table.columns) == [str(100 * k) for k in range(1, 21)]
    assert (table.diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)


def test_delta_sizes_are_proportional_to_the_clients_of_a_round() -> None:
    sizes = frame("rfedavg").query("target == 'table3'").set_index(["row", "column"])["mean"]
    for regime, clients in (("cross_silo", 20), ("cross_device", 100)):
        for model in ("cnn", "rnn"):
            key = f"{regime}-{model}"
            assert sizes["rfedavg", key] == clients * sizes["rfedavg_plus", key]


def test_one_data_set_has_one_size_in_all_papers() -> None:
    sizes: dict[tuple[str, str], float] = {}
    for paper in ("fedavgr", "fedomw"):
        cells = frame(paper).query(
            "target == 'table1' and column in ['training_size', 'testing_size', 'classes']"
        )
        for row, column, mean in zip(cells["row"], cells["column"], cells["mean"], strict=True):
            assert sizes.setdefault((row, column), mean) == mean
    assert len(sizes) == 10 * 3


@pytest.mark.parametrize("paper", COUNTS)
def test_the_readme_names_every_target_and_no_other(paper: str) -> None:
    text = (PAPERS / paper / "README.md").read_text().split("## Targets")[1].split("\n## ")[0]
    named = re.findall(r"^\| ([a-z0-9_, ]+) \|", text, flags=re.MULTILINE)
    listed = [name for names in named for part in names.split(", ") for name in _span(part)]
    assert sorted(listed) == sorted(papers()[paper].targets)
    assert {*frame(paper)["target"], *(claim.target for claim in ledger(paper) if claim.check)} <= {*listed}


def _span(names: str) -> list[str]:
    """Write ``fig2 to fig4`` out."""
    first, _, last = names.partition(" to ")
    if not last:
        return [first]
    return [f"fig{number}" for number in range(int(first[3:]), int(last[3:]) + 1)]
