"""Every partition, on random labels: disjoint, complete, deterministic, whatever the order of keys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from partition_toys import covers_once, equal, split_data, toy_data

from fedcore.base.errors import SpecError
from fedcore.base.registry import plugins
from fedcore.data import Dataset

CHEAP: dict[str, tuple[str, dict[str, Any]]] = {
    "given": ("given", {}),
    "natural": ("natural", {}),
    "natural-shuffled": ("natural", {"shuffled": True}),
    "iid": ("iid", {"clients": 0}),
    "similarity-0": ("similarity", {"clients": 0, "similarity": 0}),
    "similarity-.3": ("similarity", {"clients": 0, "similarity": 0.3}),
    "by_class": ("dirichlet", {"clients": 0, "alpha": 0.01, "convention": "by_class"}),
    "by_class_min": ("dirichlet", {"clients": 0, "alpha": 0.5, "convention": "by_class_min", "min_rows": 0}),
    "by_label": ("dirichlet", {"clients": 0, "alpha": 0.01, "convention": "by_label"}),
    "by_client_sizes": ("dirichlet", {"clients": 0, "alpha": 0.01, "convention": "by_client_sizes"}),
    "by_client": ("dirichlet", {"clients": 0, "alpha": 0.01, "convention": "by_client"}),
    "fedomw": ("dirichlet", {"clients": 0, "alpha": 0.01, "convention": "fedomw", "min_rows": 0}),
    "fedomw-shuffled": (
        "dirichlet",
        {
            "clients": 0,
            "alpha": 0.01,
            "convention": "fedomw",
            "min_rows": 0,
            "shuffled": True,
            "legacy_seed": 2020,
        },
    ),
    "shards": ("shards", {"clients": 0}),
    "power_law": ("power_law", {"clients": 0}),
}
QP = ("qp", {"clients": 0, "burn_in": 200, "steps": 200})
QP_FEATURES = ("qp", {"clients": 0, "burn_in": 200, "steps": 200, "features": ["colour", "size"]})

LABELS = st.lists(st.integers(0, 5), min_size=1, max_size=60)
HOLD_OUT = st.sampled_from([{}, {"validation": 0.2}, {"validation": 0.2, "validation_from": "pool"}])


def random_data(labels: list[int], seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    features = {"colour": rng.integers(3, size=len(labels)), "size": rng.integers(2, size=len(labels))}
    return toy_data(labels, groups=rng.integers(7, size=len(labels)), features=features)


def with_clients(options: dict[str, Any], clients: int) -> dict[str, Any]:
    return {key: clients if key == "clients" else value for key, value in options.items()}


def holds(
    case: tuple[str, dict[str, Any]], labels: list[int], clients: int, seed: int, extra: dict[str, Any]
) -> None:
    name, options = case
    options = {**with_clients(options, clients), **extra}
    data = random_data(labels, seed)
    split = split_data(data, name, seed, **options)
    covers_once(split, len(labels))
    assert not len(split.dropped)
    if "clients" in options:
        assert len(split.clients) == clients
    empty = [client for client, rows in enumerate(split.clients) if not len(rows)]
    assert (f"{len(empty)} of {len(split.clients)} clients are empty" in split.note) == bool(empty)
    if seed % 4 == 0:
        features = dict(reversed(data.client_features.items()))
        backwards = replace(data, client_features=features)
        equal(split, split_data(backwards, name, seed, **dict(reversed(options.items()))))


@pytest.mark.parametrize("case", CHEAP.values(), ids=CHEAP.keys())
@settings(max_examples=150, deadline=None)
@given(labels=LABELS, clients=st.integers(1, 40), seed=st.integers(0, 2**31), extra=HOLD_OUT)
def test_covers_each_row_once(
    case: tuple[str, dict[str, Any]], labels: list[int], clients: int, seed: int, extra: dict[str, Any]
) -> None:
    holds(case, labels, clients, seed, extra)


@pytest.mark.slow
@pytest.mark.parametrize("case", CHEAP.values(), ids=CHEAP.keys())
@settings(max_examples=1000, deadline=None)
@given(labels=LABELS, clients=st.integers(1, 40), seed=st.integers(0, 2**31), extra=HOLD_OUT)
def test_covers_each_row_once_on_many_labels(
    case: tuple[str, dict[str, Any]], labels: list[int], clients: int, seed: int, extra: dict[str, Any]
) -> None:
    holds(case, labels, clients, seed, extra)


@pytest.mark.parametrize("case", [QP, QP_FEATURES], ids=["eq1", "eq2"])
@settings(max_examples=40, deadline=None)
@given(labels=LABELS, clients=st.integers(1, 30), seed=st.integers(0, 2**31), extra=HOLD_OUT)
def test_qp_covers_each_row_once(
    case: tuple[str, dict[str, Any]], labels: list[int], clients: int, seed: int, extra: dict[str, Any]
) -> None:
    holds(case, labels, clients, seed, extra)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(labels=LABELS, clients=st.integers(1, 30), seed=st.integers(0, 2**31), extra=HOLD_OUT)
def test_qp_covers_each_row_once_on_many_labels(
    labels: list[int], clients: int, seed: int, extra: dict[str, Any]
) -> None:
    holds(QP, labels, clients, seed, extra)


@settings(max_examples=200, deadline=None)
@given(labels=LABELS, seed=st.integers(0, 2**31), data=st.data())
def test_sampled_natural_clients_and_the_dropped_rest(labels: list[int], seed: int, data: Any) -> None:
    dataset = random_data(labels, seed)
    assert dataset.train.groups is not None
    sizes = np.bincount(dataset.train.groups)
    least = data.draw(st.integers(1, int(sizes.max())))
    eligible = int((sizes >= least).sum())
    clients = data.draw(st.integers(1, eligible))
    split = split_data(dataset, "natural", seed, clients=clients, min_rows=least)
    covers_once(split, len(labels))
    assert len(split.clients) == clients
    for rows in split.clients:
        assert len(rows) >= least
        assert len(set(dataset.train.groups[rows])) == 1
    with pytest.raises(SpecError, match=f"expected at most {eligible} "):
        split_data(dataset, "natural", seed, clients=eligible + 1, min_rows=least)


def test_no_partition_is_left_out() -> None:
    tried = {name for name, _ in [*CHEAP.values(), QP]}
    assert tried | {"file"} == set(plugins("partition"))


@pytest.mark.parametrize("case", [*CHEAP.values(), QP], ids=[*CHEAP, "qp"])
def test_other_seeds_give_other_partitions(case: tuple[str, dict[str, Any]]) -> None:
    name, options = case
    if name in {"given", "natural"} and not options.get("shuffled"):
        pytest.skip("takes the clients as they are")
    data = random_data(list(range(6)) * 10, 0)
    options = with_clients(options, 5)

    def drawn(seeds: Iterable[int], **extra: Any) -> set[str]:
        return {str(split_data(data, name, seed, **options, **extra).clients) for seed in seeds}

    assert len(drawn(range(4))) == 4
    assert len(drawn(range(4), seed=9)) == 1
    assert drawn([9]) == drawn([0], seed=9)
