"""Tables of variations: which runs they ask for, and that each differs from the declared one in one value."""

import json
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from fedcore.data import Source
from fedcore.execution.runner import load_data
from fedcore.partitions.build import make
from fedcore.partitions.stats import statistics
from fedcore.spec import parse
from pipeline.catalogue import Catalogue
from pipeline.papers import catalogue_of, papers
from pipeline.reports.tables import Table

HOME = Path(__file__).parents[2]
VARIED = [
    (paper, name)
    for paper, about in papers().items()
    for name, target in about.targets.items()
    if isinstance(target, Table) and name == "variations"
]
IID = ("partition.alpha", 1000.0)
FIFTH, TWICE = ("partition.clients", 10), ("partition.clients", 100)  # of 50
NAMED: Mapping[str, Mapping[str, tuple[str, object]]] = {
    "comfed": {
        "fedavg_iid": IID,
        "prox_yogi_1": ("algorithm.momentum_in_local", 0.1),
        "prox_yogi_5": ("algorithm.momentum_in_local", 0.5),
    },
    "fedomw": {
        **dict.fromkeys(("fedavg_iid", "dl_u_iid", "dl_opt_iid"), IID),
        **dict.fromkeys(("dl_u_fifth", "dl_opt_fifth"), FIFTH),
        **dict.fromkeys(("dl_u_twice", "dl_opt_twice"), TWICE),
    },
    "radfed": {
        "fedavg_iid": ("partition.class_alpha", 1000.0),
        "fedavg_uniform": ("algorithm.averaging", "uniform"),
        "fedavg_1": ("training.local_epochs", 1),
        "fedavg_half": ("participation.fraction", 0.5),
        "fedasync_1": ("algorithm.max_staleness", 1),
        "fedasync_60": ("algorithm.max_staleness", 60),
        "fedasync_constant": ("algorithm.staleness", "constant"),
        "fedasync_hinge": ("algorithm.staleness", "hinge"),
    },
    "rfedavg": {"fedprox_1": ("training.lr", 0.1)},
}


@pytest.fixture(scope="module", params=["quick", "paper"])
def made(request: pytest.FixtureRequest) -> Catalogue:
    return catalogue_of(HOME / "params.yaml", request.param)


def changed(one: Mapping[str, Any], other: Mapping[str, Any], place: str = "") -> set[str]:
    keys = {*one, *other}
    changes = set()
    for key in keys:
        left, right = one.get(key), other.get(key)
        if isinstance(left, dict) and isinstance(right, dict):
            changes |= changed(left, right, f"{place}{key}.")
        elif left != right:
            changes.add(f"{place}{key}")
    return changes


@pytest.mark.parametrize(("paper", "name"), VARIED)
def test_each_variation_differs_from_its_method_in_the_value_that_it_names(
    made: Catalogue, paper: str, name: str
) -> None:
    """In one of its columns at least; in another its method may have that value already."""
    cells = made.cells(paper, name)
    differing: dict[str, dict[str, object]] = {}
    for (row, column), runs in cells.items():
        method = runs[0].algorithm
        if method == row:
            continue
        for run, base in zip(runs, cells[method, column], strict=True):
            assert run.seed == base.seed
            changes = {key: _at(run.spec, key) for key in changed(run.spec, base.spec)}
            assert len(changes) <= 1, (row, column)
            differing.setdefault(row, {}).update(changes)
            assert row.startswith(method)
    assert differing == {row: dict([change]) for row, change in NAMED[paper].items()}


def _at(spec: Mapping[str, Any], key: str) -> object:
    return reduce(lambda values, part: values[part], key.split("."), spec)


@pytest.mark.parametrize("paper", ["comfed", "fedomw", "radfed"])
def test_iid_clients_have_nearly_the_same_labels(paper: str) -> None:
    cells = catalogue_of(HOME / "params.yaml", "demo").cells(paper, "variations")
    iid = {(row, column) for row, column in cells if row == "fedavg_iid"}
    assert iid
    for row, column in iid:
        skewed, even = (_c_score(cells[name, column][0].spec) for name in (row.removesuffix("_iid"), row))
        assert even < 0.5 * skewed, column


def _c_score(spec: Mapping[str, Any]) -> float:
    partition = parse(spec).partition
    dataset, _ = load_data(json.dumps(spec["data"]), Source(HOME / "data"))
    drawn = make(partition.plugin, partition.options, dataset, 0)
    return float(statistics(drawn, dataset.train.y, dataset.classes)["c_score"])


def test_columns_of_data_sets_that_the_parameters_lack_are_left_out() -> None:
    params = catalogue_of(HOME / "params.yaml", "demo").params.papers["fedomw"]
    fewer = params.model_copy(update={"datasets": {"satimage": params.datasets["satimage"]}})
    target = papers()["fedomw"].targets["variations"]
    assert [column.key for column in target.columns(fewer)] == ["satimage"]
    assert {column for _, column in target.cells(fewer)} == {"satimage"}
