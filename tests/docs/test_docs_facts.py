"""What pages say of files, columns, links and navigation is so."""

from __future__ import annotations

import json
import re
import string
import subprocess
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import yaml
from blocks import ROOT

from fedcore.execution import runner
from fedcore.spec import Spec, Training, parse
from pipeline.handbook import hooks, reference
from pipeline.papers import papers as known
from pipeline.reports.tables import COLUMNS
from pipeline.site import pages

DOCS = ROOT / "docs"
WRITTEN = [*DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md"), *ROOT.glob("*.md")]
OTHERS = [
    *(ROOT / "pipeline" / "papers").rglob("README.md"),
    *(ROOT / name / "README.md" for name in ("benchmarks", "results")),
]
PAGES = sorted([*WRITTEN, *OTHERS])
LINK = re.compile(r"\[[^\[\]]*\]\(([^()\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MkDocs make them."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    return {anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def anchor(heading: str) -> str:
    """Return a heading's anchor: lower case, no punctuation, hyphens for spaces."""
    plain = unicodedata.normalize("NFKD", re.sub(r"[`*]", "", heading)).encode("ascii", "ignore").decode()
    kept = "".join(c for c in plain if c in string.ascii_letters + string.digits + " -_")
    return re.sub(r"[-\s]+", "-", kept).strip("-").lower()


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    for target in LINK.findall(text):
        if re.match(r"https?:|mailto:", target):
            continue
        name, _, place = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), f"{page.name}: {target}"
        assert path.is_relative_to(ROOT), f"{page.name}: {target}"
        if place and path.suffix == ".md":
            assert place in anchors(path), f"{page.name}: {target}"


def table(page: str, heading: str) -> set[str]:
    """Return the names in code in the first column of the table below a heading."""
    section = (DOCS / page).read_text().split(f" {heading}\n", 1)[1].split("\n#", 1)[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_result_files_hold_what_their_page_says(spec: dict[str, Any], tmp_path: Path) -> None:
    spec["evaluation"] = {"clients": True}
    out = tmp_path / "run"
    settings = runner.Settings(save_model=True, provenance={"code": "0"})
    runner.run(spec, out, settings)
    files = {path.name for path in out.iterdir()}
    assert files == table("results.md", "A run's folder") - {"<name>.csv", "<name>.npz", "checkpoint.npz"}
    assert set((out / "history.csv").read_text().splitlines()[0].split(",")) == table(
        "results.md", "history.csv"
    )
    for name in ("summary.json", "timing.json", "provenance.json"):
        assert set(json.loads((out / name).read_text())) == table("results.md", name), name


def test_a_table_s_columns_are_those_of_the_page() -> None:
    assert table("results.md", "A report's files") == set(COLUMNS)


def test_every_written_page_is_in_the_navigation() -> None:
    class Loader(yaml.SafeLoader):
        """YAML with MkDocs' tags."""

    config = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)

    def leaves(entry: Any) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        return [
            leaf for inner in (entry.values() if isinstance(entry, dict) else entry) for leaf in leaves(inner)
        ]

    generated = {*hooks.pages(), *(f"papers/{name}.md" for name in known())}
    generated |= {pages.FRONT, pages.OWN, "results/board.md", "results/runs.md"}
    expected = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} | generated
    shown = leaves([*hooks.shown(config["nav"], expected, ())])
    assert set(leaves(config["nav"])) <= set(shown) == expected
    assert len(shown) == len(set(shown))
    assert config["theme"]["font"] is False
    assert config["use_directory_urls"] is False


def test_every_paper_says_what_holds() -> None:
    assert {*pages.summaries()} == {*known()}
    for holds, fails in pages.summaries().values():
        assert holds
        assert fails


def test_links_lead_to_pages_where_there_are_some_and_are_text_elsewhere() -> None:
    paper = "../pipeline/papers/comfed/README.md#what-it-claims"
    addresses = {"reference/changelog.md", "papers/comfed.md", "papers/rfedavg.md"}
    text = f"[a](../CHANGELOG.md) [b]({paper}) [c](../tests/conftest.py) [d](data.md)"
    assert hooks.relinked(text, "docs/start.md", "start.md", addresses) == (
        "[a](reference/changelog.md) [b](papers/comfed.md#what-it-claims) c [d](data.md)"
    )
    inner = hooks.relinked(
        "[x](../rfedavg/README.md)", "pipeline/papers/comfed/README.md", "papers/comfed.md", addresses
    )
    assert inner == "[x](rfedavg.md)"


@pytest.mark.timeout(20)
def test_a_bracket_that_is_never_closed_is_text() -> None:
    text = "labels with `[`, " + "`a` and " * 60
    assert hooks.relinked(text, "docs/start.md", "start.md", ()) == text


def test_the_specification_s_page_shows_one_that_is_valid_and_all_keys() -> None:
    text = reference.specification_page()
    (shown,) = re.findall(r'^```yaml title="spec.yaml"\n(.*?)^```', text, re.DOTALL | re.MULTILINE)
    assert parse(yaml.safe_load(shown)).seed == 3
    keys = {*Spec.model_fields, *(f"training.{key}" for key in Training.model_fields)}
    assert {f"`{key}`" for key in keys} <= set(re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE))


def test_a_fresh_clone_has_every_folder_of_the_layout() -> None:
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tops = {line.partition("/")[0] for line in files.splitlines() if "/" in line}
    assert {"pipeline", "fedcore", "data", "results", "reports", "tests"} <= tops
    assert [line for line in files.splitlines() if line.startswith("results/")] == ["results/README.md"]
