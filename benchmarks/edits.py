"""What an edit makes run again: counted by Snakemake's dry run, by DVC's, and by what is then trained.

Works in a throw-away copy of the project in which training is pretended, on Table I of rFedAvg (8 settings,
6 algorithms, 2 seeds). After every edit `dvc repro` is called, and both tools must then have nothing to do.
Edits add up: each starts from the state that the one before left. The exit code is 1 if a count is not as
expected.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

HOME = Path(__file__).parent.parent
sys.path[:0] = [str(HOME), str(HOME / "tests" / "pipeline")]

from project import Project  # noqa: E402

TABLE = "reports/rfedavg/table1.csv"
COLUMNS = "{:34} {:44} {:12} {:>7}  {}"
PROXIMAL = "fedcore/parts/objective.py"
DEMO = "edition: demo\n            training:\n"
DATACLASS, NUMPY = "from dataclasses import dataclass\n", "import numpy as np\n"


@dataclass(frozen=True)
class Edit:
    """An edit of one file, and what it should make run again.

    Attributes:
        name: what is edited, in words; for params.yaml its top-level key comes first.
        file: the file that is edited.
        old, new: the text that is replaced, and by what.
        jobs: what Snakemake's dry run should announce, by rule.
        runs: how many runs should then be trained.
        stages: the stages that DVC should enter. It compares whole files, so it also enters a stage after an
            edit of a comment in the code; Snakemake then finds nothing to do.
    """

    name: str
    file: str
    old: str
    new: str
    jobs: dict[str, int] = field(default_factory=dict)
    runs: int = 0
    stages: tuple[str, ...] = ()


PAPER = ("rfedavg",)
BOTH = ("data", "rfedavg")
ALL = {"train": 48, "table": 1}
EDITS = (
    Edit("comment in params.yaml", "params.yaml", "scale: demo\n", "scale:   demo # a comment\n"),
    Edit(
        "order of keys in params.yaml",
        "params.yaml",
        "  dtype: float32\n  precision: fp32\n",
        "  precision: fp32\n  dtype: float32\n",
    ),
    Edit("data: mirror", "params.yaml", "mirror: null", "mirror: elsewhere"),
    Edit("common: number format", "params.yaml", "dtype: float32", "dtype: float64", ALL, 96, PAPER),
    Edit("papers: fedprox's mu", "params.yaml", "mu: 1.0", "mu: 0.5", {"train": 6, "table": 1}, 12, BOTH),
    Edit(
        "papers: mu on one data set", "params.yaml", "mu: 0.01", "mu: 0.02", {"train": 2, "table": 1}, 4, BOTH
    ),
    Edit(
        "papers: a regime of another table", "params.yaml", "local_steps: 20", "local_steps: 21", {}, 0, BOTH
    ),
    Edit("scales: another scale's rounds", "params.yaml", "rounds: 20\n", "rounds: 21\n", {}, 0, BOTH),
    Edit(
        "scales: this scale's decay on MNIST",
        "params.yaml",
        DEMO,
        f"{DEMO}              weight_decay: 0.001\n",
        {"train": 18, "table": 1},
        36,
        BOTH,
    ),
    Edit("primary_paper: quoted", "params.yaml", "primary_paper: rfedavg", "primary_paper: 'rfedavg'"),
    Edit(
        "layout of tables",
        "pipeline/reports/grid.py",
        'PARTIAL = "†"',
        'PARTIAL = "*"',
        {"table": 1},
        0,
        BOTH,
    ),
    Edit("comment in a module", PROXIMAL, DATACLASS, f"# a comment\n{DATACLASS}\n\n", {}, 0, BOTH),
    Edit("docstring in a module", PROXIMAL, '"""', '"""Said otherwise. ', {}, 0, BOTH),
    Edit(
        "meaning of FedProx's term",
        PROXIMAL,
        "else 2 * self.mu",
        "else self.mu * 2",
        {"train": 8, "table": 1},
        16,
        BOTH,
    ),
    Edit("a definition that no run uses", PROXIMAL, DATACLASS, f"{DATACLASS}\nUNUSED = 1\n", {}, 0, BOTH),
    Edit(
        "meaning of the round loop",
        "fedcore/execution/simulation.py",
        "while state.round < rounds",
        "while rounds > state.round",
        ALL,
        96,
        BOTH,
    ),
    Edit(
        "meaning of a partition",
        "fedcore/partitions/similarity.py",
        NUMPY,
        f"{NUMPY}\nCHANGED = 1\n",
        {"partition": 12, "train": 36, "table": 1},
        72,
        BOTH,
    ),
    Edit(
        "scale: another one that is the same", "params.yaml", "scale:   demo # a comment\n", "scale: demo\n"
    ),
)


def main(
    only: Annotated[list[str] | None, typer.Option(help="Edits whose name contains one of these.")] = None,
    workflow_only: Annotated[bool, typer.Option(help="Leave DVC out; make nothing after an edit.")] = False,
) -> None:
    """Print the jobs, stages and runs of each edit beside what is expected."""
    with tempfile.TemporaryDirectory() as folder:
        project = prepared(Path(folder))
        print(COLUMNS.format("edit", "jobs of snakemake -n", "dvc enters", "trained", "then"))
        edits = [edit for edit in EDITS if any(part in edit.name for part in only or [""])]
        wrong = [edit.name for edit in edits if not right(project, edit, workflow_only)]
    print(f"{len(wrong)} other than expected{': ' if wrong else ''}{', '.join(wrong)}")
    raise typer.Exit(bool(wrong))


def prepared(folder: Path) -> Project:
    """Return a copy of the project, built once by ``dvc repro``."""
    project = Project.copy(folder)
    for name in (".dvcignore", ".dvc/config"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(HOME / name, folder / name)
    config = folder / ".dvc" / "config"
    config.write_text(config.read_text().replace("[core]", "[core]\n    no_scm = true"))
    shutil.copytree(HOME / "data" / "demo", folder / "data" / "demo")
    project.run(sys.executable, "-m", "pipeline", "dvc")
    project.edit("dvc.yaml", "cmd: snakemake reports/rfedavg", f"cmd: snakemake {TABLE}")
    project.run("dvc", "repro", "rfedavg")
    project.executed()
    return project


def right(project: Project, edit: Edit, workflow_only: bool) -> bool:
    """Do an edit, print what follows from it, and say whether that was expected."""
    before = (project.folder / edit.file).read_text()
    project.edit(edit.file, edit.old, edit.new)
    jobs = project.jobs(TABLE)
    if workflow_only:
        (project.folder / edit.file).write_text(before)
        print(COLUMNS.format(edit.name, counted(jobs), "-", "-", "-"), flush=True)
        return jobs == edit.jobs
    stages = entered(project, "--dry")
    entered(project)
    runs = len(project.executed())
    left = [*project.jobs(TABLE), *entered(project, "--dry")]
    then = f"still {', '.join(left)}" if left else "nothing to do"
    print(COLUMNS.format(edit.name, counted(jobs), " ".join(stages) or "-", runs, then), flush=True)
    return (jobs, runs, stages, left) == (edit.jobs, edit.runs, edit.stages, [])


def entered(project: Project, *options: str) -> tuple[str, ...]:
    """Return the stages whose command ``dvc repro`` gives, or would give."""
    text = project.run("dvc", "repro", *options, "rfedavg")
    return tuple(re.findall(r"^Running stage '(\w+)'", text, re.MULTILINE))


def counted(jobs: dict[str, int]) -> str:
    """Return jobs by rule in words."""
    return ", ".join(f"{number} {rule}" for rule, number in sorted(jobs.items())) or "none"


if __name__ == "__main__":
    typer.run(main)
