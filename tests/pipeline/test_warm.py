"""Commands in a warm process: the same bytes, exit codes and messages as in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fedcore.execution.forkserver import THREADS

START = (
    "from fedcore.execution.forkserver import share; share(); import subprocess, sys;"
    " sys.exit(subprocess.call(sys.argv[1:]))"
)
FEDCORE = [sys.executable, "-c", "from fedcore.cli.start import main; main()"]
FILES = ("history.csv", "summary.json", "spec.yaml")


def call(folder: Path, *arguments: str, shared: bool) -> subprocess.CompletedProcess[str]:
    """Call ``fedcore`` below a process that shares a warm one, or doesn't."""
    warm = "on" if shared else "off"
    environment = {key: value for key, value in os.environ.items() if key != "FEDCORE_WARM"}
    environment |= {"TMPDIR": str(folder)} if shared else {"FEDCORE_WARM": warm}
    return subprocess.run(
        [sys.executable, "-c", START, *FEDCORE, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_warm_process_gives_the_bytes_and_exit_codes_of_a_cold_one(
    spec: dict[str, Any], tmp_path: Path
) -> None:
    results = {}
    for name in ("warm", "cold"):
        order = tmp_path / f"{name}.json"
        items = [{"spec": {**spec, "seed": seed}, "out": f"{name}/{seed}"} for seed in (1, 2)]
        order.write_text(
            json.dumps([*items, {"spec": {**spec, "model": {"name": "no"}}, "out": f"{name}/bad"}])
        )
        result = call(tmp_path, "run-batch", order.name, "--quiet", shared=name == "warm")
        assert result.returncode == 2, result.stderr
        assert "no model named 'no'" in result.stderr
        program = "fedcore" if name == "warm" else "-c"  # what a process of its own was started by here
        assert f"to repeat them alone: {program} run-batch {name}.json" in result.stderr
        files = [tmp_path / name / str(seed) / file for seed in (1, 2) for file in FILES]
        results[name] = [path.read_bytes() for path in files]
    assert results["warm"] == results["cold"]


def test_a_forked_command_has_torch_at_once() -> None:
    code = (
        "import os, sys\n"
        "from fedcore.cli.serve import preload\n"
        "preload()\n"
        "if os.fork() == 0:\n"
        "    os._exit('torch._C' not in sys.modules)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=120, check=False).returncode == 0


@pytest.mark.slow
def test_each_run_measures_itself_in_a_warm_process_too(spec: dict[str, Any], tmp_path: Path) -> None:
    order = tmp_path / "order.json"
    order.write_text(json.dumps([{"spec": {**spec, "seed": seed}, "out": f"out/{seed}"} for seed in (1, 2)]))
    for expected in (["out/1", "out/2"], []):
        result = call(tmp_path, "run-batch", "order.json", "--quiet", "--benchmark", "times.tsv", shared=True)
        assert result.returncode == 0, result.stderr
        if expected:
            head, *lines = [line.split("\t") for line in (tmp_path / "times.tsv").read_text().splitlines()]
            assert head == ["run", "s", "cpu_s", "max_rss_mb"]
            assert [line[0] for line in lines] == expected
            timed = [json.loads((tmp_path / out / "timing.json").read_text())["seconds"] for out in expected]
            assert all(float(line[1]) >= seconds for line, seconds in zip(lines, timed, strict=True))
            assert all(float(line[3]) > 50 for line in lines)
            (tmp_path / "times.tsv").unlink()
        else:
            assert not (tmp_path / "times.tsv").exists(), "finished runs are kept, and so not measured"


def test_in_a_cluster_s_job_the_warm_process_takes_what_snakemake_starts_with_one_thread(
    spec: dict[str, Any], tmp_path: Path
) -> None:
    """It begins before there is a command, so that it can't have the command's environment."""
    (tmp_path / "order.json").write_text(json.dumps([{"spec": spec, "out": "out"}]))
    kept = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    threads = dict.fromkeys(THREADS, "1")
    tell = f"import os, sys; os.environ |= {threads}; sys.argv[0] = 'fedcore'; "
    tell += "from fedcore.execution.forkserver import delegate; sys.exit(delegate(sys.argv[1:]) is None)"
    result = subprocess.run(
        [sys.executable, "-c", START, sys.executable, "-c", tell, "run-batch", "order.json", "--quiet"],
        cwd=tmp_path,
        env=kept | {"TMPDIR": str(tmp_path), "SLURM_JOB_ID": "7"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, "declined" + result.stderr
    assert (tmp_path / "out" / "summary.json").exists()
