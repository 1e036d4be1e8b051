"""The user's files that a study's runs read: hashes of code, kept runs, reports and DVC follow each."""

from __future__ import annotations

import json
import re
import shutil
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from PIL import Image
from pretended import finish
from project import parameters, seal

from fedcore.base.errors import DataError
from fedcore.base.files import canonical_json
from fedcore.data import Source
from fedcore.execution.runner import load_data
from pipeline.catalogue.params import with_studies
from pipeline.catalogue.targets import PlannedRun
from pipeline.fidelity import reference
from pipeline.papers import catalogue_of
from pipeline.reports import kept
from pipeline.reports.results import facts, read
from pipeline.site.pages import every
from pipeline.site.survey import survey
from pipeline.workflow.answers import Workflow
from pipeline.workflow.dvc import dvc_yaml
from pipeline.workflow.expected import planned as waiting

TABLE = {"name": "table", "path": "mine/t.csv", "target": "y", "image": "file"}
SECTIONS = {
    "images of a table": {"data": TABLE},
    "a linked folder": {"data": {"name": "folder", "path": "linked"}},
}
IMAGE = Path("mine/pix/1/0.png")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    names = [f"pix/{label}/{number}.png" for label in (0, 1) for number in range(6)]
    for shade, name in enumerate(names):
        (Path("mine") / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4), shade).save(Path("mine") / name)
    pd.DataFrame({"file": names, "y": [0] * 6 + [1] * 6}).to_csv("mine/t.csv", index=False)
    Path("linked").mkdir()
    for label in ("0", "1"):
        Path("linked", label).symlink_to(Path("mine/pix", label).resolve())
    Path("params.yaml").write_text(yaml.safe_dump(parameters()))
    return tmp_path


def planned(dataset: Mapping[str, Any], **more: Any) -> tuple[PlannedRun, ...]:
    """Write a study of two seeds on one data set, and return the runs of its first cell."""
    common = {"model": {"name": "linear"}, "splits": {"iid": {"name": "iid"}}}
    study = {
        "title": "Mine",
        "seeds": [0, 1],
        "regimes": {"silo": {"clients": 2, "training": {"rounds": 2, "batch_size": 2, "lr": 0.1}}},
        "datasets": {"mine": {**common, **dataset}},
        "algorithms": {"fedavg": {}},
        **more,
    }
    Path("studies").mkdir(exist_ok=True)
    Path("studies/one.yaml").write_text(yaml.safe_dump(study))
    return next(iter(catalogue_of(Path("params.yaml")).cells("one", "table").values()))


@pytest.mark.parametrize("dataset", SECTIONS.values(), ids=SECTIONS)
def test_an_image_is_part_of_code_data_and_what_is_kept(home: Path, dataset: Mapping[str, Any]) -> None:
    run, _ = planned(dataset)
    code, (_, data) = run.code, load_data(canonical_json(dataset["data"]), Source())
    finish(run, home, 0.5)
    path = home / kept.REFERENCE / "one" / kept.RUNS
    kept.add_runs(pd.DataFrame([reference.line(run, home)]), path)
    shutil.rmtree(home / run.folder)
    assert kept.line_of(planned(dataset)[0], home) is not None
    known = facts(run, home)
    assert (known["status"], known["kept"]) == ("completed", path.relative_to(home).as_posix())
    surveyed = survey(with_studies(parameters()), home)
    assert not any(surveyed.evidence[run.folder].name in file for file in every(surveyed, home).data)
    assert len(waiting(Path("params.yaml"), "one/table")) == 1
    flow = Workflow(with_studies(parameters()))
    inputs = flow.summaries(
        Namespace(paper="one", table="table", get=lambda name: {"table": "table"}.get(name))
    )
    assert inputs == [f"{planned(dataset)[1].folder}/summary.json", known["kept"]]
    assert not re.fullmatch(flow.reports.unknown, known["kept"])
    Image.new("L", (4, 4), 99).save(IMAGE)
    run, _ = planned(dataset)
    assert run.code != code
    assert load_data(canonical_json(dataset["data"]), Source())[1] != data
    assert kept.line_of(run, home) is None
    Image.new("L", (4, 4), 6).save(IMAGE)
    assert kept.line_of(planned(dataset)[0], home) is not None


def test_runs_of_other_rows_are_not_put_side_by_side(home: Path) -> None:
    runs = planned({"data": TABLE})
    for run in runs:
        finish(run, home, 0.5)
    read({("fedavg", "mine"): runs}, home)
    summary = home / runs[1].folder / "summary.json"
    summary.write_text(json.dumps({**json.loads(summary.read_text()), "data_sha256": "e"}))
    seal(summary.parent, runs[1].spec, code=runs[1].code)
    with pytest.raises(DataError, match=f"{runs[1].folder}: made of other data than runs beside it"):
        read({("fedavg", "mine"): runs}, home)


def test_dvc_follows_files_of_a_grid_and_images(home: Path) -> None:
    shutil.copy("mine/t.csv", "mine/u.csv")
    planned({"data": TABLE}, grid={"data.path": ["mine/t.csv", "mine/u.csv"]})
    stages = yaml.safe_load(dvc_yaml(Path("params.yaml")))["stages"]
    assert stages["one"]["deps"][-4:] == ["mine/t.csv", "mine/u.csv", "mine/pix/0", "mine/pix/1"]
    assert stages["data"]["deps"][-1] == "studies/one.yaml"


def test_a_kept_run_on_data_without_a_note_can_be_read(tmp_path: Path) -> None:
    hashes = dict.fromkeys(("spec_sha256", "data_sha256", "partition_sha256"), "f")
    line = {"run": "r", "status": "completed", "rounds": 1, "data": "", "data_state": "real", **hashes}
    kept.add_runs(pd.DataFrame([line]), tmp_path / "runs.parquet")
    assert kept.summary_of(kept.lines_of(tmp_path / "runs.parquet")["r"])["data_note"] == ""
