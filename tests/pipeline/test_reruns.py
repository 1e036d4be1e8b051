"""An edit makes exactly that run again which it touches; nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from project import HOME, Project, parameters

from fedcore.base.core_yaml import parsed
from fedcore.base.files import canonical_json
from pipeline.catalogue import codehash
from pipeline.papers import build_catalogue

TABLE = "reports/rfedavg/table1.csv"
SETTINGS, ALGORITHMS, SEEDS = 8, 6, 2
PARAMS = (HOME / "params.yaml").read_text()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose Table I is built."""
    project = Project.copy(tmp_path_factory.mktemp("project"))
    project.make(TABLE)
    assert len(project.executed()) == SETTINGS * ALGORITHMS * SEEDS
    return project


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        pytest.param(
            "fedcore/parts/objective.py",
            "else 2 * self.mu",
            "else self.mu * 2",
            {"train": 8, "table": 1},
            id="code-of-fedprox",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "pipeline/reports/grid.py",
            'PARTIAL = "†"',
            'PARTIAL = "*"',
            {"table": 1},
            id="layout",
        ),
    ],
)
def test_an_edit_reruns_what_it_touches(
    finished: Project, name: str, old: str, new: str, expected: dict[str, int]
) -> None:
    before = (finished.folder / name).read_text()
    finished.edit(name, old, new)
    try:
        assert finished.jobs(TABLE) == expected
    finally:
        (finished.folder / name).write_text(before)


def test_a_changed_hyperparameter_trains_that_algorithm_and_then_all_is_done(finished: Project) -> None:
    before = (finished.folder / "params.yaml").read_text()
    finished.edit("params.yaml", "mu: 1.0", "mu: 0.25")
    finished.make(TABLE)
    executed = finished.executed()
    assert len(executed) == 6 * SEEDS
    assert all("/fedprox-" in folder for folder in executed)
    assert finished.jobs(TABLE) == {}
    (finished.folder / "params.yaml").write_text(before)
    assert finished.jobs(TABLE) == {"table": 1}
    finished.make(TABLE)
    assert finished.executed() == []


def test_a_deleted_result_is_made_again_and_its_neighbours_are_kept(finished: Project) -> None:
    (path,) = finished.folder.glob("results/*/*/cross_silo-mnist-sim0/scaffold-*/seed1/provenance.json")
    path.unlink()
    other = next(path.parents[2].glob("fedavg-*/seed1"))
    runs = [folder.relative_to(finished.folder).as_posix() for folder in (path.parent, other)]
    finished.make(*(f"{run}/summary.json" for run in runs), "--forcerun", "train")
    assert finished.executed() == [path.parent.relative_to(finished.folder).as_posix()]


@pytest.mark.slow
def test_a_new_result_changes_exactly_the_targets_that_use_it(finished: Project) -> None:
    other = "reports/rfedavg/fig2.csv"
    catalogue = build_catalogue(yaml.safe_load((finished.folder / "params.yaml").read_text()))
    first, second = ({run.folder for run in catalogue.needed("rfedavg", t)} for t in ("table1", "fig2"))
    finished.make(other)
    finished.executed()
    assert finished.jobs(TABLE, other) == {}
    for runs, expected in (
        (first & second, {"table": 1, "figure": 1}),
        (first - second, {"table": 1}),
        (second - first, {"figure": 1}),
    ):
        summary = finished.folder / min(runs) / "summary.json"
        before, times = summary.read_bytes(), summary.stat()
        summary.write_bytes(before + b"\n")
        assert finished.jobs(TABLE, other) == expected, min(runs)
        summary.write_bytes(before)
        os.utime(summary, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert finished.jobs(TABLE, other) == {}


@cache
def jobs(text: str, target: str = "table1") -> Mapping[tuple[str, str], str]:
    """Return what each job of a target is a function of, by rule and output."""
    catalogue = build_catalogue(parsed(text, "params.yaml"))
    needed = catalogue.needed("rfedavg", target)
    groups: dict[tuple[str, str], Any] = {}
    for run in needed:
        groups.setdefault(("train", run.group), []).append(run.order())
        division = catalogue.planned("rfedavg").partitions[run.partition]
        groups["partition", run.partition] = [division.spec, division.code]
    groups["report", target] = catalogue.sources("rfedavg", target).plan
    return {key: canonical_json(value) for key, value in groups.items()}


def changed(old: str, new: str) -> dict[str, int]:
    """Count the jobs that an edit of params.yaml makes new or different, by rule."""
    assert old in PARAMS
    before, after = jobs(PARAMS), jobs(PARAMS.replace(old, new, 1))
    stale = [rule for (rule, output), value in after.items() if before.get((rule, output)) != value]
    return {rule: stale.count(rule) for rule in dict.fromkeys(stale)}


EDITS: dict[str, tuple[str, str, dict[str, int]]] = {
    "same-number": ("mu: 1.0", "mu: 1", {}),
    "q": ("q: 1.0\n", "q: 2.0\n", {"train": 6, "report": 1}),
    "rounds-of-a-data-set": (
        "hidden: 64}, training: {rounds: 20}}",
        "hidden: 64}, training: {rounds: 7}}",
        {"train": 18, "report": 1},
    ),
    "clients": (
        "clients: 10, training",
        "clients: 11, training",
        {"train": 48, "partition": 16, "report": 1},
    ),
    "common": ("dtype: float32", "dtype: float64", {"train": 48, "report": 1}),
    "mirror": ("mirror: null", "mirror: /elsewhere", {}),
    "layout": ("{columns: 1,", "{columns: 2,", {"report": 1}),
    "whitespace": ("seeds: [0, 1]", "seeds: [0,  1]", {}),
}
MORE: dict[str, tuple[str, str, dict[str, int]]] = {
    "one-data-set-of-an-algorithm": ("mu: 0.01}", "mu: 0.02}", {"train": 2, "report": 1}),
    "lambda-on-cifar10": ("lambda: 1.0e-5", "lambda: 1.0e-6", {"train": 3, "report": 1}),
    "lr-of-all-methods-without-their-own": (
        "training: {rounds: 60, lr: 0.1}",
        "training: {rounds: 60, lr: 0.2}",
        {"train": 15, "report": 1},
    ),
    "another-table's-regime": ("low_cost: {clients: 30,", "low_cost: {clients: 31,", {}),
    "similarity": ("similarity: 0.1}", "similarity: 0.2}", {"train": 6, "partition": 2, "report": 1}),
    "variant": ("variant: paper", "variant: released", {"train": 48, "report": 1}),
    "another-scale": ("seeds: [0]\n", "seeds: [7]\n", {}),
    "a-value-that-this-scale-replaces": ("rounds: 200", "rounds: 300", {}),
    "primary-paper": ("primary_paper: rfedavg", "primary_paper: fedomw", {}),
    "scale": ("scale: demo #", "scale: quick #", {"train": 48, "partition": 8, "report": 1}),
}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        *(pytest.param(*edit, id=name) for name, edit in EDITS.items()),
        *(pytest.param(*edit, id=name, marks=pytest.mark.slow) for name, edit in MORE.items()),
    ],
)
def test_each_key_reaches_its_own_jobs(old: str, new: str, expected: dict[str, int]) -> None:
    assert changed(old, new) == expected


def test_every_top_level_key_is_among_the_edits() -> None:
    """A new key needs an edit that says what it touches."""
    plain = parsed(PARAMS, "params.yaml")
    edits = (EDITS | MORE).values()
    edited = [parsed(PARAMS.replace(old, new, 1), "params.yaml") for old, new, _ in edits]
    assert {key for values in edited for key in plain if values[key] != plain[key]} == {*plain}


def modules(*starts: str) -> set[str]:
    return {module for module, _ in codehash.reached(starts)}


def test_a_hash_holds_its_own_plug_ins_and_no_others() -> None:
    reached = codehash.reached([*codehash.RUN, "fedcore.algorithms.fedprox"])
    assert ("fedcore.parts.objective", "Proximal") in reached
    assert ("fedcore.parts.objective", "MmdToOthers") not in reached
    assert "fedcore.algorithms.scaffold" not in {module for module, _ in reached}
    assert not any(module.startswith("pipeline") for module, _ in reached)
    assert "fedcore.execution.runner" not in modules(*codehash.PARTITION)
    assert "pipeline.reports.figures" not in modules("pipeline.reports.tables")


@pytest.mark.slow
def test_a_contributed_algorithm_is_hashed_with_what_it_imports(tmp_path: Path) -> None:
    plugin = tmp_path / "algorithms" / "mine.py"
    plugin.parent.mkdir()
    source = (HOME / "fedcore" / "algorithms" / "fedprox.py").read_text().replace('"fedprox"', '"mine"')
    program = (
        "from pipeline.catalogue import codehash\n"
        "print(codehash.of_run('mine', 'mnist', 'cnn', 'similarity'))\n"
    )

    def digest(text: str) -> str:
        plugin.write_text(text)
        environment = os.environ | {"FEDCORE_PLUGINS": str(tmp_path)}
        process = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        return process.stdout

    assert digest(source) == digest(f"# a comment\n{source}") != digest(f"{source}\nCHANGED = 1\n")


def test_the_edits_of_the_benchmark_find_their_places() -> None:
    """Guards a list that nobody runs each day against edits of params.yaml and of the code."""
    sys.path.append(str(HOME / "benchmarks"))
    from edits import EDITS  # noqa: PLC0415, it is found on the path above

    assert len(EDITS) > 3
    texts = {edit.file: (HOME / edit.file).read_text() for edit in EDITS}
    texts["params.yaml"] = yaml.safe_dump(parameters(), sort_keys=False)
    for edit in EDITS:
        assert edit.old in texts[edit.file], edit.name
        texts[edit.file] = texts[edit.file].replace(edit.old, edit.new, 1)
