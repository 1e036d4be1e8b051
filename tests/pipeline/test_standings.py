"""Which trials are chosen, and what a board says of ranges, of trials' worth and of costs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
from test_sensitivity import METHODS, lines, of_sets, planned

from pipeline.catalogue.schema import Range, TimesParams
from pipeline.reports import REPORTS, figures, spending, standing_figures, standings
from pipeline.reports.kept import REFERENCE
from pipeline.reports.standings import _saturated, board, edges, expected, too_narrow
from pipeline.reports.trials import TRIALS, Plan, Trial, _applied

CELL = ("fedavg", "mnist-s")


def test_of_equal_trials_the_earlier_is_chosen_and_a_diverged_one_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trials = {CELL: (Trial(1, 90.0, 0), Trial(0, 70.0, 2), Trial(0, 70.0, 1))}
    monkeypatch.setattr(Plan, "measured", lambda plan, stage: trials)
    assert planned().ranked(TRIALS) == {CELL: [1, 2, 0]}


def test_nothing_wins_before_all_of_the_best_ran_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plan, "best", {CELL: [0, 1]})
    monkeypatch.setattr(Plan, "ranked", lambda plan, stage: {CELL: [0]})
    assert planned().winners == {}


def test_multiples_of_whole_numbers_are_rounded_and_at_least_one() -> None:
    plan = planned()
    query = plan.query(*CELL, 0)
    rounds = [_applied(TimesParams(times=t), "training.rounds", plan.params, query) for t in (0.01, 0.27, 2)]
    assert rounds == [1, 3, 20]
    assert _applied(TimesParams(times=0.5), "training.lr", plan.params, query) == 0.05


def test_a_trial_here_goes_before_the_kept_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = planned()
    for folder, mean in ((REFERENCE, 60.0), (REPORTS, 80.0)):
        (folder / "bench").mkdir(parents=True)
        line = {"row": f"{plan.rows['fedavg']}-00", "column": "mnist-s", "n": 1, "seeds": 1, "diverged": 0}
        line |= {"mean": mean, "values": f"part/seed100={mean}"}
        pd.DataFrame([line]).to_csv(folder / "bench/trials.csv", index=False)
    assert plan.measured(TRIALS) == {CELL: ((0, 80.0, 0),)}


def test_an_end_is_a_sixteenth_of_a_range(monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = {"lr": Range(low=1e-4, high=1.0, log=True), "mu": Range(low=0, high=16)}
    trials = [{"lr": 10**-0.2, "mu": 0.9}, {"lr": 10**-0.3, "mu": 1.1}, {"lr": 10**-3.8, "mu": 15.1}]
    monkeypatch.setattr(Plan, "tried", defaultdict(lambda: (ranges, trials)))
    monkeypatch.setattr(Plan, "winners", {("fedavg", str(number)): number for number in range(3)})
    ends = edges(planned())["end"].fillna("").tolist()
    assert ends == ["largest", "smallest", "", "", "smallest", "largest"]


@pytest.mark.parametrize(("at_end", "flagged"), [(1, False), (2, True)])
def test_a_range_is_too_narrow_if_more_than_a_quarter_of_four_values_lie_at_an_end(
    at_end: int, flagged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges, trials = {"lr": Range(low=0.01, high=1.0, log=True)}, [{"lr": 1.0}, {"lr": 0.1}]
    monkeypatch.setattr(Plan, "tried", defaultdict(lambda: (ranges, trials)))
    monkeypatch.setattr(Plan, "winners", {("fedavg", str(n)): int(n >= at_end) for n in range(4)})
    assert bool(too_narrow(planned())) == flagged


def test_few_trials_are_four_and_costs_are_means_of_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    """On MNIST FedAvg sends 2 and FedProx 8, elsewhere both 1. Trials that lack others count as not tried."""
    tried = {
        CELL: tuple(Trial(int(n == 0), 70.0, n) for n in range(4)),
        ("fedavg", "a1a-s"): (Trial(1, 10.0, 0),),
    }
    worth = pd.DataFrame([[*range(8)]], index=["fedavg"], columns=range(1, 9))
    monkeypatch.setattr(standings, "expected", lambda plan: worth)
    monkeypatch.setattr(Plan, "measured", lambda plan, stage: tried)
    runs = lines(planned(), of_sets).assign(diverged=False)
    runs.loc[runs["dataset"] == "mnist", "traffic"] = 2.0
    runs.loc[(runs["dataset"] == "mnist") & (runs["method"] == "fedprox"), "traffic"] = 8.0
    frame = board(planned(), runs).set_index("row")
    assert [*frame.loc["fedavg", ["few", "all", "gone"]]] == [3, 7, "25%, 0%"]
    assert frame.loc["fedprox", "traffic"] == (8 / 2 + 1 + 1) / 3


def test_trials_are_worth_a_mean_over_data_sets_against_the_bases_best_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """FedProx gains 4 and 8 in two settings of MNIST, and nothing elsewhere."""
    plan = planned({"datasets": {"mnist": {"splits": {"t": {"name": "iid"}}}}})
    gains = {("fedprox", "mnist-s"): 4.0, ("fedprox", "mnist-t"): 8.0}
    trials = {
        cell: tuple(Trial(0, 70 + number + gains.get(cell, 0), number) for number in range(4))
        for cell in product(METHODS, plan.settings)
    }
    monkeypatch.setattr(Plan, "measured", lambda plan, stage: trials)
    worth = expected(plan)
    assert [*worth.loc["fedavg", [1, 4]]] == [-1.5, 0.0]
    assert worth.loc["fedprox", 4] == ((4 + 8) / 2 + 0 + 0) / 3


def test_seconds_are_medians_against_the_base_on_the_same_processor() -> None:
    """FedProx takes twice as long on one processor, and three times on another; one machine slept."""
    seconds = {("fedavg", "a"): (1, 1, 9000), ("fedprox", "a"): (2, 2, 2)}
    seconds |= {("fedavg", "b"): (7, 7, 7), ("fedprox", "b"): (21, 21, 0)}
    runs = [(name, "mnist-s", kind, took) for (name, kind), each in seconds.items() for took in each]
    content = spending._said(planned(), pd.DataFrame(runs, columns=["method", *spending.PLACE, "seconds"]))
    frame = content.frame.set_index("row")
    assert [*frame.index] == ["fedavg", "fedprox"], "what did not run is not there"
    assert [*frame.loc["fedprox"]] == [6, pytest.approx(3 * (2 + 21) / 3600), 2.5, 2.25, 2.75]
    assert "(2.5 by the clock)" in content.note


def test_names_beside_points_keep_their_order_and_have_room() -> None:
    axes = figures.framed(3.0).subplots()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    points = pd.DataFrame({"x": 0.5, "y": [0.1, 0.5, 0.5, 0.52]}, index=[*"abcd"])
    standing_figures._name(axes, points, {name: f"{name} (more)" for name in "abcd"})
    places = [text.xyann[1] for text in axes.texts]  # type: ignore[attr-defined]
    assert [text.get_text() for text in axes.texts] == [*"abcd"]
    assert places[0] == pytest.approx(0.1)
    assert min(map(float.__sub__, places[1:], places)) > 0.06


def test_settings_in_which_half_of_the_rounds_suffice_are_named() -> None:
    controls = {name: {"training.rounds": {"times": t}} for name, t in {"half": 0.5, "double": 2}.items()}
    plan = planned({"report": {"controls": controls}})
    plan = replace(plan, labels={**plan.labels, "half": "Half", "double": "Double"})
    runs = [
        (method, setting, seed, 70.0 - (method == "half" and setting == "mnist-s"))
        for method, setting, seed in product(("fedavg", *controls), plan.settings, plan.params.seeds)
    ]
    text = _saturated(plan, pd.DataFrame(runs, columns=["method", "workload", "seed", "score"]))
    assert text == " Half is not below the base in 2 of 3: a1a-s, svmguide1-s."
