"""YAML and JSON that users write: each mistake is one line with its place, and nothing is expanded."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wording import one_line

from fedcore.base import core_yaml
from fedcore.base.errors import DataError, FedcoreError, SpecError
from fedcore.base.files import digest, sha256_file
from fedcore.cli.test import _option
from fedcore.data import Dataset, Rows
from fedcore.execution.batch import orders
from fedcore.execution.integrity import check, sealed
from fedcore.execution.status import survey
from fedcore.partitions import file
from fedcore.spec import load, parse
from pipeline.catalogue import params
from pipeline.catalogue.params import configuration, overlay
from pipeline.papers import build_catalogue, catalogue_of

ROOT = Path(__file__).parents[2]
SPEC = """\
data:
  name: synthetic
  u: 0.5
  clients: 5
partition:
  name: natural
model:
  name: logistic
algorithm:
  name: fedprox
  mu: 0.1
training:
  rounds: 2
  batch_size: 10
  lr: 0.1
  lr_schedule:
    name: milestones
    milestones:
      2: 0.05
participation:
  fraction: 0.5
seed: 0
"""
OVERLAY = """\
scale: demo
common:
  dtype: float64
  evaluation:
    every: 2
papers:
  rfedavg:
    seeds: [0, 1]
    regimes:
      cross_silo:
        clients: 4
        fraction: 0.5
        training:
          local_steps: 5
          batch_size: 10
    datasets:
      mnist:
        training:
          rounds: 3
          lr: 0.1
    algorithms:
      fedprox:
        mu: 0.1
"""
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)
WRONG = [
    ("a: 1\nb: 2\na: 3", "line 3: not valid YAML (the key 'a' is given twice, first in line 1)"),
    ("a:\n  b: {c: 1, d: 2, c: 3}", "line 2: not valid YAML (the key 'c' is given twice, first in line 2)"),
    ("1: a\n0x1: b", "line 2: not valid YAML (the key 1 is given twice, first in line 1)"),
    (BOMB, "line 5: not valid YAML (aliases that stand for more than 10,000 values)"),
    ("a: &a [*a]", "line 1: not valid YAML (an alias inside its own value)"),
    ("a: 1\nb: *c", "line 2: not valid YAML (found undefined alias 'c')"),
    ("[" * 5000, "line 1: not valid YAML (nested more than 100 deep)"),
    ("a:\n- " + "9" * 5000, "line 2: not valid YAML (a number of 5000 digits, expected at most 300)"),
    ("a: 0x" + "f" * 400, "line 1: not valid YAML (a number of 402 digits, expected at most 300)"),
    ("a: !!set {b}", "line 1: not valid YAML (the type '!!set' is not known here)"),
    ("a: !!timestamp 2024-01-01", "line 1: not valid YAML (the type '!!timestamp' is not known here)"),
    ("a: !!binary aGk=", "line 1: not valid YAML (the type '!!binary' is not known here)"),
    ("a: !!python/name:os.system", "line 1: not valid YAML (the type '!!python/name:os.system' is not known"),
    ("a: !!int x", "line 1: not valid YAML ('x' is no int)"),
    ("? [a]\n: b", "line 1: not valid YAML (a list or mapping as a key, expected a plain value)"),
    ('a: "\\ud800"', "line 1: not valid YAML ('\\ud800' is no str)"),
    ('a: "\\UFFFFFFFF"', "line 1: not valid YAML ("),
    ("%YAML 1." + "9" * 5000 + "\n--- a", "line 1: not valid YAML ("),
    ("a: 1\nb: \x01", "line 2: not valid YAML (a control character)"),
    (b"a: 1\nb: \xff", "line 2: not valid YAML (not UTF-8)"),
    ("a: 1\n--- b", "line 2: not valid YAML (expected a single document in the stream"),
    (b"#" * 1_000_001, "larger than 1 MB, which is the most that a specification may have"),
    (None, "cannot read the specification (No such file or directory)"),
]


@pytest.mark.parametrize(("text", "said"), WRONG, ids=range(len(WRONG)))
def test_wrong_yaml_is_one_line_with_its_place(text: str | bytes | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    for read in (load, configuration):
        with pytest.raises(SpecError) as caught:
            read(path)
        line = str(caught.value).replace("configuration", "specification")
        assert line.startswith(f"{path}: {said}")
        assert len(line) < 600
        assert line.isprintable()


def test_the_core_types() -> None:
    text = "a: [true, False, ~, null, 1, -2, 0o17, 0x1f, 010, 1_000, .5, 1e3, 2.5e-3, -.inf]\nb: "
    assert core_yaml.parsed(text, "") == {
        "a": [True, False, None, None, 1, -2, 15, 31, 10, 1000, 0.5, 1000.0, 0.0025, -float("inf")],
        "b": None,
    }
    words = ["on", "Yes", "no", "off", "y", "2024-01-01", "2024-13-45", "1:30", "=", "1_", "0b1", "1.2.3"]
    assert core_yaml.parsed(f"[{', '.join(words)}]", "") == words


def test_anchors_and_merge_keys() -> None:
    text = "a: &a {x: 1, y: 2}\nb: &b {<<: *a, x: 3}\nc: {<<: [*b, {z: 4}], y: 5}\nd: *b\n"
    assert core_yaml.parsed(text, "") == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 3, "y": 2},
        "c": {"x": 3, "y": 5, "z": 4},
        "d": {"x": 3, "y": 2},
    }


@pytest.mark.parametrize("path", ["params.yaml", "data/editions.yaml"])
def test_the_projects_parameters_mean_what_they_meant(path: str) -> None:
    """Snakemake reads them as YAML 1.1, everything else here as YAML 1.2."""
    assert repr(core_yaml.read(ROOT / path)) == repr(yaml.safe_load((ROOT / path).read_text()))


def test_what_is_written_is_read_back_by_both_versions() -> None:
    words = ["1e3", "on", "0o17", ".5", "0x1F", "2024-01-01", "null", "", "1_000", "<<", "1:30", "~", "é"]
    values = {"words": words, "numbers": [1, 1e-05, 2.5, -0.0, True, None], "no": {}}
    text = core_yaml.to_yaml(values)
    assert core_yaml.parsed(text, "") == yaml.safe_load(text) == values


def test_an_option_on_the_command_line_is_one_line() -> None:
    assert _option("lr=1e-3") == ("lr", 0.001)
    with pytest.raises(SpecError, match="--set lr: line 1: not valid YAML") as caught:
        _option("lr=[")
    one_line(caught.value)


def put(values: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(values)
    *parents, last = path.split(".")
    place = changed
    for key in parents:
        place = place.setdefault(key, {})
    place[last] = value
    return changed


NUMBERS = [
    ("seed", True),
    ("training.rounds", True),
    ("training.lr", True),
    ("training.batch_size", True),
    ("training.local_steps", [1, True]),
    ("training.lr_schedule.milestones", {2: True}),
    ("training.lr_schedule.milestones", {True: 0.1}),
    ("training.momentum", False),
    ("participation.fraction", True),
    ("participation.cohorts", [[0], [True]]),
    ("evaluation.every", True),
    ("algorithm.mu", True),
    ("data.u", True),
    ("data.clients", True),
]


@pytest.mark.parametrize(("path", "value"), NUMBERS, ids=[path for path, _ in NUMBERS])
def test_a_boolean_is_no_number(path: str, value: Any) -> None:
    with pytest.raises(SpecError) as caught:
        parse(put(core_yaml.parsed(SPEC, ""), path, value))
    inside = {"[1, True]": ".1", "{2: True}": ".2", "[[0], [True]]": ".1.0"}.get(str(value), "")
    assert str(caught.value).startswith(f"{path}{inside}: got ")
    assert re.search(r"got (the name )?(True|False), expected a number, not a boolean", str(caught.value))


@pytest.mark.parametrize(("key", "word"), [("rounds", "true"), ("lr", "yes"), ("batch_size", "on")])
def test_a_word_is_no_number(key: str, word: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(core_yaml.to_yaml(put(core_yaml.parsed(SPEC, ""), f"training.{key}", 7)))
    load(tmp_path / "s.yaml")
    (tmp_path / "s.yaml").write_text((tmp_path / "s.yaml").read_text().replace(f"{key}: 7", f"{key}: {word}"))
    with pytest.raises(SpecError, match=f"s.yaml: training.{key}") as caught:
        load(tmp_path / "s.yaml")
    one_line(caught.value)


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("papers.rfedavg.seeds", "[on]"),
        ("papers.rfedavg.regimes.cross_silo.clients", "yes"),
        ("papers.rfedavg.regimes.cross_silo.fraction", "on"),
        ("papers.rfedavg.datasets.mnist.training.lr", "yes"),
        ("papers.rfedavg.datasets.mnist.splits.sim0.similarity", "off"),
        ("papers.rfedavg.algorithms.fedprox.mu", "on"),
        ("common.evaluation.every", "true"),
        ("scales.demo.papers.rfedavg.datasets.mnist.training.rounds", "true"),
    ],
)
def test_a_boolean_is_no_number_in_parameters_as_snakemake_reads_them(path: str, word: str) -> None:
    config = put(configuration(ROOT / "params.yaml"), path, yaml.safe_load(word))
    with pytest.raises(SpecError) as caught:
        _ = build_catalogue(config).index
    assert "expected a number, not a boolean" in str(caught.value)
    assert path.rpartition(".")[2] in str(caught.value)


def test_a_schedule_of_the_learning_rate_says_which() -> None:
    for given_ in ({"milestones": {3: 0.1}}, {}):
        with pytest.raises(SpecError, match=r"^training\.lr_schedule\.name: missing, expected one of 'const"):
            parse(put(core_yaml.parsed(SPEC, ""), "training.lr_schedule", given_))
    with pytest.raises(
        SpecError, match=r"^training\.lr_schedule: milestones: missing, expected a rate from a"
    ):
        parse(put(core_yaml.parsed(SPEC, ""), "training.lr_schedule", {"name": "milestones"}))


def test_an_accuracy_to_stop_at_is_a_share() -> None:
    with pytest.raises(
        SpecError, match=r"^evaluation\.stop_at: got 70, expected a number less than or equal to 1"
    ):
        parse(put(core_yaml.parsed(SPEC, ""), "evaluation.stop_at", 70))


@pytest.mark.parametrize(
    ("path", "known"),
    [("training.round", "rounds"), ("partition.nmae", None), ("modle", "model"), ("algorithm.mew", None)],
)
def test_a_mistyped_key_comes_before_the_one_that_is_missing(path: str, known: str | None) -> None:
    values = core_yaml.parsed(SPEC, "")
    if known is not None:
        *parents, _ = path.split(".")
        del (values[parents[0]] if parents else values)[known]
    with pytest.raises(SpecError) as caught:
        parse(put(values, path, {"name": "logistic"} if path == "modle" else 1))
    hint = f" (did you mean '{known}'?) (and 1 more)" if known else ""
    assert str(caught.value).startswith(f"{path}: unknown key{hint}")


def test_a_mistyped_key_of_parameters_comes_first() -> None:
    config = configuration(ROOT / "params.yaml")
    for path in ("papers.rfedavg.regimes.cross_silo", "papers.rfedavg.datasets.mnist"):
        changed = put(config, f"{path}.cleints", 3)
        changed["papers"]["rfedavg"]["regimes"]["cross_silo"].pop("clients")
        changed["papers"]["rfedavg"]["datasets"]["mnist"].pop("splits")
        with pytest.raises(SpecError) as caught:
            params.load(changed)
        assert str(caught.value).startswith(f"{path}.cleints: unknown key")


def test_a_value_is_cut_before_it_is_made_text() -> None:
    """The whole text of this value would fill the memory of a large machine."""
    bomb: Any = ["x"] * 9
    for _ in range(12):
        bomb = [bomb] * 9
    spec, config = core_yaml.parsed(SPEC, ""), configuration(ROOT / "params.yaml")
    began = time.monotonic()
    for path in (
        "data",
        "data.name",
        "data.u",
        "participation",
        "training",
        "training.lr",
        "algorithm.mu",
        "model",
    ):
        for value in (bomb, {"name": bomb}, 10**5000, "x" * 10**6):
            with pytest.raises(FedcoreError) as caught:
                parse(put(spec, path, value))
            assert len(str(caught.value)) < 700
    for path in ("scale", "papers", "papers.rfedavg.seeds", "papers.rfedavg.algorithms.fedprox.mu"):
        with pytest.raises(FedcoreError) as caught:
            _ = build_catalogue(put(config, path, bomb)).index
        assert len(str(caught.value)) < 700
    assert time.monotonic() - began < 60


def test_snakemakes_files_are_held_to_the_same_rules(tmp_path: Path) -> None:
    (tmp_path / "over.yaml").write_text("common: {engine: auto}\nscale: demo\nscale: paper\n")
    command = ["-m", "snakemake", "-n", "--cores", "1", "--configfile", str(tmp_path / "over.yaml")]
    process = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 1
    lines = [line for line in process.stderr.splitlines() if "over.yaml" in line]
    assert lines == [
        f"{tmp_path}/over.yaml: line 3: not valid YAML (the key 'scale' is given twice, first in line 2)"
    ]
    assert "Traceback" not in process.stderr


VALUES = (
    "2024-01-01",
    "2024-13-45",
    "2001-12-14t21:59:43.10-05:00",
    "!!set {a, b}",
    "!!omap [a: 1]",
    "!!binary aGk=",
    "!!float x",
    "!!str 1",
    "!python/object:x {}",
    "1" * 400,
    "-" + "1" * 250,
    "9" * 5000,
    "1e999",
    "0x" + "f" * 90,
    "[" * 150 + "]" * 150,
    "[" * 90 + "]" * 90,
    "{a: " * 60 + "1" + "}" * 60,
    "&x [*x]",
    "&y {z: 1}",
    "*y",
    "*nowhere",
    "{<<: {name: iid}, clients: 2}",
    "{<<: 3}",
    "{a: 1, a: 2}",
    "true",
    "false",
    "yes",
    "on",
    "[true]",
    "{2: true}",
    "{true: 0.1}",
    ".nan",
    ".inf",
    "-.inf",
    "nan",
    "~",
    "",
    "''",
    '"\\ud800"',
    '"\\UFFFFFFFF"',
    '"\\x00"',
    "'",
    "- - -",
    "? ?",
    "%",
    "@x",
    "`",
    "|",
    ">-",
    "\x07",
    "\ufeff",
    "\u2028",
    "[[0], [true]]",
    "{name: fedavg}",
    "1:30",
    "50_000",
)
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["value", "value", "key", "twice", "bytes", "indent", "cut"]),
        st.integers(0, 10**6),
        st.sampled_from(VALUES),
        st.integers(0, 255),
    ),
    min_size=1,
    max_size=3,
)


def mutated(text: str, changes: list[tuple[str, int, str, int]]) -> bytes:
    """Return a text with some of its lines changed."""
    lines = text.encode().split(b"\n")
    for how, at, value, byte in changes:
        place = at % len(lines)
        line = lines[place]
        key, _, _ = line.partition(b":")
        start = at % (len(line) + 1)
        if how == "value":
            lines[place] = key + b": " + value.encode()
        elif how == "key":
            lines[place] = line[: len(line) - len(line.lstrip())] + value.encode() + b": 1"
        elif how == "twice":
            lines.insert(place, line)
        elif how == "bytes":
            lines[place] = line[:start] + bytes([byte]) + line[start + 1 :]
        elif how == "indent":
            lines[place] = b" " * (byte % 5) + line
        else:
            lines[place] = line[:start]
    return b"\n".join(lines)


def trials(quick: int, slow: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("count", [quick, pytest.param(slow, marks=pytest.mark.slow)])


def names_its_file(said: str, path: Path) -> None:
    assert said.isprintable()
    assert len(said) < 1500
    assert said.startswith(f"{path}: ")


def fuzz(count: int, text: str, path: Path, read: Callable[[Path], object]) -> None:
    """Read ``count`` changed texts: each is valid, or refused in one line that names the file."""
    refused = 0

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(CHANGES)
    def check(changes: list[tuple[str, int, str, int]]) -> None:
        nonlocal refused
        path.write_bytes(mutated(text, changes))
        try:
            read(path)
        except SpecError as error:
            refused += 1
            names_its_file(str(error), path)

    check()
    assert refused > count // 2


@trials(300, 10_000)
@pytest.mark.timeout(3600)
def test_mutated_specification_files_are_refused_in_one_line_or_valid(
    count: int, tmp_path: Path, record_property: Callable[[str, int], None]
) -> None:
    record_property("trials", count)
    load(_written(tmp_path / "s.yaml", SPEC))
    fuzz(count, SPEC, tmp_path / "s.yaml", load)


@trials(150, 10_000)
@pytest.mark.timeout(7200)
def test_mutated_overlays_are_refused_in_one_line_or_valid(
    count: int, tmp_path: Path, record_property: Callable[[str, int], None]
) -> None:
    record_property("trials", count)
    config = configuration(ROOT / "params.yaml")

    def read(path: Path) -> None:
        over = configuration(path)
        try:
            params.load(overlay(config, over))
        except SpecError as error:
            raise SpecError(f"{path}: {error}") from None

    catalogue_of(ROOT / "params.yaml", None, _written(tmp_path / "over.yaml", OVERLAY))
    fuzz(count, OVERLAY, tmp_path / "over.yaml", read)


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (DEEP, "not a readable batch (nested too deep)"),
        ('[{"spec": {}, "out": "a", "out": "b"}]', "not a readable batch (the key 'out' is given twice)"),
        ('[{"spec": %s, "out": "a"}]' % ("9" * 5000), "not a readable batch (Exceeds the limit"),
        (b'[{"spec": "\xff"}]', "not a readable batch ('utf-8' codec can't decode"),
    ],
    ids=["deep", "twice", "digits", "bytes"],
)
def test_a_wrong_batch_is_one_line(text: str | bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "batch.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SpecError) as caught:
        orders(path)
    assert str(caught.value).startswith(f"{path}: {said}")


@pytest.mark.parametrize("text", [DEEP, '{"a": [0], "a": [1]}', "\xff"])
def test_wrong_row_lists_are_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_bytes(text.encode("latin-1"))
    rows = Rows(np.zeros((3, 2)), np.zeros(3, np.int64))
    dataset = Dataset("toy", rows, rows, 2, "real", "toy")
    options = file.Options(path=str(path), sha256=sha256_file(path))
    with pytest.raises(DataError, match="not a JSON file of row lists"):
        file.build(options, dataset, np.random.default_rng(0))


@pytest.mark.parametrize("name", ["provenance.json", "summary.json", ".progress.json", "timing.json"])
def test_deep_files_of_results_are_told(name: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "spec.yaml").write_text("a: 1\n")
    (run / "summary.json").write_text('{"status": "completed"}')
    files = {file: sha256_file(run / file) for file in ("spec.yaml", "summary.json")}
    for other in ("provenance.json", "timing.json"):
        (run / other).write_text(json.dumps(sealed({"files": files, "spec_sha256": digest({"a": 1})})))
    assert not check(tmp_path).problems
    (run / name).write_text(DEEP)
    problems = [str(problem) for problem in check(tmp_path).problems]
    assert len(problems) == (0 if name == ".progress.json" else 1)
    assert all(f"{run}: {name} is " in problem and "\n" not in problem for problem in problems)
    (status,) = survey(tmp_path)
    assert status.state == ("stale" if name == "summary.json" else "done")
