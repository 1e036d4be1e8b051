"""``fedcore cost``: what is to make and what is made, with this machine's own speed."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from project import HOME
from typer.testing import CliRunner

from fedcore.base.errors import SpecError
from fedcore.base.files import digest, write_json
from fedcore.cli.main import app
from fedcore.execution.integrity import sealed
from fedcore.execution.machine import processor
from pipeline.catalogue import Catalogue
from pipeline.catalogue.params import configuration
from pipeline.catalogue.targets import PlannedRun
from pipeline.cli.cost import bill, calibrated, text
from pipeline.papers import build_catalogue, catalogue_of
from pipeline.workflow.estimate import ENOUGH, Guesses, calibrated_speed, measured_here

CELL = ("FedProx", "mnist-sim0")


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return catalogue_of(HOME / "params.yaml", "demo")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a calibration, in an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fedcore" / "speed.json"


def finish(run: PlannedRun, root: Path, seconds: float, **changed: Any) -> None:
    """Write what a finished run leaves, as far as costs ask for it."""
    folder = root / run.folder
    folder.mkdir(parents=True)
    rounds = run.spec["training"]["rounds"]
    timing = {"seconds": seconds, "rounds_in_this_process": rounds, "device": "cpu"} | changed
    write_json(folder / "timing.json", sealed(timing))
    write_json(folder / "summary.json", {"status": "completed", "rounds": rounds, "final": {}})
    stated = {"code": run.code, "spec_sha256": digest(run.spec), "files": {}}
    write_json(folder / "provenance.json", sealed(stated))


def test_runs_are_made_or_to_make(catalogue: Catalogue, tmp_path: Path) -> None:
    runs = catalogue.needed("rfedavg", "table1")
    before = bill(catalogue, "table1", root=tmp_path)
    assert (before["to_make"], before["made"]) == (len(runs), 0)
    finish(runs[0], tmp_path, 36.0, device="cuda")
    after = bill(catalogue, "rfedavg/table1.csv", root=tmp_path)
    assert (after["to_make"], after["made"], after["made_core_hours"]) == (len(runs) - 1, 1, 0.01)
    lost = Guesses()(runs[0]).seconds / 3600
    assert before["core_hours"]["guess"] - after["core_hours"]["guess"] == pytest.approx(lost, abs=2e-4)
    assert text(after)[0] == (
        f"rfedavg/table1.csv at demo scale: {len(runs) - 1} runs to make, 1 already made (36 s)"
    )


def test_a_cell_costs_its_runs(catalogue: Catalogue, tmp_path: Path) -> None:
    costs = bill(catalogue, "table1", CELL, root=tmp_path)
    (dearest,) = costs["dearest"]
    runs = catalogue.cells("rfedavg", "table1")["fedprox", "mnist-sim0"]
    assert (costs["to_make"], dearest["runs"]) == (len(runs), len(runs))
    assert dearest["name"] == "FedProx on MNIST (sim0, cross silo)"
    assert dearest["core_hours"] == costs["core_hours"]


def test_more_cores_take_less_time_down_to_the_longest_run(catalogue: Catalogue, tmp_path: Path) -> None:
    one, two, many = (bill(catalogue, "table1", cores=cores, root=tmp_path) for cores in (1, 2, 10_000))
    assert one["wall_hours"] == one["core_hours"]
    assert two["wall_hours"]["guess"] == pytest.approx(one["core_hours"]["guess"] / 2, abs=1e-4)
    longest = max(Guesses()(run).seconds for run in catalogue.needed("rfedavg", "table1"))
    assert many["wall_hours"]["guess"] == pytest.approx(longest / 3600, abs=1e-4)


def test_a_report_of_partitions_trains_nothing(catalogue: Catalogue, tmp_path: Path) -> None:
    paper, name = next((p, n) for p, n, target in catalogue.targets() if target.needs == "partitions")
    costs = bill(catalogue, f"{paper}/{name}", root=tmp_path)
    assert (costs["to_make"], costs["core_hours"]["high"], len(text(costs))) == (0, 0.0, 1)


def test_times_follow_results_beside_a_paper_with_a_wrong_value(tmp_path: Path) -> None:
    config = configuration(HOME / "params.yaml")
    section = config["papers"]["fedomw"]["datasets"]["mnist"]["splits"]
    next(iter(section.values()))["alpha"] = -1
    wrong = build_catalogue(config)
    runs = wrong.needed("rfedavg", "table1")
    for run in runs[:ENOUGH]:
        finish(run, tmp_path, 5 * Guesses()(run).seconds)
    finish(wrong.needed("radfed", "table3")[0], tmp_path, 5.0)
    with pytest.raises(SpecError):
        _ = wrong.index
    assert measured_here(wrong, tmp_path)["all"] == pytest.approx(5.0, rel=1e-3)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_times_follow_the_results_that_are_here(
    catalogue: Catalogue, tmp_path: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Enough runs took five times as long as guessed; one that went on from a checkpoint does not count."""
    for gpu in ("0", "1"):
        (tmp_path / "gpus" / gpu).mkdir(parents=True)
    monkeypatch.setattr("pipeline.cli.cost.GPUS", tmp_path / "gpus")
    guess, runs = Guesses(), catalogue.needed("rfedavg", "table1")
    before = bill(catalogue, "table1", root=tmp_path)
    assert before["gpu_wall_hours"] is None
    assert any("A GPU is seen" in line for line in text(before))
    alike = [run for run in runs if run.algorithm == "fedprox" and run.dataset == "mnist"]
    for run in alike[:ENOUGH]:
        finish(run, tmp_path, 5 * guess(run).seconds, device=device)
    finish(alike[ENOUGH], tmp_path, 1e6, device=device, rounds_in_this_process=1)
    ratios = measured_here(catalogue, tmp_path, device)
    assert ratios == pytest.approx(dict.fromkeys(ratios, 5.0), rel=1e-3)
    assert {group.partition(",")[0] for group in ratios} >= {"mnist", "all"}
    assert not measured_here(catalogue, tmp_path, {"cpu": "cuda", "cuda": "cpu"}[device])
    after = bill(catalogue, "table1", root=tmp_path)
    left = sum(guess(run).seconds for run in runs if run not in alike[: ENOUGH + 1]) / 3600
    assert after["core_hours"]["guess"] == pytest.approx(5 * left if device == "cpu" else left, rel=1e-2)
    if device == "cuda":
        assert after["gpu_wall_hours"] is not None
        assert after["gpu_wall_hours"]["guess"] == pytest.approx(5 * left / 2, rel=1e-2)
    assert ("Times follow results" in "".join(text(after))) == (device == "cpu")


def test_times_that_were_changed_do_not_count(catalogue: Catalogue, tmp_path: Path) -> None:
    for run in catalogue.needed("rfedavg", "table1")[:ENOUGH]:
        finish(run, tmp_path, 5.0)
        path = tmp_path / run.folder / "timing.json"
        path.write_text(path.read_text().replace("5.0", '"5"'))
    assert measured_here(catalogue, tmp_path) == {}


def test_times_of_studies_count_beside_those_of_papers(catalogue: Catalogue, tmp_path: Path) -> None:
    guess, runs = Guesses(), catalogue.needed("label_skew", "table")
    for run in runs[:ENOUGH]:
        finish(run, tmp_path, 5 * guess(run).seconds)
    assert measured_here(catalogue, tmp_path)["all"] == pytest.approx(5.0, rel=1e-3)


@pytest.mark.parametrize(
    ("written", "speed"),
    [
        (None, None),
        ("{", None),
        ("[]", None),
        (json.dumps({"speed": 2.5}), None),
        (json.dumps({"speed": 2.5, "processor": "another"}), None),
        (json.dumps({"speed": "fast", "processor": processor()}), None),
        (json.dumps({"speed": 0, "processor": processor()}), None),
        (json.dumps({"speed": 2.5, "processor": processor()}), 2.5),
    ],
)
def test_a_calibration_counts_if_it_is_whole_and_of_this_processor(
    catalogue: Catalogue, tmp_path: Path, cache: Path, written: str | None, speed: float | None
) -> None:
    plain = bill(catalogue, "table1", root=tmp_path)
    if written is not None:
        cache.parent.mkdir(parents=True)
        cache.write_text(written)
    costs = bill(catalogue, "table1", root=tmp_path)
    assert costs["speed"] == speed
    guessed = plain["core_hours"]["guess"] * (speed or 1)
    assert costs["core_hours"]["guess"] == pytest.approx(guessed, rel=1e-2)
    assert ("2.50 times as long here" if speed else "fedcore cost --calibrate") in text(costs)[-1]


def test_a_calibration_is_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.cli.cost.SAMPLE", {"mlp": 1})
    monkeypatch.chdir(HOME)
    speed = calibrated()
    assert calibrated_speed() == pytest.approx(speed, abs=1e-3)
    assert json.loads(cache.read_text())["processor"] == processor()
    result = CliRunner().invoke(app, ["cost", "--calibrate", "--json"])
    assert json.loads(result.stdout) == {"speed": json.loads(cache.read_text())["speed"]}
    assert re.fullmatch(r"runs take \d+\.\d\d times as long here as the kept ones took\n", result.stderr)


def test_data_of_unknown_size_are_named(catalogue: Catalogue, tmp_path: Path) -> None:
    costs = bill(catalogue, "table1", root=tmp_path)
    assert costs["unknown_data"] == []
    lines = text({**costs, "unknown_data": ["mine"]})
    assert lines[-1] == "data mine: the size is not known, taken as 10,000 rows of 100 numbers"


@pytest.mark.parametrize(
    ("target", "where", "said"),
    [
        ("rfedavg/table9", None, "rfedavg/table9: no such report; the nearest: "),
        ("rfedavg/table9", CELL, "rfedavg/table9: no such report; the nearest: "),
        ("table1", ("FedProxx", "mnist-sim0"), "table1: no row 'FedProxx' (did you mean 'FedProx'?)"),
        ("table1", ("fedprox", "mnist"), "table1: no column 'mnist'"),
    ],
)
def test_unknown_names_are_refused(
    catalogue: Catalogue, target: str, where: tuple[str, str] | None, said: str
) -> None:
    with pytest.raises(SpecError) as refused:
        bill(catalogue, target, where)
    assert str(refused.value).startswith(said)


def test_a_cell_of_a_report_of_partitions_costs_no_runs() -> None:
    plan = catalogue_of(HOME / "params.yaml")
    cell, *_ = plan.cells("rfedavg", "fig1_labels")
    assert bill(plan, "rfedavg/fig1_labels", cell)["to_make"] == 0


def test_the_command_prints_the_bill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(HOME / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    call = ["cost", "table1", "--cell", *CELL, "--cores", "3"]
    plain, as_json = (CliRunner().invoke(app, [*call, *more]).stdout for more in ([], ["--json"]))
    costs = json.loads(as_json)
    assert (costs["target"], costs["cores"], len(costs["dearest"])) == ("table1", 3, 1)
    assert "on 3 cores" in plain
    assert os.listdir() == ["params.yaml"], "looking changes nothing"
    assert costs == json.loads(json.dumps(bill(catalogue_of(Path("params.yaml")), "table1", CELL, 3)))
