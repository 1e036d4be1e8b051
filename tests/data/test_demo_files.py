"""The demo data in the repository: small, complete, as the manifest says, and made by the script."""

from __future__ import annotations

import filecmp
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fedcore.base.files import sha256_file
from fedcore.data import Source
from fedcore.data.download import inventory

DATA = Path(__file__).parents[2] / "data"
DEMO = DATA / "demo"
MANIFEST = json.loads((DEMO / "MANIFEST.json").read_text())["files"]
MIRROR = os.environ.get("FEDCORE_MIRROR", "")


def test_the_manifest_lists_exactly_the_files_with_size_checksum_source_and_licence() -> None:
    names = {str(path.relative_to(DEMO)) for path in DEMO.rglob("*.npz")}
    assert set(MANIFEST) == names
    for name, facts in MANIFEST.items():
        assert facts["bytes"] == (DEMO / name).stat().st_size
        assert facts["sha256"] == sha256_file(DEMO / name)
        assert all(facts[key] for key in ("source", "licence", "citation", "rows"))


def test_demo_files_are_small() -> None:
    sizes = [path.stat().st_size for path in DEMO.rglob("*") if path.is_file()]
    assert max(sizes) <= 3 << 20
    assert sum(sizes) <= 10 << 20


def test_the_readme_has_a_licence_for_every_folder() -> None:
    folders = set(re.findall(r"^\| `(\w+)/`", (DEMO / "README.md").read_text(), re.MULTILINE))
    assert folders == {path.name for path in DEMO.iterdir() if path.is_dir()}
    assert "Open Database License" in (DEMO / "README.md").read_text()


DEMO_EDITIONS = {
    name: {key: each for key, each in entry.declaration.editions.items() if "demo" in key}
    for name, entry in inventory.entries().items()
}


@pytest.mark.parametrize("name", [name for name, editions in DEMO_EDITIONS.items() if editions])
def test_demo_editions_have_the_declared_counts(name: str, tmp_path: Path) -> None:
    (tmp_path / "demo").symlink_to(DEMO)
    findings = {found.edition: found for found in inventory.verify(inventory.entry(name), Source(tmp_path))}
    for key, edition in DEMO_EDITIONS[name].items():
        assert findings[key].status == "ok"
        assert findings[key].counts
        assert edition.counts.items() <= findings[key].counts.items()


def test_an_edition_of_other_counts_than_declared_is_wrong() -> None:
    entry = replace(inventory.entry("vehicle"), counts=lambda *_: {"train": 500, "test": 345})
    found = {finding.edition: finding for finding in inventory.verify(entry, Source(DATA))}["demo"]
    assert (found.status, found.note) == ("wrong", "test is 345, expected 346")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not MIRROR, reason="needs the full data: set FEDCORE_MIRROR to a folder that holds them")
def test_the_script_makes_the_same_files_again(tmp_path: Path) -> None:
    command = [sys.executable, str(DATA / "make_demo.py"), MIRROR, "--root", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, timeout=800)
    names = {str(path.relative_to(tmp_path / "demo")) for path in (tmp_path / "demo").rglob("*.*")}
    assert names == {*MANIFEST, "MANIFEST.json"}
    for name in names:
        assert filecmp.cmp(tmp_path / "demo" / name, DEMO / name, shallow=False), name
