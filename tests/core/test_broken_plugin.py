"""Plug-in files that can't be loaded, or would not be found, are named in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import fedcore
from fedcore import conformance
from fedcore.base.errors import SpecError
from fedcore.base.options import Options
from fedcore.base.registry import VARIABLE, Plugin, find, folders, plugins

ROOT = Path(__file__).parents[2]
SPEC = """
data: {name: synthetic, clients: 2}
model: {name: logistic}
algorithm: {name: fedavg}
training: {rounds: 1, batch_size: 10, lr: 0.1}
"""


def test_a_broken_plugin_file_is_named(tmp_path: Path) -> None:
    plugin = tmp_path / "plugins/algorithms/broken.py"
    plugin.parent.mkdir(parents=True)
    plugin.write_text("import no_such_module\n")
    (tmp_path / "s.yaml").write_text(SPEC)
    command = [sys.executable, "-m", "fedcore.cli.main", "run", "s.yaml", "--out", "out"]
    environment = {**os.environ, "FEDCORE_PLUGINS": "plugins", "PYTHONPATH": str(ROOT)}
    process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert process.returncode == 2
    assert "broken.py: cannot be loaded (ModuleNotFoundError" in process.stderr


LACKS = """
from fedcore.algorithms import AlgorithmOptions, Plugin, recipe
from fedcore.parts import Term


class Push(Term):
    pass


PLUGIN = Plugin("push", AlgorithmOptions, lambda options, spec: recipe(objective=(Push(),)), "pushes", "own")
"""


def test_a_part_that_lacks_a_method_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "plugins/algorithms").mkdir(parents=True)
    (tmp_path / "plugins/algorithms/push.py").write_text(LACKS)
    (tmp_path / "s.yaml").write_text(SPEC.replace("fedavg", "push"))
    command = [sys.executable, "-m", "fedcore.cli.main", "run", "s.yaml", "--out", "out"]
    environment = {**os.environ, "FEDCORE_PLUGINS": "plugins", "PYTHONPATH": str(ROOT)}
    process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert process.returncode == 2
    assert "'push': Can't instantiate abstract class Push" in process.stderr
    assert "'bind'" in process.stderr or "method bind" in process.stderr
    assert len(process.stderr.strip().splitlines()) == 1


def test_a_file_without_a_plugin_is_named_where_its_name_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "algorithms").mkdir()
    (tmp_path / "algorithms/mine.py").write_text("MU = 0.1\n")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    plugins.cache_clear()
    with pytest.raises(SpecError, match=r"algorithms/mine\.py declares no PLUGIN of this name$"):
        find("algorithm", "mine")
    with pytest.raises(SpecError, match=r"names .*algorithms$"):
        find("algorithm", "other")


@pytest.mark.parametrize("kind", ["model", "partition"])
def test_options_without_the_keys_of_their_kind_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    message = rf"{kind} 'plain' has Options as options, expected a class of {kind.title()}Options$"
    with pytest.raises(SpecError, match=f"^fedcore.register: {message}"):
        fedcore.register(kind, Plugin("plain", Options, lambda *given: None, "", ""))
    file = tmp_path / f"{kind}s/plain.py"
    file.parent.mkdir()
    file.write_text(
        "from fedcore.base.registry import Options, Plugin\n"
        "PLUGIN = Plugin('plain', Options, lambda *given: None, '', '')\n"
    )
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    plugins.cache_clear()
    for look in (partial(find, kind, "iid"), partial(conformance.register, file, tmp_path / "link")):
        with pytest.raises(SpecError, match=f"^{file}: {message}"):
            look()


NEEDS = """
from fedcore.algorithms import AlgorithmOptions, Plugin, recipe


class Options(AlgorithmOptions):
    length: float


PLUGIN = Plugin("need", Options, lambda options, spec: recipe(), "needs a length", "own")
"""


def test_an_algorithm_with_a_key_that_must_be_given_is_listed_and_described(tmp_path: Path) -> None:
    (tmp_path / "plugins/algorithms").mkdir(parents=True)
    (tmp_path / "plugins/algorithms/need.py").write_text(NEEDS)
    environment = {**os.environ, "FEDCORE_PLUGINS": "plugins", "PYTHONPATH": str(ROOT)}
    said = {}
    for words in ("list algorithms", "describe need", "describe need --json"):
        command = [sys.executable, "-m", "fedcore.cli.main", *words.split()]
        process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert process.returncode == 0, process.stderr
        said[words] = process.stdout
    assert [line.split()[1] for line in said["list algorithms"].splitlines() if line.startswith("need")] == [
        "-"
    ]
    assert "fedavg" in said["list algorithms"]
    assert "default none, must be given" in said["describe need"]
    assert "they depend on values that must be given (algorithm.length: missing" in said["describe need"]


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (None, "has no plug-ins, expected a folder with some of algorithms/, datasets/, partitions/"),
        ("by_size.py", "has no plug-ins"),
        ("data/rings.py", "has no plug-ins"),
        ("partition/by_size.py", "expected {root}/partitions"),
        ("algorithm/fedclip.py", "expected {root}/algorithms"),
    ],
)
def test_a_folder_in_which_nothing_would_be_found_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str | None, said: str
) -> None:
    root = tmp_path / "plugins"
    if file:
        (root / file).parent.mkdir(parents=True)
        (root / file).touch()
    monkeypatch.setenv(VARIABLE, str(root))
    with pytest.raises(SpecError) as caught:
        folders("partition")
    assert said.format(root=root) in str(caught.value)


def test_an_unknown_name_says_where_the_user_s_plugins_were_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(SpecError, match=r"no model named 'fedmine'.*; FEDCORE_PLUGINS names no folder$"):
        find("model", "fedmine")
    (tmp_path / "models").mkdir()
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(SpecError, match=rf"; FEDCORE_PLUGINS names {tmp_path}/models$"):
        find("model", "fedmine")
