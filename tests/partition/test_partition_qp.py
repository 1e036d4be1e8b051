"""RADFed's partition: oracle optima, exact sums, Algorithm 3, the published draws, and speed."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from partition_toys import class_problem, covers_once, move, oracle, split_data, toy_data

from fedcore.partitions.allocation import (
    QP,
    Search,
    balance,
    randomise,
    round_exactly,
    solve,
)
from fedcore.partitions.stats import c_score, label_counts, statistics

MNIST = [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958]
CIFAR = [6000] * 10
COVERTYPE = [211560, 280440]


def random_problem(clients: int, classes: int, seed: int, total: int = 5000) -> QP:
    rng = np.random.default_rng(seed)
    sizes = rng.multinomial(total, rng.dirichlet(np.ones(clients)))
    counts = rng.multinomial(total, rng.dirichlet(np.full(classes, 5.0)))
    return class_problem(sizes, counts, rng.dirichlet(np.full(classes, 0.3), clients))


def test_eq1_reaches_the_oracle() -> None:
    want = oracle("QP_eq1")
    sizes = np.rint(100 * np.array(want["n"])).astype(int)
    problem = class_problem(sizes, np.array(want["C_k"]).astype(int), np.array(want["c"]))
    allocation = solve(problem)
    assert problem.loss(allocation) == pytest.approx(want["objective"], rel=1e-6)
    np.testing.assert_allclose(allocation, want["alpha"], atol=1e-4)


def test_eq2_reaches_the_oracle() -> None:
    want = oracle("QP_eq2")
    sizes = np.rint(100 * np.array(want["n"])).astype(int)
    targets = tuple(np.array(want[key]) * sizes[:, None] for key in ("c", "f"))
    problem = QP(sizes, np.array(want["B_u"]).astype(int), np.array(want["U"]), targets)
    allocation = solve(problem)
    assert problem.loss(allocation) == pytest.approx(want["objective"], rel=1e-6)
    np.testing.assert_allclose(
        np.hstack(problem.marginals(allocation)), want["marginals_class_then_feature"], atol=1e-3
    )


def test_eq1_is_eq2_without_features() -> None:
    problem = random_problem(6, 4, 0)
    order = np.array([2, 0, 3, 1])
    general = QP(problem.sizes, problem.counts[order], order[:, None], problem.targets)
    np.testing.assert_allclose(solve(general), solve(problem)[:, order], atol=1e-3)


def test_rectangle_move_keeps_the_sums() -> None:
    want = oracle("rectangle_move")
    start = np.array(oracle("QP_eq1")["alpha"])
    first, second = map(tuple, want["entries"])
    moved = move(start, first, second, want["eps"])
    np.testing.assert_allclose(moved.sum(axis=1), want["rows"])
    np.testing.assert_allclose(moved.sum(axis=0), want["cols"])
    assert (moved - start)[0, 1] == (moved - start)[2, 2] == -1.5
    assert (moved - start)[0, 2] == (moved - start)[2, 1] == 1.5
    assert np.count_nonzero(moved - start) == 4


@pytest.mark.parametrize("reading", ["relative", "samples", "fraction"])
@pytest.mark.parametrize("stop", [None, (1.05, 1.2)])
def test_the_walk_keeps_sums_and_tracks_the_loss(reading: Any, stop: Any) -> None:
    problem = random_problem(12, 5, 1)
    best = solve(problem)
    walked = randomise(problem, best, Search(30_000, 6000, 0.05, reading, stop), np.random.default_rng(0))
    np.testing.assert_allclose(walked.sum(axis=1), problem.sizes, atol=1e-8)
    np.testing.assert_allclose(walked.sum(axis=0), problem.counts, atol=1e-8)
    assert (walked >= 0).all()
    assert problem.loss(walked) > problem.loss(best) * 1.000001
    if stop and reading == "relative":
        assert 1.05 <= np.sqrt(problem.loss(walked) / problem.loss(best)) <= 1.2


def test_the_walk_is_algorithm_3_step_by_step() -> None:
    """The incremental walk equals one that copies the matrix and computes the loss anew each time."""
    rng = np.random.default_rng(3)
    sizes, counts = np.array([20, 30, 10]), np.array([12, 18, 20, 10])
    categories = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    targets = tuple(rng.dirichlet([1, 1], 3) * sizes[:, None] for _ in range(2))
    problem = QP(sizes, counts, categories, targets)
    start = balance(np.ones((3, 4)), sizes, counts)
    search = Search(300, 500, 0.5, "relative", None)
    walked = randomise(problem, start, search, np.random.default_rng(8))

    draws, state = np.random.default_rng(8), start
    losses: list[float] = []
    states = []
    for steps in (search.burn_in, search.steps):
        rows, columns = draws.integers(3, size=(2, steps)), draws.integers(4, size=(2, steps))
        for (i, k), (j, m), share in zip(rows.T, columns.T, draws.random(steps), strict=True):
            size = share * 0.5 * min(state[i, j], state[k, m])
            state = move(state, (i, j), (k, m), size)
            if steps == search.steps:
                losses.append(problem.loss(state))
                states.append(state)
    np.testing.assert_allclose(walked, states[int(np.argmin(losses))], atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(clients=st.integers(1, 12), classes=st.integers(1, 6), seed=st.integers(0, 10_000))
def test_rounding_meets_both_sums_and_moves_less_than_one(clients: int, classes: int, seed: int) -> None:
    problem = random_problem(clients, classes, seed, total=1 + seed % 300)
    start = balance(
        np.random.default_rng(seed).random((clients, classes)) + 0.01, problem.sizes, problem.counts
    )
    rounded = round_exactly(start, problem.sizes, problem.counts)
    np.testing.assert_array_equal(rounded.sum(axis=1), problem.sizes)
    np.testing.assert_array_equal(rounded.sum(axis=0), problem.counts)
    assert (rounded >= 0).all()
    assert np.abs(rounded - start).max() < 1 + 1e-6


@pytest.mark.parametrize("clients", [1, 3, 40])
@pytest.mark.parametrize("present", [[0, 1, 3], [0, 1, 2], [1, 2, 3]])
def test_classes_without_rows_are_no_obstacle(clients: int, present: list[int]) -> None:
    labels = np.repeat(present, [50, 7, 100])
    split = split_data(toy_data(labels, classes=4), "qp", clients=clients, burn_in=500, steps=500)
    covers_once(split, 157)


def test_features_are_skewed_as_asked() -> None:
    rng = np.random.default_rng(0)
    labels, soil = rng.integers(2, size=4000), rng.integers(5, size=4000)
    data = toy_data(labels, features={"soil": soil})
    options = {"clients": 20, "burn_in": 1000, "steps": 1000, "class_alpha": 1e3}

    def soil_score(**extra: Any) -> float:
        scores = []
        for seed in range(5):
            split = split_data(data, "qp", seed, **options, **extra)
            scores.append(c_score(label_counts(split.clients, soil, 5)))
        return float(np.mean(scores))

    assert soil_score() < 0.5
    assert soil_score(features=["soil"]) > 1.0
    assert soil_score(features=["soil"], feature_alpha=1e3) < 0.2
    indicators = soil_score(features=["soil"], feature_reading="indicators")
    assert 0.4 < indicators < soil_score(features=["soil"])


PUBLISHED = [
    ("MNIST-1", MNIST, {"class_alpha": 1, "legacy_seed": 10}, (3, 3365, 700, 667, 0.70)),
    ("MNIST-0.1", MNIST, {"legacy_seed": 233}, (11, 3327, 700, 658, 1.29)),
    ("CIFAR-10", CIFAR, {"legacy_seed": 2366, "xi": 0.0002}, (2, 2850, 600, 605, 1.29)),
    ("COVCLS", COVERTYPE, {"legacy_seed": 1020, "xi": 0.0002}, (110, 33300, 4920, 5110, 0.79)),
]


@pytest.mark.parametrize(
    ("class_sizes", "options", "published"), [p[1:] for p in PUBLISHED], ids=[p[0] for p in PUBLISHED]
)
def test_the_released_draws_reproduce_table_1(
    class_sizes: list[int], options: dict[str, Any], published: tuple[float, ...]
) -> None:
    labels = np.repeat(np.arange(len(class_sizes)), class_sizes)
    split = split_data(toy_data(labels), "qp", clients=100, burn_in=500_000, min_size=0.5, **options)
    summary = statistics(split, labels, len(class_sizes))
    for key, want in zip(("min", "max", "mean", "std"), published[:4], strict=True):
        assert summary["sizes"][key] == pytest.approx(want, abs=2)
    assert summary["c_score"] == pytest.approx(published[4], abs=0.01)


def test_speed_at_the_papers_numbers() -> None:
    """Eq. (1) for 100 x 10 in .2 s and P = 1e5, Q = 5e5 moves in 2 s of one core."""
    rng = np.random.default_rng(0)
    counts = np.array(MNIST)
    sizes = np.random.default_rng(1).multinomial(70_000, rng.dirichlet(np.ones(100)))
    problem = class_problem(sizes, counts, rng.dirichlet(np.full(10, 0.1), 100))
    solve(problem)
    started = time.process_time()
    best = solve(problem)
    solved = time.process_time()
    randomise(problem, best, Search(100_000, 500_000, stop=None), rng)
    walked = time.process_time()
    assert solved - started < 0.2
    assert walked - solved < 2


def test_moves_of_no_size_change_nothing() -> None:
    problem = random_problem(5, 3, 2)
    best = solve(problem)
    np.testing.assert_array_equal(randomise(problem, best, Search(0, 0), np.random.default_rng(0)), best)


def test_c_score_of_the_oracle() -> None:
    assert c_score(np.array(oracle("C_score_A_counts"))) == pytest.approx(oracle("C_score_A"), rel=1e-10)
