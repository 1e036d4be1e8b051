"""Synchronous algorithms reach an independent implementation's numbers on five small clients."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from cases import ALGORITHMS, at, expected, names, probed, specification, write_mlp

from fedcore.execution.result import Result
from fedcore.execution.runner import run

CASES = names(*ALGORITHMS)


@pytest.fixture(scope="session")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The start of the network of those cases that have one."""
    return write_mlp(tmp_path_factory.mktemp("start") / "mlp.npz")


def spec_of(name: str, mlp: Path) -> dict[str, Any]:
    case = expected()["A"][name]
    return specification(case, ALGORITHMS[case["function"]](name, case["hyper"]), mlp)


def check_parameters(parameters: dict[str, np.ndarray], name: str) -> None:
    arrays = probed(parameters)
    for probe, value in expected()["A"][name]["probe"].items():
        np.testing.assert_allclose(at(arrays, probe), value, rtol=0, atol=1e-8, err_msg=probe)


def losses(result: Result) -> list[float]:
    return [row["train_loss"] for row in result.rows]


def test_every_case_of_these_functions_is_covered() -> None:
    assert len(CASES) == 71


@pytest.mark.parametrize("name", CASES)
def test_float64(name: str, mlp: Path) -> None:
    case = expected()["A"][name]
    result = run(spec_of(name, mlp))
    path = losses(result)
    assert path[0] == pytest.approx(case["loss0"], rel=0, abs=1e-9)
    assert path[1:6] == pytest.approx(case["loss_first5"], rel=0, abs=1e-9)
    assert path[-1] == pytest.approx(case["loss"], rel=0, abs=1e-9)
    assert result.rows[-1]["test_loss"] == pytest.approx(case["loss_test"], rel=0, abs=1e-9)
    assert result.rows[-1]["test_accuracy"] == pytest.approx(case["acc_test"], rel=0, abs=1e-9)
    check_parameters(result.parameters, name)


@pytest.mark.parametrize("name", [name for name in CASES if expected()["A"][name]["primary"]])
def test_float32(name: str, mlp: Path) -> None:
    case = expected()["A"][name]
    result = run(spec_of(name, mlp) | {"dtype": "float32"})
    tolerance = max(2e-6, 5 * case["f32_dev"])
    assert losses(result)[-1] == pytest.approx(case["loss"], rel=0, abs=tolerance)


@pytest.mark.parametrize("name", [pytest.param("FedNova/mom", marks=pytest.mark.slow), "ScafYogi"])
def test_from_the_command_line(name: str, mlp: Path, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(yaml.safe_dump(spec_of(name, mlp)))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "fedcore.cli.main", "run", str(spec), "--out", str(out), "--save-model"]
    subprocess.run([*command, "--quiet"], check=True, capture_output=True)
    with np.load(out / "model.npz") as model:
        check_parameters(dict(model), name)
