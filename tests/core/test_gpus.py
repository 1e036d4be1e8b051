"""Shares of GPUs: each process sees one, no GPU is given away twice, a dead process's share is free again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from fedcore.execution.gpus import VARIABLE, claimed

HOLD = """
import sys
from fedcore.execution.gpus import claimed
with claimed(int(sys.argv[1])) as name:
    print(name, flush=True)
    sys.stdin.readline()
"""


class Holder:
    """A process that claims a share and holds it."""

    def __init__(self, percent: int, folder: Path, gpus: str = "0,1", **job: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(percent)],
            env=os.environ | {VARIABLE: gpus, "TMPDIR": str(folder)} | job,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def gpu(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def waits(self) -> bool:
        assert self.process.stderr
        return self.process.stderr.readline().strip() == "waiting for a GPU"

    def end(self) -> None:
        self.process.communicate("\n")


@pytest.fixture(autouse=True)
def no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("SLURM", "PBS", "LSB"))]:
        monkeypatch.delenv(name)


def test_whole_gpus_go_to_one_process_each_and_the_next_waits(tmp_path: Path) -> None:
    first, second = Holder(100, tmp_path), Holder(100, tmp_path)
    assert {first.gpu(), second.gpu()} == {"0", "1"}
    third = Holder(100, tmp_path)
    assert third.waits()
    second.end()
    assert third.gpu() in {"0", "1"}
    first.end()
    third.end()


def test_small_jobs_share_evenly_and_a_large_one_waits_for_a_whole_gpu(tmp_path: Path) -> None:
    small = [Holder(25, tmp_path) for _ in range(8)]
    names = [holder.gpu() for holder in small]
    assert Counter(names) == {"0": 4, "1": 4}
    large = Holder(100, tmp_path)
    assert large.waits()
    for holder, name in zip(small, names, strict=True):
        if name == "1":
            holder.end()
    assert large.gpu() == "1"
    for holder in (large, *(h for h, name in zip(small, names, strict=True) if name == "0")):
        holder.end()


def test_the_share_of_a_killed_process_is_free_again(tmp_path: Path) -> None:
    holder = Holder(100, tmp_path, "7")
    assert holder.gpu() == "7"
    holder.process.send_signal(signal.SIGKILL)
    holder.process.wait()
    after = Holder(60, tmp_path, "7")
    assert after.gpu() == "7"
    after.end()


def test_the_process_sees_its_gpu_alone_and_all_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(VARIABLE, "GPU-abc,GPU-def")
    with claimed(50) as gpu, claimed(50):
        assert gpu == "GPU-abc"
        assert os.environ[VARIABLE] == gpu
    assert os.environ[VARIABLE] == "GPU-abc,GPU-def"


@pytest.mark.parametrize("value", ["", "-1"])
def test_nothing_is_claimed_without_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(VARIABLE, value)
    with claimed(100) as gpu:
        assert gpu is None
        assert os.environ[VARIABLE] == value
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "job",
    [
        {"SLURM_JOB_ID": "12"},
        {"SLURM_JOB_ID": "12", "SLURM_JOB_GPUS": "0,1"},
        {"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0", "SLURM_STEP_GPUS": "0,1"},
        {"PBS_JOBID": "12.server/a"},
        {"LSB_JOBID": "12"},
    ],
    ids=lambda job: "-".join(job),
)
def test_runs_inside_an_allocation_spread_over_its_gpus(tmp_path: Path, job: dict[str, str]) -> None:
    small = [Holder(25, tmp_path, "0,1", **job) for _ in range(4)]
    assert Counter(holder.gpu() for holder in small) == {"0": 2, "1": 2}
    for holder in small:
        holder.end()


def test_jobs_that_were_given_one_gpu_each_do_not_wait_for_one_another(tmp_path: Path) -> None:
    """Each sees its GPU as number 0."""
    given = [{"SLURM_JOB_ID": str(job), "SLURM_JOB_GPUS": str(job)} for job in (1, 2)]
    steps = [{"SLURM_JOB_ID": "3", "SLURM_STEP_GPUS": str(k), "SLURM_STEP_ID": str(k)} for k in (0, 1)]
    holders = [Holder(100, tmp_path, "0", **job) for job in (*given, *steps)]
    assert [holder.gpu() for holder in holders] == ["0"] * 4
    late = Holder(100, tmp_path, "0", **given[0])
    assert late.waits(), "a second run of the same job does wait"
    for holder in holders:
        holder.end()
    assert late.gpu() == "0"
    late.end()


def test_jobs_that_were_given_no_gpu_of_their_own_share_those_of_the_machine(tmp_path: Path) -> None:
    first, second = (Holder(100, tmp_path, "0,1", SLURM_JOB_ID=job) for job in "12")
    assert {first.gpu(), second.gpu()} == {"0", "1"}
    first.end()
    second.end()
