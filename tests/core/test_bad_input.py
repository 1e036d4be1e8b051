"""Bad input: one line that names the key, what was found and what was expected; nothing is written."""

from __future__ import annotations

import copy
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from wording import one_line

from fedcore.base.errors import FedcoreError, SpecError
from fedcore.execution.batch import orders
from fedcore.execution.runner import Settings, run
from fedcore.spec import load, parse


def changed(spec: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    spec = copy.deepcopy(spec)
    *parents, last = path.split(".")
    place = spec
    for key in parents:
        place = place.setdefault(key, {})
    if value is None:
        del place[last]
    else:
        place[last] = value
    return spec


CASES = [
    ("algorithm", {"name": "fedprox", "mew": 1}, "algorithm.mew: unknown key; known keys: mu"),
    (
        "algorithm",
        {"name": "fedprox", "mu": -1},
        "algorithm.mu: got -1, expected a number greater than or equal to 0",
    ),
    (
        "algorithm",
        {"name": "fedprx"},
        "algorithm.name: no algorithm named 'fedprx' (did you mean 'fedprox'?)",
    ),
    ("algorithm", {"mu": 1}, "algorithm: expected keys and values with a 'name', got {'mu': 1}"),
    ("algorithm", {"name": "rfedavg", "lambda": "much"}, "algorithm.lambda: got 'much', expected"),
    ("training.batch_size", 0, "training.batch_size"),
    ("training.lr", 0, "training.lr: got 0, expected a number greater than 0"),
    ("training.lr", float("inf"), "training.lr: got inf, expected a finite number"),
    ("training.rounds", 2.5, "training.rounds: got 2.5, expected"),
    ("training.momentum", 1.0, "training.momentum: got 1.0, expected a number less than 1"),
    ("training.lrr", 1, "training.lrr: unknown key (did you mean 'lr'?)"),
    ("training.lr", None, "training.lr: missing, but required"),
    *(
        (
            "training.lr_schedule",
            {"name": name, "milestones": {2: 0.01}},
            f"milestones: given with name '{name}'",
        )
        for name in ("constant", "inverse_time")
    ),
    (
        "training.lr_schedule",
        {"name": "constant", "offset": 8},
        "training.lr_schedule: offset: got 8.0 with name 'constant', expected none",
    ),
    (
        "training.lr_schedule",
        {"name": "milestones", "milestones": {2: 0.01}, "offset": 8},
        "training.lr_schedule: offset: got 8.0 with name 'milestones', expected none",
    ),
    ("training.local_steps", 3, "training: local_epochs and local_steps are both given, expected one"),
    (
        "participation.fraction",
        1.5,
        "participation.fraction: got 1.5, expected a number less than or equal to 1",
    ),
    ("participation.cohorts", [], "participation.cohorts: got [], expected 1 or more values"),
    ("participation", {"cohorts": [[0, 9]]}, "participation.cohorts: no client 9, expected ids from 0 to 4"),
    ("participation", {"cohorts": [[1, 1]]}, "participation.cohorts: a client is given twice in [1, 1]"),
    ("participation", {"assignments": [[0]]}, "participation.assignments: 'fedavg' redistributes no models"),
    ("participation", {"events": [[0, 1]]}, "participation.events: 'fedavg' is synchronous, expected none"),
    ("participation.cohorts", [[0]], "participation: fraction: given beside 'cohorts', expected one of them"),
    (
        "participation",
        {"cohorts": [[0]], "assignments": [[1]]},
        "participation: assignments: given beside 'cohorts', expected one of them",
    ),
    (
        "evaluation",
        {"stop_at": 0.5, "observe": {"path": {}}},
        "evaluation: stop_at: got 0.5, expected none beside 'observe', which needs to know the last round",
    ),
    ("dtype", "float16", "dtype: got 'float16', expected 'float32' or 'float64'"),
    ("sed", 1, "sed: unknown key (did you mean 'seed'?)"),
    ("model", {"name": "cnn"}, "model.name: 'cnn' takes images [depth, height, width], the data are (64,)"),
    ("model.init", "/no/such.npz", "model.init: no file '/no/such.npz'"),
    ("data.path", "/no/such/folder", "/no/such/folder"),
    ("data", None, "data: missing, but required"),
]


@pytest.mark.parametrize(("path", "value", "message"), CASES, ids=[f"{c[0]}={c[1]}" for c in CASES])
def test_message(path: str, value: Any, message: str, spec: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(FedcoreError) as caught:
        run(changed(spec, path, value), tmp_path / "out")
    assert message in str(caught.value)
    one_line(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("precision", {"precision": "bf16"}),
        ("evaluation.precision", {"evaluation": {"precision": "bf16"}}),
        ("algorithm.delta_precision", {"algorithm": {"name": "rfedavg", "delta_precision": "bf16"}}),
    ],
)
def test_float64_is_not_reduced_to_bfloat16(key: str, change: dict[str, Any], spec: dict[str, Any]) -> None:
    assert parse(parse(spec | change).resolved()) == parse(spec | change)
    with pytest.raises(
        SpecError, match=f"^{key}: got 'bf16' with dtype 'float64', expected dtype 'float32'$"
    ):
        parse(spec | change | {"dtype": "float64"})


@pytest.mark.parametrize(
    "provenance", [*({key: "1"} for key in ("sha256", "files", "spec_sha256", 1)), {"when": date(2000, 1, 1)}]
)
def test_a_provenance_that_can_not_be_kept(
    provenance: dict[Any, Any], spec: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match=r"^provenance: got ") as caught:
        run(spec, tmp_path / "out", Settings(provenance=provenance))
    one_line(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("count", [3, 6])
def test_local_steps_of_the_wrong_length(count: int, spec: dict[str, Any], tmp_path: Path) -> None:
    training = {"rounds": 1, "local_steps": [1] * count, "batch_size": "full", "lr": 0.1}
    said = rf"training\.local_steps: got a list of {count} numbers, expected one for each of 5"
    with pytest.raises(FedcoreError, match=said):
        run({**spec, "training": training}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.full((3, 2), np.nan), "y": np.zeros(3, np.int64)}, "nan"),
        ({"x": np.zeros((3, 2)), "y": np.array([0, -1, 1])}, "label"),
        ({"x": np.zeros((3, 2)), "y": np.zeros(2, np.int64)}, "got x .3, 2. and y .2."),
        ({"x": np.zeros((3, 2))}, "y"),
    ],
    ids=["nan", "label", "length", "missing"],
)
def test_bad_client_file_is_named(
    arrays: dict[str, Any], message: str, spec: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "data/clients").mkdir(parents=True)
    np.savez(tmp_path / "data/clients/0.npz", **arrays)
    np.savez(tmp_path / "data/test.npz", x=np.zeros((2, 2)), y=np.array([0, 1]))
    with pytest.raises(FedcoreError, match=message) as caught:
        run(changed(spec, "data.path", str(tmp_path / "data")), tmp_path / "out")
    assert "0.npz" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_exit_code_and_single_line(spec: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(changed(spec, "algorithm.mu", 1)))
    command = [sys.executable, "-m", "fedcore.cli.main", "run", str(path), "--out", str(tmp_path / "out")]
    child = subprocess.run(command, capture_output=True, text=True)
    assert child.returncode == 2
    assert child.stderr.strip() == f"error: {path}: algorithm.mu: unknown key; known keys: averaging, chained"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1, 2", "line 1: not valid YAML"),
        ("- 1\n", "expected keys and values, got list"),
        ("", "got NoneType"),
    ],
)
def test_broken_yaml(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(FedcoreError, match=message):
        load(tmp_path / "s.yaml")


def test_yaml_can_not_run_code(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("data: !!python/object/apply:os.system ['true']\n")
    with pytest.raises(FedcoreError, match="not valid YAML"):
        load(tmp_path / "s.yaml")


def test_equal_meaning_has_an_equal_hash(spec: dict[str, Any]) -> None:
    explicit = changed(spec, "training.momentum", 0.0) | {"dtype": "float32", "engine": "auto"}
    assert parse(spec).sha256() == parse(explicit).sha256()
    assert parse(spec).sha256() != parse(changed(spec, "training.lr", 0.2)).sha256()
    assert parse(parse(spec).resolved()).sha256() == parse(spec).sha256()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "not a readable batch"),
        ("[{", "not a readable batch"),
        ('{"spec": {}}', "expected a JSON list of objects"),
        ("[1]", "expected a JSON list of objects"),
    ],
)
def test_a_wrong_batch_is_one_line(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "batch.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SpecError) as refused:
        orders(path)
    assert said in str(refused.value)
    assert str(path) in str(refused.value)
    one_line(refused.value)
