"""The Snakefile as users meet it: what can be asked for, and one clear line where something is wrong."""

from __future__ import annotations

import csv
import re
import shutil
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from project import HOME, Project, parameters
from snakemake.iocontainers import Wildcards
from typer.testing import CliRunner

from fedcore.base import core_yaml
from fedcore.base.files import write_text
from fedcore.cli.main import app
from pipeline.catalogue import codehash
from pipeline.catalogue.params import overlay
from pipeline.cli import reports
from pipeline.papers import build_catalogue
from pipeline.workflow import answers
from pipeline.workflow.answers import Workflow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project.copy(tmp_path_factory.mktemp("project"))


def complaint(project: Project, *arguments: str) -> list[str]:
    """Return what a failing call says on standard error, without Snakemake's own announcements."""
    process = project.snakemake("--quiet", "all", "--", *arguments)
    assert process.returncode != 0
    assert "Traceback" not in process.stdout + process.stderr
    announced = ("Using workflow specific profile", "Assuming unrestricted")
    return [line for line in process.stderr.splitlines() if line and not line.startswith(announced)]


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ("reports/rfedavg/table9.tex", "no such report; the nearest: reports/rfedavg/table"),
        ("reports/rfedavg/tabel2", "no such report; the nearest: reports/rfedavg/table2"),
        ("reports/tabel2", "no such report; the nearest: reports/rfedavg/table2"),
        ("reports/rfedavg2/theory.html", "no such report; the nearest: reports/rfedavg/theory"),
        ("reports/rfedavg/fig2.html", "no such form; expected rfedavg/fig2 with one of .csv, .svg, "),
        ("reports/table1.docx", "no such form; expected table1 with one of .csv, .md, "),
        ("reports/rfedavg", "got a slash at its end, expected reports/rfedavg"),
        ("rfedavg", "expected reports/rfedavg"),
        ("tabel2", "no such report; the nearest: reports/rfedavg/table2"),
        ("reports/bench/board.csv", "no such report; `fedcore build studies/some/bench.yaml` makes those of"),
        ("reports/bench", "no such report; `fedcore build studies/some/bench.yaml` makes those of"),
    ],
)
def test_a_refusal_names_the_nearest(
    report: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("studies/some").mkdir(parents=True)
    for name in ("bench", "rfedavg"):
        Path(f"studies/some/{name}.yaml").touch()
    with pytest.raises(SystemExit) as refused:
        Workflow(parameters()).unknown(Namespace(unknown=report))
    assert str(refused.value).startswith(f"{report}: {said}")
    assert len(str(refused.value)) < 400


def test_an_unknown_report_is_one_line(project: Project) -> None:
    (line,) = complaint(project, "reports/rfedavg/table9.tex")
    assert line.startswith("reports/rfedavg/table9.tex: no such report; the nearest: reports/rfedavg/table")


def test_names_that_are_listed_can_be_asked_for(project: Project) -> None:
    listed = re.findall(r"^(reports/\S+)", project.run("python", "-m", "pipeline", "targets"), re.MULTILINE)
    jobs = project.jobs(*listed, "reports/table2")
    assert {name for name in jobs if name.startswith("reports/")} == {*listed, "reports/table2"}


def test_a_report_is_planned_without_the_runs_of_other_papers() -> None:
    """A value that only a specification refuses ends the call that asks for its paper, with one line."""
    config = yaml.safe_load((HOME / "params.yaml").read_text())
    config["papers"]["comfed"]["algorithms"]["fedprox"]["mu"] = "much"
    flow = Workflow(config)
    ours = Wildcards(fromdict={"paper": "fedomw", "table": "table3"})
    other = Wildcards(fromdict={"paper": "comfed", "table": "table4"})
    assert all(path.endswith("/summary.json") for path in flow.summaries(ours))
    assert {*flow.catalogue._planned} == {"fedomw"}
    with pytest.raises(SystemExit, match=r"^params\.yaml: papers\.comfed\.algorithms\.fedprox\.mu: got"):
        flow.summaries(other)


def test_only_known_data_that_are_not_in_the_repository_are_fetched() -> None:
    fetched = Workflow(parameters()).fetched
    assert all(re.fullmatch(fetched, name) for name in ("mnist-full", "mobilenetv2-tflite"))
    assert not any(re.fullmatch(fetched, name) for name in ("mnist-demo", "nonsense-full", "mnist"))


def test_all_reports_are_what_a_call_without_a_target_makes() -> None:
    """Snakemake takes a default target from the main file alone."""
    named = re.compile(r'"reports/all"\n    default_target: True')
    assert named.search((HOME / "Snakefile").read_text())
    assert not any("default_target" in path.read_text() for path in (HOME / "pipeline/rules").glob("*.smk"))


def test_the_site_is_made_again_once_what_makes_or_shows_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(HOME)
    before = Workflow.site(None)
    assert Workflow.site(None) == before
    copy = shutil.copytree(answers.SITE, tmp_path / "site")
    monkeypatch.setattr(answers, "SITE", copy)
    assert Workflow.site(None) == before
    next(path for path in (copy / "templates").iterdir()).write_text("other")
    assert Workflow.site(None) != before
    monkeypatch.undo()
    monkeypatch.chdir(HOME)
    monkeypatch.setattr(codehash, "of_code", lambda *starts: "other")
    assert Workflow.site(None) != before


def test_an_unknown_key_is_one_line(project: Project) -> None:
    before = (project.folder / "params.yaml").read_text()
    project.edit("params.yaml", "mirror: null", "miror: null")
    try:
        assert complaint(project, "reports/table1.tex") == [
            "params.yaml: data.miror: unknown key (did you mean 'mirror'?)"
        ]
    finally:
        (project.folder / "params.yaml").write_text(before)


def test_a_file_laid_over_the_parameters_follows_the_rule_of_fedcore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another plug-in's section replaces the old one, and the message about a wrong value names the file."""
    monkeypatch.chdir(HOME)
    over = tmp_path / "over.yaml"
    settings = SimpleNamespace(config={"scale": "quick"})
    files = [over, HOME / "params.yaml", "params.yaml"]
    snakemake = SimpleNamespace(is_main_process=False, configfiles=files, config_settings=settings)
    over.write_text("scale: paper\npapers: {rfedavg: {datasets: {sent140: {model: {name: linear}}}}}\n")
    config = Workflow({}, snakemake).config
    assert config["papers"]["rfedavg"]["datasets"]["sent140"]["model"] == {"name": "linear"}
    assert config["scale"] == "quick"
    over = files[0] = tmp_path / "wrong.yaml"
    over.write_text("papers: {fedomw: {sceds: [1]}}\n")
    with pytest.raises(SystemExit, match=rf"^params\.yaml with {over}: papers\.fedomw\.sceds: unknown key"):
        Workflow({}, snakemake)


def test_the_board_knows_a_scale_that_is_laid_over_the_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(codehash, "of_code", lambda *starts: "code")
    scales: list[str] = []
    monkeypatch.setattr(reports, "board", scales.append)
    order = Workflow.fidelity(None)
    config = overlay(parameters(), {"scale": "mine", "scales": {"mine": {"seeds": [0]}}})
    write_text(Path(order["file"]), core_yaml.to_yaml(config))
    rule = (HOME / "pipeline/rules/fidelity.smk").read_text()
    (command,) = re.findall(r'"python -m pipeline (.+) > ', rule)
    CliRunner().invoke(app, command.format(params=SimpleNamespace(order=order, scale="mine")).split())
    assert scales == ["mine"]


def test_a_mistake_in_the_parameters_is_one_line_with_its_place(project: Project) -> None:
    before = (project.folder / "params.yaml").read_text()
    (project.folder / "params.yaml").write_text(f"{before}scale: [\n")
    try:
        (line,) = complaint(project, "reports/table1.tex")
        assert line.startswith(f"params.yaml: line {before.count(chr(10)) + 2}: not valid YAML (")
    finally:
        (project.folder / "params.yaml").write_text(before)


def test_an_unknown_scale_on_the_command_line_is_one_line(project: Project) -> None:
    process = project.snakemake("reports/table1.tex", "--config", "scale=qiuck")
    assert process.returncode != 0
    assert "params.yaml: scale: got 'qiuck', which is not defined (did you mean 'quick'?)" in process.stderr


@pytest.mark.slow
def test_scales_ask_for_their_own_data(project: Project) -> None:
    assert project.jobs("data") == {"data": 1}
    assert project.jobs("data", "--config", "scale=quick") == {"data": 1, "fetch": 2}
    assert project.jobs("data", "--config", "scale=paper") == {"data": 1, "fetch": 4}


def test_the_workflow_is_lint_free_and_explains_its_targets(project: Project) -> None:
    assert "Congratulations" in project.make("--lint")
    text = project.make("--list-target-rules")
    for name in ("reports/all (", "reports/rfedavg (", "data ("):
        assert name in text


def test_a_run_a_job_at_full_scale(project: Project) -> None:
    counts = project.jobs("reports/rfedavg/table1.csv", "--config", "scale=quick")
    assert counts == {"fetch": 2, "partition": 8, "train": 48, "table": 1}


@pytest.mark.slow
def test_a_figure_comes_with_its_numbers_and_is_the_same_bytes_again(project: Project) -> None:
    project.make("reports/rfedavg/fig2.svg")
    folder = project.folder / "reports" / "rfedavg"
    files = {ending: (folder / f"fig2.{ending}").read_bytes() for ending in ("csv", "svg", "pdf", "png")}
    lines = list(csv.DictReader(files["csv"].decode().splitlines()))
    rounds = parameters()["scales"]["demo"]["papers"]["rfedavg"]["datasets"]["mnist"]["training"]["rounds"]
    assert len(lines) == 4 * 6 * (rounds + 1)
    assert {line["n"] for line in lines} == {"2"}
    project.make("reports/rfedavg/fig2.svg", "--forcerun", "figure")
    assert {ending: (folder / f"fig2.{ending}").read_bytes() for ending in files} == files


@pytest.mark.slow
def test_a_diverged_run_is_shown_and_a_failed_one_stops_its_table_only(project: Project) -> None:
    process = project.snakemake(
        "--keep-going",
        "reports/table2.md",
        FAKE_FAILS="cross_device-sent140-iid/scaffold",
        FAKE_DIVERGES="cross_device-cifar10-sim0/qfedavg",
    )
    assert process.returncode != 0
    assert "made to fail" in process.stderr, "the log of a failed job is printed"
    project.executed()
    text = project.make("reports/table2.md") and (project.folder / "reports/table2.md").read_text()
    assert "diverged" in text
    assert "SCAFFOLD" in text
    assert len(project.executed()) == 2, "only the failed algorithm's seeds were still to be done"


@pytest.mark.slow
def test_the_primary_papers_reports_are_at_the_top(project: Project) -> None:
    project.make("reports/table2.csv")
    top = project.folder / "reports" / "table2.csv"
    assert top.read_bytes() == (project.folder / "reports" / "rfedavg" / "table2.csv").read_bytes()


@pytest.mark.slow
def test_no_rule_writes_outside_its_folders(project: Project) -> None:
    known = {
        "bin",
        "fedcore",
        "pipeline",
        "profiles",
        "results",
        "reports",
        "logs",
        "params.yaml",
        "mkdocs.yml",
        "Snakefile",
        "snakemake_logger_plugin_fedrepro",
    }
    project.make("reports/rfedavg/fig2.svg")
    names = {path.name for path in Path(project.folder).iterdir() if not path.name.startswith(".")}
    assert {"results", "reports", "logs"} <= names
    assert names <= known | {"executed.txt"}


COUNTED = """
timers = []


class Counted(threading.Timer):
    def start(self):
        timers.append(self)
        super().start()


threading.Timer = Counted


onstart:"""


def test_snakemake_starts_no_timers_that_start_timers(project: Project) -> None:
    snakefile = (project.folder / "Snakefile").read_text()
    project.edit("Snakefile", "\nonstart:", f"\nimport threading\n{COUNTED}")
    project.edit("Snakefile", "    flow.show_reports()", '    print("timers", len(timers))')
    try:
        runs = list(build_catalogue(parameters()).index)[:8]
        output = project.make("-p", *(f"{run}/summary.json" for run in runs))
    finally:
        (project.folder / "Snakefile").write_text(snakefile)
    assert "(100%) done" in output
    assert re.findall(r"^timers (\d+)$", output, re.MULTILINE) == ["0"]


def test_the_site_follows_its_pages_and_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(answers, "PAPERS", Path("papers"))
    plans = {Workflow.site(None)["plan"]}
    files = ("README.md", "docs/page.md", "reports/reference/one/table.csv", "data/editions.yaml")
    for file in (*files, "papers/README.md", "papers/one/readings.yaml"):
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).touch()
        plans.add(Workflow.site(None)["plan"])
    assert len(plans) == 1 + len(files) + 2
