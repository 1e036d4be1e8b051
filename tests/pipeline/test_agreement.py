"""Agreement with published numbers: margins, confidence intervals and orderings, by hand-worked tables."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretended import one_line, summary
from project import PLUGGED, seal

from fedcore.algorithms import example
from fedcore.base.files import canonical_json, sha256_text
from pipeline.catalogue.targets import PlannedRun
from pipeline.fidelity import board as board_module
from pipeline.fidelity import scoreboard as scoreboard_module
from pipeline.papers import papers
from pipeline.reports.agreement import (
    RULE,
    Agreement,
    interval,
    ordering,
    stands_in,
    within_interval,
    within_margin,
)
from pipeline.reports.kept import REFERENCE
from pipeline.reports.results import read
from pipeline.reports.tables import Table, tidy
from pipeline.site import board as site_board

NAN = math.nan


def table(*cells: tuple[str, str, float, float, int, float, float]) -> pd.DataFrame:
    names = ["row", "column", "mean", "std", "n", "published_mean", "published_std"]
    return pd.DataFrame(list(cells), columns=names).assign(paper="p", target="t")


def answers(series: pd.Series) -> list[bool | None]:
    return [None if pd.isna(answer) else bool(answer) for answer in series]


def test_numbers_on_a_part_of_the_data_stand_in_unless_they_are_the_same_on_all() -> None:
    assert stands_in("real subset", "percent")
    assert stands_in("subset")
    assert not stands_in("subset", "bytes")
    for state in ("real", "", None, NAN, "subsets"):
        assert not stands_in(state, "percent")


def test_the_margin_is_the_larger_of_a_point_and_two_deviations() -> None:
    frame = table(
        ("a", "x", 90.0, 0.1, 3, 91.0, 0.1),  # exactly one point
        ("b", "x", 90.0, 0.1, 3, 91.01, 0.1),
        ("c", "x", 90.0, 0.1, 3, 94.0, 2.0),  # exactly two deviations
        ("d", "x", 90.0, 0.1, 3, 94.1, 2.0),
        ("e", "x", 90.0, 0.1, 3, 90.9, NAN),
        ("f", "x", NAN, NAN, 0, 90.9, NAN),
        ("g", "x", 90.0, 0.1, 3, NAN, NAN),
    )
    assert answers(within_margin(frame)) == [True, False, True, False, True, None, None]


@pytest.mark.parametrize(
    ("published", "std", "unit", "last", "beyond", "rule"),
    [
        (90.0, NAN, "percent", 91.0, 91.001, "1 point"),
        (90.0, 0.5, "auc_percent", 89.0, 88.999, "1 point"),
        (2.0, NAN, "relative_percent", 1.0, 0.999, "1 point"),
        (90.0, 0.51, "percent", 91.02, 91.021, "2 published sd"),
        (90.0, 3.0, "f1_percent", 84.0, 83.999, "2 published sd"),
        (100.0, NAN, "bytes", 105.0, 105.001, "5% of the published mean"),
        (100.0, 0.0, "bytes", 95.0, 94.999, "5% of the published mean"),
        (-2.0, NAN, "nats", -1.9, -1.899, "5% of the published mean"),
        (1000.0, 10.0, "bytes", 980.0, 979.999, "2 published sd"),
        (0.0, NAN, "count", 0.0, 0.001, "5% of the published mean"),
    ],
)
def test_near_ends_exactly_at_the_margin(
    published: float, std: float, unit: str, last: float, beyond: float, rule: str
) -> None:
    near, far = Agreement(last, published, std, unit), Agreement(beyond, published, std, unit)
    assert (near.near, near.verdict, near.margin[1]) == (True, "agrees", rule)
    assert (far.near, far.verdict, far.margin[1]) == (False, "differs", rule)
    assert near.margin[0] == pytest.approx(abs(last - published))


def test_a_missing_number_neither_agrees_nor_differs() -> None:
    for missing in (Agreement(NAN, 90.0), Agreement(90.0, NAN)):
        assert (missing.near, missing.verdict) == (None, "")
    assert Agreement(90.0, NAN).margin[1] == ""


@pytest.mark.parametrize(
    ("ours", "verdict", "kind"), [(104.0, "agrees", "near"), (106.0, "differs", "above")]
)
def test_tables_board_and_site_give_one_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: float, verdict: str, kind: str
) -> None:
    """100 bytes are printed: one cell goes from the table's csv to the board, the scoreboard and the site."""
    printed = tmp_path / "published.csv"
    printed.write_text("target,row,column,mean,std,unit\ntable3,rfedavg,cnn,100,,bytes\n", encoding="utf-8")
    table = papers()["rfedavg"].targets["table3"]
    assert isinstance(table, Table)
    table = replace(table, measure=lambda facts, column: ours)
    run = PlannedRun(
        "rfedavg",
        "paper",
        "s",
        "mnist",
        "rfedavg",
        "m",
        0,
        {"variant": "paper", **PLUGGED},
        "p",
        recipe=example("fedavg"),
    )
    (tmp_path / run.folder).mkdir(parents=True)
    (tmp_path / run.folder / "summary.json").write_text(
        json.dumps({"spec_sha256": sha256_text(canonical_json(run.spec)), "final": {}})
    )
    seal(tmp_path / run.folder, run.spec)
    frame = tidy("rfedavg", "table3", table, read({("rfedavg", "cnn"): [run]}, tmp_path), printed)
    for folder in (tmp_path / "reports", tmp_path / REFERENCE):
        (folder / "rfedavg").mkdir(parents=True)
        frame.to_csv(folder / "rfedavg" / "table3.csv", index=False)
    for module in (board_module, scoreboard_module):
        monkeypatch.setattr(module, "papers", lambda: {"rfedavg": papers()["rfedavg"]})
    monkeypatch.setattr(board_module, "published", lambda paper: printed)
    shown = SimpleNamespace(targets=[SimpleNamespace(paper="rfedavg")], reference=[])
    [[site_cell]] = site_board.page(shown, tmp_path)["cells"].values()  # type: ignore[arg-type]
    board = board_module.board("paper", tmp_path / "reports")
    scores = scoreboard_module.scoreboard(tmp_path / "reports")
    assert list(frame["verdict"]) == [verdict]
    assert list(board.cells["verdict"]) == [verdict]
    assert list(board.cells["within_margin"]) == [verdict == "agrees"]
    assert (site_cell["verdict"], site_cell["distance"].kind) == (verdict, kind)
    assert (scores["measured"].sum(), scores["near"].sum()) == (1, int(verdict == "agrees"))


def test_the_handbook_states_the_rule() -> None:
    text = " ".join(Path("docs/statistics.md").read_text(encoding="utf-8").split())
    assert f"is *near* the published mean if it lies {RULE}." in text


def test_the_interval_is_student_s() -> None:
    """Five runs: 2.776445 = t(.975, 4), so half the width is 2.776445 / sqrt(5) deviations."""
    frame = table(("a", "x", 90.0, 1.0, 5, 91.24, NAN), ("a", "y", 90.0, 1.0, 5, 91.25, NAN))
    bounds = interval(frame)
    assert bounds["high"].iloc[0] == pytest.approx(90 + 2.7764451052 / math.sqrt(5), abs=1e-8)
    assert bounds["low"].iloc[0] == pytest.approx(90 - 2.7764451052 / math.sqrt(5), abs=1e-8)
    assert answers(within_interval(frame)) == [True, False]
    assert answers(within_interval(frame, confidence=0.5)) == [False, False]


def test_fewer_than_five_runs_have_no_interval() -> None:
    frame = table(("a", "x", 90.0, 1.0, 4, 90.0, 0.1), ("b", "x", NAN, NAN, 0, 90.0, 0.1))
    assert interval(frame).isna().all(axis=None)
    assert answers(within_interval(frame)) == [None, None]


def test_runs_that_agree_exactly_have_a_point_as_interval() -> None:
    frame = table(("a", "x", 90.0, 0.0, 5, 90.0, NAN), ("a", "y", 90.0, 0.0, 5, 90.1, NAN))
    assert answers(within_interval(frame)) == [True, False]


def test_tau_counts_pairs_in_the_same_order() -> None:
    frame = table(
        *[(row, "same", mean, 0.1, 3, mean + 5, NAN) for row, mean in zip("abcd", (1, 2, 3, 4), strict=True)],
        *[(row, "turned", mean, 0.1, 3, -mean, NAN) for row, mean in zip("abcd", (1, 2, 3, 4), strict=True)],
        ("a", "one-swap", 1.0, 0.1, 3, 2.0, NAN),
        ("b", "one-swap", 2.0, 0.1, 3, 1.0, NAN),
        ("c", "one-swap", 3.0, 0.1, 3, 3.0, NAN),
    )
    orders = ordering(frame).set_index("column")
    assert orders.loc["same", "tau"] == pytest.approx(1)
    assert orders.loc["turned", "tau"] == pytest.approx(-1)
    assert orders.loc["one-swap", "tau"] == pytest.approx(1 / 3)
    assert list(orders["methods"]) == [4, 4, 3]


def test_tau_with_ties_is_tau_b() -> None:
    """Two methods tie in print: 2 concordant pairs of 3, tau-b = 2 / sqrt(3 * 2)."""
    frame = table(
        ("a", "x", 1.0, 0.1, 3, 1.0, NAN),
        ("b", "x", 2.0, 0.1, 3, 2.0, NAN),
        ("c", "x", 3.0, 0.1, 3, 2.0, NAN),
    )
    assert ordering(frame)["tau"].iloc[0] == pytest.approx(2 / math.sqrt(6))


def test_tau_needs_two_different_methods() -> None:
    frame = table(
        ("a", "lone", 1.0, 0.1, 3, 1.0, NAN),
        ("b", "lone", NAN, NAN, 0, 2.0, NAN),
        ("a", "level", 1.0, 0.1, 3, 1.0, NAN),
        ("b", "level", 1.0, 0.1, 3, 2.0, NAN),
    )
    orders = ordering(frame)
    assert orders["tau"].isna().all()
    assert list(orders["methods"]) == [1, 2]


@given(st.lists(st.floats(10, 90), min_size=2, max_size=6, unique=True), st.floats(0.1, 3), st.floats(-5, 5))
def test_tau_does_not_see_shift_or_scale(means: list[float], scale: float, shift: float) -> None:
    means = [round(mean, 3) for mean in means]
    lines = [(f"m{i}", "x", scale * mean + shift, 0.1, 3, mean, NAN) for i, mean in enumerate(means)]
    tau = ordering(table(*lines))["tau"].iloc[0]
    assert math.isnan(tau) == (len(set(means)) == 1)
    if len(set(means)) == len(means):
        assert tau == pytest.approx(1)


def test_summary_counts_what_can_be_asked() -> None:
    first = table(
        ("a", "x", 90.0, 1.0, 5, 90.5, 0.1),  # in both
        ("b", "x", 80.0, 0.1, 5, 80.8, 0.1),  # margin only: the interval is narrow
        ("a", "y", 70.0, 5.0, 5, 75.0, 0.1),  # interval only
        ("b", "y", 60.0, NAN, 1, 65.0, 0.1),  # neither asked nor near
        ("c", "x", NAN, NAN, 0, 50.0, 0.1),  # no run
        ("d", "x", 40.0, 0.1, 3, NAN, NAN),  # not published
    )
    second = table(("a", "x", NAN, NAN, 0, 1.0, NAN)).assign(target="u")
    by_target = summary(pd.concat([first, second], ignore_index=True)).set_index("target")
    t = by_target.loc["t"]
    assert (t["cells"], t["compared"]) == (5, 4)
    assert (t["near"], t["judged"]) == (2, 4)
    assert t["within_interval"] == pytest.approx(2 / 3)
    assert t["tau"] == pytest.approx(1)
    u = one_line(by_target, "u")
    assert (u["cells"], u["compared"]) == (1, 0)
    assert (u["near"], u["judged"]) == (0, 0)
    assert math.isnan(u["tau"])
