"""Names that would control a terminal, addresses with passwords: what commands print and write."""

from __future__ import annotations

import ast
import io
import json
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from fedcore.base.errors import DataError, FedcoreError, plain
from fedcore.cli.main import main
from fedcore.cli.status import view
from fedcore.data import Source
from fedcore.data.download import Declaration, Edition, File, fetch
from fedcore.execution import batch
from fedcore.execution.runner import Settings
from fedcore.execution.status import survey
from pipeline.workflow.answers import Workflow, _known

ROOT = Path(__file__).parents[2]
ESCAPE = "\x1b[31m\x1b]0;owned\x07"
HOSTILE = (
    ESCAPE,
    "\x9b2J",
    "line\nerror: forged",
    "\u202egnp.exe",
    "\u2066\u2069",
    "\r",
    "\x08\x7f",
    "\u2028",
)
PRINTS = {"print", "echo", "secho"}
SECRET = "https://someone:pass-w0rd@mirror.invalid/data"


def clean(text: str) -> bool:
    """Whether only the ends of lines are no printable characters."""
    return all(character.isprintable() or character == "\n" for character in text)


def fedcore(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FEDCORE_")}
    process = subprocess.run(
        [sys.executable, "-m", "fedcore.cli.main", *arguments],
        cwd=folder,
        env=kept | {"FEDCORE_WARM": "off"} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert clean(process.stdout + process.stderr), (arguments, process.stdout, process.stderr)
    assert "Traceback" not in process.stderr, process.stderr
    assert "pass-w0rd" not in process.stdout + process.stderr
    return process


def record(folder: Path, **values: Any) -> None:
    folder.mkdir(parents=True)
    now = time.time()
    base = {"state": "failed", "round": 2, "rounds": 8, "accuracy": 0.25, "began": now - 30, "updated": now}
    base |= {"process": os.getpid(), "machine": socket.gethostname()}
    (folder / ".progress.json").write_text(json.dumps(base | values))


def test_one_function_prints_what_comes_from_elsewhere() -> None:
    """Another ``print`` shows a text of the code alone; JSON escapes what it holds."""
    printed: dict[str, list[str]] = {}
    for path in (*(ROOT / "fedcore").rglob("*.py"), *(ROOT / "pipeline").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in PRINTS:
                texts = [ast.unparse(arg) for arg in node.args if not isinstance(arg, ast.Constant)]
                printed.setdefault(path.relative_to(ROOT).as_posix(), []).extend(texts)
    assert {name: sorted(texts) for name, texts in printed.items() if texts} == {
        "fedcore/base/errors.py": ["plain(line)"],
        "fedcore/cli/options.py": ["json.dumps(finite, indent=2)"],
        "pipeline/workflow/answers.py": ["GO_ON if ended else WHAT_NOW"],
        "pipeline/workflow/messages.py": ["plain(f'{files[0]}{more}')", "plain(line)", "table"],
    }


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_what_is_printed_holds_no_control_character(name: str) -> None:
    escaped = ascii(name)[1:-1]
    assert escaped.isprintable()
    assert plain(f"a{name}b") == str(FedcoreError(f"a{name}b")) == f"a{escaped}b"
    assert str(FedcoreError(FedcoreError(name))) == escaped


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results whose folders, files, errors, logs and commands have hostile names."""
    root = tmp_path_factory.mktemp("hostile")
    for number, name in enumerate(HOSTILE):
        log = root / f"log{number}"
        log.write_text(f"a{name}b\n")
        fields = {"error": f"no{name}", "command": f"do{name}", "log": str(log)}
        record(root / "results" / f"failed{name}", **fields)
        record(root / "results" / f"running{name}", state="running")
        finished = root / "results" / f"done{name}"
        finished.mkdir()
        (finished / "summary.json").write_text("{}")
        (finished / "provenance.json").write_text(json.dumps({"files": {f"x{name}": "0"}, "code": name}))
        split = root / "results" / f"split{name}"
        split.mkdir()
        (split / "stats.json").write_text("{}")
        (root / "mirror").mkdir(exist_ok=True)
        (root / "mirror" / f"file{name}").write_bytes(b"")
    return root


@pytest.mark.parametrize(
    ("arguments", "code", "shown"),
    [
        (("status", "results"), 1, r"failed\x1b[31m"),
        (("verify", "results"), 1, r"done\x1b[31m"),
        (("data", "verify", "--all", "--mirror", "mirror", "--root", "none"), 0, r"file\x1b[31m"),
    ],
    ids=["status", "verify", "data"],
)
def test_hostile_files_are_shown_as_escapes(
    place: Path, arguments: tuple[str, ...], code: int, shown: str
) -> None:
    process = fedcore(*arguments, folder=place)
    assert process.returncode == code, process.stderr
    assert shown in process.stdout
    assert not any(line.startswith("error: forged") for line in process.stdout.splitlines())


def test_the_live_view_shows_hostile_names_as_escapes(place: Path) -> None:
    console = Console(width=300, record=True, file=io.StringIO())
    console.print(view(survey(place / "results")))
    text = console.export_text()
    assert "running" in text
    assert clean(text)


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_runs_and_batches_show_hostile_names_as_escapes(
    name: str, spec: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    short = {**spec, "training": {**spec["training"], "rounds": 1}}
    items: list[dict[str, Any]] = [
        {"spec": short, "out": str(tmp_path / f"out{name}")},
        {"spec": {**short, f"key{name}": 1}, "out": "bad"},
        {"spec": {**short, "model": {"name": name}}, "out": f"bad{name}"},
        {"spec": short, "out": f"bad{name}", f"key{name}": 1},
    ]
    assert batch.execute(items, Settings(device="cpu"), quiet=False) == 3
    assert clean(capfd.readouterr().err)
    assert (tmp_path / f"out{name}" / "summary.json").exists()


def test_command_lines_with_hostile_names_are_refused_in_clean_lines(
    spec: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The first name is given to processes of their own, the others to the same function in this one."""
    monkeypatch.chdir(tmp_path)

    def refused(first: bool, *arguments: str) -> str:
        if first:
            process = fedcore(*arguments, folder=tmp_path)
            assert process.returncode == 2
            return process.stderr
        monkeypatch.setattr(sys, "argv", ["fedcore", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        printed = capfd.readouterr()
        assert clean(printed.out + printed.err), (arguments, printed)
        return printed.err

    for number, name in enumerate(HOSTILE[:4]):
        first = number == 0
        path = tmp_path / f"spec{name}.yaml"
        path.write_text(yaml.safe_dump({**spec, f"key{name}": 1}))
        assert refused(first, "run", path.name, "--out", f"out{number}").count("\n") == 1
        refused(first, "run-batch", f"no{name}.json")
        refused(first, "describe", name)


def test_snakemake_s_refusals_are_clean(tmp_path: Path) -> None:
    config = yaml.safe_load((ROOT / "params.yaml").read_text())
    for name in HOSTILE:
        with pytest.raises(SystemExit) as refused:
            Workflow({**config, f"key{name}": 1})
        assert clean(str(refused.value))
    flow = Workflow(config)

    class Asked:
        unknown = f"x{ESCAPE}"

    questions: tuple[Callable[[], object], ...]
    questions = (lambda: flow.unknown(Asked()), lambda: _known({}, f"x{ESCAPE}"))
    for question in questions:
        with pytest.raises(SystemExit) as refused:
            question()
        assert clean(str(refused.value))


def test_a_password_of_a_mirror_is_used_and_never_shown() -> None:
    assert plain(f"{SECRET}: not there") == "https://***@mirror.invalid/data: not there"
    for address in ("http://a:b@c@host/x", "https://token@host/x", "ftp://u:p/w@host/x"):
        assert plain(f"at {address} it is") == f"at {address.split(':')[0]}://***@host/x it is"
    plainly = "https://host/data, someone@host, a: b @ c"
    assert plain(plainly) == plainly


def test_errors_of_downloads_and_records_hide_the_password(
    spec: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    tried: list[str] = []

    def download(url: str, *_: Any, **__: Any) -> Path:
        tried.append(url)
        raise DataError(f"{url}: HTTP 401")

    monkeypatch.setattr(fetch, "download", download)
    declaration = Declaration(
        "toy", "Toy", (), "", "", True, "", 2, {"full": Edition("real", "toy", (File("toy/x"),))}
    )
    with pytest.raises(DataError) as refused:
        fetch.obtain(declaration, "full", Source(tmp_path, SECRET, offline=True))
    assert "https://***@mirror.invalid/data" in str(refused.value)
    assert "pass-w0rd" not in str(refused.value)
    assert tried[0].startswith(SECRET), "the download itself has it"

    monkeypatch.setattr(sys, "argv", ["fedcore", "run-batch", "x.json", "--mirror", SECRET])
    wrong = {**spec, "data": {"name": "npz", "path": f"/no/{SECRET}"}}
    assert batch.execute([{"spec": wrong, "out": str(tmp_path / "out")}], Settings(device="cpu"), True) == 1
    written = (tmp_path / "out" / ".progress.json").read_text()
    assert "pass-w0rd" not in written + capfd.readouterr().err
    assert shlex.split(json.loads(written)["command"])[-1] == "https://***@mirror.invalid/data"


def test_a_password_of_a_mirror_is_in_no_command_of_the_workflow(monkeypatch: pytest.MonkeyPatch) -> None:
    config = yaml.safe_load((ROOT / "params.yaml").read_text())
    monkeypatch.setenv("FEDCORE_MIRROR", SECRET)
    assert Workflow(config).mirror == ""
    monkeypatch.setenv("FEDCORE_MIRROR", "https://other.invalid")
    assert Workflow({**config, "data": {"mirror": SECRET}}).mirror == ""
    assert os.environ["FEDCORE_MIRROR"] == SECRET, "commands read it there"


def test_a_password_given_to_a_command_is_not_shown_by_it(tmp_path: Path) -> None:
    arguments = ("data", "verify", "mnist", "--root", "none")
    assert "https://***@mirror.invalid" in fedcore(*arguments, folder=tmp_path, FEDCORE_MIRROR=SECRET).stdout
