"""Profiles say how work is done: what a GPU machine and a cluster are asked for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from project import HOME, Project
from snakemake_executor_plugin_slurm.partitions import read_partition_file

SHORT = "reports/rfedavg/table1.csv"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project.copy(tmp_path_factory.mktemp("project"))


def profile(name: str) -> dict[str, Any]:
    settings: dict[str, Any] = yaml.safe_load((HOME / "profiles" / name / "config.yaml").read_text())
    return settings


def asked(text: str, key: str, rule: str = "train") -> list[int]:
    """Return what each announced job of a rule asks for."""
    jobs = re.split(r"^ *rule ", text, flags=re.MULTILINE)
    lines = [re.search(r"resources: (.*)", job) for job in jobs if job.startswith(f"{rule}:")]
    return [int(re.search(rf"\b{key}=(\d+)", line[1])[1]) for line in lines]  # type: ignore[index]


def test_a_site_profile_changes_nothing_that_the_default_sets() -> None:
    """The default profile lies over a site's, key by key, so that a key in both would be lost."""
    default = profile("default")
    for path in (HOME / "profiles").iterdir():
        if path.name != "default":
            assert not set(default) & set(profile(path.name)), path
    assert not {"executor", "default-resources"} & set(default)


def test_small_runs_share_a_gpu_and_large_ones_do_not(project: Project) -> None:
    for scale, share in (("demo", 25), ("quick", 100)):
        plan = ("--dry-run", "-p", "--profile", "profiles/gpu", SHORT, "--config", f"scale={scale}")
        assert {*asked(project.make(*plan), "gpu_percent")} == {share}


def test_the_share_can_be_declared(project: Project) -> None:
    text = project.make("--dry-run", "-p", SHORT, "--set-resources", "train:gpu_percent=50")
    assert {*asked(text, "gpu_percent")} == {50}


def test_jobs_of_seconds_go_to_a_cluster_together(project: Project) -> None:
    text = project.make("--dry-run", "-p", "--profile", "profiles/slurm", SHORT)
    groups = text.count("Group job ")
    assert asked(text, "runtime")
    assert groups == (16 + 39) // 40 + (48 + 19) // 20 + 1, "partitions, training, report"


def test_long_runs_go_alone_with_time_and_memory_of_their_own(project: Project) -> None:
    text = project.make("--dry-run", "-p", "--profile", "profiles/slurm", SHORT, "--config", "scale=paper")
    assert text.count("Group job ") == 2
    minutes = asked(text, "runtime")
    assert len({*minutes}) >= 3
    assert min(minutes) >= 15
    assert max(minutes) > 60
    assert min(asked(text, "mem_mb")) >= 1500
    assert {*asked(text, "runtime", "partition")} == {15}


def test_the_cluster_page_names_what_the_profiles_ask_to_edit() -> None:
    page = Path(HOME, "docs", "cluster.md").read_text()
    for name in ("gpu", "slurm"):
        text = (HOME / "profiles" / name / "config.yaml").read_text()
        assert "Edit" in text
        assert f"--profile profiles/{name}" in page
    for key in (
        "slurm_partition",
        "slurm_account",
        "gpu_percent",
        "slurm-status-command",
        "slurm-partition-config",
    ):
        assert key in page


def test_the_executor_reads_the_example_of_partitions() -> None:
    """It refuses keys that it does not know."""
    partitions = read_partition_file(HOME / "profiles" / "slurm" / "partitions.yaml")
    assert [part.name for part in partitions] == ["short", "long", "gpu"]
    assert max(part.limits.max_runtime for part in partitions) >= 24 * 60, "a run asks for a day at most"
