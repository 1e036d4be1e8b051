"""params.yaml: wrong values are one line with the path of the key; generated files follow the schema."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from project import HOME, parameters
from wording import one_line

from fedcore.base.errors import SpecError
from fedcore.spec import Training
from pipeline.catalogue.params import EDITIONS, configuration, overlay
from pipeline.catalogue.schema import Params, TrainingParams
from pipeline.papers import build_catalogue, catalogue_of
from pipeline.reports import schema_docs
from pipeline.workflow import dvc


@pytest.fixture
def config() -> dict[str, Any]:
    return parameters()


def put(config: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    config = copy.deepcopy(config)
    *parents, last = path.split(".")
    section = config
    for key in parents:
        section = section[key]
    section[last] = value
    return config


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("scael", "demo", "scael: unknown key (did you mean 'scale'?)"),
        ("scale", "dmeo", "scale: got 'dmeo', which is not defined (did you mean 'demo'?)"),
        ("primary_paper", "other", "primary_paper: got 'other', which is not defined; known: rfedavg"),
        ("common.dtpye", "float32", "common.dtpye: unknown key (did you mean 'dtype'?)"),
        ("common.dtype", "float16", "common.dtype: got 'float16', expected 'float32' or 'float64'"),
        (
            "papers.rfedavg.regimes.cross_silo.training.bach_size",
            10,
            "papers.rfedavg.regimes.cross_silo.training.bach_size: unknown key (did you mean 'batch_size'?)",
        ),
        (
            "papers.rfedavg.regimes.cross_silo.fraction",
            1.5,
            "papers.rfedavg.regimes.cross_silo.fraction: got 1.5, expected a number less than or equal to 1",
        ),
        (
            "papers.rfedavg.datasets.mnist.splits.sim0.similarity",
            1.4,
            "papers.rfedavg.datasets.mnist.splits.sim0.similarity: got 1.4, "
            "expected a number less than or equal to 1",
        ),
        (
            "papers.rfedavg.datasets.mnist.data.name",
            "mnits",
            "papers.rfedavg.datasets.mnist.data.name: no data named 'mnits' (did you mean 'mnist'?)",
        ),
        (
            "papers.rfedavg.datasets.mnist.splits.sim0",
            {"name": "similarity"},
            "papers.rfedavg.datasets.mnist.splits.sim0.similarity: missing, but required",
        ),
        (
            "papers.rfedavg.algorithms.scaffold.server_rl",
            1.0,
            "papers.rfedavg.algorithms.scaffold.server_rl: unknown key (did you mean 'server_lr'?)",
        ),
        (
            "papers.rfedavg.algorithms.fedprox.mu",
            -1.0,
            "papers.rfedavg.algorithms.fedprox.mu: got -1.0, expected a number greater than or equal to 0",
        ),
        (
            "papers.rfedavg.algorithms.fedprox.per.mnits",
            {"mu": 1.0},
            "papers.rfedavg.algorithms.fedprox.per.mnits: no such data set, regime or split "
            "(did you mean 'mnist'?)",
        ),
        (
            "papers.rfedavg.algorithms.fedporx",
            {"mu": 1.0},
            "papers.rfedavg.algorithms.fedporx.name: no algorithm named 'fedporx' (did you mean 'fedprox'?)",
        ),
        ("papers.rfedavg.seeds", [], "papers.rfedavg.seeds: got [], expected"),
        (
            "papers.rfedavg.seeds",
            [0, -1],
            "papers.rfedavg.seeds.1: got -1, expected a number greater than or equal to 0",
        ),
        ("papers.rfedavg.algorithms.Bad-Name", {}, "papers.rfedavg.algorithms.Bad-Name: got the name"),
        (
            "scales.demo.papers.rfedavg.datasets.mnits",
            {"training": {"rounds": 1}},
            "scales.demo.papers.rfedavg.datasets.mnits",
        ),
        (
            "scales.demo.papers.rfedavg.regimes.cross_silo.clinets",
            3,
            "scales.demo.papers.rfedavg.regimes.cross_silo.clinets: unknown key (did you mean 'clients'?)",
        ),
        ("scales.demo.papers.fedwow", {}, "scales.demo.papers: got 'fedwow', which is not defined"),
        ("scales.demo.seeds", None, "scales.demo.seeds: missing, but required where one_process is true"),
        ("papers", "none", "papers: got 'none', expected keys and values"),
        (
            "papers.rfedavg.chosen",
            [{"at": "mnist", "values": {"training.lr": "fast"}, "source": "a search"}],
            "papers.rfedavg.training.lr: got 'fast', expected a number (in chosen, algorithm 'fedavg')",
        ),
        (
            "papers.rfedavg.chosen",
            [{"at": "mnist", "values": {"seed": 7}, "source": "a search"}],
            "papers.rfedavg.chosen.0.values: got the key 'seed', expected keys that runs with other seeds",
        ),
    ],
)
def test_a_wrong_value_is_one_line_with_the_path_of_the_key(
    config: dict[str, Any], path: str, value: Any, expected: str
) -> None:
    with pytest.raises(SpecError) as caught:
        _ = build_catalogue(put(config, path, value)).index
    message = str(caught.value)
    assert message.startswith(expected), message
    one_line(message)


@pytest.mark.parametrize("path", schema_docs.FILES)
def test_generated_files_follow_the_schema(path: str) -> None:
    text = (HOME / path).read_text()
    assert text == schema_docs.FILES[path](), f"{path} is out of date; run `uv run fedcore schema`"


def test_dvc_file_follows_the_catalogue() -> None:
    text = (HOME / "dvc.yaml").read_text()
    assert text == dvc.dvc_yaml(HOME / "params.yaml"), "dvc.yaml is out of date; run `uv run fedcore dvc`"


def test_every_key_is_described() -> None:
    lines = [line for line in schema_docs.key_page().splitlines() if line.startswith("| `")]
    assert len(lines) > 60
    assert all(len(line.split(" | ")[-1].rstrip(" |")) > 5 for line in lines)


def test_editors_are_told_the_schema() -> None:
    first = (HOME / "params.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=params.schema.json"
    schema = json.loads((HOME / "params.schema.json").read_text())
    assert set(schema["properties"]) == set(Params.model_fields)


def test_training_keys_are_those_of_a_run() -> None:
    assert set(TrainingParams.model_fields) == set(Training.model_fields)


def test_overlay_goes_through_nested_mappings() -> None:
    base = {"a": {"b": 1, "c": {"d": 2}}, "e": [1, 2]}
    assert overlay(base, {"a": {"c": {"d": 3}}, "e": [4]}) == {"a": {"b": 1, "c": {"d": 3}}, "e": [4]}
    assert base["a"] == {"b": 1, "c": {"d": 2}}


def test_editions_of_a_paper_that_was_removed_are_left_out(tmp_path: Path) -> None:
    config = configuration(HOME / "params.yaml")
    for section in (config, *config["scales"].values()):
        section.get("papers", {}).pop("comfed", None)
    (tmp_path / "data").mkdir()
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(config))
    editions = Path(shutil.copy(HOME / EDITIONS, tmp_path / EDITIONS))
    catalogue = catalogue_of(tmp_path / "params.yaml", "paper", editions)
    assert "comfed" not in catalogue.papers
    assert catalogue.cells("radfed", "table3") == catalogue_of(
        HOME / "params.yaml", "paper", HOME / EDITIONS
    ).cells("radfed", "table3")
    other = Path(shutil.copy(editions, tmp_path / "other.yaml"))
    with pytest.raises(SpecError, match=r"papers\.comfed"):
        catalogue_of(tmp_path / "params.yaml", "paper", other)


def test_another_plug_in_brings_its_own_keys() -> None:
    base = {"model": {"name": "cnn", "hidden": 512}}
    assert overlay(base, {"model": {"name": "mlp"}}) == {"model": {"name": "mlp"}}
    same = {"model": {"name": "cnn", "channels": [8]}}
    assert overlay(base, same) == {"model": {"name": "cnn", "hidden": 512, "channels": [8]}}


def test_a_file_that_is_no_yaml_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("a: [")
    with pytest.raises(SpecError, match=r"params\.yaml: line 1: not valid YAML") as caught:
        catalogue_of(tmp_path / "params.yaml")
    one_line(caught.value)
