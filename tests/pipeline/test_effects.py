"""Effects over data sets, against enumeration and sums by hand, and on data with planted differences."""

from __future__ import annotations

from functools import partial
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest

from pipeline.reports import effects
from pipeline.reports.effects import Effect

SETS, WORKLOADS, SEEDS = 12, 2, 5


def planted(gains: dict[str, float], spread: float = 0.3, seed: int = 0) -> pd.DataFrame:
    """Return scores whose differences to 'base' have these means; nothing is shared but the base's level."""
    rng = np.random.default_rng(seed)
    lines = []
    for dataset, workload in product(range(SETS), range(WORKLOADS)):
        level = rng.uniform(60, 95)
        for method, gain in {"base": 0.0, **gains}.items():
            for run in range(SEEDS):
                score = level + gain + rng.normal(0, spread)
                lines.append((method, f"d{dataset}", f"d{dataset}w{workload}", run, score))
    return pd.DataFrame(lines, columns=["method", "dataset", "workload", "seed", "score"])


@pytest.mark.parametrize("seed", range(5))
def test_planted_methods_land_where_they_must(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects, "bootstrap", partial(effects.bootstrap, draws=10_000))
    scores = planted({"ahead": 2.0, "same": 0.0, "behind": -2.0, "near": 0.5}, seed=seed)
    results = {name: effects.effect(scores, name, "base") for name in ("ahead", "same", "behind", "near")}
    assert all(effect is not None and effect.sets == SETS for effect in results.values())
    verdicts = [effect.verdict(0.5) for effect in results.values() if effect]
    assert verdicts == ["better", "equivalent", "worse", "undecided"]
    assert [effect.wins > 0.9 for effect in results.values() if effect][:3] == [True, False, False]
    tests = {name: effect.p for name, effect in results.items() if effect}
    assert tests["ahead"] == 2 / 2**SETS
    assert tests["same"] > 0.01


def test_an_effect_is_a_mean_of_data_sets_not_of_workloads() -> None:
    lines = []
    gains = {("one", "a"): [1.0, 3.0], ("one", "b"): [4.0, 4.0], ("two", "c"): [0.0, -2.0]}
    for (dataset, workload), runs in gains.items():
        for run, gain in enumerate(runs):
            lines += [("base", dataset, workload, run, 50.0), ("method", dataset, workload, run, 50 + gain)]
    scores = pd.DataFrame(lines, columns=["method", "dataset", "workload", "seed", "score"])
    effect = effects.effect(scores, "method", "base")
    assert effect is not None
    assert effect.mean == pytest.approx(((2.0 + 4.0) / 2 - 1.0) / 2)
    assert effect.wins == pytest.approx((1.0 + 1.0 + 0.25) / 3)
    assert effect.sets == 2
    assert effect.p == 1.0, "of 3 and -1, all changes of signs sum to 2 or to 4"
    assert effects.effect(scores, "other", "base") is None


def test_differences_of_rounding_are_ties() -> None:
    scores = pd.DataFrame([("base", 50.0), ("method", 50 + 1.4e-14)], columns=["method", "score"])
    effect = effects.effect(scores.assign(dataset="one", workload="a", seed=0), "method", "base")
    assert effect
    assert effect.wins == 0.5


@pytest.mark.parametrize("n", [1, 3, 6])
def test_sign_flips_are_those_counted_by_hand(n: int) -> None:
    differences = np.random.default_rng(n).normal(0.5, 1, n).round(2)
    observed = abs(sum(differences))
    count = 0
    for number in range(2**n):
        total = sum(value if number >> at & 1 else -value for at, value in enumerate(differences))
        count += abs(total) >= observed - 1e-12
    assert effects.sign_flip(differences) == count / 2**n


def test_equal_methods_have_a_p_value_of_one_and_many_sets_are_sampled() -> None:
    assert effects.sign_flip(np.zeros(5)) == 1.0
    assert effects.sign_flip(np.full(25, 1.0)) < 1e-3
    assert effects.sign_flip(np.array([1.0, -1.0] * 13)) == 1.0


@pytest.mark.slow
def test_sign_flips_keep_their_level() -> None:
    rng = np.random.default_rng(0)
    share = np.mean([effects.sign_flip(rng.normal(0, 1, 10)) <= 0.05 for _ in range(2000)])
    assert 0.035 < share < 0.065


def test_intervals_of_the_bootstrap_cover_what_was_planted() -> None:
    rng, covered, trials = np.random.default_rng(1), 0, 300
    for trial in range(trials):
        nested = []
        for _ in range(14):
            of_set = rng.normal(1.0, 0.8)
            nested.append([rng.normal(of_set + rng.normal(0, 0.6), 1.0, 5) for _ in range(2)])
        low, high = np.percentile(effects.bootstrap(nested, draws=400, seed=trial), [2.5, 97.5])
        covered += low <= 1.0 <= high
    assert 0.88 <= covered / trials <= 0.99  # of 14 data sets it is a little narrow


def test_the_bootstrap_draws_data_sets_workloads_and_runs() -> None:
    same = effects.bootstrap([[np.full(5, 2.0), np.full(3, 2.0)], [np.full(1, 2.0)]], draws=50)
    assert same.tolist() == [2.0] * 50
    between = effects.bootstrap([[np.array([0.0])], [np.array([1.0])]], draws=20_000)
    shares = [np.mean(between == value) for value in (0.0, 0.5, 1.0)]
    assert shares == pytest.approx([0.25, 0.5, 0.25], abs=0.02)
    within = effects.bootstrap([[np.array([0.0]), np.array([4.0])]], draws=20_000)
    assert [np.mean(within == value) for value in (0.0, 2.0, 4.0)] == pytest.approx(
        [0.25, 0.5, 0.25], abs=0.02
    )
    runs = effects.bootstrap([[np.array([0.0, 1.0])]], draws=20_000)
    assert runs.var() == pytest.approx(0.125, abs=0.01)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.5, 2.0, "undecided"),
        (0.51, 2.0, "better"),
        (-2.0, -0.5, "undecided"),
        (-2.0, -0.51, "worse"),
        (-0.5, 0.5, "equivalent"),
        (-0.51, 0.5, "undecided"),
        (-0.5, 0.51, "undecided"),
    ],
)
def test_a_difference_of_exactly_the_margin_is_neither_better_nor_worse(
    low: float, high: float, verdict: str
) -> None:
    assert Effect(0.0, low, high, 1.0, 9, 0.5).verdict(0.5) == verdict


def test_an_interval_holds_95_of_100_draws_and_a_tie_counts_half() -> None:
    gains = {("one", "a"): [0.0, 1.7, 3.1], ("one", "b"): [2.45, -1.3], ("two", "c"): [0.0, -2.2, 7.6]}
    lines = [
        (method, dataset, workload, run, 50 + gain * (method == "method"))
        for (dataset, workload), runs in gains.items()
        for run, gain in enumerate(runs)
        for method in ("base", "method")
    ]
    scores = pd.DataFrame(lines, columns=["method", "dataset", "workload", "seed", "score"])
    effect = effects.effect(scores, "method", "base")
    nested = [[np.array(runs) for (name, _), runs in gains.items() if name == of] for of in ("one", "two")]
    drawn = np.sort(effects.bootstrap(nested, 100_000, 0))
    assert np.array_equal(drawn, np.sort(effects.bootstrap(nested))), "the same draws again"
    assert not np.array_equal(drawn, np.sort(effects.bootstrap(nested, 100_000, 1)))
    assert effect is not None
    assert (effect.low, effect.high) == pytest.approx(np.percentile(drawn, [2.5, 97.5]), abs=1e-9)
    assert effect.wins == pytest.approx(((0.5 + 2) / 3 + 1 / 2 + (0.5 + 1) / 3) / 3)


def test_many_sets_are_tested_by_100000_changes_of_signs_that_are_the_same_each_time() -> None:
    differences = np.random.default_rng(4).normal(0.3, 1, 25)
    p = effects.sign_flip(differences)
    assert effects.sign_flip(differences) == p
    ways = 10**5 + 1
    assert round(p * ways) == pytest.approx(p * ways, abs=1e-6)
    assert round(p * ways / 10) != pytest.approx(p * ways / 10, abs=1e-6), "and not by fewer"
    assert 0 < effects.sign_flip(np.linspace(1, 2, 25)) < 1e-4, "the observed signs are one of the ways"


def test_families_are_corrected_apart() -> None:
    by_name = {
        name: Effect(0, 0, 0, p, 9, 0.5) for name, p in (("a", 0.01), ("b", 0.04), ("c", 0.03), ("d", 0.02))
    }
    corrected = effects.corrected(by_name, {"first": ["a", "b", "absent"], "second": ["c", "d"]})
    assert corrected == pytest.approx({"a": 0.03, "b": 0.08, "c": 0.04, "d": 0.04}), "for the absent one too"


@pytest.mark.parametrize("trials", [1, 2, 4, 5])
def test_the_expected_best_is_the_mean_over_all_draws(trials: int) -> None:
    values = [3.0, 1.0, 4.0, 1.5, 9.0]
    by_hand = np.mean([max(drawn) for drawn in combinations(values, trials)])
    assert effects.expected_best(values, trials) == pytest.approx(by_hand)


def test_ranks_tie_within_a_tenth_and_leave_gaps_out() -> None:
    lines = [("a", "w", 90.0), ("b", "w", 90.04), ("c", "w", 80.0), ("a", "v", 70.0), ("b", "v", 75.0)]
    scores = pd.DataFrame(lines, columns=["method", "workload", "score"]).assign(seed=[5, 4, 3, 2, 1])
    assert effects.mean_ranks(scores).to_dict() == {"a": 1.5, "b": 1.5, "c": 3.0}


def test_a_profile_says_how_often_a_method_is_near_the_best() -> None:
    lines = [("a", "w", 90.0), ("b", "w", 80.0), ("a", "v", 70.0), ("b", "v", 80.0), ("b", "u", 50.0)]
    scores = pd.DataFrame(lines, columns=["method", "workload", "score"]).assign(seed=[5, 4, 3, 2, 1])
    profiles = effects.profiles(scores, [1.0, 1.5, 2.0])
    assert list(profiles.loc["a"]) == pytest.approx([1 / 2, 1.0, 1.0]), "it was not run on u"
    assert list(profiles.loc["b"]) == pytest.approx([2 / 3, 2 / 3, 1.0])
    perfect = [("a", "w", 100.0), ("b", "w", 99.5), ("a", "v", 99.2), ("b", "v", 99.0)]
    scores = pd.DataFrame(perfect, columns=["method", "workload", "score"])
    profiles = effects.profiles(scores, [1.0, 1.22, 1.3])
    assert [list(profiles.loc[name]) for name in "ab"] == [[1.0, 1.0, 1.0], [0.0, 0.0, 0.5]]
