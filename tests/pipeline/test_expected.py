"""What results/ should hold: what is planned, how what is there differs, and what belongs to nobody."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import yaml
from pretended import finish
from project import parameters, seal, seal_partition

from fedcore.base.errors import SpecError
from fedcore.base.files import digest, read_object
from fedcore.execution.integrity import Report, sealed
from pipeline.catalogue import Catalogue
from pipeline.catalogue.params import EDITIONS, overlay
from pipeline.catalogue.targets import PlannedRun
from pipeline.papers import build_catalogue
from pipeline.workflow import expected
from pipeline.workflow.expected import check, orphans, planned, remove

PAPER, TARGET = "rfedavg", "theory"
CONFIG = parameters(PAPER) | {"primary_paper": PAPER}


@cache
def catalogue(scale: str = "demo", over: str = "{}") -> Catalogue:
    return build_catalogue(overlay({**CONFIG, "scale": scale}, yaml.safe_load(over)))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with params.yaml and one finished run, as described."""
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(CONFIG, sort_keys=False))

    def of(params: Path, scale: str | None = None, over: Path | None = None) -> Catalogue:
        assert params == tmp_path / "params.yaml"
        if scale not in (None, *CONFIG["scales"]):
            raise SpecError("scale: no such scale")
        return catalogue(scale or CONFIG["scale"], over.read_text() if over else "{}")

    monkeypatch.setattr(expected, "catalogue_of", of)
    finish(run(), tmp_path, 0.5)
    return tmp_path


def run() -> PlannedRun:
    return catalogue().needed(PAPER, TARGET)[0]


def problems(home: Path, *folders: str) -> dict[str, list[str]]:
    """Return what is said of runs in these folders, by folder."""
    report = Report(tuple(home / folder for folder in folders), (), (), ())
    by_folder: dict[str, list[str]] = {}
    for problem in check(report, home / "params.yaml"):
        by_folder.setdefault(problem.folder.relative_to(home).as_posix(), []).append(problem.what)
    return by_folder


def copied(home: Path, folder: str) -> str:
    """Copy the run to another folder of results."""
    (home / folder).parent.mkdir(parents=True, exist_ok=True)
    (home / run().folder).rename(home / folder)
    finish(run(), home, 0.5)
    return folder


def test_what_is_planned_are_the_runs_of_all_reports_or_of_one(home: Path) -> None:
    params, runs = home / "params.yaml", {run.folder: run for run in catalogue().needed(PAPER, TARGET)}
    all_planned = planned(params)
    assert set(all_planned) == {run.folder for run in catalogue().index.values()} > set(runs)
    assert planned(params, TARGET) == planned(params, f"reports/{PAPER}/{TARGET}.svg")
    assert planned(params, TARGET) == {
        folder: {"code": run.code, "spec_sha256": digest(run.spec)} for folder, run in runs.items()
    }
    with pytest.raises(SpecError, match=f"no such .*{TARGET}"):
        planned(params, "theorie")


def test_a_run_as_described_has_no_problem_and_a_folder_elsewhere_is_nobody_s(home: Path) -> None:
    elsewhere = (f"elsewhere/{PAPER}/demo/setting/method/seed0", "results/own", "results/a/b/c/d/e/f")
    assert problems(home, run().folder, *elsewhere) == {}
    other = copied(home, f"results/{PAPER}/demo/other-setting/fedavg/seed0")
    study = "results/own/study/setting/fedavg/seed0"
    assert [*problems(home, *elsewhere, study, other)] == [other], "what is nobody's ends no search"


def test_a_run_of_another_scale_is_compared_with_that_scale(home: Path) -> None:
    """Its folder alone says at which scale it was made; params.yaml is at demo scale."""
    other = catalogue("quick").needed(PAPER, "table1")[0]
    assert other.spec != run().spec
    finish(other, home, 0.5)
    assert problems(home, other.folder, run().folder) == {}
    finish(run(), home / "aside", 0.5)
    (home / "aside" / run().folder / "summary.json").replace(home / other.folder / "summary.json")
    (message,) = problems(home, other.folder)[other.folder]
    assert message.startswith("its specification is not the one")


def test_several_differences_of_a_run_are_all_said(home: Path) -> None:
    folder = home / run().folder
    summary = read_object(folder / "summary.json")
    (folder / "summary.json").write_text(json.dumps(summary | {"spec_sha256": "0" * 64}))
    seal(folder, run().spec, code="")
    assert problems(home, run().folder)[run().folder] == [
        f"its specification is not the one that {home / 'params.yaml'} describes",
        f"made by other code or data files (unknown, now {run().code[:12]})",
    ]


def test_a_run_of_no_target_or_scale_is_named_with_the_remedy(home: Path) -> None:
    params = home / "params.yaml"
    message = "{} describes no such run at {} scale (`fedcore prune` lists such)"
    other = copied(home, f"results/{PAPER}/demo/other-setting/fedavg/seed0")
    strange = copied(home, f"results/{PAPER}/strange/other-setting/fedavg/seed0")
    assert problems(home, other, run().folder, strange) == {
        other: [message.format(params, "demo")],
        strange: [message.format(params, "strange")],
    }


def test_a_study_s_run_counts_only_if_its_file_is_here(home: Path) -> None:
    folder = copied(home, "results/own/study/setting/fedavg/seed0")
    assert problems(home, folder) == {}
    (home / "studies").mkdir()
    (home / "studies" / "own.yaml").write_text("")
    assert problems(home, folder) == {folder: ["no study describes such a run (`fedcore prune` lists such)"]}
    assert orphans(home / "params.yaml", home / "results") == [home / folder]


@pytest.mark.parametrize("rows", ["damaged", "of others", "its own"])
def test_a_partition_beside_the_run_is_compared_with_the_one_it_states(
    home: Path, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = home / run().partition
    partition.mkdir(parents=True)
    (partition / "stats.json").write_text("{}")
    seal_partition(partition)
    if rows != "damaged":
        monkeypatch.setattr(expected, "_rows", lambda path: "p" if rows == "its own" else "other")
    messages = (
        [f"made with another partition than {run().partition}/partition.npz"] if rows == "of others" else []
    )
    assert problems(home, run().folder).get(run().folder, []) == messages


def test_reports_are_compared_with_their_provenance(home: Path) -> None:
    folder = home / "reports" / PAPER
    folder.mkdir(parents=True)
    (folder / "table1.csv").write_text("x")
    (folder / "table1.provenance.json").write_text(json.dumps(sealed({"files": {"table1.csv": "0" * 64}})))
    (folder / "table2.provenance.json").write_text("{}")
    messages = problems(home)[f"reports/{PAPER}"]
    assert messages[0].startswith("table1.csv is changed")
    assert messages[1:] == ["table2.provenance.json is changed or damaged"]


def test_orphans_are_seed_folders_that_no_scale_needs(home: Path) -> None:
    params, results = home / "params.yaml", home / "results"
    gone = copied(home, f"results/{PAPER}/demo/other-setting/fedavg/seed0")
    partition = f"results/{PAPER}/quick/partitions/gone/seed1"
    needed = next(iter(catalogue("quick").partitions))
    study = "results/unknown/study/setting/fedavg/seed0"
    for folder in (partition, needed, study, f"results/{PAPER}/demo/other-setting/fedavg/notes"):
        (home / folder).mkdir(parents=True)
    (home / f"results/{PAPER}/demo/other-setting/fedavg/seed9").touch()
    assert orphans(params, results) == [home / gone, home / partition]


def test_runs_with_the_editions_of_kept_results_are_described_and_needed(home: Path) -> None:
    text = yaml.safe_dump({"papers": {PAPER: {"regimes": {"cross_silo": {"precision": "bf16"}}}}})
    (home / EDITIONS).parent.mkdir()
    (home / EDITIONS).write_text(text)
    name = next(name for name in catalogue(over=text).index if name not in catalogue().index)
    finish(catalogue(over=text).index[name], home, 0.5)
    assert problems(home, name, run().folder) == {}
    assert orphans(home / "params.yaml", home / "results") == []
    (home / EDITIONS).unlink()
    assert orphans(home / "params.yaml", home / "results") == [home / name]


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[str], Path]:
    def make(name: str) -> Path:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "summary.json").touch()
        return tmp_path / name

    return make


def test_removing_takes_empty_parents_along_and_no_others(
    tree: Callable[[str], Path], tmp_path: Path
) -> None:
    gone, beside = tree("results/a/demo/s/m/seed0"), tree("results/a/demo/s/m/seed1")
    alone = tree("results/b/demo/s/m/seed0")
    remove([gone, alone])
    assert (gone.exists(), beside.exists(), gone.parent.exists(), alone.exists()) == (
        False,
        True,
        True,
        False,
    )
    remove([beside])
    assert sorted(path.name for path in (tmp_path / "results").rglob("*")) == ["a", "b"]
