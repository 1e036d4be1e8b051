"""What a person reads of a workflow: one line per job in the papers' words, reasons of failures, the end."""

from __future__ import annotations

import io
import logging
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from snakemake.settings.enums import Quietness
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry

from fedcore.base import core_yaml
from fedcore.base.errors import plain
from pipeline.papers import build_catalogue
from pipeline.workflow import messages
from pipeline.workflow.answers import Workflow
from pipeline.workflow.estimate import duration
from pipeline.workflow.messages import job_name
from snakemake_logger_plugin_fedrepro import LogHandler, Words

ROOT = Path(__file__).parents[2]
CATALOGUE = build_catalogue(core_yaml.read(ROOT / "params.yaml", "configuration"))
SETTINGS = {
    "printshellcmds": False,
    "nocolor": True,
    "quiet": set(),
    "debug_dag": False,
    "verbose": False,
    "show_failed_logs": True,
    "stdout": False,
    "dryrun": False,
}


def handler(**settings: Any) -> LogHandler:
    """Make a handler as Snakemake does, with other settings."""
    common: Any = SimpleNamespace(**SETTINGS | settings)
    return LogHandler(common, None)


class Listener:
    """A handler, what it printed, and a clock that goes on by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.now = 0.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)
        self.text = io.StringIO()
        monkeypatch.setattr("sys.stderr", self.text)
        self.handler = handler(**settings)

    def hear(self, message: str = "", level: int = logging.INFO, **about: Any) -> None:
        record = logging.LogRecord("snakemake", level, "", 0, message, None, None)
        record.__dict__.update(about)
        self.handler.handle(record)

    def begin(self, number: int, rule: str = "train", logs: tuple[str, ...] = (), **wildcards: str) -> None:
        about: dict[str, Any] = {
            "jobid": number,
            "rule_name": rule,
            "wildcards": wildcards,
            "log": list(logs),
        }
        self.hear(event=LogEvent.JOB_INFO, **about)
        self.hear(event=LogEvent.JOB_STARTED, jobs=[number])

    def end(self, number: int, after: float) -> None:
        self.now += after
        self.hear(event=LogEvent.JOB_FINISHED, job_id=number)

    def lines(self) -> list[str]:
        return self.text.getvalue().splitlines()


@pytest.fixture(autouse=True)
def no_workflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a workflow of this process told the handler about its jobs is no matter here."""
    monkeypatch.setattr(LogHandler, "words", Words())
    monkeypatch.setattr(LogHandler, "asked", (0, 0.0))


@pytest.fixture
def three_jobs(monkeypatch: pytest.MonkeyPatch) -> Listener:
    """A listener that expects two long jobs and a short one."""
    seconds = {"train": 10.0, "table": 5.0}
    monkeypatch.setattr(
        LogHandler,
        "words",
        Words("a {}".format, lambda rule, _: seconds[rule], duration, plain),
    )
    monkeypatch.setattr(LogHandler, "asked", (3, 25.0))
    return Listener(monkeypatch)


def test_each_finished_job_is_a_line_with_its_time_and_the_time_left(three_jobs: Listener) -> None:
    three_jobs.begin(7)
    three_jobs.end(7, after=20)  # 10 of 25 guessed seconds took 20: the other 15 take 30
    three_jobs.begin(8)
    three_jobs.end(8, after=4)  # 20 of 25 took 24: the other 5 take 6
    three_jobs.begin(9, "table")
    three_jobs.end(9, after=90)
    assert three_jobs.lines() == [
        "1/3  a train  (20 s, about 30 s left)",
        "2/3  a train  (4 s, about 6 s left)",
        "3/3  a table  (2 minutes)",
    ]


def test_what_the_first_short_job_waited_for_is_not_expected_of_the_others(
    three_jobs: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogHandler, "asked", (30, 301.0))
    seconds = {"partition": 1.0, "train": 10.0}
    words = Words("a {}".format, lambda rule, _: seconds[rule], duration, plain)
    monkeypatch.setattr(LogHandler, "words", words)
    three_jobs.begin(7, "partition")
    three_jobs.end(7, after=120)
    three_jobs.begin(8)
    three_jobs.end(8, after=5)  # 10 of the other 300 took 5: the other 290 take 145
    assert three_jobs.lines()[0] == " 1/30  a partition  (2 minutes)"
    assert three_jobs.lines()[1].endswith("(5 s, about 2 minutes left)")


def test_a_failure_gives_the_job_the_last_line_of_its_log_and_the_log(
    three_jobs: Listener, tmp_path: Path
) -> None:
    path = tmp_path / "job.log"
    path.write_text("one\nerror: no \x1b[2Jspace left\n\n")
    three_jobs.begin(7, logs=("times.tsv", str(path)))
    three_jobs.hear(event=LogEvent.JOB_ERROR, jobid=7, rule_name="train", log=["times.tsv", str(path)])
    three_jobs.hear(event=LogEvent.JOB_ERROR, jobid=99, rule_name="train", log=[])
    assert three_jobs.lines() == [
        f"failed: a train: error: no \\x1b[2Jspace left; log: {path}",
        "failed: train: its log says nothing",
    ]


def test_what_a_cluster_says_of_a_job_comes_before_its_log(three_jobs: Listener, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text("round 78/400, 168 s left\n")
    first = "SLURM-job '9' failed, SLURM status is: 'CANCELLED'."
    said = f"{first} For further error details see the cluster/cloud log"
    for log in ([str(path)], []):
        three_jobs.hear(event=LogEvent.JOB_ERROR, jobid=9, rule_name="train", rule_msg=said, log=log)
    assert three_jobs.lines() == [
        f"failed: train: {first} Its log ends: round 78/400, 168 s left; log: {path}",
        f"failed: train: {first}",
    ]


def test_of_a_group_that_fails_only_what_failed_is_named(three_jobs: Listener, tmp_path: Path) -> None:
    log, done, lost = (tmp_path / name for name in ("job.log", "done.json", "lost.json"))
    log.write_text("error: no such data\n")
    os.utime(log, (0, three_jobs.handler.opened - 1.5))  # a file system that rounds times down
    done.write_text("{}")
    outer = tmp_path / "slurm.log"
    outer.write_text("slurmstepd: error: *** JOB 9 CANCELLED ***\n")
    three_jobs.begin(7, logs=(str(log),))
    members = [{"jobid": number} for number in (7, 8, 9)]
    three_jobs.hear(event=LogEvent.GROUP_ERROR, job_error_info=members, aux_logs=[str(outer)])
    old = tmp_path / "old.log"
    old.write_text("error: of another day\n")
    os.utime(old, (0, 0))
    about: dict[str, Any] = {"event": LogEvent.JOB_ERROR, "rule_name": "train", "indent": True}
    three_jobs.hear(**about, jobid=10, log=[str(old)], output=[str(lost)])
    three_jobs.hear(**about, jobid=7, log=[str(log)], output=[f"{lost} (check log file)"])
    three_jobs.hear(**about, jobid=8, log=[str(log)], output=[str(done)])
    three_jobs.hear(**about, jobid=9, log=[str(tmp_path / "none.log")], output=[str(lost)])
    assert three_jobs.lines() == [
        f"failed: a group of 3 jobs: slurmstepd: error: *** JOB 9 CANCELLED ***; log: {outer}",
        f"failed: a train: error: no such data; log: {log}",
    ]


def test_a_group_that_was_never_submitted_has_failed_too(three_jobs: Listener) -> None:
    three_jobs.hear(event=LogEvent.GROUP_ERROR, job_error_info=[{"jobid": 7}], aux_logs=[])
    assert three_jobs.lines() == ["failed: a group of one job: it has no log"]


def test_a_job_of_a_group_has_no_time_of_its_own(three_jobs: Listener) -> None:
    for number in (1, 2):
        about: dict[str, Any] = {
            "jobid": number,
            "rule_name": "train",
            "wildcards": {},
            "log": [],
            "indent": True,
        }
        three_jobs.hear(event=LogEvent.JOB_INFO, **about)
    three_jobs.end(1, after=300)
    three_jobs.end(2, after=0)
    assert three_jobs.lines() == ["1/3  a train", "2/3  a train"]


def test_jobs_that_the_user_stops_have_not_failed(three_jobs: Listener) -> None:
    """Snakemake announces that it ends them, and calls each of them failed."""
    three_jobs.begin(1)
    three_jobs.hear("Terminating processes on user request, this might take some time.", logging.WARNING)
    three_jobs.hear(event=LogEvent.JOB_ERROR, jobid=1, rule_name="train", log=[])
    three_jobs.hear(
        "--keep-incomplete mode is set, so incomplete output files are not removed.", logging.WARNING
    )
    three_jobs.hear("WorkflowError:\nAt least one job did not complete successfully.", logging.ERROR)
    assert three_jobs.lines()[1:] == ["stopped: a train"]


def test_who_asks_it_to_end_learns_once_what_it_waits_for(
    three_jobs: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing failed, so nothing is said of failures."""
    for _ in range(2):
        three_jobs.hear("Will exit after finishing currently running jobs (scheduler).")
    three_jobs.hear("WorkflowError:\nAt least one job did not complete successfully.", logging.ERROR)
    assert three_jobs.lines() == ["asked to end: waits for the running jobs; Ctrl-C (SIGINT) stops them"]
    flow = Workflow(core_yaml.read(ROOT / "params.yaml", "configuration"))
    for failed in (set(), {"a job"}):
        flow.snakemake = SimpleNamespace(scheduler=SimpleNamespace(_user_kill="graceful", failed=failed))
        flow.say_what_now()
        assert ("why a run failed" in capsys.readouterr().err) == bool(failed)


def test_what_nobody_asked_for_is_left_out_and_warnings_are_not(three_jobs: Listener) -> None:
    three_jobs.hear("Building DAG of jobs...")
    three_jobs.hear("Provided cores: 2", event=LogEvent.RESOURCES_INFO)
    three_jobs.hear("None")
    three_jobs.hear("Nothing to be done (all requested files are present and up to date).")
    three_jobs.hear("Select jobs to execute: a warning", level=logging.WARNING)
    three_jobs.hear(
        "RuleException:\nCalledProcessError in file ...", level=logging.ERROR, event=LogEvent.ERROR
    )
    three_jobs.hear("Directory cannot be locked.", level=logging.ERROR, event=LogEvent.ERROR)
    assert three_jobs.lines() == [
        "Nothing to be done (all requested files are present and up to date).",
        "Select jobs to execute: a warning",
        "Directory cannot be locked.",
    ]


def test_a_dry_run_names_the_jobs_and_counts_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogHandler, "words", Words(lambda rule, named: f"{rule} {named['x']}", plain=plain))
    listener = Listener(monkeypatch, dryrun=True)
    for _ in range(2):
        listener.hear("Job stats: 1", event=LogEvent.RUN_INFO, stats={"total": 1})
    listener.begin(1, x="[red]y")
    reasons = "\n    output files have to be generated:\n        train"
    listener.hear(f"Reasons:\n    (check individual jobs above for details){reasons}")
    assert listener.text.getvalue() == f"Job stats: 1\n  train [red]y\nReasons:{reasons}\n"


def test_verbose_and_the_commands_bring_snakemake_s_own_lines_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in ("verbose", "printshellcmds"):
        listener = Listener(monkeypatch, **{setting: True})
        listener.hear("Provided cores: 2", event=LogEvent.RESOURCES_INFO)
        assert listener.lines() == ["Provided cores: 2"]


def test_the_default_profile_s_logger_is_found() -> None:
    plugin: Any = LoggerPluginRegistry().get_plugin("fedrepro")
    assert plugin.log_handler is LogHandler
    logger = handler()
    assert (logger.writes_to_stream, logger.has_filter, logger.has_formatter) == (True, True, True)


@pytest.mark.parametrize("quietness", Quietness)
def test_quiet_hides_what_is_done_but_no_failure(
    quietness: Quietness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    listener = Listener(monkeypatch, quiet={quietness})
    log = tmp_path / "train.log"
    log.write_text("error: no such data\n")
    listener.begin(1, logs=(str(log),))
    listener.begin(2)
    listener.end(2, 1)
    listener.hear(event=LogEvent.JOB_ERROR, jobid=1, rule_name="train", log=[str(log)])
    quiet = quietness in {Quietness.ALL, Quietness.PROGRESS}
    assert len(listener.lines()) == (1 if quiet else 2)
    assert listener.lines()[-1] == f"failed: 'train': 'error: no such data'; log: {log}"


@pytest.mark.parametrize(
    ("rule", "wildcards", "name"),
    [
        (
            "train",
            {"paper": "rfedavg", "setting": "cross_silo-cifar10-sim0", "method": "rfedavg_plus-0a1b2c3d"},
            "rFedAvg+ on CIFAR-10 (sim0, cross silo)",
        ),
        (
            "train",
            {"paper": "fedomw", "setting": "dl-letter-skewed", "method": "mine-0a1b2c3d", "seed": "3"},
            "mine on letter (skewed, dl), seed 3",
        ),
        (
            "partition",
            {"paper": "rfedavg", "division": "mnist-sim10-0a1b2c3d", "seed": "1"},
            "who holds which rows of MNIST (sim10), seed 1",
        ),
        ("table", {"paper": "rfedavg", "table": "table1"}, "reports/rfedavg/table1"),
        ("pdf", {"paper": "rfedavg", "table": "table1"}, "reports/rfedavg/table1 as PDF"),
        ("figure", {"paper": "fedomw", "figure": "fig1"}, "reports/fedomw/fig1"),
        ("fetch", {"fetched": "mnist-full"}, "fetch mnist-full"),
        ("site", {}, "site"),
    ],
)
def test_a_job_has_a_name_in_the_words_of_its_paper(rule: str, wildcards: dict[str, str], name: str) -> None:
    assert job_name(CATALOGUE, rule, wildcards) == name


def test_a_job_that_trains_with_several_seeds_names_them() -> None:
    flow = Workflow(core_yaml.read(ROOT / "params.yaml", "configuration"))
    run = flow.catalogue.needed("rfedavg", "table1")[0]
    wildcards = {key: getattr(run, key) for key in ("paper", "scale", "setting", "method")}
    plain = job_name(CATALOGUE, "train", wildcards)
    assert LogHandler.words.name("train", wildcards) == f"{plain}, seeds 0, 1"
    assert LogHandler.words.name("train", wildcards | {"seed": "1"}) == f"{plain}, seed 1"


TABLE = """Accuracy (%).

| | MNIST<br>sim0 | B |
|:--|--:|--:|
| FedAvg | **90.1** ± 0.2<br>*91.0* | <u>1</u> |
"""


@pytest.mark.parametrize(("width", "shown"), [(80, True), (20, False)])
def test_a_table_is_shown_where_the_terminal_is_wide_enough(width: int, shown: bool, tmp_path: Path) -> None:
    (tmp_path / "table.md").write_text(TABLE)
    text = io.StringIO()
    messages.show_table(tmp_path / "table.md", Console(file=text, width=width))
    cells = [line.split() for line in text.getvalue().splitlines() if line.strip(" ─")]
    assert cells == ([["MNIST", "B"], ["FedAvg", "90.1", "±", "0.2", "1"]] if shown else [])


def test_a_table_is_shown_without_the_escapes_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "table.md").write_text("| | B |\n|:--|--:|\n| \\[1\\] a\\|b &lt; \\*c | 1 |\n")
    text = io.StringIO()
    messages.show_table(tmp_path / "table.md", Console(file=text, width=80))
    assert text.getvalue().split()[-5:] == ["[1]", "a|b", "<", "*c", "1"]


def test_foreign_text_neither_styles_nor_controls_the_terminal(tmp_path: Path, three_jobs: Listener) -> None:
    (tmp_path / "table.md").write_text(
        "| [bold]m | B |\n|:--|--:|\n| \x1b[31mevil\x1b]0;owned\x07 | [link=x]1\u202e |\n"
    )
    text = io.StringIO()
    messages.show_table(tmp_path / "table.md", Console(file=text, width=80))
    assert "[bold]m" in text.getvalue()
    assert "\\x1b[31mevil\\x1b]0;owned\\x07" in text.getvalue()
    assert "[link=x]1\\u202e" in text.getvalue()
    three_jobs.hear("no file \x1b[2Jx\u202e", level=logging.ERROR, event=LogEvent.ERROR)
    assert three_jobs.lines()[-1] == "no file \\x1b[2Jx\\u202e"


def test_a_copy_s_table_is_that_of_its_paper_s_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reports/rfedavg").mkdir(parents=True)
    Path("reports/rfedavg/table1.md").write_text(TABLE)
    Path("reports/table1.tex").write_text("")
    text = io.StringIO()
    messages.show(CATALOGUE, ["reports/table1.tex"], Console(file=text, width=60))
    assert text.getvalue().startswith("reports/table1.tex\n")
    assert "90.1 ± 0.2" in text.getvalue()


def test_the_end_says_where_reports_are_what_they_mean_and_what_is_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("reports/rfedavg")
    folder.mkdir(parents=True)
    for form in ("csv", "md", "html", "standalone.tex"):
        (folder / f"table1.{form}").write_text(TABLE)
    text = io.StringIO()
    paths = [
        *(str(folder / f"table1.{form}") for form in ("standalone.tex", "md", "csv")),
        "reports/rfedavg/missing.csv",
        str(folder / "metrics.json"),
    ]
    (folder / "metrics.json").write_text("{}")
    messages.show(CATALOGUE, paths, Console(file=text, width=60))
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    assert lines[:2] == [
        "reports/rfedavg/metrics.json",
        "reports/rfedavg/table1.csv (also md, standalone.tex)",
    ]
    assert any("FedAvg" in line for line in lines)
    assert lines[-2:] == [
        "Demo scale: it shows that everything works. It does not reproduce the paper.",
        "Next: uv run snakemake --cores all reports/rfedavg/table1.html --config scale=quick",
    ]
