"""What a specification's hash depends on: every value that decides a run, and no way to write it."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedcore.base.errors import SpecError
from fedcore.base.options import Options, omit_default
from fedcore.spec import load, parse

Values = dict[str, Any]
SMALL: Values = {
    "data": {"name": "quadratics"},
    "model": {"name": "scalar_quadratic"},
    "algorithm": {"name": "fedprox", "mu": 0.5},
    "training": {"rounds": 3, "batch_size": "full", "lr": 0.1},
}


def written(*changes: tuple[str, Any]) -> Values:
    """Return the small specification with values set at paths of keys."""
    values = copy.deepcopy(SMALL)
    for path, value in changes:
        *parents, last = path.split(".")
        place = values
        for key in parents:
            place = place.setdefault(key, {})
        place[last] = value
    return values


def hashed(*changes: tuple[str, Any]) -> str:
    return parse(written(*changes)).sha256()


def test_the_hash_is_of_the_canonical_text_of_all_values_with_defaults_filled_in() -> None:
    spec = parse(SMALL)
    values = spec.resolved()
    assert values["partition"]["name"] == "given"
    assert values["training"]["local_epochs"] == 1
    assert (values["algorithm"]["name"], values["algorithm"]["mu"]) == ("fedprox", 0.5)
    assert (values["seed"], values["dtype"], values["engine"], values["variant"]) == (
        0,
        "float32",
        "auto",
        "paper",
    )
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    assert spec.sha256() == hashlib.sha256(text.encode()).hexdigest()
    assert parse(values).sha256() == spec.sha256(), "resolved values are a specification themselves"


def test_resolved_values_are_plain_and_named_as_people_write_them() -> None:
    rule = {"name": "rfedavg", "lambda": 0.25}
    spec = parse(written(("data.curvatures", [1.0, 2.0]), ("data.centres", [0.0, 1.0]), ("algorithm", rule)))
    values = spec.resolved()
    assert values["algorithm"]["lambda"] == 0.25
    assert values["data"]["curvatures"] == [1.0, 2.0]
    assert json.loads(json.dumps(values)) == values


@pytest.mark.parametrize(
    "change",
    [
        ("seed", 0),
        ("partition", {"name": "given"}),
        ("training.local_epochs", 1),
        ("training.momentum", 0),
        ("training.lr", 1e-1),
        ("training.lr_schedule", {"name": "constant"}),
        ("participation", {"fraction": 1}),
        ("evaluation", {"every": 1}),
        ("evaluation.precision", "fp32"),
        ("evaluation.observe", {}),
        ("evaluation.metrics", []),
    ],
    ids=lambda change: change[0],
)
def test_a_default_that_is_written_out_changes_nothing(change: tuple[str, Any]) -> None:
    assert hashed(change) == hashed()


@pytest.mark.parametrize(
    "change",
    [
        ("seed", 1),
        ("dtype", "float64"),
        ("engine", "autograd"),
        ("precision", "bf16"),
        ("variant", "released"),
        ("algorithm.mu", 0.25),
        ("algorithm", {"name": "fedavg"}),
        ("partition", {"name": "given", "validation": 0.5}),
        ("training.rounds", 4),
        ("training.lr", 0.2),
        ("training.optimizer", "rmsprop"),
        ("training.drop_last", True),
        ("training.lr_schedule", {"name": "inverse_time"}),
        ("participation.fraction", 0.5),
        ("participation.cohorts", [[0], [1]]),
        ("evaluation.every", 2),
        ("evaluation.train_every", 0),
        ("evaluation.precision", "bf16"),
        ("evaluation.observe", {"path": {}}),
        ("evaluation.validation", True),
    ],
    ids=lambda change: change[0],
)
def test_another_value_is_another_specification(change: tuple[str, Any]) -> None:
    assert hashed(change) != hashed()


def test_what_stands_at_a_default_that_is_left_out_is_not_in_the_resolved_values() -> None:
    class Own(Options):
        kept: int = 1
        added: dict[str, int] = omit_default({})

    assert Own().model_dump() == Own(added={}).model_dump() == {"kept": 1}
    assert Own(added={"a": 1}).model_dump() == {"kept": 1, "added": {"a": 1}}
    assert not {"precision", "observe"} & set(parse(SMALL).resolved()["evaluation"])
    reduced = parse(written(("evaluation.precision", "bf16"))).resolved()["evaluation"]
    assert reduced["precision"] == "bf16"
    assert "observe" not in reduced


def test_keys_are_written_by_their_aliases() -> None:
    spec = parse({**SMALL, "algorithm": {"name": "rfedavg", "lambda": 0.125}})
    assert spec.resolved()["algorithm"]["lambda"] == 0.125
    assert parse(spec.resolved()).sha256() == spec.sha256()


def test_momentum_is_that_of_the_optimizer_unless_given() -> None:
    plain = hashed(("training.optimizer", "momentum"))
    assert plain == hashed(("training.optimizer", "momentum"), ("training.momentum", 0.9))
    assert plain == hashed(("training.momentum", 0.9))
    assert plain == hashed(("training.momentum", "0.9"))
    assert plain != hashed(("training.momentum", 0.5))
    assert parse(SMALL).training.momentum == 0
    assert hashed() == hashed(("training.optimizer", "momentum"), ("training.momentum", 0.0))


@pytest.mark.parametrize("zero", [-0.0, "0.0", "-0.0", 0])
@pytest.mark.parametrize("key", ["training.weight_decay", "training.momentum", "data.u"])
def test_zero_is_one_number_however_it_is_written(key: str, zero: float | str) -> None:
    data = ("data", {"name": "synthetic", "clients": 4})
    assert hashed(data, (key, zero)) == hashed(data, (key, 0.0))


def test_observers_are_named_with_their_options_filled_in() -> None:
    bare = parse(written(("evaluation.observe", {"path": None})))
    assert bare.sha256() == hashed(("evaluation.observe", {"path": {}}))
    assert bare.sha256() == parse(bare.resolved()).sha256()
    spec = parse(written(("evaluation.observe", {"risk": {}, "path": {}})))
    assert list(spec.evaluation.observe) == ["risk", "path"]
    assert spec.sha256() == hashed(("evaluation.observe", {"path": {}, "risk": {}}))
    mixture = written(("evaluation.observe", {"mixture": {"rounds": [0, 2]}}))
    assert parse(mixture).resolved()["evaluation"]["observe"] == {"mixture": {"rows": 50, "rounds": [0, 2]}}
    assert bare.algorithm.name == "fedprox"
    assert bare.algorithm.options.mu == 0.5


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([], "specification: expected keys and values, got list"),
        ({**SMALL, "data": "quadratics"}, "data: expected keys and values with a 'name', got 'quadratics'"),
        ({**SMALL, "model": {}}, "model: expected keys and values with a 'name', got {}"),
        ({**SMALL, "model": {"name": "scalar"}}, "model.name: no model named 'scalar'"),
        ({key: SMALL[key] for key in ("data", "model", "training")}, "algorithm: missing, but required"),
        (
            written(("evaluation.observe", ["path"])),
            "evaluation.observe: expected observers with their options, got ['path']",
        ),
        (written(("evaluation.observe", {"paths": {}})), "evaluation.observe: no observer named 'paths'"),
        (written(("evaluation.observe", {"path": {"x": 1}})), "evaluation.observe.path.x: unknown key"),
        (written(("algorithm.nu", 1)), "algorithm.nu: unknown key"),
        (
            written(("algorithm.mu", 1), ("participation", {"events": []})),
            "participation.events: got [], expected 1 or more values",
        ),
    ],
)
def test_what_is_no_specification_is_said_in_one_line(values: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as refused:
        parse(values)
    assert str(refused.value).startswith(said)
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    with pytest.raises(SpecError) as refused:
        load(path)
    assert str(refused.value).startswith(f"{path}: {said}")


def test_a_file_is_the_same_specification(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(SMALL), encoding="utf-8")
    assert load(tmp_path / "spec.yaml").sha256() == hashed()
    assert load(str(tmp_path / "spec.yaml")) == load(tmp_path / "spec.yaml")
