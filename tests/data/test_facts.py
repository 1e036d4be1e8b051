"""Facts about data sets as YAML: one meaning by each parser, and errors that name file and key."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from yaml.scanner import Scanner

from fedcore.base import core_yaml
from fedcore.base.errors import SpecError
from fedcore.data import datasets
from fedcore.data.download import Declaration, Edition, File, Form, declared

FILES = sorted(Path(datasets.__path__[0]).glob("*.yaml"))
TOY = """
toy:
  title: Toy
  papers: []
  citation: a page
  licence: CC0
  redistributable: true
  shape: "[2]"
  classes: 2
  editions:
    full:
      state: real
      note: toy
      counts: {rows: 8}
      files:
        - path: toy/toy.csv
          bytes: 93
          forms:
            - {name: toy.csv.gz, urls: ["https://example.org/toy.csv.gz"]}
"""


def test_facts_become_a_declaration(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(TOY)
    packed = Form("toy.csv.gz", urls=("https://example.org/toy.csv.gz",))
    full = Edition("real", "toy", (File("toy/toy.csv", bytes=93, forms=(packed,)),), {"rows": 8})
    toy = Declaration("toy", "Toy", (), "a page", "CC0", True, "[2]", 2, {"full": full})
    assert declared(str(tmp_path / "toy.py")) == {"toy": toy}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_machine_without_libyaml_reads_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert path.with_suffix(".py").is_file()
    with monkeypatch.context() as patch:
        patch.delattr(Scanner, "fetch_more_tokens")
        quickly = core_yaml.read(path)
    monkeypatch.setattr(yaml, "__with_libyaml__", False)
    assert core_yaml.read(path) == quickly


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  title: Toy\n", "", "toy.title: missing, but required"),
        ("bytes: 93", "byte: 93", r"full.files.0.byte: unknown key \(did you mean 'bytes'\?\)"),
        ("bytes: 93", "bytes: many", "toy.editions.full.files.0.bytes: got 'many', expected a whole number"),
        ("state: real", "state: ideal", "toy.editions.full.state: got 'ideal', expected 'real', 'subset'"),
        ("  classes: 2\n", "  classes: 2\n  classes: 3\n", "the key 'classes' is given twice, first in line"),
        (TOY, "toy: 3", "toy: got 3, expected "),
        (TOY, "- toy", "expected names of data sets"),
    ],
)
def test_a_wrong_fact_names_its_file_and_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "toy.yaml"
    path.write_text(TOY.replace(old, new))
    with pytest.raises(SpecError, match=message) as caught:
        declared(str(tmp_path / "toy.py"))
    assert str(caught.value).startswith(f"{path}: ")


def test_a_module_without_its_facts(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"toy\.yaml: cannot read the file of facts \(No such file"):
        declared(str(tmp_path / "toy.py"))
