"""Partitions that can be worked out by hand, or by a second, plainer program with the same draws."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from partition_toys import deal_rows, rows_of, split_data, toy_data

from fedcore.base.errors import SpecError
from fedcore.base.files import sha256_file
from fedcore.base.registry import Plugin
from fedcore.base.rng import Streams
from fedcore.data import Dataset, Partition, Rows
from fedcore.partitions import (
    PartitionOptions,
    cut,
    draw_dirichlet,
    even,
    floor_share,
    integers,
    rows_of_classes,
    stats,
)
from fedcore.partitions.build import check, make
from fedcore.partitions.dirichlet import (
    by_class,
    by_class_min,
    by_client,
    by_client_sizes,
    by_label,
    deal,
    fedomw,
)
from fedcore.partitions.natural import by_group, natural
from fedcore.partitions.similarity import iid
from fedcore.partitions.stats import (
    c_score,
    entropies,
    label_counts,
    of_data,
    pairwise_distances,
    repeated,
    statistics,
)

LABELS = np.random.default_rng(5).permutation(np.repeat([0, 1, 3], [30, 50, 20]))


def lists(clients: Any) -> list[list[int]]:
    return [[int(row) for row in rows] for rows in clients]


def plain_by_class(
    labels: np.ndarray, clients: int, alpha: float, draws: np.random.RandomState, capped: bool, floor: bool
) -> list[list[int]]:
    """Deal each class out as scripts for numpy's legacy generator do: shuffle, draw, cap, cut."""
    held: list[list[int]] = [[] for _ in range(clients)]
    for label in sorted(set(labels.tolist())):
        members = np.array([row for row, value in enumerate(labels) if value == label])
        draws.shuffle(members)
        shares = draws.dirichlet([alpha] * clients)
        if capped:
            shares = np.array(
                [s if len(rows) < len(labels) / clients else 0 for s, rows in zip(shares, held, strict=True)]
            )
        if floor:
            shares = shares + 1 / len(members)
        ends = [int(share * len(members)) for share in np.cumsum(shares / shares.sum())]
        starts = [0, *ends[:-1]]
        for client, (start, end) in enumerate(zip(starts, [*ends[:-1], len(members)], strict=True)):
            held[client] += members[start:end].tolist()
    return held


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("capped", "floor"), [(False, False), (True, False), (False, True), (True, True)])
def test_by_class_is_what_scripts_for_the_legacy_generator_draw(seed: int, capped: bool, floor: bool) -> None:
    drawn = by_class(LABELS, 4, 0.4, np.random.RandomState(seed), capped=capped, floor=floor)
    plain = plain_by_class(LABELS, 4, 0.4, np.random.RandomState(seed), capped, floor)
    assert lists(drawn) == plain


@pytest.mark.parametrize(("capped", "floor"), [(False, False), (True, True)])
def test_by_class_min_draws_on_until_the_smallest_client_has_enough(capped: bool, floor: bool) -> None:
    least, draws = 17, np.random.RandomState(0)
    tries = 1
    while min(map(len, plain := plain_by_class(LABELS, 4, 0.4, draws, capped, floor))) < least:
        tries += 1
    assert tries > 2
    options: dict[str, Any] = {"min_rows": least, "capped": capped, "floor": floor}
    drawn = by_class_min(LABELS, 4, 0.4, np.random.RandomState(0), retries=tries, **options)
    assert lists(drawn) == plain
    with pytest.raises(SpecError, match=f"in {tries - 1} draws"):
        by_class_min(LABELS, 4, 0.4, np.random.RandomState(0), retries=tries - 1, **options)


def test_what_the_smallest_client_had_at_most_is_said() -> None:
    draws = np.random.RandomState(0)
    most = max(min(map(len, plain_by_class(LABELS, 4, 0.4, draws, False, False))) for _ in range(6))
    assert most > 0
    with pytest.raises(SpecError, match=f"got 25, but in 6 draws the smallest client had {most} rows"):
        by_class_min(LABELS, 4, 0.4, np.random.RandomState(0), min_rows=25, retries=6)
    labels = np.zeros(12, int)
    assert lists(by_class_min(labels, 4, 1e6, np.random.default_rng(0), min_rows=3, retries=99)) != []
    with pytest.raises(SpecError, match="expected at most 3"):
        by_class_min(labels, 4, 1e6, np.random.default_rng(0), min_rows=4, retries=99)


def test_fedomw_is_the_capped_draw_with_a_floor_and_its_rows_may_be_exchanged() -> None:
    plain = plain_by_class(LABELS, 4, 0.4, np.random.RandomState(9), True, True)
    options: dict[str, Any] = {"min_rows": 0, "retries": 1, "legacy_seed": 9}
    assert lists(fedomw(LABELS, 4, 0.4, np.random.default_rng(1), **options)) == plain
    order = np.random.default_rng(1).permutation(len(LABELS))
    exchanged = fedomw(LABELS, 4, 0.4, np.random.default_rng(1), shuffled=True, **options)
    assert lists(exchanged) == [order[rows].tolist() for rows in plain]
    unseeded = fedomw(LABELS, 4, 0.4, np.random.default_rng(1), min_rows=0, retries=1)
    drawn = by_class(LABELS, 4, 0.4, np.random.default_rng(1), capped=True, floor=True)
    assert lists(unseeded) == lists(drawn)


def test_by_class_gives_a_client_of_proportion_0_nothing() -> None:
    """With a tiny alpha one client has all of a class; the new generator's slack keeps the others at 0."""
    for seed in range(20):
        counts = label_counts(tuple(by_class(LABELS, 5, 1e-6, np.random.default_rng(seed))), LABELS, 4)
        assert sorted(counts.max(axis=0)) == [0, 20, 30, 50]


def test_by_class_deals_evenly_where_only_full_clients_have_a_share() -> None:
    """One client gets all of class 0 and is full then; class 1 is the other's, or drawn for the full one."""
    labels = np.repeat([0, 1], [40, 4])
    seen = set()
    for seed in range(20):
        drawn = by_class(labels, 2, 1e-6, np.random.default_rng(seed), capped=True)
        counts = label_counts(tuple(drawn), labels, 2)
        seen.add(tuple(counts[counts[:, 0].argsort(), 1].tolist()))
        assert sorted(counts[:, 0]) == [0, 40]
    assert seen == {(4, 0), (2, 2)}


def test_a_deal_by_pure_proportions_has_pure_clients() -> None:
    sizes, pure = np.array([20, 30, 50]), np.array([[0, 0, 0, 1.0], [1, 0, 0, 0], [0, 1, 0, 0]])
    held = deal(LABELS, sizes, pure, np.random.default_rng(0))
    assert [set(LABELS[rows]) for rows in held] == [{3}, {0}, {1}]
    assert sorted(np.concatenate(held)) == list(range(100))
    for seed in range(5):
        last = deal(np.array([1, 0]), np.array([1, 1]), np.eye(2), np.random.default_rng(seed))
        assert lists(last) == [[1], [0]], "a label's last row is drawn as any other"


def test_a_deal_follows_its_proportions_while_rows_last() -> None:
    labels = np.repeat(np.arange(3), 100_000)
    sizes, shares = np.array([20_000, 20_000, 260_000]), np.array([[0.5, 0.3, 0.2], [0, 1, 3], [1, 1, 1.0]])
    lasted = 0
    for seed in range(6):
        counts = label_counts(tuple(deal(labels, sizes, shares, np.random.default_rng(seed))), labels, 3)
        np.testing.assert_array_equal(counts.sum(axis=1), sizes)
        np.testing.assert_array_equal(counts.sum(axis=0), 100_000)
        if np.abs(counts[2] - [90_000, 89_000, 81_000]).max() < 500:
            np.testing.assert_allclose(counts[:2] / 20_000, [[0.5, 0.3, 0.2], [0, 0.25, 0.75]], atol=0.02)
            lasted += 1
    assert lasted


def test_clients_are_filled_in_random_order() -> None:
    """Both want label 0 alone; who is filled first gets it."""
    labels, want = np.repeat([0, 1], 10), np.array([[1.0, 0], [1.0, 0]])
    first = [
        int((labels[deal(labels, np.array([10, 10]), want, np.random.default_rng(seed))[0]] == 0).sum())
        for seed in range(20)
    ]
    assert set(first) == {0, 10}


def test_sizes_and_labels_are_drawn_with_their_own_concentrations() -> None:
    labels = np.repeat(np.arange(4), 250)
    flat = by_client_sizes(labels, 5, 1e-6, np.random.default_rng(0), size_alpha=1e6)
    assert {len(rows) for rows in flat} <= {199, 200, 201}
    sizes = integers(draw_dirichlet(0.3, 1, 5, np.random.default_rng(3))[0], 1000)
    drawn = by_client_sizes(labels, 5, 1.0, np.random.default_rng(3), size_alpha=0.3)
    assert [len(rows) for rows in drawn] == sizes.tolist()
    pure = by_label(np.repeat(np.arange(2), 5000), 10, 1e-6, np.random.default_rng(1))
    mixed = by_label(np.repeat(np.arange(2), 5000), 10, 1e6, np.random.default_rng(1))
    share = [np.mean([(rows >= 5000).mean() for rows in clients]) for clients in (pure, mixed)]
    assert share == pytest.approx([0.5, 0.5])
    assert max(abs((rows >= 5000).mean() - 0.5) for rows in mixed) < 0.06
    assert sum((rows >= 5000).mean() in {0.0, 1.0} for rows in pure) >= 6


def test_default_of_size_alpha_is_1() -> None:
    options = {"clients": 4, "alpha": 1.0, "convention": "by_client_sizes"}
    data = toy_data(LABELS)
    default, explicit, other = (
        split_data(data, "dirichlet", **options, **extra)
        for extra in ({}, {"size_alpha": 1.0}, {"size_alpha": 2.0})
    )
    assert lists(default.clients) == lists(explicit.clients) != lists(other.clients)


@pytest.mark.parametrize("shuffled", [False, True])
def test_options_of_the_conventions_are_handed_on(shuffled: bool) -> None:
    data = toy_data(LABELS)
    plain = plain_by_class(LABELS, 4, 0.4, np.random.RandomState(9), True, True)
    options = {"clients": 4, "alpha": 0.4, "convention": "fedomw", "legacy_seed": 9, "min_rows": 0}
    split = split_data(data, "dirichlet", **options, shuffled=shuffled)
    assert [len(rows) for rows in split.clients] == [len(rows) for rows in plain]
    assert (lists(split.clients) == [sorted(rows) for rows in plain]) == (not shuffled)
    assert split.note == "Dirichlet(0.4) fedomw" + (", labels shuffled" if shuffled else "")
    with pytest.raises(SpecError, match="got 25, but in 7 draws"):
        split_data(data, "dirichlet", **options | {"min_rows": 25, "retries": 7, "alpha": 0.01})
    many = {"clients": 10, "alpha": 0.001, "convention": "by_class_min", "retries": 7}
    with pytest.raises(SpecError, match="got 10, but in 7 draws"):
        split_data(data, "dirichlet", **many)


def test_equal_shares_where_all_proportions_are_0() -> None:
    np.testing.assert_array_equal(integers(np.zeros(4), 10), [3, 3, 2, 2])
    np.testing.assert_array_equal(integers(np.array([3.0, 1.0]), 8), [6, 2])
    np.testing.assert_array_equal(integers(np.array([0.5, 0.3, 0.2]), 9), [4, 3, 2])
    np.testing.assert_array_equal(integers(np.array([0.2, 0.3, 0.5]), 9), [2, 3, 4])
    np.testing.assert_array_equal(integers(np.array([1.0, 1.0, 1.0]), 5), [2, 2, 1])


def test_counts_that_are_even() -> None:
    assert even(11, 4).tolist() == [3, 3, 3, 2]
    assert even(2, 4).tolist() == [1, 1, 0, 0]
    assert [floor_share(0.29, 100), floor_share(0.5, 7), floor_share(0.0, 9), floor_share(1.0, 9)] == [
        *(29, 3, 0, 9)
    ]
    assert cut(np.arange(5), np.array([2, 0, 3]))[1].tolist() == []
    assert cut(np.arange(0), np.array([], int)) == []


def test_rows_of_classes_are_all_rows_of_each_in_random_order() -> None:
    rows_by_class = rows_of_classes(LABELS, np.random.default_rng(0))
    assert [sorted(rows.tolist()) for rows in rows_by_class] == [
        np.flatnonzero(label == LABELS).tolist() for label in range(4)
    ]
    assert rows_by_class[1].tolist() != sorted(rows_by_class[1].tolist())
    assert rows_by_class[1].dtype == np.int64
    assert rows_of_classes(np.zeros(0, int), np.random.default_rng(0)) == []


def test_a_dirichlet_draw_is_that_of_logarithms_of_gammas() -> None:
    """Gamma(a) = Gamma(a + 1) U^(1 / a), computed as it stands where nothing underflows."""
    drawn = draw_dirichlet(0.7, 3, 4, np.random.default_rng(2))
    rng = np.random.default_rng(2)
    gammas = rng.standard_gamma(1.7, (3, 4)) * (1 - rng.random((3, 4))) ** (1 / 0.7)
    np.testing.assert_allclose(drawn, gammas / gammas.sum(axis=1)[:, None], rtol=1e-12)


def test_shards_are_blocks_of_the_sorted_rows() -> None:
    """With a label for each row the sorted order is known: a client holds two blocks of three."""
    labels = np.random.default_rng(0).permutation(24)
    split = split_data(toy_data(labels), "shards", clients=4)
    starts = []
    for rows in split.clients:
        held = np.sort(labels[rows])
        blocks = held.reshape(2, 3)
        assert (np.diff(blocks, axis=1) == 1).all()
        starts += blocks[:, 0].tolist()
    assert sorted(starts) == list(range(0, 24, 3))
    assert split.note == "2 label-sorted shards a client"
    three = split_data(toy_data(np.arange(26)), "shards", clients=4, shards_per_client=3)
    assert three.note == "3 label-sorted shards a client; 2 shards hold one row more than the others"
    dealt = {str(split_data(toy_data(labels), "shards", seed, clients=4).clients) for seed in range(5)}
    assert len(dealt) == 5


@pytest.mark.parametrize(("share", "uniform"), [(0.0, 0), (0.25, 5), (0.3, 6), (0.52, 10), (1.0, 20)])
def test_similarity_sorts_all_but_its_share(share: float, uniform: int) -> None:
    """Of 20 rows with a label each, what is not IID runs through the clients in the order of labels."""
    labels = np.random.default_rng(0).permutation(20)
    rng = np.random.default_rng(4)
    dealt = deal_rows("similarity", labels, rng, clients=3, similarity=share)
    assert [len(rows) for rows in dealt] == [7, 7, 6]
    counts = even(uniform, 3)
    shuffled = np.random.default_rng(4).permutation(20)
    mixed = [rows[:count].tolist() for rows, count in zip(dealt, counts, strict=True)]
    assert list(chain(*mixed)) == shuffled[:uniform].tolist()
    ordered = np.concatenate([labels[rows[count:]] for rows, count in zip(dealt, counts, strict=True)])
    assert (np.diff(ordered) > 0).all()
    assert len(ordered) == 20 - uniform
    split = split_data(toy_data(labels), "similarity", clients=3, similarity=share)
    assert split.note == f"similarity {share:.0%}, equal sizes"


def test_power_law_clients_have_consecutive_labels_from_their_number_on() -> None:
    labels = np.repeat(np.arange(5), 200)
    split = split_data(toy_data(labels), "power_law", 3, clients=5, labels_per_client=2, exponent=3.0)
    counts = label_counts(split.clients, labels, 5)
    owned = sorted(tuple(np.flatnonzero(row).tolist()) for row in counts)
    assert owned == [(0, 1), (0, 4), (1, 2), (2, 3), (3, 4)]
    single = split_data(toy_data(labels), "power_law", clients=5, labels_per_client=1)
    assert sorted(int(labels[rows[0]]) for rows in single.clients) == list(range(5))
    assert {len(rows) for rows in single.clients} == {200}
    split_data(toy_data(labels), "power_law", clients=4, labels_per_client=2)
    with pytest.raises(SpecError, match="got 2 for 3 clients, expected enough to cover 5 labels"):
        split_data(toy_data(labels), "power_law", clients=3, labels_per_client=2)
    many = split_data(toy_data(labels), "power_law", clients=2, labels_per_client=9)
    assert "9 labels a client" in many.note
    assert (label_counts(many.clients, labels, 5) > 0).all()


def test_power_law_weights_are_pareto_variates() -> None:
    labels = np.repeat([0, 2], [600, 300])
    dealt = deal_rows("power_law", labels, np.random.default_rng(8), clients=6, exponent=2.5)
    rng = np.random.default_rng(8)
    rng.permutation(900)
    weights = rng.pareto(1.5, 6) + 1
    counts = label_counts(dealt, labels, 3)
    np.testing.assert_array_equal(counts[:, 0], integers(weights, 600))
    np.testing.assert_array_equal(counts[:, 2], integers(weights, 300))
    labels = np.arange(600) % 5
    options = {"clients": 6, "exponent": 2.5, "labels_per_client": 2}
    few = label_counts(deal_rows("power_law", labels, np.random.default_rng(8), **options), labels, 5)
    rng = np.random.default_rng(8)
    for draw in (rng.permutation(600), rng.pareto(1.5, 6)):
        assert len(draw)
    starts = rng.permutation(6)
    assert [set(np.flatnonzero(row)) for row in few] == [{k % 5, (k + 1) % 5} for k in starts]
    note = split_data(toy_data(labels), "power_law", clients=6).note
    assert note == "power-law sizes (exponent 2), all labels a client"


def test_iid_clients_are_consecutive_cuts_of_one_shuffling() -> None:
    order = np.random.default_rng(6).permutation(10).tolist()
    assert lists(iid(10, 3, np.random.default_rng(6))) == [order[:4], order[4:7], order[7:]]
    assert split_data(toy_data(LABELS), "iid", clients=3).note == "IID, equal sizes"


def test_by_client_divides_each_label_in_proportion_to_the_clients_shares() -> None:
    labels = np.repeat(np.arange(4), 50_000)
    for seed in range(3):
        shares = draw_dirichlet(1.0, 3, 4, np.random.default_rng(seed))
        dealt = by_client(labels, 3, 1.0, np.random.default_rng(seed))
        counts = label_counts(tuple(dealt), labels, 4)
        np.testing.assert_allclose(counts / 50_000, shares / shares.sum(axis=0), atol=0.01)
        assert any(column.sum() < 0.9 for column in shares.T)


def test_by_class_cuts_each_class_at_the_cumulated_dirichlet_shares() -> None:
    """A Gamma(a) variate is a Gamma(a + 1) one times U^(1/a); their shares of the sum are Dirichlet(a)."""
    draws, held = np.random.default_rng(3), [[], [], []]  # type: ignore[var-annotated]
    for label in (0, 1, 3):
        members = np.flatnonzero(label == LABELS)
        draws.shuffle(members)
        weights = draws.standard_gamma(1.5, 3) * (1 - draws.random(3)) ** 2
        first, second = (len(members) * np.cumsum(weights / weights.sum())[:2]).astype(int)
        for client, rows in enumerate((members[:first], members[first:second], members[second:])):
            held[client] += rows.tolist()
    assert lists(by_class(LABELS, 3, 0.5, np.random.default_rng(3))) == held


def test_shares_a_hair_below_a_whole_row_lose_it_in_legacy_scripts_alone() -> None:
    """.29 * 100 is 28.999999999999996 in binary."""

    class Fixed(np.random.RandomState):
        def dirichlet(self, alpha: Any, size: Any = None) -> Any:
            return np.tile([0.29, 0.71], (size, 1))

    assert [len(rows) for rows in by_class(np.zeros(100, int), 2, 1.0, Fixed(0))] == [28, 72]


@pytest.mark.parametrize("convention", [by_label, by_client])
def test_rows_of_a_single_class_are_dealt_out_whole(convention: Any) -> None:
    drawn = convention(np.zeros(6, int), 2, 1.0, np.random.default_rng(0))
    assert sorted(chain(*lists(drawn))) == list(range(6))


def test_no_rows_have_no_classes() -> None:
    assert rows_of_classes(np.zeros(0, int), np.random.default_rng(0)) == []


def test_by_client_deals_a_label_that_nobody_draws_to_all_alike() -> None:
    labels = np.repeat(np.arange(4), 10_000)
    counts = label_counts(tuple(by_client(labels, 2, 1e-6, np.random.default_rng(0))), labels, 4)
    kinds = sorted(tuple(np.round(column / 10_000, 1)) for column in counts.T)
    assert kinds.count((0.5, 0.5)) >= 2
    assert set(kinds) <= {(0.0, 1.0), (1.0, 0.0), (0.5, 0.5)}


def test_each_client_holds_out_rows_of_its_own_stream() -> None:
    data = toy_data(np.zeros(60, int), np.arange(60) // 20)
    split = split_data(data, "natural", 4, validation=0.25)
    held = []
    for client in range(3):
        order = Streams(4).get("partition/validation", client=client).permutation(20)
        held += sorted(20 * client + order[:5])
    assert split.validation.tolist() == held
    assert len({tuple(np.array(held[5 * client : 5 * client + 5]) % 20) for client in range(3)}) == 3
    pool = split_data(data, "natural", 4, validation=0.25, validation_from="pool")
    taken = Streams(4).get("partition/validation").permutation(60)[:15]
    assert pool.validation.tolist() == sorted(taken)
    folded = split_data(data, "natural", 4, fold={"index": 1, "of": 3, "rotation": 1})
    order = Streams(4).get("partition/fold").permutation(3)
    assert folded.test is not None
    assert [set(rows // 20) for rows in (folded.clients[0], folded.validation, folded.test)] == [
        {order[0]},
        {order[2]},
        {order[1]},
    ]
    drawn = iid(60, 7, Streams(4).get("partition"))
    assert lists(split_data(data, "iid", 4, clients=7).clients) == [sorted(rows) for rows in lists(drawn)]
    pool = split_data(data, "iid", 4, clients=7, validation=0.25, validation_from="pool")
    kept = np.setdiff1d(np.arange(60), taken)
    drawn = iid(45, 7, Streams(4).get("partition"))
    assert lists(pool.clients) == [sorted(kept[rows].tolist()) for rows in drawn]


def test_a_plug_in_behind_a_pool_sees_the_other_rows_and_may_keep_some_of_them_for_a_test() -> None:
    data = toy_data(np.arange(8), np.arange(8) % 2)
    seen: list[np.ndarray] = []

    def build(options: PartitionOptions, rest: Dataset, rng: np.random.Generator) -> Partition:
        seen.extend((rest.train.x[:, 0], rest.train.y, rest.train.groups))  # type: ignore[arg-type]
        return Partition(clients=(np.arange(1, 4),), test=np.array([0, 4, 5]), note="mine")

    options = PartitionOptions(validation=0.25, validation_from="pool")
    split = make(Plugin("mine", PartitionOptions, build, "", ""), options, data, 3)
    taken = sorted(Streams(3).get("partition/validation").permutation(8)[:2].tolist())
    kept = [row for row in range(8) if row not in taken]
    assert split.validation.tolist() == taken
    assert split.test is not None
    assert (lists(split.clients), split.test.tolist()) == ([kept[1:4]], [kept[row] for row in (0, 4, 5)])
    assert [column.tolist() for column in seen] == [kept, kept, [row % 2 for row in kept]]

    def broken(options: PartitionOptions, rest: Dataset, rng: np.random.Generator) -> Partition:
        return Partition(clients=(np.arange(5),), note="mine")

    with pytest.raises(SpecError, match="partition 'mine': row 5 is neither held nor dropped"):
        make(Plugin("mine", PartitionOptions, broken, "", ""), options, data, 3)


@pytest.mark.parametrize("text", ["[[0, -1], [1]]", "[[0, 1.5]]", '[["0"]]', "[[0], 1]", "[[0], [true]]"])
def test_only_row_numbers_are_rows(text: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(SpecError, match=r"rows\.json: client [01]: expected a list of row numbers"):
        split_data(toy_data([0, 1]), "file", path=str(path), sha256=sha256_file(path))
    path.write_text("[[1], []]")
    split = split_data(toy_data([0, 1]), "file", path=str(path), sha256=sha256_file(path), drop_rest=True)
    assert split.dropped.tolist() == [0]
    with pytest.raises(SpecError, match=r"rows\.json: 1 rows are in no list"):
        split_data(toy_data([0, 1]), "file", path=str(path), sha256=sha256_file(path))


GROUPS = np.array([3, 0, 3, 1, 0, 3, 1, 3])


def test_natural_clients_with_enough_rows_in_the_order_of_their_ids() -> None:
    data = toy_data(np.zeros(8, int), GROUPS)
    full = split_data(data, "natural")
    assert lists(full.clients) == [[1, 4], [3, 6], [0, 2, 5, 7]]
    assert full.note == "3 natural clients"
    assert not len(full.dropped)
    large = split_data(data, "natural", min_rows=3)
    assert lists(large.clients) == [[0, 2, 5, 7]]
    assert large.note == "1 natural clients; 4 rows of clients left out"
    assert large.dropped.tolist() == [1, 3, 4, 6]
    assert [len(rows) for rows in split_data(data, "natural", min_rows=2).clients] == [2, 2, 4]
    with pytest.raises(SpecError, match=r"partition\.min_rows: no natural client has 5 rows"):
        split_data(data, "natural", min_rows=5)
    message = r"partition\.clients: got 2, expected at most 1 \(natural clients with 3 or more rows\)"
    with pytest.raises(SpecError, match=message):
        split_data(data, "natural", clients=2, min_rows=3)
    with pytest.raises(SpecError, match=message):
        natural(GROUPS, 4, 2, 3, np.random.default_rng(0))
    assert lists(split_data(data, "natural", clients=3).clients) == lists(full.clients)


def test_rows_of_a_group_stay_in_order() -> None:
    groups = np.random.default_rng(0).integers(3, size=300)
    clients = by_group(groups, 5)
    assert [rows.tolist() for rows in clients] == [np.flatnonzero(groups == g).tolist() for g in range(5)]
    assert by_group(np.zeros(0, np.int64), 2)[1].dtype == np.int64


def test_sampled_natural_clients_are_different_ones_in_order() -> None:
    data = toy_data(np.zeros(40, int), np.arange(40) % 20)
    seen = set()
    for seed in range(6):
        split = split_data(data, "natural", seed, clients=5)
        owners = [int(rows[0] % 20) for rows in split.clients]
        assert owners == sorted(set(owners))
        assert len(owners) == 5
        assert split.note == "5 natural clients; 30 rows of clients left out"
        seen.add(tuple(owners))
    assert len(seen) > 3


def test_shuffled_natural_clients_are_as_many_with_the_same_rows() -> None:
    split = split_data(toy_data(np.zeros(8, int), GROUPS), "natural", clients=2, shuffled=True)
    held = sorted(chain(*lists(split.clients)))
    rows_by_group = {0: [1, 4], 1: [3, 6], 3: [0, 2, 5, 7]}
    assert held in [sorted(rows_by_group[a] + rows_by_group[b]) for a, b in ((0, 1), (0, 3), (1, 3))]
    sizes = [len(rows) for rows in split.clients]
    assert max(sizes) - min(sizes) <= 1
    assert split.note.startswith("2 natural clients, rows shuffled between them; ")


def test_given_clients_are_counted_by_names_and_by_rows() -> None:
    data = toy_data(np.zeros(3, int), [1, 0, 1])
    named = replace(data, group_names=("a", "b", "c", "d"))
    assert lists(split_data(named, "given").clients) == [[1], [0, 2], [], []]
    assert split_data(named, "given").note.startswith("4 clients as given; 2 of 4 clients are empty (2, 3)")
    unnamed = replace(data, group_names=())
    assert lists(split_data(unnamed, "given").clients) == [[1], [0, 2]]
    assert split_data(unnamed, "given").note == "2 clients as given"


def test_a_held_out_clients_rows_are_held_out() -> None:
    held = Partition(
        clients=(np.array([0]),),
        validation=np.array([1]),
        test=np.array([2]),
        dropped=np.array([3]),
        held_out=(np.array([1]), np.array([2])),
    )
    check(held, 4, "here")
    for row in (0, 3):
        wrong = replace(held, held_out=(np.array([1]), np.array([2, row])))
        message = f"here: held-out client 1: row {row} is neither a validation nor a test row"
        with pytest.raises(SpecError, match=message):
            check(wrong, 4, "here")


def test_what_lists_leave_out_and_what_is_wrong_with_them() -> None:
    data = toy_data([0, 1, 2, 3, 4])
    split = split_data(data, "file", rows=[[4, 0], [2]], drop_rest=True)
    assert split.note == "2 clients from lists; 2 rows left out"
    assert split_data(data, "file", rows=[[4, 0], [2, 1, 3]]).note == "2 clients from lists"
    for rows, message in (
        ([[0, 1], [5]], "client 1: row 5, but the data have 5 training rows"),
        ([[0, 1], [2]], r"2 rows are in no list \(the first is 3\); set drop_rest"),
    ):
        with pytest.raises(SpecError, match=rf"partition\.rows: {message}"):
            split_data(data, "file", rows=rows)


def test_validation_rows_of_each_client_and_of_the_pool() -> None:
    labels = np.arange(40) % 4
    plain = split_data(toy_data(labels), "shards", clients=4)
    held = split_data(toy_data(labels), "shards", clients=4, validation=0.25)
    assert held.note == f"{plain.note}; 25% of each client's rows held out for validation"
    for before, after in zip(plain.clients, held.clients, strict=True):
        taken = set(before) - set(after)
        assert (len(after), len(taken)) == (8, 2)
        assert taken <= set(held.validation)
    pool = split_data(toy_data(labels), "iid", clients=4, validation=0.25, validation_from="pool")
    assert pool.note == "IID, equal sizes; 25% of all rows held out for validation"
    assert [len(rows) for rows in (*pool.clients, pool.validation)] == [8, 8, 7, 7, 10]
    none = split_data(toy_data(labels), "iid", clients=4, validation_from="pool")
    assert lists(none.clients) == lists(split_data(toy_data(labels), "iid", clients=4).clients)


def test_rows_that_lists_drop_stay_dropped_under_a_pool_and_a_fold() -> None:
    data = toy_data(np.arange(12) % 3, np.arange(12) % 6)
    pooled = split_data(data, "natural", min_rows=2, validation=0.25, validation_from="pool")
    assert sorted(np.concatenate(rows_of(pooled)).tolist()) == list(range(12))
    assert len(pooled.validation) == 3
    lists_ = {"rows": [[0], [1, 2], [3, 4, 5], [6]], "drop_rest": True}
    folded = split_data(data, "file", **lists_, fold={"index": 0, "of": 3})
    assert folded.dropped.tolist() == [7, 8, 9, 10, 11]
    assert folded.test is not None
    assert len(folded.clients) == 1
    assert folded.note.startswith(
        "4 clients from lists; 5 rows left out; fold 0 of 3: 1 training, 1 validation"
    )
    assert sorted(np.concatenate(rows_of(folded)).tolist()) == list(range(12))


def test_clients_that_are_empty_are_named_up_to_ten() -> None:
    twelve = split_data(toy_data([0, 1, 2]), "iid", clients=15).note
    assert twelve.endswith("12 of 15 clients are empty (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, ...)")
    ten = split_data(toy_data([0, 1, 2]), "iid", clients=13).note
    assert ten.endswith("10 of 13 clients are empty (3, 4, 5, 6, 7, 8, 9, 10, 11, 12)")


COUNTS = np.array([[4, 0], [0, 0], [1, 3], [2, 2]])
HELD = tuple(np.split(np.arange(12), [4, 4, 8]))
OF_HELD = np.array([0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1])


def test_statistics_worked_out_by_hand() -> None:
    """Of 12 rows 7 are of class 0: ratios are 10/12, 8/12 and 2/12 off; pairs differ by .75, .5 and .25."""
    split = Partition(clients=HELD, validation=np.array([12, 13]), dropped=np.array([14]), note="by hand")
    summary = statistics(split, OF_HELD, 2)
    np.testing.assert_array_equal(label_counts(HELD, OF_HELD, 2), COUNTS)
    assert summary["clients"] == 4
    assert summary["empty_clients"] == [1]
    assert summary["sizes"] == {"min": 0, "max": 4, "mean": 3.0, "std": pytest.approx(3**0.5), "total": 12}
    assert summary["c_score"] == pytest.approx((10 + 8 + 2) / 12 / 3)
    quarter = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    np.testing.assert_allclose(entropies(COUNTS), [0, quarter, np.log(2)])
    entropy = summary["label_entropy"]
    assert (entropy["min"], entropy["max"]) == pytest.approx((0, np.log(2)))
    assert entropy["all"] == pytest.approx(-(7 * np.log(7 / 12) + 5 * np.log(5 / 12)) / 12)
    np.testing.assert_allclose(pairwise_distances(COUNTS), [0.75, 0.5, 0.25])
    assert summary["label_distance"]["mean"] == pytest.approx(0.5)
    assert summary["label_counts"] == COUNTS.tolist()
    assert [summary[key] for key in ("validation_rows", "test_rows", "dropped_rows", "note")] == [
        *(2, None, 1, "by hand")
    ]
    assert summary["label_entropy"]["std"] == pytest.approx(np.std([0, quarter, np.log(2)]))


def test_statistics_of_nothing() -> None:
    summary = statistics(Partition(clients=(np.empty(0, int),), test=np.array([1])), np.array([0, 1]), 2)
    nothing = {"min": None, "max": None, "mean": None, "std": None}
    assert summary["label_distance"] == nothing
    assert summary["label_entropy"] == nothing | {"all": 0.0}
    assert summary["c_score"] == 0
    assert summary["test_rows"] == 1
    assert c_score(np.zeros((3, 2), int)) == 0


def test_clients_of_one_row_have_ratios_too() -> None:
    counts = np.array([[1, 0], [1, 1], [0, 0]])
    np.testing.assert_allclose(entropies(counts), [0, np.log(2)])
    np.testing.assert_allclose(pairwise_distances(counts), [0.5])
    assert c_score(counts) == pytest.approx((2 / 3 + 1 / 3) / 2)


def test_of_many_clients_the_first_the_last_and_those_between_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stats, "MOST_COMPARED", 3)
    counts = np.array([[4, 0], [0, 4], [3, 1], [0, 4], [2, 2]])
    assert pairwise_distances(counts).tolist() == [0.25, 0.5, 0.25], "clients 0, 2 and 4"
    assert len(pairwise_distances(counts[:3])) == 3


def test_statistics_of_many_clients_are_cut() -> None:
    counts = np.array([[1, 0], [0, 1]] * 1001)
    assert len(pairwise_distances(counts)) == 2000 * 1999 // 2
    assert len(pairwise_distances(counts[:2000])) == 2000 * 1999 // 2
    assert pairwise_distances(counts[:1999]).mean() == pytest.approx(0.5, abs=0.001)
    spread = np.array([[1, 0]] * 3000 + [[0, 1]] * 3000)
    assert pairwise_distances(spread).mean() == pytest.approx(0.5, abs=0.001)
    for clients, listed in ((5000, True), (5001, False)):
        split = Partition(clients=tuple(np.array([i]) for i in range(clients)))
        summary = statistics(split, np.zeros(clients, int), 2)
        assert (summary["label_counts"] is not None) == listed


def test_rows_that_another_set_repeats_are_counted_by_content() -> None:
    """Rows a to e have two features, of which one alone tells d from e; capitals have another label."""
    content = {name: (ord(name.lower()) // 5, ord(name.lower()) % 5) for name in "aAbBcde"}
    rows = [*"aabcd", *"ab", *"Ae", *"aABde"]
    x = np.array([[content[name]] for name in rows], np.float32)
    y = np.array([int(name.isupper()) for name in rows])
    data = replace(toy_data([0, 1]), train=Rows(x, y), test=Rows(x[-2:], y[-2:]))
    parts = np.split(np.arange(len(rows)), [3, 5, 7, 9])
    split = Partition(
        clients=tuple(parts[:2]), validation=parts[2], selection=parts[3], test=parts[4], dropped=parts[4]
    )
    assert repeated(data, split) == {
        "validation_in_clients": [2, 2],
        "selection_in_clients": [1, 0],
        "test_in_clients": [4, 2],
        "selection_in_validation": [1, 0],
        "test_in_validation": [3, 1],
        "test_in_selection": [3, 2],
    }
    assert repeated(data, replace(split, clients=(), validation=parts[0][:0], test=None)) == {
        "test_in_selection": [1, 1]
    }, "the data's own test rows: d and e"
    assert repeated(data, Partition(clients=(parts[0],))) == {}


def test_data_are_described_by_their_own_numbers() -> None:
    x = np.zeros((6, 4, 3), np.float32)
    data = replace(
        toy_data([0, 1, 2, 0, 1, 2]), train=Rows(x, np.arange(6) % 3), test=Rows(x[:2], np.arange(2))
    )
    assert of_data(data) == {
        "data": "toy",
        "data_state": "synthetic",
        "data_note": "toy labels",
        "data_rows": {"train": 6, "test": 2},
        "data_features": 12,
        "data_classes": 3,
    }
