"""Guesses of time and memory: larger for larger runs, and large enough for runs that were measured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from costs import KNOWN, Kept, calm, fit, guessed, kept_runs, left_out
from project import HOME

from fedcore.base.files import canonical_json
from fedcore.base.registry import plugins
from fedcore.models.lstm import GATES
from fedcore.spec import parse
from pipeline.catalogue import Catalogue
from pipeline.papers import build_catalogue, catalogue_of
from pipeline.workflow.estimate import (
    BASE_MB,
    ENOUGH,
    LONGEST_MINUTES,
    MARGIN,
    UNKNOWN,
    Cost,
    Demand,
    Guesses,
    Network,
    demand,
    duration,
    estimate,
    factors,
    fitted,
    network_of,
    size_of,
    with_interval,
)

PARAMS = yaml.safe_load((HOME / "params.yaml").read_text())
BASE: dict[str, Any] = {
    "data": {"name": "cifar10", "edition": "full"},
    "partition": {"name": "similarity", "clients": 20, "similarity": 0.0},
    "model": {"name": "cnn"},
    "algorithm": {"name": "fedavg"},
    "training": {"rounds": 20, "local_steps": 5, "batch_size": 32, "lr": 0.1},
}


def asked(values: dict[str, Any]) -> Demand:
    """Return what the run of a specification asks for."""
    spec = parse(values)
    return demand(spec.resolved(), spec.recipe)


def guess(**sections: Any) -> Cost:
    """Return the cost of BASE with keys of its sections changed."""
    values = {name: {**BASE.get(name, {}), **keys} for name, keys in sections.items()}
    return estimate(asked({**BASE, **values}))


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


# 70,000 rows of MNIST, of which 60,000 are for training: 3,000 for each of 20 clients, 30 batches of 100.
# Five clients a round for 10 rounds are 50 trainings of 60 steps on 300,000 rows. The model is measured on
# 10,000 rows after rounds 0, 5 and 10, on 60,000 after rounds 0 and 10. A gradient is three forward passes.
SMALL: dict[str, Any] = {
    "data": {"name": "mnist", "edition": "full"},
    "partition": {"name": "iid", "clients": 20},
    "model": {"name": "logistic"},
    "algorithm": {"name": "fedavg"},
    "training": {"rounds": 10, "local_epochs": 2, "batch_size": 100, "lr": 0.1},
    "participation": {"fraction": 0.25},
    "evaluation": {"every": 5, "train_every": 10},
}
WEIGHTS, PARAMETERS, MEASURED_ROWS = 7840, 7850, 3 * 10_000 + 2 * 60_000


def forward(rows: float, measured: float = MEASURED_ROWS) -> dict[str, float]:
    """Return the multiplications of forward passes over so many rows besides those that are measured."""
    return {"dense": 2 * (rows + measured) * WEIGHTS, "measured": measured}


def trained(steps: float, rows: float, trainings: int = 50) -> dict[str, float]:
    """Return the work of trainings with so many steps and rows in all."""
    return {"step": steps, "training": trainings, "sent": trainings * PARAMETERS} | forward(3 * rows)


OFFSET, OFFSET3 = {"vectors": 3000 * PARAMETERS}, {"vectors": 3 * 3000 * PARAMETERS}
SVD = {"decompositions": 3000}
WORK = {
    **dict.fromkeys(("shared", "bf16", "vectors", "pairs", "decompositions", "server", "mixed"), 0.0),
    **trained(3000, 300_000),
    "round": 10,
    "loaded": 70_000 * 784,
}


@pytest.mark.parametrize(
    ("changed", "work"),
    [
        ({}, {}),
        ({"training": {"local_epochs": None, "local_steps": 7}}, trained(350, 35_000)),
        ({"training": {"local_epochs": None, "local_steps": [1, 2] * 10}}, trained(75, 7_500)),
        ({"training": {"batch_size": "full"}}, trained(100, 300_000)),
        ({"training": {"batch_size": 2000}}, trained(200, 300_000)),
        ({"training": {"momentum": 0.9}}, {"vectors": 2 * 3000 * PARAMETERS}),
        ({"training": {"optimizer": "rmsprop"}}, {"vectors": 4 * 3000 * PARAMETERS}),
        ({"training": {"weight_decay": 0.1}}, {"vectors": 2 * 3000 * PARAMETERS}),
        ({"participation": {"fraction": 0.01}}, trained(600, 60_000, 10)),
        ({"partition": {"clients": 120_000}}, trained(600_000, 600_000, 300_000)),
        ({"algorithm": {"name": "moon"}}, forward(5 * 300_000)),
        ({"algorithm": {"name": "mime", "beta": 0.9}}, OFFSET3 | forward(6 * 300_000 + 3 * 150_000)),
        ({"algorithm": {"name": "mime", "lite": True}}, OFFSET3 | forward(3 * 300_000 + 3 * 150_000)),
        ({"algorithm": {"name": "scaffold", "option": 1}}, OFFSET | forward(3 * 300_000 + 3 * 150_000)),
        ({"algorithm": {"name": "scaffold", "option": 2}}, OFFSET),
        ({"algorithm": {"name": "qfedavg"}}, forward(3 * 300_000 + 150_000)),
        ({"algorithm": {"name": "fedprox", "mu": 0.1}}, {"vectors": 2 * 3000 * PARAMETERS}),
        ({"algorithm": {"name": "fedprox", "mu": 0}}, {}),
        ({"algorithm": {"name": "fedasync"}}, trained(600, 60_000, 10) | {"vectors": 2 * 600 * PARAMETERS}),
        ({"algorithm": {"name": "centralised"}}, trained(3000, 300_000, 10)),
        ({"algorithm": {"name": "radfed", "redistributions": 3}}, trained(9000, 900_000, 150)),
        (
            {"algorithm": {"name": "fedavgr", "samples": 50}},
            SVD | {"pairs": 3000 * 150**2 + 3 * 20 * 100**2} | forward(3 * 300_000 + 150_000),
        ),
        ({"algorithm": {"name": "fedavgr", "mmd": "mean"}}, SVD | forward(3 * 300_000 + 150_000)),
        ({"algorithm": {"name": "fedavgr", "alpha": 0, "beta": 0, "gamma": 0}}, {}),
        (
            {"algorithm": {"name": "fedomw", "steps_p": 7, "gamma": 0}},
            {"server": 70, "mixed": 70 * 10_000 * 5 * 10} | forward(3 * 300_000 + 10 * 5 * 10_000),
        ),
        ({"algorithm": {"name": "fedomw", "steps_p": 0, "gamma": 0}}, {}),
        (
            {"algorithm": {"name": "fedomw", "epochs_p": 2, "batch_p": 10, "gamma": 0}},
            {"server": 20_000, "mixed": 200_000 * 5 * 10} | forward(3 * 300_000 + 10 * 5 * 10_000),
        ),
        ({"evaluation": {"divergence": True}}, trained(6000, 600_000, 100)),
        ({"evaluation": {"train_every": None}}, forward(3 * 300_000, 3 * 70_000)),
        ({"evaluation": {"train_every": 0}}, forward(3 * 300_000, 3 * 10_000)),
        ({"precision": "bf16"}, forward(0) | {"bf16": 2 * 900_000 * WEIGHTS}),
        (
            {"precision": "bf16", "evaluation": {"precision": "bf16"}},
            {"dense": 0.0, "bf16": 2 * (900_000 + MEASURED_ROWS) * WEIGHTS},
        ),
        (
            {"evaluation": {"observe": {"features": {}, "path": {"every": 1}}}},
            forward(3 * 300_000, MEASURED_ROWS + 12 * 70_000),
        ),
    ],
)  # fmt: skip
def test_the_work_of_a_run_is_counted(changed: dict[str, Any], work: dict[str, float]) -> None:
    sections = {name: {**SMALL[name], **keys} for name, keys in changed.items() if isinstance(keys, dict)}
    need = asked({**SMALL, **changed, **sections})
    assert need.work == pytest.approx(WORK | work, rel=1e-12)


def test_rows_that_are_held_out_for_validation_do_not_train() -> None:
    """A fifth of 60,000 rows is held out, and learns the mixture: each client trains 24 batches."""
    held = {"name": "iid", "clients": 20, "validation": 0.2}
    mixture = {"name": "fedomw", "epochs_p": 1, "batch_p": 10, "gamma": 0}
    work = asked({**SMALL, "partition": held, "algorithm": mixture}).work
    assert (work["step"], work["server"]) == (50 * 2 * 24, 10 * 1200)
    assert work["dense"] == forward(3 * 240_000 + 10 * 5 * 12_000, 3 * 10_000 + 2 * 48_000)["dense"]


def test_a_fold_leaves_its_clients_and_rows_out() -> None:
    """Of five sets of four clients one tests and one validates: 12 train, of 2,800 + 700 rows each."""
    partition = {"name": "iid", "clients": 20, "fold": {"of": 5, "index": 0}}
    work = asked({**SMALL, "partition": partition, "participation": {"fraction": 1.0}}).work
    assert (work["training"], work["step"]) == (10 * 12, 10 * 12 * 2 * 35)


def test_data_of_unknown_size_count_as_ten_thousand_rows_of_a_hundred_clients(tmp_path: Path) -> None:
    """8,000 rows to train: 80 for each client, less than a batch, so two steps in the two epochs."""
    absent = {"name": "npz", "path": str(tmp_path / "absent")}
    spec = {**SMALL, "data": absent, "partition": {"name": "given"}}
    for fraction, cohort in ((0.25, 25), (0.001, 1)):
        need = asked({**spec, "participation": {"fraction": fraction}})
        assert (need.known, need.work["training"]) == (False, 10 * cohort)
        assert need.work["step"] == 10 * cohort * 2
        assert need.step_operations == 6 * 80 * 1000
    assert asked(SMALL).known


def test_convolutions_count_beside_dense_layers() -> None:
    network = network_of(canonical_json({"name": "cnn"}), size_of(canonical_json(SMALL["data"])))
    need = asked({**SMALL, "model": {"name": "cnn"}})
    assert need.work["shared"] == 2 * (3 * 300_000 + MEASURED_ROWS) * network.shared > 0
    assert need.step_operations == 6 * 100 * (network.dense + network.shared)


def test_a_run_like_no_other_has_the_widest_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    need = asked(SMALL)
    rates = dict.fromkeys(need.work, 0.0) | {"round": 2.0}
    known: dict[str, Any] = {"rates": rates, "factors": {}, "spread": [1, 1, 1, 1, 4.0]}
    monkeypatch.setattr("pipeline.workflow.estimate.fitted", lambda: known)
    cost = estimate(need)
    assert (cost.seconds, cost.low, cost.high) == (20.0, 5.0, 80.0)


def test_seconds_are_work_times_rates_times_what_runs_like_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    need = asked(SMALL)
    rates = dict.fromkeys(need.work, 0.0) | {"round": 2.0}
    known = {"rates": rates, "factors": {"logistic": 3.0, "all": 7.0}, "spread": [9, 9, 1.25, 9, 9]}
    monkeypatch.setattr("pipeline.workflow.estimate.fitted", lambda: known)
    cost = estimate(need, speed=0.5)
    assert (cost.seconds, cost.low, cost.high) == (30.0, 24.0, 37.5)
    measured = {need.like[1]: 2.0, "all": 11.0}
    assert estimate(need, 0.5, measured).seconds == 120.0, "results that are here count in place of the speed"


def test_runs_are_alike_by_data_model_and_the_parts_that_work() -> None:
    assert asked({**SMALL, "algorithm": {"name": "fedavgr", "alpha": 0}}).like == (
        "mnist, logistic, synchronous + MMD + feature densities",
        "logistic, synchronous + MMD + feature densities",
        "logistic",
        "all",
    )


def test_the_factor_of_a_group_is_the_median_of_enough_runs() -> None:
    logistic, mlp = asked(SMALL), asked({**SMALL, "model": {"name": "mlp"}})
    few = [(mlp, 16.0)] * (ENOUGH - 1)
    by_group = factors([(logistic, 1.0), (logistic, 4.0), *[(logistic, 2.0)] * (ENOUGH - 2), *few])
    assert by_group == pytest.approx({**dict.fromkeys(logistic.like[:3], 2.0), "all": 4.0})


@pytest.mark.parametrize(
    ("changed", "bytes_each", "models"),
    [
        ({}, 4, 10 + 5),
        ({"dtype": "float64"}, 8, 10 + 5),
        ({"algorithm": {"name": "scaffold"}}, 4, 10 + 2 * 5 + 20),
        ({"algorithm": {"name": "fedasync", "max_staleness": 6}}, 4, 10 + 5 + 7),
    ],
)
def test_memory_holds_the_rows_twice_and_the_models(
    changed: dict[str, Any], bytes_each: int, models: int
) -> None:
    numbers = 2 * 70_000 * 784 + models * 1_663_370
    expected = BASE_MB + bytes_each * numbers / 2**20
    assert expected <= asked({**SMALL, "model": {"name": "cnn"}, **changed}).memory_mb < expected + 1


def test_steps_are_small_below_a_thousand_million_operations() -> None:
    assert asked(SMALL).step_operations == 6 * 100 * WEIGHTS
    assert Cost(1.0, 1.0, 1.0, 1, 0.999e9).gpu_percent == 25
    assert Cost(1.0, 1.0, 1.0, 1, 1e9).gpu_percent == 100


def test_a_round_costs_the_same_as_another() -> None:
    ten, twenty, thirty = (guess(training={"rounds": rounds}).seconds for rounds in (10, 20, 30))
    assert thirty - twenty == pytest.approx(twenty - ten)


def test_algorithms_that_keep_a_state_a_client_need_memory_for_it() -> None:
    sparse: dict[str, dict[str, Any]] = {"participation": {"fraction": 0.1}, "partition": {"clients": 500}}
    plain = guess(**sparse)
    kept = guess(**sparse, algorithm={"name": "scaffold"})
    model = network_of(
        canonical_json(parse(BASE).model.resolved()), size_of(canonical_json(BASE["data"]))
    ).parameters
    assert kept.memory_mb - plain.memory_mb >= 400 * model * 4 / 2**20


def test_later_attempts_ask_for_more_time_up_to_a_day_and_for_more_memory() -> None:
    cost = Cost(3600.0, 1800.0, 7200.0, 2000, 1e12)
    assert [cost.minutes(k) for k in (1, 2, 3, 4, 5)] == [182, 363, 725, LONGEST_MINUTES, LONGEST_MINUTES]
    assert [cost.megabytes(k) for k in (1, 2, 3)] == [3000, 4000, 5000]
    assert (cost.minutes(), cost.megabytes()) == (182, 3000), "the first attempt"


def test_a_batch_takes_the_sum_of_the_times_and_the_largest_memory() -> None:
    assert Cost(1.0, 0.5, 2.0, 300, 5.0) + Cost(2.0, 1.5, 3.0, 200, 7.0) == Cost(3.0, 2.0, 5.0, 300, 7.0)


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
        ("shakespeare", {"name": "lstm"}, Network(819_920, 256 * 80, 80 * (1024 * 776 + GATES * 512), 80)),
        ("sent140", {"name": "lstm"}, Network(842_242, 256 * 2, 25 * (1024 * 818 + GATES * 512), 25)),
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


@pytest.mark.parametrize("name", sorted({*plugins("data")} - {"npz", "table", "folder", "huggingface"}))
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

PLUGIN = Plugin("{name}", Options, lambda options, source: None, "300 rows", "here"{size})
"""


def test_a_plug_in_needs_memory_for_the_size_that_it_says_or_for_a_guess(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """300 rows of 2 numbers are next to nothing; 10,000 of 100 in float32, kept twice, are 7.6 MB."""
    monkeypatch.setenv("FEDCORE_PLUGINS", str(tmp_path))
    (tmp_path / "datasets").mkdir()
    sizes = {"sized": ", size=lambda options: Size(300, (2,), 2)", "unsized": ""}
    for name, size in sizes.items():
        (tmp_path / "datasets" / f"{name}.py").write_text(MINE.format(name=name, size=size))
    request.addfinalizer(plugins.cache_clear)
    plugins.cache_clear()
    needed = {}
    for name in sizes:
        spec = parse({**BASE, "data": {"name": name}, "model": {"name": "logistic"}})
        needed[name] = demand(spec.resolved(), spec.recipe).memory_mb - BASE_MB
    assert needed == {"sized": 1, "unsized": 8}


@pytest.fixture(scope="module")
def paper() -> Catalogue:
    """The catalogue at paper scale, with the editions of data that the kept runs used."""
    return catalogue_of(HOME / "params.yaml", "paper", HOME / "data" / "editions.yaml")


@pytest.fixture(scope="module")
def scales(paper: Catalogue) -> list[Catalogue]:
    """The catalogues whose runs are kept."""
    return [paper, catalogue_of(HOME / "params.yaml", "quick", HOME / "data" / "editions.yaml")]


@pytest.fixture(scope="module")
def kept(scales: list[Catalogue]) -> list[Kept]:
    """The kept runs."""
    return kept_runs(scales)


@pytest.mark.slow
def test_what_was_fitted_is_what_the_script_makes(kept: list[Kept]) -> None:
    assert len(kept) > 2000
    rates, groups, _ = fit(calm(kept))
    assert fitted()["rates"] == pytest.approx(rates, rel=0.05)
    assert fitted()["factors"] == pytest.approx(groups, rel=0.05)


def test_guesses_are_near_the_seconds_of_the_kept_runs(kept: list[Kept]) -> None:
    misses = np.array([log(run.seconds / estimate(run.demand).seconds) for run in kept])
    assert np.mean(np.abs(misses) < log(1.5)) > 0.69
    assert np.mean(np.abs(misses) < log(MARGIN)) > 0.95
    within = [run.seconds < 60 * estimate(run.demand).minutes() for run in kept]
    assert np.mean(within) > 0.99, "a cluster is asked for enough at once"


def test_leaving_a_table_out_takes_its_runs_out_of_the_fit(
    scales: list[Catalogue],
    kept: list[Kept],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked_for: list[set[str]] = []

    def fake(runs: Sequence[Kept]) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
        asked_for.append({run.run for run in runs})
        return fitted()["rates"], fitted()["factors"], {}

    monkeypatch.setattr("costs.fit", fake)
    kept = calm(kept)
    figures, spread = left_out(scales, kept)
    names = {run.run for run in kept}
    assert figures["runs"] == sum(len(names - left) for left in asked_for)
    assert all(left < names for left in asked_for)
    assert len(capsys.readouterr().out.splitlines()) == figures["tables"] == len(asked_for)
    assert spread == sorted(spread), "less that is alike is no surer"
    for known in KNOWN:
        at = f"near_{known}"
        assert figures[at] > fitted()["left_out"][at], "runs that were fitted are nearer"


def test_a_run_that_took_twice_an_equal_one_is_disturbed_and_so_is_a_sitting_of_such_runs(
    kept: list[Kept],
) -> None:
    first, second, third = kept[0].demand, replace(kept[0].demand), replace(kept[0].demand)
    quiet = [Kept(f"q{seed}", first, 10.0 + seed, "quiet") for seed in range(5)]
    slow = Kept("slow", first, 20.1, "quiet")
    loud = [
        Kept("l0", second, 30.0, "loud"),
        Kept("l1", second, 10.0, "later"),
        Kept("l2", second, 11.0, "loud"),
    ]
    alone = [Kept("a0", third, 500.0, "loud"), Kept("a1", replace(third), 500.0, "later")]
    assert calm([*quiet, slow, *loud, *alone]) == [*quiet, loud[1], alone[1]]


def test_a_guess_is_corrected_by_the_other_runs_of_its_sitting(
    scales: list[Catalogue],
    kept: list[Kept],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    some = calm(kept)
    rates, groups = fitted()["rates"], fitted()["factors"]
    monkeypatch.setattr("costs.fit", lambda runs: (rates, groups, {}))
    slower = {sitting: 2.0 + at for at, sitting in enumerate(sorted({run.sitting for run in some}))}
    exact = [
        replace(run, seconds=guessed(run.demand, rates, groups) * slower[run.sitting])
        for run in some
        if sum(run.sitting == other.sitting for other in some) > ENOUGH
    ]
    figures, _ = left_out(scales, exact)
    for known, share in {"with_results": 1.0, "with_speed": 1.0, "without_speed": 0.0}.items():
        assert figures[f"near_{known}"] == figures[f"totals_near_{known}"] == share
    capsys.readouterr()


def test_the_page_says_how_far_off_guesses_are() -> None:
    page = (HOME / "docs" / "costs.md").read_text("utf-8")
    for name, share in fitted()["left_out"].items():
        assert (f"{share:,}" if share > 1 else f"{share:.0%}") in page, name


def test_times_are_said_in_a_unit_that_suits_them() -> None:
    texts = [
        duration(seconds)
        for seconds in (0.2, 59.0, 89.0, 90.0, 600.0, 5399.0, 5400.0, 172_799.0, 172_800.0, 9e6, 9e8)
    ]
    assert texts == [
        "1 s",
        "59 s",
        "89 s",
        "2 minutes",
        "10 minutes",
        "90 minutes",
        "1.5 hours",
        "48.0 hours",
        "2.0 days",
        "104 days",
        "29 years",
    ]
    assert with_interval(1.3e6, 5.9e5, 2.9e6) == "15.0 days (6.8 to 33.6 days)"


def test_an_interval_says_its_unit_once() -> None:
    texts = [str(Cost(seconds, seconds / 2, seconds * 2, 1, 1.0)) for seconds in (20.0, 100.0, 600.0, 7200.0)]
    assert texts == [
        "20 s (10 to 40 s)",
        "2 minutes (50 s to 3 minutes)",
        "10 minutes (5 to 20 minutes)",
        "2.0 hours (60 minutes to 4.0 hours)",
    ]


@pytest.mark.parametrize("scale", list(PARAMS["scales"]))
def test_every_run_has_a_guess_that_a_cluster_can_grant(scale: str) -> None:
    guess = Guesses()
    for run in build_catalogue({**PARAMS, "scale": scale}).index.values():
        cost = guess(run)
        assert 0 < cost.low < cost.seconds < cost.high
        assert BASE_MB <= cost.memory_mb <= 64_000, run.folder


def test_the_work_of_a_module_is_known_where_nothing_else_has_loaded_torch() -> None:
    """In a process of its own: others may have loaded the counter of operations before."""
    guess = """
from fedcore.spec import parse
from pipeline.workflow.estimate import demand, estimate
spec = parse({
    "data": {"name": "cifar10", "edition": "demo"},
    "partition": {"name": "iid", "clients": 5},
    "model": {"name": "torchvision", "arch": "resnet18", "norm": "group"},
    "algorithm": {"name": "fedprox"},
    "training": {"rounds": 1, "batch_size": 10, "lr": 0.1},
})
print(estimate(demand(spec.resolved(), spec.recipe)).seconds)
"""
    process = subprocess.run(
        [sys.executable, "-c", guess], capture_output=True, text=True, check=False, cwd=HOME
    )
    assert process.returncode == 0, process.stderr
    assert float(process.stdout) > 1.0
