"""RADFed's partition step by step: draws, walks and rounding against plainer programs with the same draws."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from partition_toys import class_problem, move, split_data, toy_data

from fedcore.base.errors import SpecError
from fedcore.partitions import allocation, deal_classes, draw_dirichlet, integers, rows_of_classes
from fedcore.partitions.allocation import (
    QP,
    Search,
    allocate,
    balance,
    randomise,
    round_exactly,
    solve,
)
from fedcore.partitions.qp import Options, draw_targets, feature_columns
from fedcore.partitions.stats import label_counts


def two_dimensions() -> QP:
    """Three clients; four combinations of a class and a feature."""
    rng = np.random.default_rng(3)
    sizes, counts = np.array([20, 30, 10]), np.array([12, 18, 20, 10])
    categories = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    return QP(sizes, counts, categories, tuple(rng.dirichlet([1, 1], 3) * sizes[:, None] for _ in "cf"))


def plain_walk(problem: QP, start: np.ndarray, search: Search, rng: np.random.Generator) -> np.ndarray:
    """Algorithm 3 with a copy of the matrix and a new loss at each move; draws come in blocks."""
    state, first = start, problem.loss(start)
    total = problem.sizes.sum()
    for steps, searching in ((search.burn_in, False), (search.steps, True)):
        best, least, drawn = state, np.inf, 0
        inside = False
        while drawn < steps and not inside:
            block = min(allocation.BLOCK, steps - drawn)
            drawn += block
            rows = rng.integers(len(state), size=(2, block))
            columns = rng.integers(state.shape[1], size=(2, block))
            for (i, k), (j, m), share in zip(rows.T, columns.T, rng.random(block), strict=True):
                smaller = min(state[i, j], state[k, m])
                size = {
                    "relative": share * search.xi * smaller,
                    "samples": share * min(smaller, search.xi),
                    "fraction": share * min(smaller, search.xi * total),
                }[search.reading]
                state = move(state, (i, j), (k, m), size)
                loss = problem.loss(state)
                if searching and loss < least:
                    best, least = state, loss
                root = np.sqrt(loss / first)
                if not searching and search.stop and search.stop[0] < root < search.stop[1]:
                    inside = True
                    break
        state = best if searching else state
    return state


@pytest.mark.parametrize("block", [7, 20_000])
@pytest.mark.parametrize("stop", [None, (1.05, 1.2)])
@pytest.mark.parametrize(("reading", "xi"), [("relative", 0.5), ("samples", 1.5), ("fraction", 0.02)])
def test_the_walk_is_algorithm_3(
    reading: Any, xi: float, stop: Any, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocation, "BLOCK", block)
    problem = two_dimensions()
    start = solve(problem)
    for search in (Search(60, 90, xi, reading, stop), Search(0, 90, xi, reading, stop)):
        walked = randomise(problem, start, search, np.random.default_rng(8))
        plain = plain_walk(problem, start, search, np.random.default_rng(8))
        np.testing.assert_allclose(walked, plain, atol=1e-9)
        assert (problem.loss(walked) > 1.0001 * problem.loss(start)) == bool(search.burn_in)


def test_losses_are_squared_distances_of_every_dimension() -> None:
    problem = two_dimensions()
    even = np.outer(problem.sizes, problem.counts) / 60
    by_class = np.stack([even[:, :2].sum(axis=1), even[:, 2:].sum(axis=1)], axis=1)
    by_feature = np.stack([even[:, ::2].sum(axis=1), even[:, 1::2].sum(axis=1)], axis=1)
    for sums, want in zip(problem.marginals(even), (by_class, by_feature), strict=True):
        np.testing.assert_allclose(sums, want)
    distances = [
        ((sums - want) ** 2).sum() for sums, want in zip((by_class, by_feature), problem.targets, strict=True)
    ]
    assert problem.loss(even) == pytest.approx(sum(distances))


def test_balance_meets_sums_by_scaling_rows_and_columns() -> None:
    sizes, counts = np.array([20, 30, 0, 10]), np.array([15, 0, 45])
    start = np.random.default_rng(0).random((4, 3)) + 0.1
    balanced = balance(start, sizes, counts)
    np.testing.assert_allclose(balanced.sum(axis=1), sizes, atol=1e-9)
    np.testing.assert_allclose(balanced.sum(axis=0), counts, atol=1e-9)
    cross = start[np.ix_([0, 1, 3], [0, 2])]
    scaled = balanced[np.ix_([0, 1, 3], [0, 2])]
    odds = [(m[0, 0] * m[1, 1]) / (m[0, 1] * m[1, 0]) for m in (cross, scaled)]
    assert odds[0] == pytest.approx(odds[1]), "scaling keeps odds ratios"
    met = np.outer(sizes, counts) / 60
    np.testing.assert_allclose(balance(met, sizes, counts), met, rtol=1e-12)
    np.testing.assert_array_equal(balance(np.zeros((1, 1)), np.array([0]), np.array([0])), [[0]])


def test_an_optimum_where_targets_can_be_met_is_the_targets() -> None:
    sizes, counts = np.array([40, 60]), np.array([52, 48])
    shares = np.array([[0.7, 0.3], [0.4, 0.6]])
    np.testing.assert_allclose(solve(class_problem(sizes, counts, shares)), [[28, 12], [24, 36]], atol=1e-4)
    far = class_problem(sizes, np.array([70, 30]), shares)
    np.testing.assert_allclose(solve(far), [[37, 3], [33, 27]], atol=1e-4)


@pytest.mark.parametrize("seed", range(8))
def test_rounding_changes_as_little_as_any_rounding_can(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = np.array([3, 5, 4])
    counts = rng.multinomial(12, [0.3, 0.3, 0.4])
    start = balance(rng.random((3, 3)) + 0.01, sizes, counts)
    rounded = round_exactly(start, sizes, counts)
    assert rounded.dtype == np.int64
    changes = []
    for up in product((0, 1), repeat=9):
        candidate = np.floor(start + 1e-9) + np.reshape(up, (3, 3)) * (start - np.floor(start) > 1e-9)
        if (candidate.sum(axis=1) == sizes).all() and (candidate.sum(axis=0) == counts).all():
            changes.append(np.abs(candidate - start).sum())
    assert np.abs(rounded - start).sum() == pytest.approx(min(changes))


def test_whole_numbers_stay_and_other_sums_are_refused() -> None:
    start = np.array([[3.0, 1.0], [0.0, 5.0 - 1e-12]])
    np.testing.assert_array_equal(round_exactly(start, np.array([4, 5]), np.array([3, 6])), [[3, 1], [0, 5]])
    for sizes, counts in (([4, 4], [3, 6]), ([4, 5], [4, 5]), ([5, 4], [3, 6])):
        with pytest.raises(SpecError, match="partition: the allocation's sums are not those"):
            round_exactly(start, np.array(sizes), np.array(counts))
    with pytest.raises(SpecError, match="can't be rounded"):
        round_exactly(np.array([[0.5, 0.5]]), np.array([3]), np.array([1, 2]))
    with pytest.raises(SpecError, match="partition: the allocation's sums are not those"):
        round_exactly(np.array([[2.0, -1.0]]), np.array([1]), np.array([2, -1]))


def test_clients_and_classes_that_are_whole_already_stay_so() -> None:
    turns: tuple[Callable[[np.ndarray], np.ndarray], ...] = (lambda matrix: matrix, lambda matrix: matrix.T)
    for turn in turns:
        last = turn(np.array([[0.5, 0.5], [0.5, 0.5], [2.0, 1.0]]))
        sums = last.sum(axis=1).astype(int), last.sum(axis=0).astype(int)
        rounded = turn(round_exactly(last, *sums))
        assert rounded[2].tolist() == [2, 1]
        assert sorted(rounded[:2].tolist()) == [[0, 1], [1, 0]]


def options(**own: Any) -> Options:
    return Options.model_validate({"clients": 5, "burn_in": 0, "steps": 0, **own})


@pytest.mark.parametrize("least", [0.0, 8.0])
def test_targets_are_drawn_sizes_first_then_each_dimension(least: float) -> None:
    settings = options(size_alpha=0.7, class_alpha=0.3, feature_alpha=2.0, legacy_seed=4, min_size=least)
    sizes, proportions = draw_targets(settings, 100, [3, 2, 4], np.random.default_rng(0))
    draws = np.random.RandomState(4)
    tries = 1
    while (shares := draws.dirichlet([0.7] * 5)).min() * 100 < least:
        tries += 1
    assert (tries > 1) == (least > 0)
    np.testing.assert_array_equal(sizes, integers(shares, 100))
    for drawn, (alpha, size) in zip(proportions, ((0.3, 3), (2.0, 2), (2.0, 4)), strict=True):
        np.testing.assert_array_equal(drawn, draws.dirichlet([alpha] * size, 5))
    rng = np.random.default_rng(6)
    sizes, (classes,) = draw_targets(options(size_alpha=2.0, class_alpha=0.3), 100, [3], rng)
    again = np.random.default_rng(6)
    np.testing.assert_array_equal(sizes, integers(draw_dirichlet(2.0, 1, 5, again)[0], 100))
    np.testing.assert_array_equal(classes, draw_dirichlet(0.3, 5, 3, again))


def test_a_draw_that_is_just_large_enough_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    given = iter([np.array([[0.1, 0.9]]), np.array([[0.25, 0.75]]), np.ones((2, 1))])
    monkeypatch.setattr("fedcore.partitions.draw_dirichlet", lambda *_: next(given))
    sizes, _ = draw_targets(options(clients=2, min_size=5.0), 20, [1], np.random.default_rng(0))
    assert sizes.tolist() == [5, 15]
    monkeypatch.undo()
    with pytest.raises(SpecError, match=r"partition\.min_size: got 11, but none of 1000 draws"):
        draw_targets(options(clients=2, min_size=11.0, legacy_seed=0), 20, [1], np.random.default_rng(0))


def test_rows_are_dealt_out_by_configuration() -> None:
    membership = np.random.default_rng(1).permutation(np.repeat([0, 1, 2], [6, 3, 5]))
    allocation = np.array([[1, 0, 4], [5, 2, 0], [0, 1, 1], [0, 0, 0]])

    def deal(seed: int) -> list[np.ndarray]:
        rows = rows_of_classes(membership, np.random.default_rng(seed))
        return deal_classes(rows, allocation.T, len(allocation))

    dealt = deal(0)
    np.testing.assert_array_equal(label_counts(tuple(dealt), membership, 3), allocation)
    assert sorted(np.concatenate(dealt)) == list(range(14))
    assert {rows.dtype for rows in dealt} == {np.dtype(np.int64)}
    others = {str(deal(seed)) for seed in range(5)}
    assert len(others) == 5


def test_columns_are_numbered_from_0_and_indicators_are_one_a_category() -> None:
    data = toy_data([0, 1, 0, 1], features={"soil": [7, 2, 7, 5], "sea": [3, 3, 3, 3], "sex": [1, 0, 0, 1]})
    columns = feature_columns(data, options(features=["soil", "sea", "sex"]))
    assert [column.tolist() for column in columns] == [[2, 0, 2, 1], [0, 0, 0, 0], [1, 0, 0, 1]]
    settings = options(features=["soil", "sea", "sex"], feature_reading="indicators")
    assert [column.tolist() for column in feature_columns(data, settings)] == [
        *([0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 1, 0]),
        *([0, 1, 1, 0], [1, 0, 0, 1]),
    ]
    for name, hint in (("soul", r" \(did you mean 'soil'\?\)"), ("weather", "; 'toy' has sea, sex, soil")):
        with pytest.raises(SpecError, match=f"partition.features: no column named '{name}'{hint}"):
            feature_columns(data, options(features=[name]))
    with pytest.raises(SpecError, match="'toy' has no categorical columns"):
        feature_columns(toy_data([0, 1]), options(features=["soil"]))


def test_no_moves_are_made_where_none_are_asked_for() -> None:
    problem = two_dimensions()
    still = round_exactly(solve(problem), problem.sizes, problem.counts)
    np.testing.assert_array_equal(allocate(problem, Search(0, 0), np.random.default_rng(0)), still)
    for search in (Search(400, 0, 0.9, stop=None), Search(0, 400, 0.9, stop=None)):
        rng = np.random.default_rng(5)
        walked = randomise(problem, solve(problem), search, np.random.default_rng(5))
        moved = allocate(problem, search, rng)
        np.testing.assert_array_equal(moved, round_exactly(walked, problem.sizes, problem.counts))
    assert options(burn_in=3, steps=4, xi=0.5, xi_reading="fraction", stop=[1.5, 2]).search() == Search(
        3, 4, 0.5, "fraction", (1.5, 2.0)
    )


def test_a_partition_is_drawn_allocated_and_dealt_out_in_turn() -> None:
    """The classes' and the feature's targets come from the run's draws; counts are near the optimum's."""
    labels, soil = (
        np.random.default_rng(0).integers(3, size=400),
        np.random.default_rng(1).integers(2, size=400),
    )
    data = toy_data(labels, features={"soil": soil}, classes=4)
    raw = {"clients": 6, "burn_in": 0, "steps": 0, "features": ["soil"], "class_alpha": 1.0, "legacy_seed": 7}
    split = split_data(data, "qp", **raw)
    sizes, (classes, feature) = draw_targets(
        Options.model_validate(raw), 400, [4, 2], np.random.default_rng(0)
    )
    np.testing.assert_array_equal([len(rows) for rows in split.clients], sizes)
    combinations = np.array(list(product(range(3), range(2))))
    counts = np.array([((labels == c) & (soil == s)).sum() for c, s in combinations])
    problem = QP(sizes, counts, combinations, (classes * sizes[:, None], feature * sizes[:, None]))
    best = problem.marginals(solve(problem))
    np.testing.assert_allclose(label_counts(split.clients, labels, 4), best[0], atol=3)
    np.testing.assert_allclose(label_counts(split.clients, soil, 2), best[1], atol=3)
    assert split.note == "QP, sizes Dirichlet(1), classes Dirichlet(1), soil Dirichlet(0.1)"
    plain = split_data(data, "qp", clients=2, burn_in=0, steps=0, size_alpha=5.0)
    assert plain.note == "QP, sizes Dirichlet(5), classes Dirichlet(0.1)"
