"""What compares fedcore with other libraries: its arithmetic, its reference, the tables of its results."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

ROOT = Path(__file__).parents[2]
PEERS = ROOT / "benchmarks" / "peers"
sys.path.insert(0, str(PEERS))

import correctness  # noqa: E402
import oracle_fedcore  # noqa: E402
import processes  # noqa: E402
import report  # noqa: E402
import speed  # noqa: E402
import whole_table  # noqa: E402
import with_fedcore  # noqa: E402
from figures import processor_share, round_seconds, start_seconds, target  # noqa: E402
from oracle_cases import Case  # noqa: E402
from protocol import Request  # noqa: E402
from reference import Reading, clients, readings, result  # noqa: E402
from workloads import GRID, WORKLOADS, Workload, load, weights, write  # noqa: E402

from fedcore.execution.runner import Settings, prepare  # noqa: E402
from fedcore.spec import parse  # noqa: E402

DATA = ROOT / "tests" / "oracle" / "data"


def test_a_round_is_the_median_of_medians_without_the_first() -> None:
    repetitions = [[9.0, 1.0, 2.0, 3.0], [8.0, 5.0, 4.0, 6.0], [9.0, 2.0, 3.0, 4.0]]
    assert round_seconds(repetitions) == 3.0
    assert start_seconds([1.0, 2.0, 3.0], repetitions) == 8.0
    assert processor_share([[7.0, 1.0, 2.0]], [[9.0, 2.0, 4.0]]) == 0.5


def test_the_target_compares_with_the_fastest_peer() -> None:
    reached = target({"a": 3.0, "b": 2.0, "fedcore": 1.0}, "fedcore", 2.0)
    assert reached is not None
    assert (reached.fastest, reached.ratio, reached.met) == ("b", 2.0, True)
    slower = target({"b": 1.9, "fedcore": 1.0}, "fedcore", 2.0)
    assert slower is not None
    assert not slower.met
    times = {"a": 3.0, "fedcore": 2.0, "fedcore-fused": 1.0}
    ratios = [verdict.ratio for side in ("fedcore", "fedcore-fused") if (verdict := target(times, side, 2.0))]
    assert ratios == [1.5, 3.0], "another engine of ours is no peer"
    assert target({"fedcore": 1.0}, "fedcore", 2.0) is None
    assert target({"a": 1.0}, "fedcore", 2.0) is None


@pytest.mark.parametrize("oracle", [o for o in correctness.ORACLES if o.source], ids=lambda o: o.name)
def test_the_reference_has_the_oracle_s_values(oracle: correctness.Oracle) -> None:
    assert correctness.difference(oracle, correctness.by_reference(oracle, oracle.reading)) < 1e-8


@pytest.mark.parametrize("name", ["FedAdam/v0=tau2", "FedYogi/v0=tau2", "FedAdagrad/v0=tau2"])
def test_the_reference_has_the_oracle_s_other_readings(name: str) -> None:
    case = correctness.expected()[name]
    w = result(case["function"], case["hyper"], clients(DATA), Reading(moments="tau2"))
    assert correctness.difference(correctness.Oracle(name, name), w) < 1e-8


@pytest.mark.parametrize("oracle", correctness.ORACLES, ids=lambda o: o.name)
def test_fedcore_has_the_reference_s_weights_where_the_oracle_has_none(oracle: correctness.Oracle) -> None:
    algorithm, hyper = correctness.algorithm_of(oracle)
    inputs, bias = oracle_fedcore.solve(Case(oracle.name, algorithm, {**hyper, "T": 3}, DATA))
    vector = np.concatenate([inputs.ravel(), bias])
    np.testing.assert_allclose(vector, correctness.by_reference(oracle, oracle.reading, 3), atol=1e-12)


def test_another_reading_is_recognised_by_its_values() -> None:
    (oracle,) = (o for o in correctness.ORACLES if o.name == "FedAdam")
    words, reading = next((w, r) for w, r in readings("fedopt", oracle.reading) if r.bias == "t")
    w = correctness.by_reference(oracle, reading)
    answers = [
        {"W": v[:640].reshape(64, 10).tolist(), "b": v[640:].tolist()}
        for v in (w, correctness.by_reference(oracle, reading, correctness.SHORT))
    ]
    judged = correctness.verdict(oracle, *answers)
    assert (judged["verdict"], judged["why"]) == ("differs", words)
    assert correctness.verdict(oracle, {"not_offered": "x"}, {})["verdict"] == "not offered"


@pytest.mark.parametrize("work", [*WORKLOADS, GRID], ids=lambda work: work.name)
def test_first_weights_are_those_of_fedcore_s_model(work: Workload, tmp_path: Path) -> None:
    write(work, tmp_path)
    request = Request(work.name, str(tmp_path), 1, False, 0.0, "")
    run, _, _ = prepare(parse(with_fedcore.specification(request)), Settings(device="cpu"))
    given = weights(tmp_path / "start.npz")
    assert {name: array.shape for name, array in given.items()} == dict(run.problem.model.trainable.shapes)
    for name, array in run.problem.model.trainable.arrays(run.problem.start).items():
        np.testing.assert_array_equal(array, given[name])
    assert work.rows % work.batch == 0 or work is GRID


def test_peers_are_given_the_features_that_fedcore_computes(tmp_path: Path) -> None:
    (work,) = (work for work in WORKLOADS if work.fixed_features)
    write(work, tmp_path)
    request = Request(work.name, str(tmp_path), 1, False, 0.0, "")
    run, _, _ = prepare(parse(with_fedcore.specification(request)), Settings(device="cpu"))
    x, y = load(tmp_path, work, 3)
    np.testing.assert_allclose(run.problem.clients[3].x, x, atol=1e-5)
    np.testing.assert_array_equal(run.problem.clients[3].y, y)


def test_the_grid_is_comfed_s_sixteen_runs(tmp_path: Path) -> None:
    batch = whole_table.batch(tmp_path, 1)
    names = [item["spec"]["algorithm"]["name"] for item in batch]
    declared = yaml.safe_load((ROOT / "params.yaml").read_text())["papers"]["comfed"]["algorithms"]
    assert sorted(names) == sorted(declared)
    assert (declared["fedadam"], declared["fedprox"]["mu"]) == (whole_table.SERVER, whole_table.MU)
    for item in batch:
        parse({**item["spec"], "model": {"name": "cnn"}})


def test_a_command_on_one_core_is_watched_and_ended() -> None:
    core = min(os.sched_getaffinity(0))
    code = "import os, time; x = bytearray(60_000_000); time.sleep(.5); print(len(os.sched_getaffinity(0)))"
    outcome = processes.run([sys.executable, "-c", code], {}, core, 60.0)
    assert (outcome.code, outcome.output.strip()) == (0, "1")
    assert 60e6 < outcome.peak < 200e6
    late = processes.run([sys.executable, "-c", "import time; time.sleep(60)"], {}, core, 0.3)
    assert late.code
    assert "ended after" in late.reason


def test_the_pages_tables_are_made_from_the_results_beside_them() -> None:
    blocks = report.tables(report.read(report.RESULTS), report.read(report.VERDICTS))
    assert "verdicts" in blocks
    for page in report.PAGES:
        text = page.read_text()
        assert report.filled(text, blocks) == text


def test_tables_say_who_is_fastest_and_what_was_missed() -> None:
    side = {"version": "1", "start": 1.0, "peak_mb": 100.0, "core": 0.99, "deviation": 1e-6}
    sides = {"fedcore": {**side, "round": 0.02}, "fedjax": {**side, "round": 0.024}}
    machine = {"date": "2026-01-01", "processor": "X", "cores": 2, "memory_gb": 8}
    machine |= {"python": "3", "torch": "2", "idle": 0.97}
    results = {"machine": machine, "quick": True, "repetitions": 2, "failures": {"Flower": "no uv"}}
    blocks = report.tables({**results, "workloads": {"mlp": sides}}, None)
    assert "| 20.0 ms | 24.0 ms (fedjax) | 1.20 | 2.2 | **missed** |" in blocks["ratios"]
    assert "| mlp | fedjax 1 | 24.0 ms | 1.00 | 1.20 | 1.0 s | 100 MB | 1e-06 |" in blocks["sides"]
    assert "- Flower: no uv" in blocks["circumstances"]
    mlp, fused = speed.WORK["mlp"], {**sides, "fedcore-fused": {**side, "round": 0.01}}
    assert speed._missed(mlp, sides) == ["mlp 1.20 < 2.2"]
    assert speed._missed(mlp, fused) == [], "the faster of our engines counts"
    text = "a\n<!-- ratios -->\nold\n<!-- end of ratios -->\nb"
    assert report.filled(text, {"ratios": "new"}) == (
        "a\n<!-- ratios -->\n\nnew\n\n<!-- end of ratios -->\nb"
    )


def test_one_measurement_is_added_to_those_of_the_same_form(tmp_path: Path) -> None:
    form = {"quick": True, "repetitions": 2, "machine": {"processor": "X"}}
    before = {**form, "workloads": {"mlp": {}}}
    path = tmp_path / "peers.json"
    assert speed._kept(path, form) == form
    path.write_text(json.dumps(before))
    assert speed._kept(path, form) == before
    assert speed._kept(path, form | {"quick": False}) == form | {"quick": False}
