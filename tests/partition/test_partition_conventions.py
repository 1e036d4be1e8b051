"""What each partition is: sizes and labels as its definition says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from partition_toys import covers_once, equal, rows_of, split_data, toy_data
from wording import one_line

from fedcore.base.errors import FedcoreError, SpecError
from fedcore.partitions import draw_dirichlet, integers
from fedcore.partitions.dirichlet import by_class, by_client, deal
from fedcore.partitions.stats import c_score, label_counts

BALANCED = np.repeat(np.arange(10), 100)
MNIST_TRAIN = np.repeat(np.arange(10), [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949])


def counts_of(name: str, labels: Any = BALANCED, seed: int = 0, **options: Any) -> np.ndarray:
    split = split_data(toy_data(labels), name, seed, **options)
    return label_counts(split.clients, np.asarray(labels), int(max(labels)) + 1)


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 1])
def test_similarity_deals_a_share_iid_and_the_rest_in_order(share: float) -> None:
    counts = counts_of("similarity", clients=20, similarity=share)
    assert (counts.sum(axis=1) == 50).all()
    labels = np.arange(20) // 2
    of_own_label = counts[np.arange(20), labels]
    assert (of_own_label >= 50 * (1 - share) - 15).all()
    expected = 1.8 * (1 - share)
    assert abs(c_score(counts) - expected) < 0.1 + 0.4 * share


def test_similarity_0_is_sorted_by_label() -> None:
    split = split_data(toy_data(BALANCED), "similarity", clients=7, similarity=0)
    joined = np.concatenate([np.sort(BALANCED[rows]) for rows in split.clients])
    np.testing.assert_array_equal(joined, BALANCED)
    assert {len(rows) for rows in split.clients} == {142, 143}


def test_similarity_1_is_as_near_to_iid_as_iid() -> None:
    similar = np.mean([c_score(counts_of("similarity", seed=s, clients=10, similarity=1)) for s in range(20)])
    iid = np.mean([c_score(counts_of("iid", seed=s, clients=10)) for s in range(20)])
    assert similar == pytest.approx(iid, rel=0.1)


@pytest.mark.parametrize(("clients", "each"), [(50, 2), (10, 1), (30, 3), (7, 2)])
def test_shards(clients: int, each: int) -> None:
    counts = counts_of("shards", clients=clients, shards_per_client=each)
    shard_size = 1000 // (clients * each)
    assert set(counts.sum(axis=1)) <= set(range(each * shard_size, each * (shard_size + 1) + 1))
    if 100 % shard_size == 0 and 1000 % (clients * each) == 0:
        assert ((counts > 0).sum(axis=1) <= each).all()


def test_shards_say_when_they_are_uneven() -> None:
    assert "1 shards hold one row more" in split_data(toy_data(range(9)), "shards", clients=4).note
    assert "more" not in split_data(toy_data(range(8)), "shards", clients=4).note


def test_power_law_sizes_and_labels() -> None:
    counts = counts_of("power_law", clients=100, labels_per_client=2)
    assert (counts == counts_of("power_law", clients=100, labels_per_client=2, exponent=2)).all()
    assert ((counts > 0).sum(axis=1) <= 2).all()
    sizes = np.sort(counts_of("power_law", np.zeros(100_000, int), clients=1000, exponent=2.5).sum(axis=1))
    tail = [(sizes >= x * sizes[0]).mean() for x in (2, 4, 8)]
    np.testing.assert_allclose(tail, [2**-1.5, 4**-1.5, 8**-1.5], atol=0.06)
    with pytest.raises(SpecError, match="got 2 for 3 clients, expected enough to cover 10 labels"):
        counts_of("power_law", clients=3, labels_per_client=2)


def test_by_class_follows_its_proportions() -> None:
    drawn = by_class(BALANCED, 5, 1e6, np.random.default_rng(0))
    np.testing.assert_allclose(label_counts(tuple(drawn), BALANCED, 10), 20, atol=1)
    skewed = by_class(BALANCED, 5, 1e-4, np.random.default_rng(0))
    assert (label_counts(tuple(skewed), BALANCED, 10) >= 99).sum() == 10


def test_by_class_min_reaches_its_minimum() -> None:
    assert counts_of("dirichlet", clients=20, alpha=0.3, convention="by_class").sum(axis=1).min() < 22
    options: dict[str, Any] = {"clients": 20, "alpha": 0.3, "convention": "by_class_min"}
    assert counts_of("dirichlet", **options, min_rows=22).sum(axis=1).min() >= 22
    assert counts_of("dirichlet", **options).sum(axis=1).min() >= 10
    capped = counts_of("dirichlet", **options, min_rows=0, capped=True)
    before_last = capped[:, :-1].cumsum(axis=1)
    assert (capped[:, 1:][before_last >= 50] == 0).all()


def test_a_smaller_alpha_skews_sizes_and_labels_more() -> None:
    drawn = {
        alpha: [
            counts_of("dirichlet", seed=seed, clients=20, convention="by_class", alpha=alpha)
            for seed in range(10)
        ]
        for alpha in (0.1, 1.0, 10.0)
    }
    sizes = [np.mean([counts.sum(axis=1).std() for counts in draws]) for draws in drawn.values()]
    labels = [np.mean([c_score(counts) for counts in draws]) for draws in drawn.values()]
    assert sizes[0] > 1.5 * sizes[1] > 1.5**2 * sizes[2]
    assert labels[0] > 1.5 * labels[1] > 1.5**2 * labels[2]


@pytest.mark.parametrize("alpha", [0.01, 0.1, 1, 100])
def test_by_label_has_equal_sizes(alpha: float) -> None:
    counts = counts_of("dirichlet", clients=30, alpha=alpha, convention="by_label")
    assert set(counts.sum(axis=1)) == {33, 34}


def test_by_client_sizes_draws_sizes_apart_from_labels() -> None:
    flat = counts_of("dirichlet", clients=20, alpha=0.05, convention="by_client_sizes", size_alpha=1e6)
    assert set(flat.sum(axis=1)) <= {49, 50, 51}
    skewed = counts_of("dirichlet", clients=20, alpha=1e6, convention="by_client_sizes", size_alpha=0.5)
    assert skewed.sum(axis=1).max() > 150
    assert c_score(flat) > 1
    assert c_score(skewed[skewed.sum(axis=1) > 40]) < 0.4


def test_by_client_equals_drawing_in_turn() -> None:
    """Rows that go to clients in proportion to p_tc have the law of clients drawing labels in turn."""
    labels = np.repeat(np.arange(3), [40, 60, 100])
    seen = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        proportions = draw_dirichlet(1.0, 4, 3, np.random.default_rng(7))
        left, held = np.array([40, 60, 100]), np.zeros((4, 3))
        while left.sum():
            client, label = rng.integers(4), None
            label = rng.choice(3, p=proportions[client])
            if left[label]:
                left[label] -= 1
                held[client, label] += 1
        seen.append(held)
    ours = []
    replayed: Any
    for seed in range(400):
        replayed = Replayed(7, seed)
        ours.append(label_counts(tuple(by_client(labels, 4, 1.0, replayed)), labels, 3))
    np.testing.assert_allclose(np.mean(ours, axis=0), np.mean(seen, axis=0), atol=1.2)
    np.testing.assert_allclose(np.std(ours, axis=0), np.std(seen, axis=0), atol=0.6)


class Replayed:
    """A generator whose Dirichlet draws come from one seed and everything else from another."""

    def __init__(self, proportions: int, rest: int) -> None:
        self._proportions = np.random.default_rng(proportions)
        self._rest = np.random.default_rng(rest)
        self.standard_gamma, self.random = self._proportions.standard_gamma, self._proportions.random
        self.permutation, self.multinomial = self._rest.permutation, self._rest.multinomial


def test_by_client_skews_sizes_and_labels() -> None:
    counts = counts_of("dirichlet", clients=20, alpha=0.1, convention="by_client")
    assert counts.sum(axis=1).std() > 10
    assert c_score(counts) > 1


def test_fedomw_reproduces_the_released_draw() -> None:
    """MNIST, 50 clients, alpha .01, seed 2020: C-score 1.276 as drawn, .276 as the released code trains."""
    options: dict[str, Any] = {"clients": 50, "alpha": 0.01, "convention": "fedomw", "legacy_seed": 2020}
    labels = np.random.default_rng(0).permutation(MNIST_TRAIN)
    drawn = counts_of("dirichlet", labels, **options)
    trained = counts_of("dirichlet", labels, **options, shuffled=True)
    assert c_score(drawn) == pytest.approx(1.276, abs=5e-4)
    assert c_score(trained) == pytest.approx(0.276, abs=0.01)
    np.testing.assert_array_equal(drawn.sum(axis=1), trained.sum(axis=1))
    assert drawn.sum(axis=1).min() >= 10


@pytest.mark.parametrize(
    ("counts", "drawn_score", "trained_score"),
    [((464, 485, 1051), 0.758, 0.261), ((1072, 479, 961, 415, 470, 1038), 1.119, 0.329)],
    ids=["dna", "satimage"],
)
def test_fedomw_on_small_sets(counts: tuple[int, ...], drawn_score: float, trained_score: float) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    options: dict[str, Any] = {"clients": 50, "alpha": 0.01, "convention": "fedomw", "legacy_seed": 2020}
    assert c_score(counts_of("dirichlet", labels, **options)) == pytest.approx(drawn_score, abs=5e-4)
    shuffled = [c_score(counts_of("dirichlet", labels, s, **options, shuffled=True)) for s in range(5)]
    assert np.mean(shuffled) == pytest.approx(trained_score, abs=0.02)


def test_deal_falls_back_on_what_is_left() -> None:
    labels = np.repeat([0, 1], [5, 15])
    held = deal(labels, np.array([10, 10]), np.array([[1.0, 0.0], [1.0, 0.0]]), np.random.default_rng(0))
    assert sorted(int((labels[rows] == 0).sum()) for rows in held) == [0, 5]
    assert [len(rows) for rows in held] == [10, 10]


@pytest.mark.parametrize("alpha", [1e-6, 1e-3, 0.01, 1, 1e4])
def test_dirichlet_draws_have_the_right_law(alpha: float) -> None:
    drawn = draw_dirichlet(alpha, 4000, 5, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.sum(axis=1), 1)
    assert (drawn >= 0).all()
    np.testing.assert_allclose(drawn.mean(axis=0), 0.2, atol=0.025)
    np.testing.assert_allclose(drawn.var(axis=0), 0.16 / (5 * alpha + 1), rtol=0.1)


def test_integers_keep_the_total_and_stay_near() -> None:
    shares = np.array([0.5, 0.25, 0.25, 0])
    np.testing.assert_array_equal(integers(shares, 7), [3, 2, 2, 0])
    np.testing.assert_array_equal(integers(np.zeros(3), 7), [3, 2, 2])


def test_natural_shuffled_pools_the_rows() -> None:
    groups = np.repeat([0, 1, 2], [1, 9, 20])
    split = split_data(toy_data(np.arange(30) % 3, groups), "natural", shuffled=True)
    assert [len(rows) for rows in split.clients] == [10, 10, 10]
    assert all(len(set(groups[rows])) > 1 for rows in split.clients)


def test_given_keeps_order_and_empty_clients() -> None:
    split = split_data(toy_data([0, 1, 0, 1], groups=[2, 0, 2, 0]), "given")
    assert [rows.tolist() for rows in split.clients] == [[1, 3], [], [0, 2]]
    assert "1 of 3 clients are empty (1)" in split.note


def test_lists_in_the_specification() -> None:
    data = toy_data([0, 1, 2, 3])
    split = split_data(data, "file", rows=[[3, 0], [], [1, 2]])
    assert [rows.tolist() for rows in split.clients] == [[0, 3], [], [1, 2]]
    some = split_data(data, "file", rows=[[3], [1]], drop_rest=True)
    assert some.dropped.tolist() == [0, 2]
    assert "2 rows left out" in some.note


def test_validation_takes_a_floor_of_each_client() -> None:
    plain = split_data(toy_data(BALANCED), "shards", clients=30)
    split = split_data(toy_data(BALANCED), "shards", clients=30, validation=0.2)
    covers_once(split, 1000)
    for full, kept in zip(plain.clients, split.clients, strict=True):
        assert set(kept) <= set(full)
        assert len(kept) == len(full) - len(full) // 5
    assert len(split_data(toy_data(BALANCED), "iid", clients=10, validation=0.29).validation) == 290


def test_validation_from_the_pool_is_of_all_rows() -> None:
    split = split_data(toy_data(BALANCED), "iid", clients=7, validation=0.2, validation_from="pool")
    assert len(split.validation) == 200
    assert [len(rows) for rows in split.clients] == [115, 115, 114, 114, 114, 114, 114]


def test_validation_keeps_features_and_groups_in_line() -> None:
    groups = np.arange(60) % 4
    data = toy_data(np.arange(60) % 3, groups, {"colour": np.arange(60) % 5})
    natural = split_data(data, "natural", validation=0.5, validation_from="pool")
    assert all(len(set(groups[rows])) == 1 for rows in natural.clients)
    options = {"clients": 4, "features": ["colour"], "burn_in": 10, "steps": 10}
    covers_once(split_data(data, "qp", validation=0.5, validation_from="pool", **options), 60)


def test_five_folds_test_each_client_once() -> None:
    data = toy_data(np.arange(1430) % 10, groups=np.arange(1430) % 143)
    split = split_data(data, "natural", seed=4)
    tested, validated = [], []
    for index in range(5):
        fold = split_data(data, "natural", seed=4, fold={"index": index})
        covers_once(fold, 1430)
        assert fold.test is not None
        tested.append(fold.test)
        validated.append(fold.validation)
        assert data.train.groups is not None
        owners = [set(data.train.groups[rows]) for rows in rows_of(fold) if len(rows)]
        assert sum(map(len, owners)) == 143
        if index == 0:
            assert (len(fold.clients), len(fold.validation), len(fold.test)) == (85, 290, 290)
            assert "85 training, 29 validation and 29 test clients" in fold.note
    assert sorted(np.concatenate(tested).tolist()) == list(range(1430))
    assert sorted(np.concatenate(validated).tolist()) == list(range(1430))
    np.testing.assert_array_equal(validated[0], tested[1])
    other = split_data(data, "natural", seed=4, fold={"index": 0, "rotation": 2})
    np.testing.assert_array_equal(other.validation, tested[2])
    assert len(split.clients) == 143


def test_a_fold_deals_out_the_clients_of_the_whole_partition() -> None:
    data = toy_data(BALANCED)
    options = {"clients": 100, "alpha": 0.5, "convention": "by_class"}
    split = split_data(data, "dirichlet", 2, **options)
    fold = split_data(data, "dirichlet", 2, **options, fold={"index": 3})
    assert len(fold.clients) == 60
    clients = {tuple(rows) for rows in split.clients}
    assert {tuple(rows) for rows in fold.clients} <= clients
    again = split_data(data, "dirichlet", 5, **options, seed=2, fold={"index": 3})
    equal(fold, again)


FAULTS: list[tuple[str, dict[str, Any], str]] = [
    (
        "similarity",
        {"clients": 5, "similarity": 1.4},
        "partition.similarity: got 1.4, expected a number less",
    ),
    (
        "similarity",
        {"clients": 0, "similarity": 1},
        "partition.clients: got 0, expected a number greater than 0",
    ),
    ("similarity", {"similarity": 1}, "partition.clients: missing, but required"),
    ("iid", {"clients": 3, "validation": 1}, "partition.validation: got 1, expected a number less than 1"),
    ("iid", {"clients": 3, "fold": {"index": 5}}, "index: got 5, expected 0 to 4"),
    ("iid", {"clients": 9, "fold": {"index": 0, "rotation": 5}}, "rotation: got 5, expected 1 to 4"),
    ("iid", {"clients": 4, "fold": {"index": 0}}, "partition.fold.of: got 5, expected at most 4"),
    ("iid", {"clients": 9, "validation": 0.1, "fold": {"index": 0}}, "validation and fold both define"),
    ("given", {}, "partition.name: 'given' needs client names, toy has none"),
    ("natural", {}, "partition.name: 'natural' needs client names"),
    ("dirichlet", {"clients": 3, "alpha": 0, "convention": "by_class"}, "partition.alpha: got 0"),
    ("dirichlet", {"clients": 3, "alpha": 1, "convention": "by_clas"}, "partition.convention: got 'by_clas'"),
    ("dirichlet", {"clients": 3, "alpha": 1}, "partition.convention: missing, expected one of 'by_class'"),
    (
        "dirichlet",
        {"clients": 3, "alpha": 1, "convention": "by_label", "min_rows": 0},
        "min_rows: only for convention by_class_min or fedomw, not by_label",
    ),
    (
        "dirichlet",
        {"clients": 3, "alpha": 1, "convention": "by_class", "retries": 3},
        "retries: only for convention by_class_min or fedomw, not by_class",
    ),
    (
        "dirichlet",
        {"clients": 101, "alpha": 1, "convention": "by_class_min"},
        "partition.min_rows: got 10 for 101 clients, expected at most 9 (there are 1000 rows)",
    ),
    (
        "dirichlet",
        {"clients": 50, "alpha": 0.01, "convention": "by_class_min", "retries": 3},
        "in 3 draws the smallest client had 0 rows at most",
    ),
    ("qp", {"clients": 3, "features": ["soil"]}, "partition.features: no column named 'soil'"),
    (
        "qp",
        {"clients": 3, "stop": [1.2, 1.1]},
        "stop: got [1.2, 1.1], expected a lower and a higher",
    ),
    ("qp", {"clients": 3, "stop": [1.1, 1.1]}, "stop: got [1.1, 1.1], expected a lower and a higher"),
    ("qp", {"clients": 3, "xi": 2}, "xi: got 2.0, expected at most 1 for the reading 'relative'"),
    ("qp", {"clients": 3, "xi": 2, "xi_reading": "fraction"}, "at most 1 for the reading 'fraction'"),
    (
        "qp",
        {"clients": 30, "min_size": 34},
        "partition.min_size: got 34, but none of 1000 draws",
    ),
    ("file", {}, "expected either 'rows' or 'path'"),
    ("file", {"rows": []}, "rows: expected one list a client"),
    ("file", {"rows": [[0]], "sha256": "ab"}, "sha256: got 'ab' beside 'rows', expected it beside 'path'"),
    ("qp", {"clients": 2, "class_alpha": 1e-5, "legacy_seed": 1}, "shares are beyond the range of numbers"),
    (
        "dirichlet",
        {"clients": 5, "alpha": 1e-5, "convention": "fedomw", "legacy_seed": 1},
        "partition: shares are beyond the range of numbers",
    ),
    (
        "file",
        {"rows": [[0, 1000]]},
        "partition.rows: client 0: row 1000, but the data have 1000 training rows",
    ),
    ("file", {"rows": [[0, 1]]}, "partition.rows: 998 rows are in no list (the first is 2)"),
    ("file", {"rows": [[0, 1], [1]], "drop_rest": True}, "partition 'file': row 1 is held more than once"),
    ("file", {"path": "/no/such.json"}, "partition.path: no such file: '/no/such.json'"),
]


@pytest.mark.parametrize(("name", "options", "message"), FAULTS, ids=[f"{f[0]}-{f[2][:40]}" for f in FAULTS])
def test_faults_are_one_line(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(FedcoreError) as caught:
        split_data(toy_data(BALANCED), name, **options)
    assert message in str(caught.value)
    one_line(caught.value)


@pytest.mark.parametrize("more", [{}, {"validation": 0.2, "validation_from": "pool"}])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dirichlet", {"clients": 2, "alpha": 1, "convention": "by_label"}),
        ("qp", {"clients": 2}),
        ("iid", {"clients": 2}),
    ],
)
def test_data_without_rows_are_refused(name: str, options: dict[str, Any], more: dict[str, Any]) -> None:
    with pytest.raises(FedcoreError, match=r"^data 'toy': no training rows, expected some to deal out$"):
        split_data(toy_data([]), name, **options, **more)
