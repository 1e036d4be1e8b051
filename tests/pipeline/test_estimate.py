"""Guesses of time and memory: larger for larger runs, and large enough for runs that were measured."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from project import HOME

from fedcore.spec import parse
from pipeline.catalogue import Catalogue
from pipeline.estimate import DATA, LONGEST_MINUTES, Cost, _model, estimate
from pipeline.params import load

PARAMS = yaml.safe_load((HOME / "params.yaml").read_text())
BASE: dict[str, Any] = {
    "data": {"name": "cifar10", "edition": "full"},
    "partition": {"name": "similarity", "clients": 20, "similarity": 0.0},
    "model": {"name": "cnn"},
    "algorithm": {"name": "fedavg"},
    "training": {"rounds": 20, "local_steps": 5, "batch_size": 32, "lr": 0.1},
}


def guess(**sections: Any) -> Cost:
    """Return the cost of BASE with keys of its sections changed."""
    values = {name: {**BASE.get(name, {}), **own} for name, own in sections.items()}
    return estimate(parse({**BASE, **values}).resolved())


@pytest.mark.parametrize(
    ("section", "key", "less", "more"),
    [
        ("training", "rounds", 20, 21),
        ("training", "local_steps", 5, 6),
        ("training", "batch_size", 32, 33),
        ("partition", "clients", 20, 21),
        ("participation", "fraction", 0.5, 0.6),
        ("model", "hidden", 512, 600),
        ("data", "edition", "demo", "full"),
    ],
)
def test_more_work_takes_longer(section: str, key: str, less: Any, more: Any) -> None:
    assert guess(**{section: {key: less}}).seconds < guess(**{section: {key: more}}).seconds


def test_a_round_costs_the_same_as_another() -> None:
    one, two, three = (guess(training={"rounds": rounds}).seconds for rounds in (10, 20, 30))
    assert three - two == pytest.approx(two - one)


def test_algorithms_that_keep_a_state_a_client_need_memory_for_it() -> None:
    sparse = {"participation": {"fraction": 0.1}, "partition": {"clients": 500}}
    plain = guess(**sparse)
    kept = estimate(parse({**BASE, **{n: {**BASE.get(n, {}), **v} for n, v in sparse.items()}} | {
        "algorithm": {"name": "scaffold"}
    }).resolved())  # fmt: skip
    model = _model(parse(BASE).model, DATA["cifar10"])[0] * 4 / 2**20
    assert kept.memory_mb - plain.memory_mb >= 400 * model


def test_later_attempts_ask_for_more_time_up_to_a_day_and_for_more_memory() -> None:
    cost = Cost(3600.0, 2000, 1e12)
    assert [cost.minutes(k) for k in (1, 2, 3, 4, 5)] == [182, 363, 725, LONGEST_MINUTES, LONGEST_MINUTES]
    assert [cost.megabytes(k) for k in (1, 2, 3)] == [2000, 3000, 4000]


def test_a_batch_takes_the_sum_of_the_times_and_the_largest_memory() -> None:
    assert Cost(1.0, 300, 5.0) + Cost(2.0, 200, 7.0) == Cost(3.0, 300, 7.0)


@pytest.mark.parametrize(
    ("data", "model", "parameters"),
    [
        ("mnist", {"name": "cnn"}, 1_663_370),
        ("cifar10", {"name": "cnn"}, 2_156_490),
        ("femnist", {"name": "cnn"}, 1_690_046),
        ("mnist", {"name": "mlp"}, 199_210),
        ("usps", {"name": "rff_linear", "features": 200, "learnable": True}, 53_400),
    ],
)
def test_parameters_are_those_of_the_models(data: str, model: dict[str, Any], parameters: int) -> None:
    spec = parse({**BASE, "data": {"name": data}, "model": model})
    assert _model(spec.model, DATA[data])[0] == pytest.approx(parameters, rel=0.01)


@pytest.mark.parametrize("scale", list(PARAMS["scales"]))
def test_every_run_has_a_guess_that_a_cluster_can_grant(scale: str) -> None:
    for run in Catalogue(load({**PARAMS, "scale": scale})).index.values():
        cost = estimate(run.spec)
        assert cost.seconds > 0
        assert 2 <= cost.minutes() <= LONGEST_MINUTES
        assert 1500 <= cost.memory_mb <= 64_000, run.folder


# Seconds of the slowest demo run of each kind among several hundred, on one busy core.
MEASURED = [
    ("rfedavg", "cross_silo-cifar10-sim0", "rfedavg_plus", 27.4),
    ("rfedavg", "cross_silo-cifar10-sim0", "fedprox", 28.2),
    ("comfed", "cross_device-cifar10-skewed", "scaf_yogi", 17.4),
    ("radfed", "tenth-shakespeare-roles", "fedasync", 25.1),
    ("radfed", "tenth-cifar10-cifar_01", "radfed_i", 29.8),
    ("fedomw", "fl-mnist-skewed", "fedomw", 1.7),
]


@pytest.mark.parametrize(("paper", "setting", "algorithm", "seconds"), MEASURED)
def test_what_was_measured_fits_into_what_is_asked_for(
    paper: str, setting: str, algorithm: str, seconds: float
) -> None:
    runs = Catalogue(load(PARAMS)).index.values()
    cost = next(
        estimate(run.spec)
        for run in runs
        if (run.paper, run.setting, run.algorithm) == (paper, setting, algorithm)
    )
    assert seconds + 30 < 60 * cost.minutes()
