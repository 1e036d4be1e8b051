"""The catalogue: the paper's values reach the specifications, runs are shared, expansion is fast."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import pytest
from project import HOME, parameters

from fedcore.base.errors import SpecError
from fedcore.base.files import canonical_json, sha256_text
from fedcore.spec import parse
from pipeline.catalogue import Catalogue
from pipeline.catalogue.targets import PlannedRun, Query
from pipeline.papers import build_catalogue


def catalogue(**changes: Any) -> Catalogue:
    return build_catalogue(parameters() | changes)


@pytest.fixture(scope="module")
def paper() -> Catalogue:
    return catalogue(scale="paper")


def spec(paper: Catalogue, regime: str, dataset: str, split: str, algorithm: str) -> Mapping[str, Any]:
    return paper.runs("rfedavg", Query(regime, dataset, split, algorithm))[0].spec


@pytest.mark.parametrize(
    ("regime", "clients", "fraction", "steps", "batch"),
    [("cross_silo", 20, 1.0, 5, 100), ("cross_device", 500, 0.2, 10, 32)],
)
def test_regimes_are_the_papers(
    paper: Catalogue, regime: str, clients: int, fraction: float, steps: int, batch: int
) -> None:
    run_spec = spec(paper, regime, "mnist", "sim0", "fedavg")
    assert run_spec["partition"]["clients"] == clients
    assert run_spec["participation"]["fraction"] == fraction
    assert (run_spec["training"]["local_steps"], run_spec["training"]["batch_size"]) == (steps, batch)


@pytest.mark.parametrize(
    ("dataset", "split", "rounds", "lr", "optimizer"),
    [
        ("mnist", "sim10", 60, 0.1, "sgd"),
        ("cifar10", "sim10", 200, 0.1, "sgd"),
        ("sent140", "iid", 30, 0.01, "rmsprop"),
    ],
)
def test_data_sets_are_the_papers(
    paper: Catalogue, dataset: str, split: str, rounds: int, lr: float, optimizer: str
) -> None:
    training = spec(paper, "cross_silo", dataset, split, "fedavg")["training"]
    assert (training["rounds"], training["lr"], training["optimizer"]) == (rounds, lr, optimizer)


@pytest.mark.parametrize(
    ("algorithm", "key", "values"),
    [
        ("fedprox", "mu", {"mnist": 1.0, "cifar10": 1.0, "sent140": 0.01}),
        ("qfedavg", "q", {"mnist": 1.0, "cifar10": 1.0, "sent140": 1e-4}),
        ("rfedavg", "lambda", {"mnist": 1e-4, "cifar10": 1e-5, "sent140": 0.1}),
        ("rfedavg_plus", "lambda", {"mnist": 1e-4, "cifar10": 1e-5, "sent140": 0.1}),
        ("scaffold", "server_lr", {"mnist": 1.0, "cifar10": 1.0, "sent140": 1.0}),
    ],
)
def test_hyperparameters_are_the_papers(
    paper: Catalogue, algorithm: str, key: str, values: dict[str, float]
) -> None:
    splits = {"mnist": "sim0", "cifar10": "sim0", "sent140": "noniid"}
    for regime in ("cross_silo", "cross_device"):
        by_dataset = {d: spec(paper, regime, d, s, algorithm)["algorithm"][key] for d, s in splits.items()}
        assert by_dataset == values


def test_a_regime_may_have_its_own_arithmetic() -> None:
    values = parameters()
    measured = {"train_every": 0, "precision": "bf16"}
    values["papers"]["rfedavg"]["regimes"]["cross_silo"] |= {"precision": "bf16", "evaluation": measured}
    planned = build_catalogue(values | {"scale": "paper"})
    changed, kept = (spec(planned, name, "mnist", "sim0", "fedavg") for name in ("cross_silo", "low_cost"))
    assert (changed["precision"], kept["precision"]) == ("bf16", "fp32")
    assert changed["evaluation"] == kept["evaluation"] | measured


def test_fedprox_has_its_own_rate_across_devices_only(paper: Catalogue) -> None:
    rates = {
        (regime, algorithm): spec(paper, regime, "mnist", "sim0", algorithm)["training"]["lr"]
        for regime in ("cross_silo", "cross_device")
        for algorithm in ("fedavg", "fedprox")
    }
    assert rates.pop(("cross_device", "fedprox")) == 0.01
    assert set(rates.values()) == {0.1}


def test_sent140_keeps_its_batch_size_in_both_regimes(paper: Catalogue) -> None:
    for regime in ("cross_silo", "cross_device"):
        assert spec(paper, regime, "sent140", "noniid", "fedavg")["training"]["batch_size"] == 10


@pytest.mark.parametrize("scale", ["demo", "quick", "paper"])
def test_every_run_is_valid_and_has_a_place_of_its_own(scale: str) -> None:
    planned = catalogue(scale=scale)
    identities = {(run.paper, sha256_text(canonical_json(run.spec))) for run in planned.index.values()}
    assert len(identities) == len(planned.index)
    for run in planned.index.values():
        assert parse(run.spec).resolved() == run.spec
        assert run.folder.startswith(f"results/{run.paper}/{scale}/")
    assert {run.scale for run in planned.index.values()} == {scale}


def test_a_curve_and_a_table_share_their_runs(paper: Catalogue) -> None:
    tables = {run.folder for t in ("table1", "table2") for run in paper.needed("rfedavg", t)}
    curves = {run.folder for run in paper.needed("rfedavg", "fig2")}
    assert curves <= tables
    assert len(curves) == 4 * 6 * 3
    assert len(tables) == 2 * 8 * 6 * 3
    assert tables <= set(paper.index)


def test_algorithms_and_steps_share_a_partition_and_seeds_do_not(paper: Catalogue) -> None:
    def partitions(regime: str) -> dict[int, set[str]]:
        by_seed: dict[int, set[str]] = {}
        for algorithm in paper.params.papers["rfedavg"].algorithms:
            for run in paper.runs("rfedavg", Query(regime, "mnist", "sim0", algorithm)):
                by_seed.setdefault(run.seed, set()).add(run.partition)
        return by_seed

    silo, device = partitions("cross_silo"), partitions("cross_device")
    assert all(len(folders) == 1 for folders in silo.values())
    assert len({next(iter(folders)) for folders in silo.values()}) == 3
    assert silo[0] != device[0], "another number of clients is another partition"


def test_a_partition_does_not_depend_on_the_algorithm_that_asks_first(paper: Catalogue) -> None:
    config = parameters() | {"scale": "paper"}
    algorithms = config["papers"]["rfedavg"]["algorithms"]
    config["papers"]["rfedavg"]["algorithms"] = dict(reversed(algorithms.items()))
    assert build_catalogue(config).partitions == paper.partitions


def test_an_unknown_target_names_the_nearest(paper: Catalogue) -> None:
    with pytest.raises(
        SpecError,
        match=r"rfedavg/table9: no such report; the nearest: .*reports/rfedavg/table1.*targets` lists all",
    ):
        paper.target("rfedavg", "table9")


def test_a_missing_setting_is_named(paper: Catalogue) -> None:
    with pytest.raises(SpecError, match=r"datasets\.mnits: missing, but a target needs it"):
        paper.runs("rfedavg", Query("cross_silo", "mnits", "sim0", "fedavg"))


def test_an_algorithm_added_to_the_parameters_is_a_row() -> None:
    config = parameters()
    config["papers"]["rfedavg"]["algorithms"]["fedprox_weak"] = {"name": "fedprox", "mu": 0.01}
    rows = {row for row, _ in build_catalogue(config).cells("rfedavg", "table1")}
    assert "fedprox_weak" in rows


def test_twenty_thousand_runs_expand_in_seconds() -> None:
    config = parameters() | {"scale": "paper"}
    config["papers"]["rfedavg"]["seeds"] = list(range(210))
    began = time.process_time()
    planned = build_catalogue(config)
    runs = len(planned.index)
    assert runs >= 2 * 8 * 6 * 210
    assert time.process_time() - began < 5 * runs / 20_000


def test_expansion_imports_nothing_heavy() -> None:
    program = (
        "import sys, yaml; from pipeline.workflow.answers import Workflow;"
        "Workflow(yaml.safe_load(open('params.yaml')));"
        "print([name for name in ('torch', 'pandas', 'matplotlib', 'scipy') if name in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=HOME, capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "[]"


def test_orders_name_everything_that_a_run_depends_on(paper: Catalogue) -> None:
    run: PlannedRun = next(iter(paper.index.values()))
    order = run.order()
    assert set(order) == {"spec", "out", "partition", "provenance"}
    assert order["out"] == run.folder
    assert order["provenance"] == {"code": run.code}
