"""Code blocks of the documentation: found, executed in a copy of the project, compared with what is shown.

A block is what its title and language say:

- `title="some/file.py"`: a file. One that the repository has must be the same; another is written.
- `title="The end of some/file.py"`: the last lines of a file of the repository.
- `title="In params.yaml"`: a part of a YAML file, laid over it.
- `title="Output"`: what the block before it prints, but for the values of numbers with a point.
- `title="Not executed by the tests..."`: visible on the page; its commands must exist.
- `sh`, `python` without a title: executed, in order. `<!-- slow -->` above it: with `-m slow`.
- `text` without a title: no code.

`PYTHONPATH=tests/pipeline python tests/docs/blocks.py PAGE...` writes what commands print into the pages.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from copies import copy_folder
from markdown_it import MarkdownIt
from typer.main import get_command

from fedcore.cli.main import app as fedcore
from fedcore.execution.forkserver import VARIABLE, place
from pipeline.__main__ import app as pipeline
from pipeline.catalogue.params import overlay

ROOT = Path(__file__).parents[2]
PARTS = (
    "Snakefile",
    "dvc.yaml",
    "mkdocs.yml",
    "params.schema.json",
    "params.yaml",
    "pyproject.toml",
    "README.md",
    "study.schema.json",
)
FOLDERS = (
    "docs",
    "examples",
    "fedcore",
    "pipeline",
    "profiles",
    "snakemake_logger_plugin_fedrepro",
    "studies",
)
SKIPPED = "Not executed by the tests"
OUTPUT, SLOW, ANY = "Output", "<!-- slow -->", "..."
FILE = re.compile(r"[\w./-]+\.\w+|[\w./-]*Snakefile")
# A group, but for a duration or a deviation.
NUMBER = re.compile(r"(?<!± )(?<![\d.])(\d+\.\d+)(?!\d| s\b| minutes| hours)|\d+\.\d+")
SPREAD = 1.5
SHIM = """#!/bin/sh
# What a reader's `uv run` does, in the environment at hand.
case "$1" in
  run) shift; case "$1" in snakemake) unset FEDCORE_WARM ;; esac; exec "$@" ;; # shares a process of its own
  sync) exit 0 ;;
  *) exec {uv} "$@" ;;
esac
"""


@dataclass(frozen=True)
class Block:
    """A fenced block: where it is, its language, its title, its text."""

    page: Path
    line: int
    language: str
    title: str
    code: str
    slow: bool = False

    @property
    def kind(self) -> str:
        """What is to be done with it."""
        if self.title.startswith(SKIPPED):
            return "skipped"
        if self.title == OUTPUT:
            return "output"
        if self.title.startswith("In "):
            return "part"
        if self.title.startswith("The end of "):
            return "end"
        if self.title:
            return "file" if FILE.fullmatch(self.title) else "unknown"
        return {"sh": "command", "python": "program", "text": "text"}.get(self.language, "unknown")

    def __str__(self) -> str:
        """Return where it is."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@cache
def blocks(page: Path) -> tuple[Block, ...]:
    """Return a page's fenced blocks, in order."""
    fenced: list[Block] = []
    before = ""
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type == "fence":
            language, _, rest = token.info.strip().partition(" ")
            title = re.search(r'title="([^"]*)"', rest)
            block = Block(page, (token.map or [0])[0] + 1, language, title[1] if title else "", token.content)
            follows = block.kind == "output" and bool(fenced) and fenced[-1].slow
            fenced.append(replace(block, slow=before == SLOW or follows))
        before = token.content.strip() if token.type == "html_block" else ""
    return tuple(fenced)


def indented(page: Path) -> list[int]:
    """Return the lines of a page's indented code blocks, which have no language."""
    tokens = MarkdownIt().parse(page.read_text(encoding="utf-8"))
    return [(token.map or [0])[0] + 1 for token in tokens if token.type == "code_block"]


def copied(folder: Path) -> Path:
    """Copy what commands of a checkout need, and put stand-ins of `uv` and `pip` before them."""
    for name in FOLDERS:
        copy_folder(ROOT / name, folder / name)
    for name in (*PARTS, "LICENSE", "CHANGELOG.md", "SECURITY.md"):
        shutil.copy(ROOT / name, folder / name)
    for path in ROOT.glob("reports/reference/*/histories.parquet"):
        (folder / path.relative_to(ROOT)).parent.mkdir(parents=True)
        (folder / path.relative_to(ROOT)).symlink_to(path)
    (folder / "data").mkdir()
    (folder / "data" / "demo").symlink_to(ROOT / "data" / "demo")
    (folder / "bin").mkdir()
    for name, text in {"uv": SHIM.format(uv=shutil.which("uv")), "pip": "#!/bin/sh\n"}.items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    return folder


def environment(folder: Path, warm: Path) -> dict[str, str]:
    """Return the environment of a page's commands; `fedcore` commands share a process that has begun."""
    path = os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    added = {
        "PATH": path,
        "PYTHONPATH": str(folder),
        "NO_MKDOCS_2_WARNING": "1",
        VARIABLE: f"{warm / 'w'}|{os.getpid()}|{place()}",
    }
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FEDCORE_")}
    return kept | added


def execute(page: Path, folder: Path, slow: bool = False) -> Iterator[tuple[Block, str]]:
    """Do what a page says in a copy of the project.

    Yields:
        Each output block with what was printed.

    Raises:
        AssertionError: a command fails, or a block is not what its title says.
    """
    printed = ""
    with tempfile.TemporaryDirectory(prefix="docs-") as warm:
        variables = environment(folder, Path(warm))
        for block in blocks(page):
            if block.slow and not slow:
                continue
            if block.kind in {"command", "program"}:
                printed = _run(block, folder, variables)
            elif block.kind == "output":
                yield block, printed
            else:
                check(block, folder)


def check(block: Block, folder: Path) -> None:
    """Check a block that is not executed, and write it where it is a file or a part of one."""
    assert block.kind != "unknown", f"{block}: neither code to execute nor a title that says what it is"
    if block.kind == "skipped":
        assert re.fullmatch(rf"{SKIPPED}(?: as it stands)?: .+", block.title), f"{block}: says no reason"
        for line in block.code.splitlines():
            exists(line, str(block))
    elif block.kind == "end":
        text = (ROOT / block.title.removeprefix("The end of ")).read_text()
        assert text.endswith(block.code), f"{block}: not how the file ends"
    elif block.kind == "file":
        target, held = folder / block.title, ROOT / block.title
        if held.exists():
            assert block.code == held.read_text(), f"{block}: not the same as the file"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(block.code)
    elif block.kind == "part":
        path = folder / block.title.removeprefix("In ")
        values = yaml.safe_load(path.read_text())
        shown = yaml.safe_load(block.code)
        changed = values | shown if path.parent.name == "studies" else overlay(values, shown)
        path.write_text(yaml.safe_dump(changed, sort_keys=False))


def exists(line: str, where: str) -> None:
    """Make sure that a command line's subcommand and options exist, where it is one of ours."""
    words = shlex.split(line, comments=True)
    starts: dict[tuple[str, ...], Any] = {("fedcore",): fedcore, ("python", "-m", "pipeline"): pipeline}
    for index in range(len(words)):
        for start, app in starts.items():
            if tuple(words[index : index + len(start)]) == start:
                command: Any = get_command(app)
                rest = words[index + len(start) :]
                rest = rest[: next((n for n, word in enumerate(rest) if word in {"&&", "|", ";", ">"}), None)]
                while hasattr(command, "commands") and rest:
                    assert rest[0] in command.commands, f"{where}: no command {rest[0]!r}"
                    command = command.commands[rest.pop(0)]
                known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
                options = {word.partition("=")[0] for word in rest if re.match(r"-{1,2}[a-z]", word)}
                assert options <= known | {"--help"}, f"{where}: no option {options - known}"


def same(shown: str, printed: str) -> bool:
    """Whether an output is what is shown.

    A line `...` stands for any lines. Numbers with a point may differ by half, as some do between
    machines; durations and standard deviations at will.
    """
    found = re.fullmatch("".join(map(_pattern, shown.splitlines())), _ended(printed))
    numbers = filter(None, NUMBER.findall(shown))
    return found is not None and all(map(_near, numbers, filter(None, found.groups())))


def _pattern(line: str) -> str:
    if line.strip() == ANY:
        return r"(?:.*\n)*"
    escaped = map(re.escape, NUMBER.sub("\0", line.rstrip()).split("\0"))
    return f"(?:{NUMBER.pattern})".join(escaped) + r" *\n"


def _near(shown: str, printed: str) -> bool:
    return float(shown) / SPREAD <= float(printed) <= float(shown) * SPREAD


def _ended(text: str) -> str:
    return text if text.endswith("\n") or not text else f"{text}\n"


def _run(block: Block, folder: Path, variables: dict[str, str]) -> str:
    state = folder / ".exported"
    if block.kind == "program":
        command = [sys.executable, "-c", block.code]
    else:
        script = f"[ -f {state} ] && . {state}\nset -e\n{block.code}\nexport -p > {state}\n"
        command = ["bash", "-c", script]
    process = subprocess.run(
        command,
        cwd=folder,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert process.returncode == 0, f"{block}: exit code {process.returncode}\n{block.code}\n{process.stdout}"
    return process.stdout


def accept(page: Path, slow: bool) -> None:
    """Write what a page's commands print into its output blocks, and files into blocks that show them."""
    lines = page.read_text().splitlines()
    for block in reversed(blocks(page)):
        if block.kind == "file" and (ROOT / block.title).exists():
            _replace(lines, block, (ROOT / block.title).read_text())
    page.write_text("\n".join(lines) + "\n")
    with tempfile.TemporaryDirectory() as folder:
        printed = list(execute(page, copied(Path(folder)), slow))
    for block, text in reversed(printed):
        if not same(block.code, text):
            _replace(lines, block, text)
            print(f"{block}: changed")
    page.write_text("\n".join(lines) + "\n")


def _replace(lines: list[str], block: Block, text: str) -> None:
    lines[block.line : block.line + block.code.count("\n")] = text.rstrip("\n").splitlines()


if __name__ == "__main__":
    names = [name for name in sys.argv[1:] if name != "--slow"]
    for name in names:
        accept(Path(name).resolve(), "--slow" in sys.argv)
