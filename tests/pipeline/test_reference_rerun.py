"""Runs that are kept in git: still what the targets ask for, and made again to the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from project import HOME

from fedcore.base.files import canonical_json, sha256_text
from fedcore.execution.machine import processor
from pipeline.catalogue.targets import PlannedRun
from pipeline.fidelity.evaluation import OTHER, SAME, compare
from pipeline.papers import catalogue_of
from pipeline.reports.kept import REFERENCE, RUNS

CHEAP = 3
LONGEST = 60.0  # seconds of a run
TRIED = {  # kept as evidence of a value that was tried
    "rfedavg/cross_silo-mnist-sim0/fedavg-e4b3247a",  # single precision
    "fedavgr/mmd-synthetic_one-natural/fedavgr-fbb1c4f9",  # another sigma
    "fedavgr/table2-mnist-shards/fedavgr-7d53df4e",  # larger beta and gamma
    "radfed/tenth-eicu-hospitals/fedadapt-68476dd0",  # five candidates of FedAdapt's grid
    "radfed/tenth-eicu-hospitals/fedadapt-aec02008",
    "radfed/tenth-eicu-hospitals/fedadapt-baa4d956",
    "radfed/tenth-eicu-hospitals/fedadapt-bf4c085a",
    "radfed/tenth-eicu-hospitals/fedadapt-c9cd5aed",
    "radfed/tenth-eicu-hospitals/fedasync-34209e7e",  # 24,000 updates, where others train clients 4,800 times
    "radfed/tenth-eicu-hospitals/fedasync-50755dae",
    "radfed/tenth-eicu-hospitals/fedasync-c9fd0a9c",
    "radfed/tenth-eicu-hospitals/fedasync-d0051ff4",
    "radfed/tenth-eicu-hospitals/fedasync-dc358696",
    "radfed/tenth-eicu-hospitals/radfed_a-30488b13",  # the server's values before FedAdapt's were chosen
    "radfed/tenth-eicu-hospitals/radfed_a-51dd5eff",
    "radfed/tenth-eicu-hospitals/radfed_a-a1cd4386",
    "radfed/tenth-eicu-hospitals/radfed_a-af9395d6",
    "radfed/tenth-eicu-hospitals/radfed_a-cf4862d3",
    "rfedavg/cross_silo_epochs-mnist-sim0/rfedavg-1db13bfa",  # delta under the round's start
    "rfedavg/cross_silo_epochs-mnist-sim0/rfedavg_plus-215f4ec2",
    "rfedavg/cross_silo_epochs_start-cifar10-sim0/rfedavg-b882a5a0",
    "rfedavg/cross_silo_epochs_start-cifar10-sim0/rfedavg_plus-66feb818",
}


@pytest.fixture(scope="module")
def asked() -> Mapping[str, PlannedRun]:
    return catalogue_of(HOME / "params.yaml", "paper", HOME / "data/editions.yaml").index


@pytest.fixture(scope="module")
def kept() -> pd.DataFrame:
    return pd.concat([pd.read_parquet(path) for path in sorted((HOME / REFERENCE).glob(f"*/{RUNS}"))])


def test_kept_runs_are_those_that_the_targets_ask_for(
    asked: Mapping[str, PlannedRun], kept: pd.DataFrame
) -> None:
    runs = counted(kept)
    assert len(runs) > 100
    changed = sorted(set(runs["run"]) - set(asked))
    assert not changed, "a key, a default or a value changed what these runs are"
    specs = [sha256_text(canonical_json(asked[run].spec)) for run in runs["run"]]
    assert specs == runs["spec_sha256"].tolist()


@pytest.mark.slow
@pytest.mark.skipif("FEDCORE_MIRROR" not in os.environ, reason="needs full data: FEDCORE_MIRROR is not set")
def test_kept_runs_come_out_again_byte_for_byte_on_their_kind_of_processor(
    asked: Mapping[str, PlannedRun], kept: pd.DataFrame, tmp_path: Path
) -> None:
    runs = counted(kept[(kept["device"] == "cpu") & (kept["seconds"] < LONGEST)])
    alike = runs[runs["processor"] == processor()]
    anywhere = cheapest(runs, asked)
    assert len(anywhere) == CHEAP
    for line in [*anywhere, *cheapest(alike, asked)]:
        outcome, _ = compare(rerun(asked[line["run"]], tmp_path), line)
        assert outcome == SAME if line["processor"] == processor() else outcome != OTHER, line["run"]


def counted(kept: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of papers that count as what the targets ask for."""
    kept = kept[~kept["run"].str.contains("/study/")]
    settings = kept["run"].str.replace(r"results/(\w+)/paper/(.*)/seed\d+", r"\1/\2", regex=True)
    return kept[~settings.isin(TRIED)]


def cheapest(runs: pd.DataFrame, asked: Mapping[str, PlannedRun]) -> list[dict[str, Any]]:
    """Return the quickest runs of CHEAP settings, of those that are asked for."""
    known = runs[runs["run"].isin(asked)].sort_values("seconds")
    settings = known.assign(setting=known["run"].str.split("/").str[3]).drop_duplicates("setting")
    return settings.head(CHEAP).to_dict("records")  # type: ignore[return-value]


def rerun(run: PlannedRun, folder: Path) -> Path:
    """Make a run from its specification alone, and return its folder."""
    out = folder / run.method / str(run.seed)
    spec = folder / f"{run.method}-{run.seed}.yaml"
    spec.write_text(yaml.safe_dump(dict(run.spec)), encoding="utf-8")
    command = [str(Path(sys.executable).with_name("fedcore")), "run", str(spec), "--out", str(out)]
    subprocess.run(command, cwd=HOME, check=True, capture_output=True)
    return out
