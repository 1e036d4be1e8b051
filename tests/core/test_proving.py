"""`fedcore test` finds each broken promise, says it in words, and finds nothing wrong with what ships."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from fedcore.base.errors import BrokenContract, SpecError
from fedcore.base.registry import plugins
from fedcore.conformance import CheckResult, algorithms, check_results, data, partitions, register
from fedcore.data import Source
from fedcore.data.datasets.libsvm import VehicleOptions
from fedcore.data.download import inventory
from fedcore.execution.runner import load_data

ROOT = Path(__file__).parents[2]
ALGORITHM = '''
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from fedcore.parts.aggregate import WeightedMean
from fedcore.engines import Batch, BoundTerm
from fedcore.parts import Exchange, Message, Term
from fedcore.algorithms import AlgorithmOptions, recipe
from fedcore.base.registry import Plugin

CALLS = count()


class Options(AlgorithmOptions):
    """None."""


@dataclass(frozen=True)
class Mean(WeightedMean):
    seen: list = field(default_factory=list)

    def change(self, run, state, model, uploads):
        mean = super().change(run, state, model, uploads)
        {change}

    def arrays(self, state):
        return {arrays}


@dataclass(frozen=True)
class Push(Term):
    label: str = "push"

    def bind(self, run, state, job):
        return BoundTerm(
            feature_loss=lambda phi, batch: 0.1 * (batch.weights @ phi.square()).sum(),
            feature_gradient=lambda phi, batch: {gradient} * batch.weights[:, None] * phi,
        )


@dataclass(frozen=True)
class Letter(Exchange):
    label: str = "letter"

    def uploaded(self, run, state, job, upload):
        {uploaded}

    def messages(self):
        return ({messages})


def build(options, spec):
    return recipe(aggregate=Mean(), objective=(Push(),), exchange=(Letter(),))


PLUGIN = Plugin("mine", Options, build, "mine", "a test")
'''
SOUND = {"change": "return mean", "arrays": "{}", "gradient": "0.2", "uploaded": "pass", "messages": ""}
RUNS = "it runs and its numbers are finite"
LEARNS = "loss falls on similar clients"
SAME = "the same specification gives the same bytes"
RESUMES = "an interrupted run goes on to the same bytes"
ANALYTIC = "engine 'analytic' agrees with autograd"
COUNTED = "what travels is counted, and named"
BROKEN: dict[str, tuple[dict[str, str], str, str]] = {
    "global random numbers": (
        {"change": "return mean * np.random.uniform(0.9, 1.1)"},
        SAME,
        "random numbers are used",
    ),
    "a memory beyond the run": (
        {"change": "return mean * (1 + 1e-3 * next(CALLS))"},
        SAME,
        "remembers something of an earlier run",
    ),
    "a memory in a part": (
        {"change": "self.seen.append(1)\n        return mean / len(self.seen)"},
        RESUMES,
        "stopped after round",
    ),
    "a memory that only an array shows": (
        {
            "change": "self.seen.append(1)\n        return mean",
            "arrays": "{'a': {'seen': np.array(self.seen)}}",
        },
        RESUMES,
        "a.npz differs",
    ),
    "no number": ({"change": "return mean * float('nan')"}, RUNS, "no finite number"),
    "the wrong way": ({"change": "return -mean"}, LEARNS, "the training loss was"),
    "a number": (
        {"change": "return mean.sum()"},
        RUNS,
        "algorithm: Mean.change returned shape [], expected a tensor of [",
    ),
    "a change too many": ({"change": "return mean[None]"}, RUNS, "Mean.change returned shape [1, "),
    "no change": ({"change": "self"}, RUNS, "Mean.change returned NoneType, expected a tensor"),
    "an error": (
        {"change": "return mean + missing"},
        RUNS,
        "raises NameError (name 'missing' is not defined)",
    ),
    "a wrong gradient": ({"gradient": "0.1"}, ANALYTIC, "feature_gradient must be the gradient"),
    "extras that nobody counts": (
        {"uploaded": "upload.extras['letter'] = upload.model", "messages": "Message('down', 'a letter'),"},
        COUNTED,
        "clients send 'letter' besides the model, but no message goes up",
    ),
    "a message without numbers": (
        {"messages": "Message('down', 'a letter', lambda run, state: 0),"},
        COUNTED,
        "message 'a letter' down never has any numbers",
    ),
    "numbers that nobody names": (
        {"messages": "Message('up', ''),"},
        COUNTED,
        "numbers up has no name",
    ),
    "negative numbers": (
        {"messages": "Message('down', 'a letter', lambda run, state: -8),"},
        COUNTED,
        "message 'a letter' down has -8 numbers, expected a count",
    ),
}


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Forget registered plug-ins afterwards."""
    monkeypatch.setenv("FEDCORE_PLUGINS", "")
    yield
    monkeypatch.undo()
    plugins.cache_clear()


def failed(found: list[CheckResult]) -> dict[str, str]:
    return {result.demand: result.wrong for result in found if result.wrong}


def of_algorithm(text: str, tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "mine.py"
    file.write_text(text)
    kind, (plugin,) = register(file, tmp_path / "plugins")
    assert kind == "algorithm"
    return failed(list(check_results(algorithms.checks(plugin, {}, tmp_path / "work"))))


def filled(template: str, parts: dict[str, str]) -> str:
    for name, text in parts.items():
        template = template.replace("{" + name + "}", text)
    return template


def test_a_sound_algorithm_passes(tmp_path: Path) -> None:
    assert of_algorithm(filled(ALGORITHM, SOUND), tmp_path) == {}


@pytest.mark.parametrize("fault", BROKEN)
def test_each_fault_of_an_algorithm_is_found_and_said(fault: str, tmp_path: Path) -> None:
    parts, demand, message = BROKEN[fault]
    failures = of_algorithm(filled(ALGORITHM, SOUND | parts), tmp_path)
    assert message in failures.get(demand, ""), failures
    if demand in {ANALYTIC, COUNTED, RESUMES}:
        assert set(failures) <= {demand, "engine 'stacked' agrees with autograd"}


QUICK = ("fedavg", "scaffold", "rfedavg_plus", "fedomw", "radfed_i", "centralised")


@pytest.mark.parametrize(
    "name",
    [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in sorted(plugins("algorithm"))],
)
def test_what_ships_passes(name: str, tmp_path: Path) -> None:
    plugin = plugins("algorithm")[name]
    few = {"redistributions": 3} if "redistributions" in plugin.options.model_fields else {}
    assert failed(list(check_results(algorithms.checks(plugin, few, tmp_path)))) == {}


PARTITION = '''
import numpy as np

from fedcore.data import Partition
from fedcore.partitions import PartitionOptions
from fedcore.base.registry import Plugin


class Options(PartitionOptions):
    """``clients``: how many."""

    clients: int = 5


def build(options, dataset, rng):
    rows = rng.permutation(len(dataset.train))
    {body}
    return Partition(tuple(np.array_split(rows, options.clients)), note={note})


PLUGIN = Plugin("mine", Options, build, "mine", "a test")
'''
COVERS = "every row is held once, or listed as dropped"
BROKEN_PARTITIONS = {
    "a row twice": ("rows = np.concatenate([rows, rows[:1]])", "'dealt'", COVERS, "is held more than once"),
    "an outside row": ("rows = rows + 1", "'dealt'", COVERS, "is out of range, the data have"),
    "fractions": ("rows = rows / 2", "'dealt'", COVERS, "float64 of shape [1], expected a list of row"),
    "no partition": ("return None", "'dealt'", COVERS, "returned NoneType, expected a Partition"),
    "a row lost": ("rows = rows[1:]", "'dealt'", COVERS, "is neither held nor dropped"),
    "global random numbers": (
        "rows = np.random.permutation(len(rows))",
        "'dealt'",
        "the same seed gives the same rows",
        "gave two partitions",
    ),
    "one client too few": (
        "options = options.model_copy(update={'clients': max(1, options.clients - 1)})",
        "'dealt'",
        "there are as many clients as asked for",
        "were asked for",
    ),
    "data that change": (
        "dataset.train.y[:] = 0",
        "'dealt'",
        "the data are unchanged",
        "writes into the data",
    ),
    "no note": ("pass", "''", "a note describes the partition", "the note is empty"),
}


def of_partition(body: str, note: str, tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "mine.py"
    file.write_text(filled(PARTITION, {"body": body, "note": note}))
    kind, (plugin,) = register(file, tmp_path / "plugins")
    assert kind == "partition"
    return failed(list(check_results(partitions.checks(plugin, {}))))


def test_a_sound_partition_passes(tmp_path: Path) -> None:
    assert of_partition("pass", "'dealt'", tmp_path) == {}
    assert failed(list(check_results(partitions.checks(plugins("partition")["iid"], {"clients": 2})))) == {}


@pytest.mark.parametrize("fault", BROKEN_PARTITIONS)
def test_each_fault_of_a_partition_is_found_and_said(fault: str, tmp_path: Path) -> None:
    body, note, demand, message = BROKEN_PARTITIONS[fault]
    assert message in of_partition(body, note, tmp_path).get(demand, "")


SHIPPED: dict[str, dict[str, Any]] = {
    "dirichlet": {"alpha": 0.5, "convention": "by_label"},
    "similarity": {"similarity": 0.5},
    "qp": {"burn_in": 100, "steps": 100},
}


@pytest.mark.parametrize("name", sorted(set(plugins("partition")) - {"file", "given"}))
def test_partitions_that_ship_pass(name: str) -> None:
    plugin = plugins("partition")[name]
    assert failed(list(check_results(partitions.checks(plugin, SHIPPED.get(name, {}))))) == {}


DATA = '''
{top}
import numpy as np

from fedcore.data import Dataset, Rows
from fedcore.base.options import Options
from fedcore.base.registry import Plugin


class Mine(Options):
    """None."""


def build(options, source):
    rng = {rng}
    x, y = rng.standard_normal((30, 4)).astype({kind}), rng.integers(3, size=30)
    train, test = Rows(x[:20], y[:20], {groups}), {test}
    return Dataset("mine", train, test, {classes}, "synthetic", {note}, {validation}, group_names=("a", "b"))


PLUGIN = Plugin("mine", Mine, build, "mine", "a test")
'''
SOUND_DATA = {
    "validation": "None",
    "top": "",
    "rng": "np.random.default_rng(0)",
    "kind": "np.float32",
    "groups": "np.repeat([0, 1], 10)",
    "test": "Rows(x[20:], y[20:])",
    "classes": "3",
    "note": "'made'",
}
APART = "no test or validation row is a training row"
DECLARED = "its declared counts are what is loaded"
FITS = "rows, labels and clients fit one another"
BROKEN_DATA = {
    "an error": ({"rng": "missing"}, "it loads", "raises NameError"),
    "files that are not there": ({"rng": "open('/none').read()"}, "it loads", "raises FileNotFoundError"),
    "labels beyond the classes": ({"classes": "2"}, FITS, "labels from 0 to 2, expected 0 to 1"),
    "fewer labels than rows": ({"test": "Rows(x[18:], y[18:20])"}, FITS, "rows of x, 2 labels"),
    "labels that are no whole numbers": (
        {"test": "Rows(x[18:], y[18:].astype(float))"},
        FITS,
        "test: labels are float64, expected int64",
    ),
    "half precision": ({"kind": "np.float16"}, FITS, "x is float16"),
    "negative clients": (
        {"groups": "np.repeat([-1, 1], 10)"},
        FITS,
        "train: groups from -1 to 1, expected 0 to 1",
    ),
    "no test rows": ({"test": "Rows(x[:0], y[:0])"}, FITS, "test: no rows, expected some"),
    "other validation rows": (
        {"validation": "Rows(x[:3, :2], y[:3])"},
        FITS,
        "validation: rows have shape (2,)",
    ),
    "validation rows that train": (
        {"validation": "Rows(x[18:22], y[18:22])"},
        APART,
        "2 of 4 validation rows are among the training rows",
    ),
    "float tokens": ({"validation": "None, vocabulary=9"}, FITS, "train: x is float32 from -"),
    "a token beyond the vocabulary": (
        {"kind": "np.int64) + (9", "validation": "None, vocabulary=9"},
        FITS,
        "train: x is int64 from 0 to 11, expected int64 tokens from 0 to 8",
    ),
    "a list of clients": (
        {"groups": "[0] * 20"},
        FITS,
        "train: groups are list of shape (20,), expected an array of 20",
    ),
    "a list of features": (
        {"validation": "None, client_features={'age': [1] * 20}"},
        FITS,
        "client_features 'age': expected an array of one value a training row",
    ),
    "features without names": (
        {"validation": "None, client_features=[1]"},
        FITS,
        "client_features: got list, expected arrays by name",
    ),
    "clients without names": ({"groups": "np.arange(20)"}, FITS, "groups from 0 to 19, expected 0 to 1"),
    "other arrays each time": (
        {"rng": "np.random.default_rng()"},
        "the same arrays again",
        "a second load gave other arrays",
    ),
    "test rows that train": (
        {"test": "Rows(x[19:], y[19:])"},
        APART,
        "1 of 11 test rows are among the training rows",
    ),
    "no note": ({"note": "''"}, "captions can say what it is", "note is empty"),
    "heavy imports": ({"top": "import pandas"}, "reading a specification stays quick", "imports pandas"),
}


def of_data(parts: dict[str, str], tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "mine.py"
    file.write_text(filled(DATA, SOUND_DATA | parts))
    kind, (plugin,) = register(file, tmp_path / "plugins")
    assert kind == "data"
    return failed(list(check_results(data.checks(plugin, {}, Source(tmp_path), file))))


def test_sound_data_pass(tmp_path: Path) -> None:
    assert of_data({}, tmp_path) == {}


def test_counts_are_compared_with_the_declared_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where an option has no default."""

    class Asked(VehicleOptions):
        edition: Literal["full", "demo"] = "demo"
        asked: int

    def compared() -> CheckResult:
        plugin = replace(plugins("data")["vehicle"], options=Asked)
        checks = data.checks(plugin, {"asked": 1}, Source(), Path(data.__file__))
        return next(result for result in check_results(checks) if result.demand == DECLARED)

    assert compared() == CheckResult(DECLARED)
    other = replace(inventory.entry("vehicle"), counts=lambda *_: {"train": 500, "test": 345})
    monkeypatch.setattr(inventory, "entry", lambda name: other)
    assert compared() == CheckResult(DECLARED, "test: 345, declared 346")


@pytest.mark.parametrize("fault", BROKEN_DATA)
def test_each_fault_of_data_is_found_and_said(fault: str, tmp_path: Path) -> None:
    parts, demand, message = BROKEN_DATA[fault]
    assert message in of_data(parts, tmp_path).get(demand, "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "declares no plug-in"),
        ("import no_such_module", "cannot be loaded \\(ModuleNotFoundError"),
        ('PLUGIN = "x"', "mine.py: declares 'x', expected a Plugin"),
        (
            filled(ALGORITHM, SOUND).replace('"mine"', '"my-own"', 1),
            r"mine\.py: algorithm 'my-own', expected a name of the form \^\[a-z\]",
        ),
        ("PLUGINS = {}", "mine.py: PLUGINS is of type dict, expected a list of Plugin"),
        ("raise SystemExit(3)", "cannot be loaded \\(SystemExit"),
        (
            filled(ALGORITHM, SOUND).replace('"mine"', '"fedavg"', 1),
            r"algorithm 'fedavg': .*mine\.py declares this name as .*fedavg",
        ),
    ],
)
def test_what_is_no_plug_in_is_one_line(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(SpecError, match=said):
        register(tmp_path / "mine.py", tmp_path / "plugins")


def test_the_command_lists_what_it_found_and_fails(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(filled(ALGORITHM, SOUND | {"messages": "Message('up', ''),"}))
    call = [sys.executable, "-m", "fedcore.cli.main", "test", "mine.py"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.run(call, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 1, process.stderr
    assert f"  FAILED   {COUNTED}: a message of" in process.stdout
    assert f"  ok       {RESUMES}\n" in process.stdout
    assert process.stderr == "1 failed\n"
    shutil.copy(ROOT / "fedcore/algorithms/fedprox.py", tmp_path / "mine.py")
    process = subprocess.run(call, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr.count("\n")) == (2, 1)
    assert "mine.py declares this name as " in process.stderr


def test_a_run_refuses_data_that_it_can_not_use(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    parts = SOUND_DATA | {"test": "Rows(np.full_like(x[20:], np.nan), y[20:])"}
    file.write_text(filled(DATA, parts))
    register(file, tmp_path / "plugins")
    with pytest.raises(BrokenContract, match=r"^data 'mine': test: x has nan or inf$"):
        load_data('{"name":"mine"}', Source(tmp_path))
