"""Other ways of counting a benchmark's scores, and the 2 x 2 of client's side and server."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedcore.base.options import validate
from pipeline.catalogue.grids import settings
from pipeline.catalogue.params import overlay
from pipeline.catalogue.schema import StudyParams
from pipeline.reports import sensitivity as ways
from pipeline.reports.effects import RUN
from pipeline.reports.sensitivity import sensitivity
from pipeline.reports.standings import Board, BoardContent, board
from pipeline.reports.trials import Plan, Trial, late_mean

SETS = ("mnist", "a1a", "svmguide1")
METHODS = ("fedavg", "fedprox", "fedadam", "prox_adam")
GRID = {"plain": {"mean": "fedavg", "adam": "fedadam"}, "prox": {"mean": "fedprox", "adam": "prox_adam"}}
STUDY: dict[str, Any] = {
    "title": "Which method, where?",
    "seeds": [0, 1],
    "regimes": {"b": {"clients": 4, "training": {"rounds": 10, "batch_size": 10, "lr": 0.1}}},
    "datasets": {
        name: {
            "data": {"name": name, "edition": "demo"},
            "model": {"name": "mlp", "hidden": [8]},
            "splits": {"s": {"name": "iid"}},
        }
        for name in SETS
    },
    "tune": {"how": "sobol", "trials": 4, "held_out": "selection", "over": {"training.lr": [0.1]}},
    "algorithms": {name: {} for name in METHODS},
    "benchmark": {"base": "fedavg", "families": {"all": [*METHODS[1:]]}},
    "report": {"factorial": GRID},
}
Score = Callable[[str, str], float]


def planned(changes: dict[str, Any] | None = None) -> Plan:
    params = validate(StudyParams, overlay(copy.deepcopy(STUDY), changes or {}), "")
    assert params.benchmark
    names = {"fedavg": "FedAvg", "fedprox": "FedProx", "fedadam": "FedAdam", "prox_adam": "ProxAdam"}
    return Plan("bench", params, params.benchmark, settings(params), names)


def lines(plan: Plan, score: Score, costs: Mapping[str, float] | None = None) -> pd.DataFrame:
    """Return runs that reach their score in the last of ten rounds, a point a round."""
    records = []
    for method, setting, seed in product(METHODS, plan.settings, plan.params.seeds):
        last, cost = score(method, plan.dataset(setting)), (costs or {}).get(method, 1.0)
        curve = pd.Series(last - 10 + np.arange(11.0))
        line = (method, setting, plan.dataset(setting), seed, late_mean(curve, 0.2), curve, cost, cost)
        records.append(line)
    columns = ["method", "workload", "dataset", "seed", "score", "curve", "traffic", "work"]
    return pd.DataFrame(records, columns=columns)


def said(report: str, score: Score, costs: Mapping[str, float] = {}) -> tuple[BoardContent, pd.DataFrame]:
    plan = planned()
    target = sensitivity(plan, {})[report]
    assert isinstance(target, Board)
    answer = target.say(plan, lines(plan, score, costs))
    return answer, answer.frame.set_index(["row", "column"])


def test_settings_without_all_runs_of_the_base_are_left_out() -> None:
    plan = planned()
    say = {name: target.say for name, target in sensitivity(plan, {}).items() if isinstance(target, Board)}
    whole = lines(plan, of_sets)
    first = whole.index[(whole["method"] == "fedavg") & (whole["dataset"] == "mnist")][0]
    lacking = whole.drop(first)
    frame = say["sensitivity"](plan, lacking).frame.set_index(["row", "column"])
    expected = say["sensitivity"](plan, whole[whole["dataset"] != "mnist"]).frame.set_index(["row", "column"])
    pd.testing.assert_frame_equal(frame, expected)
    nothing = say["sensitivity"](plan, whole[whole["method"] != "fedavg"])
    assert (len(nothing.frame), nothing.note) == (0, "No setting has all runs of the base.")
    lines_of_board = board(plan, whole[whole["method"] != "fedavg"].assign(diverged=False))
    assert set(lines_of_board["row"]) == {"fedprox", "fedadam", "prox_adam", "fedavg"}


def test_only_methods_of_the_families_have_a_place() -> None:
    plan = planned({"benchmark": {"families": {"all": ["fedadam", "prox_adam"]}}})
    effect = counted(plan, lines(plan, of_sets))
    assert {name for _, name in effect.index} == {"tau", "fedavg", "fedadam", "prox_adam"}


def of_sets(method: str, dataset: str) -> float:
    """FedProx is ahead by 9 on MNIST alone, FedAdam by 2 everywhere, ProxAdam by 1."""
    gains = {"fedprox": 9.0 * (dataset == "mnist"), "fedadam": 2.0, "prox_adam": 1.0}
    return 70.0 + gains.get(method, 0.0)


def test_a_late_mean_may_end_early() -> None:
    curve = pd.Series([10.0, 20.0, 30.0, 40.0, 50.0], index=[0, 5, 10, 15, 20])
    assert late_mean(curve, 0.5) == 45.0
    assert late_mean(curve, 0.5, 0.5) == 30.0
    assert late_mean(curve, 0.2, 0.6) == 30.0, "round 12 was not measured, the one before was"
    assert late_mean(curve, 0.2, 0.01) == 10.0
    assert late_mean(pd.Series([50.0]), 0.2) == 50.0, "a diverged run"


@pytest.mark.filterwarnings("error")
def test_a_late_mean_without_a_measurement_is_no_number_and_no_warning() -> None:
    """A loss may overflow where the model stays finite, so that the run doesn't count as diverged."""
    assert np.isnan(late_mean(pd.Series([50.0, np.nan, np.nan]), 0.5))
    assert late_mean(pd.Series([50.0, np.nan, 70.0]), 0.9) == 70.0


def test_one_data_set_may_carry_a_method() -> None:
    answer, frame = said("sensitivity", of_sets)
    rows = {label: [cell.mean for cell in cells] for label, cells in answer.rows}
    assert rows["as on the board"] == ["1.00", "FedProx; FedAdam; ProxAdam; FedAvg", "–"]
    assert frame.loc[("as on the board", "fedprox"), "mean"] == pytest.approx(3.0)
    without = rows["without mnist"]
    assert without[1].split("; ")[:2] == ["FedAdam", "ProxAdam"]
    assert without[2] == "FedProx (-2.5)", "it shares the last place with FedAvg"
    assert rows["without a1a"][1] == rows["as on the board"][1]
    assert frame.loc[("without mnist", "tau"), "mean"] == pytest.approx(0.1825741858), "5 pairs, one tied"
    assert frame.loc[("without mnist", "tau"), "methods"] == 4
    assert frame.loc[("after the last round", "fedadam"), "mean"] == pytest.approx(2.0)
    assert {"each setting alike", "ratios of errors"} <= {*rows}


def test_data_sets_may_be_left_out_together() -> None:
    """Nothing is left without mnist, a1a and svmguide1; FedProx is ahead on mnist alone."""
    plan = planned({"report": {"without": {"old_data": ["mnist", "a1a"], "data": [*SETS]}}})
    effect = counted(plan, lines(plan, of_sets))
    assert effect["without old data", "fedprox"] == 0
    assert effect["without old data", "fedadam"] == pytest.approx(2.0)
    assert "without data" not in effect
    alone = lines(plan, of_sets).query("dataset == 'a1a'")
    assert not {way for way, _ in counted(plan, alone).index if way.startswith("without")}


def counted(plan: Plan, frame: pd.DataFrame) -> Any:
    """Return the methods' effects by the way of counting."""
    target = sensitivity(plan, {})["sensitivity"]
    assert isinstance(target, Board)
    return target.say(plan, frame).frame.set_index(["row", "column"])["mean"]


def test_ratios_of_errors_are_logarithms_and_no_error_counts_as_a_hundredth_of_a_point() -> None:
    """The mean of the last two rounds is half a point below the last one."""
    plan = planned()
    effect = counted(plan, lines(plan, of_sets))["ratios of errors"]
    assert effect["fedadam"] == pytest.approx(np.log(30.5 / 28.5))
    perfect = {"fedadam": 100.5, "prox_adam": 100.4}
    effect = counted(plan, lines(plan, lambda method, dataset: perfect.get(method, 70.5)))["ratios of errors"]
    assert effect["fedadam"] == pytest.approx(np.log(30 / 0.01))
    assert effect["prox_adam"] == pytest.approx(np.log(30 / 0.1))


def test_settings_of_one_data_set_count_together_unless_each_counts_alike() -> None:
    """FedProx gains 9 and 3 in two settings of MNIST, and nothing elsewhere."""
    plan = planned({"datasets": {"mnist": {"splits": {"t": {"name": "iid"}}}}})
    frame = lines(plan, of_sets)
    frame["score"] -= 6.0 * ((frame["method"] == "fedprox") & (frame["workload"] == "mnist-t"))
    effect = counted(plan, frame)
    assert effect["as on the board", "fedprox"] == pytest.approx((9 + 3) / 2 / 3)
    assert effect["each setting alike", "fedprox"] == pytest.approx((9 + 3) / 4)


def test_the_last_round_counts_whatever_was_reached_before() -> None:
    plan = planned()
    frame = lines(plan, of_sets)
    frame["curve"] = [
        curve.where(curve.index < 10, curve - 4.0 * (method == "fedadam"))
        for method, curve in zip(frame["method"], frame["curve"], strict=True)
    ]
    assert counted(plan, frame)["after the last round", "fedadam"] == pytest.approx(2.0 - 4.0)


@pytest.mark.parametrize(
    ("many", "word"),
    [
        ([-0.8, 0.29, 1.9], "not limited"),
        ([-0.8, 0.3, 1.4], "limited"),
        ([0.0, -1.0, 1.0, 2.0], "limited"),
    ],
    ids=["a median below 0.3 points", "0.3 points", "another order"],
)
def test_a_board_is_limited_by_a_gain_or_by_another_order(
    many: list[float], word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, few = METHODS[: len(many)], [-1.0, 0.0, 1.0, 2.0]
    found = pd.Series(many, names), pd.Series(few[: len(many)], names)
    monkeypatch.setattr(ways, "_fewer_trials", lambda plan: {"2 of 4 trials": found})
    plan = planned()
    target = sensitivity(plan, {})["sensitivity"]
    assert isinstance(target, Board)
    assert f"The board is {word} by tuning" in target.say(plan, lines(plan, of_sets)).note


@pytest.mark.filterwarnings("error")
def test_what_costs_more_stops_earlier() -> None:
    """ProxAdam spends five times as much: of ten rounds two are left."""
    _, frame = said("sensitivity", of_sets, {"prox_adam": 5.0, "fedadam": 0.5, "fedprox": 0.0})
    for way in ("with FedAvg's bytes", "with FedAvg's rows"):
        assert frame.loc[(way, "prox_adam"), "mean"] == pytest.approx(1.0 - 7.5)
        assert frame.loc[(way, "fedadam"), "mean"] == pytest.approx(2.0), "what costs less is not longer"
        assert frame.loc[(way, "fedprox"), "mean"] == pytest.approx(3.0), "nor what costs nothing"


def test_main_effects_and_interaction_are_those_that_were_planted() -> None:
    """Adam +2, proximal +1, both together .5 more; each side on average over the other."""
    planted = {"fedavg": 0.0, "fedadam": 2.0, "fedprox": 1.0, "prox_adam": 3.5}
    answer, frame = said("factorial", lambda method, dataset: 70 + planted[method])
    assert frame["mean"].to_dict() == {
        ("plain, tuned", "adam"): pytest.approx(2.25),
        ("prox, tuned", "mean"): pytest.approx(1.25),
        ("prox, tuned", "adam"): pytest.approx(0.5),
    }
    assert (frame["n"] == 3).all()
    rows = {label: [cell.mean for cell in cells] for label, cells in answer.rows}
    assert rows["plain, tuned"] == ["–", "+2.25 (+2.25 to +2.25)"]


def test_a_servers_effect_is_a_mean_over_all_of_three_sides() -> None:
    grid = {side: {"mean": side, "adam": f"{side}_adam"} for side in "abc"}
    gains = {"a_adam": 1.0, "b_adam": 2.0, "c_adam": 6.0}
    runs = [(method, *"xyz", gains.get(method, 0.0)) for row in grid.values() for method in row.values()]
    effect = ways._contrasts(grid, pd.DataFrame(runs, columns=["method", *RUN, "score"]))["a", "adam"]
    assert effect
    assert effect.mean == (1 + 2 + 6) / 3


@pytest.mark.parametrize(("lucky", "word"), [(0.0, "not limited"), (8.0, "limited")])
def test_the_board_says_whether_tuning_limits_it(
    lucky: float, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials within .03 points, or one of four that is 8 points better in every second method."""
    monkeypatch.chdir(tmp_path)
    plan, folder = planned(), Path("reports/bench")
    folder.mkdir(parents=True)
    trials = []
    for number, row in enumerate(plan.rows.values()):
        for trial, setting in product(range(4), plan.settings):
            score = 70 + number + 0.01 * trial + lucky * (trial == 3 and number % 2)
            trials.append((f"{row}-{trial:02d}", setting, 1, 1, 0, score, f"part/seed100={score}"))
    columns = ["row", "column", "n", "seeds", "diverged", "mean", "values"]
    pd.DataFrame(trials, columns=columns).to_csv(folder / "trials.csv", index=False)
    target = sensitivity(plan, {})["sensitivity"]
    assert isinstance(target, Board)
    answer = target.say(plan, lines(plan, of_sets))
    assert f"The board is {word} by tuning: against 2 of 4 trials, all gain " in answer.note
    assert "2 of 4 trials" in {label for label, _ in answer.rows}
    crossed = sensitivity(plan, {})["factorial"]
    assert isinstance(crossed, Board)
    frame = crossed.say(plan, lines(plan, of_sets)).frame.set_index(["row", "column"])
    assert frame.loc[("plain, any trial", "adam"), "mean"] == pytest.approx(2.0)


def test_a_setting_counts_without_a_choice_once_all_trials_of_all_pairs_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each server gains a point; one trial of ProxAdam on MNIST is missing."""
    plan = planned()
    trials = {
        (method, setting): tuple(Trial(0, 70.0 + method.endswith("adam"), number) for number in range(4))
        for method, setting in product(METHODS, plan.settings)
    }
    trials["prox_adam", "mnist-s"] = trials["prox_adam", "mnist-s"][:3]
    monkeypatch.setattr(Plan, "measured", lambda plan, stage: trials)
    crossed = sensitivity(plan, {})["factorial"]
    assert isinstance(crossed, Board)
    frame = crossed.say(plan, lines(plan, of_sets)).frame.set_index(["row", "column"])
    assert frame.loc[("plain, any trial", "adam"), "mean"] == pytest.approx(1.0)
    assert frame.loc[("plain, any trial", "adam"), "n"] == 2
    assert frame.loc[("plain, tuned", "adam"), "n"] == 3
