"""Commands that keep results and generated files, called in folders of their own with pretended programs."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import yaml
from PIL import Image
from pretended import catalogue, finish
from project import HOME, parameters
from typer.testing import CliRunner, Result
from wording import one_line

from fedcore.base.errors import FedcoreError
from pipeline.__main__ import app
from pipeline.catalogue.targets import PlannedRun
from pipeline.cli import keep
from pipeline.site import pictures

PAPER, TARGET = "rfedavg", "theory"
OLD = 1_000_000_000
GRAPH = """digraph snakemake_dag {
    graph[bgcolor=white, margin=0];
    0[label = "site", color = "0.33 0.6 0.85", style="rounded"];
    1[label = "report", color = "0.11 0.6 0.85", style="rounded"];
    2[label = "train", color = "0.22 0.6 0.85", style="rounded"];
    1 -> 0
    2 -> 1
    2 -> 1
}
"""
Program = Callable[[str, str], None]


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def refused(*arguments: str) -> str:
    """Return the one line with which a command refuses its work."""
    error = call(*arguments).exception
    assert isinstance(error, FedcoreError)
    one_line(error)
    return str(error)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the params.yaml of one paper, which is the current folder."""
    config = parameters(PAPER) | {"primary_paper": PAPER}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Return what puts a pretended program, a shell script, on a PATH that has no others but the shell's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("cat", "cp", "sh"):
        (folder / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(folder))

    def write(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return write


@pytest.fixture
def runs(home: Path) -> list[PlannedRun]:
    """Return the runs of one small figure, all finished as described."""
    needed = catalogue(PAPER).needed(PAPER, TARGET)
    for run in needed:
        finish(run, home, 0.5)
        for path in (home / run.folder).iterdir():
            os.utime(path, (OLD, OLD))
    return needed


# -- adopt and prune ---------------------------------------------------------------------------------------


def test_adopted_results_are_those_whose_hashes_fit(home: Path, runs: list[PlannedRun]) -> None:
    first, *others = runs
    (home / first.folder / "history.csv").write_text("round\n0\n")
    (home / ".snakemake" / "metadata").mkdir(parents=True)
    result = call("adopt", "--json")
    assert result.exit_code == 0, result.output
    adopted = json.loads(result.stdout)
    assert adopted == {"believed": [run.folder for run in others], "stale": [first.folder]}
    assert re.fullmatch(
        r"1 results are set aside in (results/\.superseded/\w+); `cp -a \1/\. \.` brings them back\n",
        result.stderr,
    )
    assert not any((home / first.folder).iterdir())
    (aside,) = (home / "results" / ".superseded").glob(f"*/{first.folder}")
    assert {"history.csv", "summary.json"} <= {path.name for path in aside.iterdir()}
    assert all(path.stat().st_mtime > OLD for run in others for path in (home / run.folder).iterdir())
    assert not (home / ".snakemake" / "metadata").exists()


def test_nothing_is_adopted_while_a_build_is_at_work(home: Path, runs: list[PlannedRun]) -> None:
    (home / ".snakemake" / "metadata").mkdir(parents=True, exist_ok=True)
    with (home / ".snakemake" / "alive").open("w") as alive:
        fcntl.flock(alive, fcntl.LOCK_SH)
        assert refused("adopt") == ".snakemake/alive: a Snakemake is at work in this folder; wait for it"
    assert (home / ".snakemake" / "metadata").exists()
    assert call("adopt").exit_code == 0


def test_adopting_tells_people_how_many_results_are_believed(home: Path, runs: list[PlannedRun]) -> None:
    result = call("adopt")
    message = f"{len(runs)} results from elsewhere are what params.yaml and the code describe\n"
    assert (result.stdout, result.stderr) == (message, "")
    (home / runs[0].folder / "history.csv").write_text("round\n0\n")
    lines = call("adopt").stdout.splitlines()
    assert lines[0] == (f"{len(runs) - 1} results from elsewhere are believed; 1 are not: {runs[0].folder}")
    assert lines[1].startswith("1 results are set aside in results/.superseded/")


def test_pruning_deletes_what_no_target_needs_and_only_when_told(home: Path, runs: list[PlannedRun]) -> None:
    gone = Path("results", PAPER, "demo", "setting-of-before", "fedavg", "seed0")
    (home / gone).mkdir(parents=True)
    (home / gone / "summary.json").write_text("{}")
    result = call("prune")
    assert (result.stdout, result.stderr) == (f"{gone}\n", "1 not needed; --delete removes them\n")
    assert (home / gone / "summary.json").exists()
    result = call("prune", "--delete", "--json")
    assert json.loads(result.stdout) == {"runs": [str(gone)], "deleted": True}
    assert result.stderr == "1 deleted\n"
    assert not (home / gone).parents[1].exists(), "its empty parents go too"
    assert all((home / run.folder / "summary.json").exists() for run in runs)
    assert call("prune").stderr == "0 not needed; --delete removes them\n"


# -- generated files ---------------------------------------------------------------------------------------


def test_schema_writes_the_files_that_the_repository_holds(home: Path) -> None:
    result = call("schema")
    names = ["params.schema.json", "docs/params.md"]
    assert {f"wrote {name}" for name in names} <= set(result.stdout.splitlines())
    for line in result.stdout.splitlines():
        name = line.removeprefix("wrote ")
        assert (home / name).read_text() == (HOME / name).read_text(), name


def test_dvc_writes_a_stage_per_paper_of_this_params(home: Path) -> None:
    assert call("dvc").stdout == "wrote dvc.yaml\n"
    text = (home / "dvc.yaml").read_text()
    assert text.startswith("# Generated by `uv run fedcore dvc`")
    config = yaml.safe_load(text)
    assert config["stages"][PAPER]["cmd"] == f"snakemake reports/{PAPER}"
    assert {"data", "site"} < set(config["stages"])
    assert f"reports/{PAPER}/metrics.json" in config["metrics"]


def test_the_graph_of_rules_has_no_colours_and_every_edge_once(home: Path, program: Program) -> None:
    (home / "graph").write_text(GRAPH)
    program("snakemake", 'echo "$@" > asked; cat graph')
    program("tred", "cat")
    program("dot", 'echo "<!-- $@ -->"; cat')
    result = call("rulegraph")
    assert (result.exit_code, result.stdout) == (0, "wrote docs/img/rulegraph.svg\n"), result.output
    assert "--rulegraph" in (home / "asked").read_text()
    head, *lines = (home / "docs/img/rulegraph.svg").read_text().splitlines()
    assert head == "<!-- -Tsvg -->"
    assert lines[0] == "digraph rules {"
    assert lines[-3:] == ['"report" -> "site";', '"train" -> "report";', "}"]
    assert not any("0.33 0.6 0.85" in line for line in lines)


def test_a_graph_that_cannot_be_drawn_is_said_in_one_line(home: Path, program: Program) -> None:
    assert refused("rulegraph") == "dot: not found; install Graphviz to draw the graph of rules"
    program("dot", "cat")
    program("snakemake", "echo 'Traceback' >&2; echo 'no rule makes it' >&2; exit 1")
    assert refused("rulegraph") == "snakemake --rulegraph: no rule makes it"
    program("snakemake", "exit 3")
    assert refused("rulegraph") == "snakemake --rulegraph: it ended with 3"
    assert not (home / keep.DRAWN).exists()


# -- pictures ----------------------------------------------------------------------------------------------

PICTURES = [f"{name}.{form}" for name in ("agreement", "claims_by_reading") for form in ("csv", "svg")]
TABLE = "row,column,mean,std,n,seeds,published_mean\nfedavg,mnist,97.25,.5,3,3,{}\n"


@pytest.fixture
def reports(home: Path, program: Program) -> Path:
    """Return a folder of reports with a table, and a pretended pdftoppm that draws in colour."""
    folder = home / "reports" / PAPER
    folder.mkdir(parents=True)
    (folder / "table1.pdf").write_bytes(b"%PDF-1.5")
    (folder / "table1.csv").write_text(TABLE.format("97.1"))
    Image.new("RGB", (1100, 300), "navy").save(home / "drawn.png")
    program("pdftoppm", 'echo "$@" >> asked; for last; do :; done; cp drawn.png "$last.png"')
    return home / "reports"


def test_the_front_picture_carries_the_hash_of_its_numbers(home: Path, reports: Path) -> None:
    shutil.copy(HOME / "params.yaml", home)
    kept = home / f"reports/reference/{pictures.FIGURE}.csv"
    kept.parent.mkdir(parents=True)
    shutil.copy(HOME / kept.relative_to(home), kept)
    result = call("pictures")
    lines = ["wrote docs/img/table1.png", f"wrote reports/reference/{pictures.FIGURE}.svg"]
    lines += [f"wrote reports/reference/{name}" for name in PICTURES]
    assert (result.exit_code, result.stdout.splitlines()) == (0, lines), result.output
    assert f"-scale-to-x {pictures.WIDTH} " in (home / "asked").read_text()
    with Image.open(home / "docs/img/table1.png") as shown:
        assert (shown.mode, shown.size) == ("P", (1100, 300))
        assert shown.convert("RGB").getpixel((5, 5)) == (0, 0, 128)
        digest = shown.info[pictures.NUMBERS]
    table = reports / PAPER / "table1.csv"
    assert digest == pictures.numbers(table)
    table.write_text(TABLE.format("12.3"))
    assert digest == pictures.numbers(table), "what it is compared with doesn't count"
    assert sorted(path.name for path in (home / "docs/img").iterdir()) == ["table1.png"]


def test_a_picture_without_its_table_or_without_the_program_is_refused(home: Path, reports: Path) -> None:
    (home / "bin" / "pdftoppm").unlink()
    assert refused("pictures") == "pdftoppm: not found; it draws tables (Debian: poppler-utils)"
    (table := reports.relative_to(home) / PAPER / "table1.pdf").unlink()
    assert refused("pictures") == f"{table}: missing; build it with snakemake --cores 2 {table}"
    assert not (home / "docs/img/table1.png").exists()


# -- reference ---------------------------------------------------------------------------------------------


@pytest.fixture
def gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with FedOMW's params.yaml, runs of one cell at paper scale, and pages to fill."""
    config = parameters("fedomw") | {"primary_paper": "fedomw"}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    marked = {"reports/reference/README.md": ["kept"], "docs/readings.md": ["readings"]}
    marked |= {"docs/fidelity.md": ["answer", "headlines", "scoreboard"], "docs/benchmark.md": ["decisions"]}
    for page, names in marked.items():
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        marks = (f"<!-- {name} -->\nold\n<!-- end of {name} -->\n" for name in names)
        (tmp_path / page).write_text(f"above\n{''.join(marks)}below\n")
    for run in catalogue("fedomw", "paper").cells("fedomw", "table3")["fedomw", "dna"]:
        finish(run, tmp_path, 0.95)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_reference_is_kept_with_its_pages_and_picture(gathered: Path) -> None:
    result = call("reference", "fedomw/table3", "fedomw/fig1")
    assert result.exit_code == 0, result.output
    written = [line.removeprefix("wrote ") for line in result.stdout.splitlines()]
    assert written == [
        *(f"reports/reference/fedomw/{name}" for name in ("table3.csv", "table3.md", "runs.parquet")),
        "reports/reference/fedomw/histories.parquet",
        *("reports/reference/README.md", "docs/fidelity.md", "docs/readings.md", "docs/benchmark.md"),
        *(f"reports/reference/{name}" for name in (*PICTURES, "datapackage.json")),
    ]
    assert all((gathered / name).is_file() for name in written)
    assert result.stderr == "left out fedomw/fig1: no run of it was made\n"
    kept = pd.read_csv(gathered / "reports/reference/fedomw/table3.csv").set_index(["row", "column"])
    assert kept.loc[("fedomw", "dna"), "mean"] == pytest.approx(95)
    contents, board = ((gathered / page).read_text() for page in written[4:6])
    assert "[fedomw/table3](fedomw/table3.md)" in contents
    assert "| fedomw | text |" in board
    for page in (contents, board):
        assert page.startswith("above\n")
        assert page.endswith("\nbelow\n")
        assert "old" not in page.splitlines()


@pytest.mark.slow
def test_what_nobody_asked_for_is_left_out_in_silence(gathered: Path) -> None:
    result = call("reference")
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    assert "wrote reports/reference/fedomw/table3.csv" in result.stdout.splitlines()


@pytest.mark.slow
def test_a_paper_s_name_asks_for_all_its_reports(gathered: Path) -> None:
    result = call("reference", "fedomw")
    assert result.exit_code == 0, result.output
    assert "wrote reports/reference/fedomw/table3.csv" in result.stdout.splitlines()
    assert "left out fedomw/fig1: no run of it was made" in result.stderr.splitlines()


def test_a_page_without_its_marks_is_refused(gathered: Path) -> None:
    (gathered / "docs/fidelity.md").write_text("all written by hand\n")
    assert refused("reference", "fedomw/table3") == (
        "docs/fidelity.md: expected the marks <!-- answer --> and <!-- end of answer -->"
    )
    assert (gathered / "docs/fidelity.md").read_text() == "all written by hand\n"
