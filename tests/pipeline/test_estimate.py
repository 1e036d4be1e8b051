"""Guesses of time and memory: larger for larger runs, and large enough for runs that were measured."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
import yaml
from project import HOME

from fedcore.base.files import canonical_json
from fedcore.base.registry import plugins
from fedcore.spec import parse
from pipeline.papers import build_catalogue, catalogue_of
from pipeline.workflow.estimate import (
    BASE_MB,
    LONGEST_MINUTES,
    SECONDS,
    UNKNOWN,
    Cost,
    Network,
    duration,
    estimate,
    network_of,
    size_of,
)

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
        ("evaluation", "every", 2, 1),
        ("evaluation", "observe", {}, {"features": {}}),
    ],
)
def test_more_work_takes_longer(section: str, key: str, less: Any, more: Any) -> None:
    assert guess(**{section: {key: less}}).seconds < guess(**{section: {key: more}}).seconds


# 70,000 rows of MNIST, of which 56,000 are for training: 2,800 for each of 20 clients, 28 batches of 100.
# Five clients a round for 10 rounds are 50 jobs of 56 steps. Two tests on 14,000 rows; one on 56,000.
SMALL: dict[str, Any] = {
    "data": {"name": "mnist", "edition": "full"},
    "partition": {"name": "iid", "clients": 20},
    "model": {"name": "logistic"},
    "algorithm": {"name": "fedavg"},
    "training": {"rounds": 10, "local_epochs": 2, "batch_size": 100, "lr": 0.1},
    "participation": {"fraction": 0.25},
    "evaluation": {"every": 5, "train_every": 10},
}
WEIGHTS, PARAMETERS = 7840, 7850
WORK = {
    "step": 2800,
    "dense": 6 * 100 * 2800 * WEIGHTS,
    "sent": 50 * PARAMETERS,
    "measured": 2 * (2 * 14_000 + 56_000) * WEIGHTS,
    "measurement": 3,
    "round": 10,
}


def steps(number: float, batch: int = 100) -> dict[str, float]:
    """Return the work of so many gradient steps."""
    return {"step": number, "dense": 6 * batch * number * WEIGHTS}


@pytest.mark.parametrize(
    ("changed", "work"),
    [
        ({}, {}),
        ({"training": {"local_epochs": None, "local_steps": 7}}, steps(350)),
        ({"training": {"local_epochs": None, "local_steps": [1, 2] * 10}}, steps(75)),
        ({"training": {"batch_size": "full"}}, steps(100, 2800)),
        ({"training": {"batch_size": 5000}}, steps(100, 2800)),
        ({"partition": {"clients": 112_000}}, steps(560_000, 1) | {"sent": 280_000 * PARAMETERS}),
        ({"participation": {"fraction": 0.01}}, steps(560) | {"sent": 10 * PARAMETERS}),
        ({"algorithm": {"name": "moon"}}, steps(3 * 2800)),
        ({"algorithm": {"name": "fedasync"}}, steps(560) | {"sent": 10 * PARAMETERS}),
        ({"algorithm": {"name": "centralised"}}, steps(11_200) | {"sent": 10 * PARAMETERS}),
        (
            {"algorithm": {"name": "radfed", "redistributions": 3}},
            steps(8400) | {"sent": 150 * PARAMETERS, "round": 30},
        ),
        ({"algorithm": {"name": "fedavgr"}}, {"density": 2800}),
        ({"algorithm": {"name": "fedavgr", "beta": 0}}, {"density": 2800}),
        ({"algorithm": {"name": "fedavgr", "beta": 0, "gamma": 0}}, {}),
        ({"algorithm": {"name": "fedomw", "steps_p": 7}}, {"server": 70}),
        ({"algorithm": {"name": "fedomw", "steps_p": 0}}, {}),
        ({"algorithm": {"name": "fedomw", "epochs_p": 2, "batch_p": 10}}, {"server": 10 * 2 * 1400}),
        ({"algorithm": {"name": "fedomw", "epochs_p": 2}}, {"server": 10 * 2 * 875}),
        ({"evaluation": {"divergence": True}}, steps(5600) | {"sent": 100 * PARAMETERS}),
        ({"evaluation": {"train_every": None}}, {"measured": 4 * 70_000 * WEIGHTS, "measurement": 4}),
        ({"evaluation": {"train_every": 0}}, {"measured": 4 * 14_000 * WEIGHTS, "measurement": 2}),
        (
            {"evaluation": {"observe": {"features": {}, "path": {"every": 1}}}},
            {"measured": 2 * (84_000 + 12 * 70_000) * WEIGHTS, "measurement": 15},
        ),
    ],
)  # fmt: skip
def test_the_work_of_a_run_is_counted(changed: dict[str, Any], work: dict[str, float]) -> None:
    spec = parse({**SMALL, **{name: {**SMALL[name], **own} for name, own in changed.items()}}).resolved()
    expected = sum(SECONDS[name] * amount for name, amount in (WORK | work).items())
    assert estimate(spec).seconds == pytest.approx(expected, rel=1e-12)


def test_convolutions_count_apart_from_other_weights() -> None:
    spec = parse({**SMALL, "model": {"name": "cnn"}}).resolved()
    dense, shared = 3136 * 512 + 512 * 10, 28**2 * 32 * 25 + 14**2 * 64 * 32 * 25
    work = WORK | {
        "dense": 6 * 100 * 2800 * dense,
        "shared": 6 * 100 * 2800 * shared,
        "sent": 50 * 1_663_370,
        "measured": 2 * 84_000 * (dense + shared),
    }
    cost = estimate(spec)
    assert cost.seconds == pytest.approx(sum(SECONDS[name] * amount for name, amount in work.items()))
    assert cost.step_operations == 6 * 100 * (dense + shared)


@pytest.mark.parametrize(
    ("changed", "bytes_each", "models"),
    [
        ({}, 4, 20),
        ({"dtype": "float64"}, 8, 20),
        ({"algorithm": {"name": "scaffold"}}, 4, 50),
        ({"algorithm": {"name": "fedasync"}}, 4, 12),
    ],
)
def test_memory_holds_the_rows_and_two_models_a_client(
    changed: dict[str, Any], bytes_each: int, models: int
) -> None:
    numbers = 3 * 70_000 * 784 + models * 1_663_370
    expected = BASE_MB + 1.2 * bytes_each * numbers / 2**20
    spec = parse({**SMALL, "model": {"name": "cnn"}, **changed}).resolved()
    assert expected <= estimate(spec).memory_mb < expected + 1


def test_steps_are_small_below_a_thousand_million_operations() -> None:
    assert estimate(parse(SMALL).resolved()).step_operations == 6 * 100 * WEIGHTS
    assert Cost(1.0, 1, 0.999e9).small
    assert not Cost(1.0, 1, 1e9).small


def test_a_round_costs_the_same_as_another() -> None:
    one, two, three = (guess(training={"rounds": rounds}).seconds for rounds in (10, 20, 30))
    assert three - two == pytest.approx(two - one)


def test_algorithms_that_keep_a_state_a_client_need_memory_for_it() -> None:
    sparse: dict[str, dict[str, Any]] = {"participation": {"fraction": 0.1}, "partition": {"clients": 500}}
    plain = guess(**sparse)
    kept = estimate(parse({**BASE, **{n: {**BASE.get(n, {}), **v} for n, v in sparse.items()}} | {
        "algorithm": {"name": "scaffold"}
    }).resolved())  # fmt: skip
    model = network_of(
        canonical_json(parse(BASE).model.resolved()), size_of(canonical_json(BASE["data"]))
    ).parameters
    assert kept.memory_mb - plain.memory_mb >= 400 * model * 4 / 2**20


def test_later_attempts_ask_for_more_time_up_to_a_day_and_for_more_memory() -> None:
    cost = Cost(3600.0, 2000, 1e12)
    assert [cost.minutes(k) for k in (1, 2, 3, 4, 5)] == [182, 363, 725, LONGEST_MINUTES, LONGEST_MINUTES]
    assert [cost.megabytes(k) for k in (1, 2, 3)] == [2000, 3000, 4000]
    assert (cost.minutes(), cost.megabytes()) == (182, 2000), "the first attempt"


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
    size = size_of(canonical_json({"name": data, "edition": "full"}))
    assert network_of(canonical_json(model), size).parameters == parameters


@pytest.mark.parametrize(
    ("data", "model", "network"),
    [
        ("mnist", {"name": "mlp"}, Network(199_210, 784 * 200 + 200 * 200 + 200 * 10, 0.0, 784)),
        ("mnist", {"name": "rff_linear", "features": 900}, Network(9000, 9000, 0.0, 900)),
        ("usps", {"name": "rff_linear", "features": 200}, Network(2000, 2000, 0.0, 256)),
        ("cifar10", {"name": "cnn"}, Network(2_156_490, 4096 * 512 + 5120, 2400 * 1024 + 51_200 * 256, 3072)),
        (
            "cifar10",
            {"name": "mobilenetv2_head", "weights": "full", "resize": 96},
            Network(898_890, 12_800, 9 * 879_040, 3072),
        ),
        (
            "cifar10",
            {"name": "mobilenetv2_head", "weights": "full", "resize": 0},
            Network(898_890, 12_800, 879_040, 3072),
        ),
        ("shakespeare", {"name": "lstm"}, Network(822_570, 256 * 90, 80 * 1024 * (264 + 512), 80)),
        ("sent140", {"name": "lstm"}, Network(842_242, 256 * 2, 25 * 1024 * (306 + 512), 25)),
        ("shakespeare", {"name": "cnn"}, Network(10**6, 1e6, 0.0, 80)),
    ],
)  # fmt: skip
def test_what_counts_of_a_model(data: str, model: dict[str, Any], network: Network) -> None:
    """Worked out by hand: a convolution counts at each pixel, and a recurrent weight at each token."""
    size = size_of(canonical_json({"name": data, "edition": "full"}))
    assert network_of(canonical_json(model), size) == network


def test_data_that_can_not_be_read_count_as_unknown(tmp_path: Path) -> None:
    (tmp_path / "clients").mkdir()
    (tmp_path / "clients" / "0.npz").write_bytes(b"no archive")
    for path in (tmp_path, tmp_path / "missing"):
        assert size_of(canonical_json({"name": "npz", "path": str(path)})) == UNKNOWN


@pytest.mark.parametrize("name", sorted({*plugins("data")} - {"npz"}))
def test_data_sets_say_how_large_they_are(name: str) -> None:
    plugin = plugins("data")[name]
    size = plugin.size and plugin.size(plugin.options())
    assert size
    assert size.rows > 0
    assert size.inputs


def test_a_folder_of_ones_own_data_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "clients").mkdir()
    for client in range(3):
        x, y = np.zeros((100, 13), np.float32), np.arange(100) % 4
        np.savez(tmp_path / "clients" / f"{client}.npz", x=x, y=y)
    size = size_of(canonical_json({"name": "npz", "path": str(tmp_path)}))
    assert (size.inputs, size.classes, size.clients) == ((13,), 4, 3)
    assert 300 <= size.rows <= 900


MINE = """
from fedcore.data import Size
from fedcore.base.options import Options
from fedcore.base.registry import Plugin

PLUGIN = Plugin("mine", Options, lambda options, source: None, "300 rows", "here"{size})
"""


@pytest.mark.parametrize("size", ["", ", size=lambda options: Size(300, (13,), 2)"])
def test_a_small_plug_in_needs_little_memory(tmp_path: Path, size: str) -> None:
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "mine.py").write_text(MINE.format(size=size))
    spec = {**BASE, "data": {"name": "mine"}, "model": {"name": "logistic"}}
    program = (
        "from fedcore.spec import parse; from pipeline.workflow.estimate import estimate;"
        f"print(estimate(parse({spec!r}).resolved()).memory_mb)"
    )
    environment = os.environ | {"FEDCORE_PLUGINS": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert BASE_MB <= int(done.stdout) < BASE_MB + 100


def test_guesses_are_near_the_seconds_of_the_kept_runs() -> None:
    catalogue = catalogue_of(HOME / "params.yaml", "paper", HOME / "data" / "editions.yaml")
    ratios: dict[str, list[tuple[float, float]]] = {}
    for path in (HOME / "reports" / "reference").glob("*/runs.csv"):
        for line in csv.DictReader(path.read_text().splitlines()):
            run = catalogue.index.get(line["run"])
            if run and line["seconds"] and line["status"] == "completed" and line["device"] == "cpu":
                pair = estimate(run.spec).seconds, float(line["seconds"])
                ratios.setdefault(path.parent.name, []).append(pair)
    assert len(ratios) == 5
    every = [guessed / measured for own in ratios.values() for guessed, measured in own]
    assert len(every) > 2000
    assert 1 / 1.5 < median(every) < 1.5
    assert np.mean([1 / 3 < ratio < 3 for ratio in every]) > 0.8
    for paper, own in ratios.items():
        assert 1 / 3 < sum(one for one, _ in own) / sum(two for _, two in own) < 3, paper


def test_times_are_said_in_a_unit_that_suits_them() -> None:
    said = [duration(seconds) for seconds in (0.2, 59.0, 89.0, 90.0, 600.0, 5399.0, 5400.0, 360_190.0)]
    assert said == [
        "1 s",
        "59 s",
        "89 s",
        "2 minutes",
        "10 minutes",
        "90 minutes",
        "1.5 hours",
        "100.1 hours",
    ]


@pytest.mark.parametrize("scale", list(PARAMS["scales"]))
def test_every_run_has_a_guess_that_a_cluster_can_grant(scale: str) -> None:
    for run in build_catalogue({**PARAMS, "scale": scale}).index.values():
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
    runs = build_catalogue(PARAMS).index.values()
    cost = next(
        estimate(run.spec)
        for run in runs
        if (run.paper, run.setting, run.algorithm) == (paper, setting, algorithm)
    )
    assert seconds + 30 < 60 * cost.minutes()
