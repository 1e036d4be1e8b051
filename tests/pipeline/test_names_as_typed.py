"""Reports by the names that people type: found, or refused in one line with names to paste."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from project import HOME
from typer.testing import CliRunner
from wording import one_line

from fedcore.base.errors import SpecError
from fedcore.cli.main import app
from pipeline.catalogue import Catalogue
from pipeline.cli.names import everything, names
from pipeline.papers import catalogue_of
from pipeline.reports import render
from pipeline.workflow import expected
from pipeline.workflow.expected import planned
from pipeline.workflow.reports import ReportFiles, path_of


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return catalogue_of(HOME / "params.yaml", "demo")


@pytest.mark.parametrize(
    ("typed", "path"),
    [
        ("rfedavg/table2", "reports/rfedavg/table2"),
        ("reports/rfedavg/table2", "reports/rfedavg/table2"),
        ("./reports/rfedavg/table2/", "reports/rfedavg/table2"),
        (str(HOME / "reports/rfedavg/table2.html"), "reports/rfedavg/table2.html"),
        ("reports/rfedavg/table2.standalone.tex", "reports/rfedavg/table2.standalone.tex"),
        ("fedomw/table3.pdf", "reports/fedomw/table3.pdf"),
        ("table1", "reports/table1"),
        ("table1.tex", "reports/table1.tex"),
        ("rfedavg", "reports/rfedavg"),
        ("rfedavg/", "reports/rfedavg"),
        ("reports/rfedavg/", "reports/rfedavg"),
        ("all", "reports/all"),
        ("reports/all", "reports/all"),
        ("site", "reports/site/index.html"),
        ("reports/fidelity.html", "reports/fidelity.html"),
        ("results/rfedavg/demo/x/summary.json", "results/rfedavg/demo/x/summary.json"),
    ],
)
def test_a_name_as_typed_is_found(
    catalogue: Catalogue, typed: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(HOME)
    assert path_of(catalogue, typed) == path


def test_the_short_name_of_a_report_lists_it_and_another_file_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(HOME)
    listed = CliRunner().invoke(app, ["targets", "table1", "--json"]).stdout
    assert [row["report"] for row in json.loads(listed)] == ["reports/rfedavg/table1"]
    refused = CliRunner().invoke(app, ["targets", "results/foo"]).exception
    assert str(refused) == "reports/results/foo: no such report; `fedcore targets` lists all"


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("rfedavg/tabel2", "reports/rfedavg/table2"),
        ("fedomw/table33", "reports/fedomw/table3"),
        ("tabel1", "reports/rfedavg/table1"),
        ("rfedvag/table2", "reports/rfedavg/table2"),
        ("rfedavgg", "the nearest: reports/rfedavg,"),
        ("reports/fedomv/", "the nearest: reports/fedomw,"),
        ("sitee", "the nearest: reports/site;"),
        ("", "'': no such report; `"),
        ("zzz", "no such report; `"),
        ("table1.docx", "table1 with one of .csv,"),
        ("table1.provenance.json", "table1 with one of .csv,"),
        ("rfedavg.html", "`"),
    ],
)
def test_any_other_name_is_one_line_with_names_to_paste(catalogue: Catalogue, typed: str, near: str) -> None:
    with pytest.raises(SpecError) as refused:
        path_of(catalogue, typed)
    shown = typed or "''"
    assert str(refused.value).startswith(f"{shown}: no such ")
    assert near in str(refused.value)
    one_line(refused.value)


@pytest.mark.parametrize("command", ["explain --row a --column b", "runs", "readings", "report", "cost"])
def test_every_command_that_takes_a_report_refuses_others_with_the_nearest(command: str) -> None:
    name, *more = command.split()
    refused = CliRunner().invoke(app, [name, "fedomw/tabel3", *more]).exception
    assert isinstance(refused, SpecError)
    assert "no such report; the nearest: reports/fedomw/table3" in str(refused)


def test_runs_are_counted_by_the_same_names(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HOME)
    params, index = HOME / "params.yaml", catalogue.index
    assert [*planned(params)] == [*index]
    monkeypatch.setattr(expected, "catalogue_of", lambda *_: catalogue)
    assert [*planned(params, "all")] == [*index]
    assert {*planned(params, "rfedavg/")} == {
        folder for folder in index if folder.startswith("results/rfedavg/")
    }
    for typed in ("table1", "reports/rfedavg/table1.standalone.tex"):
        assert [*planned(params, typed)] == [run.folder for run in catalogue.needed("rfedavg", "table1")]
    assert planned(params, "rfedavg/fig1_labels") == {}, "it is made of partitions"
    with pytest.raises(SpecError, match=r"^rfedavg/table1\.docx: no such form"):
        planned(params, "rfedavg/table1.docx")


def test_every_name_that_is_completed_or_listed_is_found(catalogue: Catalogue) -> None:
    assert all(path_of(catalogue, name).startswith("reports/") for name in everything())
    assert {*everything()} - {*names()} >= {"all", "site", "rfedavg"}
    short = {target for paper, target, _ in catalogue.targets() if paper == catalogue.params.primary}
    assert {*names()} == {*short, *catalogue.names(), *(f"reports/{name}" for name in catalogue.names())}


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in for Snakemake: a program that writes down its arguments and ends with exit code 3."""
    code = f"import sys; open({str(tmp_path / 'told')!r}, 'w').write(' '.join(sys.argv[1:])); sys.exit(3)"
    (tmp_path / "snakemake.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "told"


def build(*arguments: str, folder: Path = HOME, command: str = "build") -> subprocess.CompletedProcess[str]:
    call = [str(Path(sys.executable).with_name("fedcore")), command, *arguments]
    return subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False)


def test_build_calls_snakemake_as_a_user_would(told: Path) -> None:
    process = build("rfedavg/table2.html", "table1/", "--cores", "3", "--scale", "quick", "-n", "-v")
    expected = "--cores 3 --dry-run --printshellcmds --config scale=quick -- "
    assert told.read_text() == f"{expected}reports/rfedavg/table2.html reports/table1"
    assert process.stderr == f"snakemake {told.read_text()}\n"
    assert process.returncode == 3, "Snakemake's exit code"
    assert build("all", "-q").stderr == ""
    assert told.read_text() == "--cores all --quiet -- reports/all"


def test_readings_say_what_they_cost_as_json_before_snakemake_begins(told: Path) -> None:
    process = build("fedomw/table2", "--points", "labels", "--json", "-n", command="readings")
    printed = json.loads(process.stdout)
    assert [*printed] == ["cost", "report", "sentences"]
    assert printed["cost"]["target"] == "fedomw/table2_readings"
    assert printed["report"] == "reports/fedomw/table2_readings.csv"
    assert printed["sentences"] == []
    assert process.stderr.startswith("fedomw/table2_readings at demo scale: ")
    assert told.read_text().startswith("--cores all --dry-run --config scales=")


def test_readings_are_those_that_are_told_where_a_scale_has_its_own(told: Path) -> None:
    part = ["--columns", "dna", "--rows", "fedavg", "--scale", "paper", "--json", "-n"]
    costs = [
        json.loads(build("fedomw/table3", *part, *points, command="readings").stdout)["cost"]
        for points in ([], ["--points", "labels"])
    ]
    declared, told_points = (cost["to_make"] + cost["made"] for cost in costs)
    assert declared > told_points == 2


def test_readings_that_params_yaml_names_are_taken_by_their_name(told: Path) -> None:
    options = ["--points", "xi", "--rows", "radfed", "--scale", "paper", "--json", "-n"]
    cost = json.loads(build("radfed/table3_covertype", *options, command="readings").stdout)["cost"]
    assert cost["target"] == "radfed/table3_covertype_readings"
    assert cost["to_make"] + cost["made"] == 3


def test_what_can_not_be_built_is_one_line(told: Path, tmp_path: Path) -> None:
    for arguments, folder, message in (
        (["tabel1"], HOME, "error: tabel1: no such report; the nearest: reports/rfedavg/table1"),
        (["table1", "--scale", "huge"], HOME, "error: scale: got 'huge'"),
        (["table1"], tmp_path, "error: Snakefile: not here"),
    ):
        process = build(*arguments, folder=folder)
        assert (process.returncode, process.stderr.count("\n")) == (2, 1)
        assert process.stderr.startswith(message)
    assert not told.exists()


def test_what_targets_prints_can_be_pasted(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HOME)
    _, *lines = CliRunner().invoke(app, ["targets"]).stdout.splitlines()
    assert [path_of(catalogue, line.split()[0]) for line in lines] == [
        f"reports/{name}" for name in catalogue.names()
    ]


@pytest.mark.parametrize("typed", ["mcmahan2017", "reports/mcmahan2017/", "mcmahan2017/fig1", "all", "site"])
def test_targets_of_a_paper_alone_are_listed_at_the_scale_asked_for(
    typed: str, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(HOME)
    scale, *lines = CliRunner().invoke(app, ["targets", typed, "--scale", "quick"]).stdout.splitlines()
    prefix = "" if typed in {"all", "site"} else typed.removeprefix("reports/")
    assert scale == "scale quick"
    assert [line.split()[0] for line in lines] == [
        f"reports/{name}" for name in catalogue.names() if f"{name}/".startswith(prefix)
    ]


def test_a_pdf_without_a_tex_says_what_to_install(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "engine", lambda: None)
    assert ReportFiles(catalogue).refusal("reports/table1.pdf") == f"reports/table1.pdf: {render.NO_TEX}"
    monkeypatch.setattr(render, "engine", lambda: "tectonic")
    assert "reports/rfedavg/table1.pdf" in ReportFiles(catalogue).files["rfedavg"]
