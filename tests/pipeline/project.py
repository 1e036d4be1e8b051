"""A copy of the project in which Snakemake runs for real and training is pretended."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import forked
import yaml
from copies import copy_folder

from fedcore.base.files import canonical_json, sha256_file, sha256_text
from fedcore.execution.integrity import SEAL, sealed
from pipeline.catalogue.params import configuration

HOME = Path(__file__).parents[2]
SOURCES = (
    *("Snakefile", "params.yaml", "mkdocs.yml", "pipeline", "fedcore", "profiles"),
    "snakemake_logger_plugin_fedrepro",
)
FAKE = Path(__file__).with_name("fake_fedcore.py")
QUICK = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
# What a specification has to name for the hash of the code that its run executes.
PLUGGED = {
    "algorithm": {"name": "fedavg"},
    "data": {"name": "mnist"},
    "model": {"name": "mlp"},
    "partition": {"name": "iid"},
    "evaluation": {},
}
UNLISTED = {"provenance.json", "timing.json"}
DATES = re.compile(rb"\d{4}-\d\d-\d\d|(?<=Date \(D:)\d{14}")


@cache
def _params() -> bytes:
    return pickle.dumps(configuration(HOME / "params.yaml"))


def parameters(paper: str = "rfedavg") -> dict[str, Any]:
    """Return params.yaml with one paper alone, so that counts don't change when papers are added."""
    config: dict[str, Any] = pickle.loads(_params())
    for section in (config, *config["scales"].values()):
        section["papers"] = {name: part for name, part in section.get("papers", {}).items() if name == paper}
    return config


def contents(folder: Path) -> dict[str, bytes]:
    """Return all results and reports that must not differ between two executions, without their dates."""
    return {
        path.relative_to(folder).as_posix(): DATES.sub(b"DATE", path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "timing.json" and not path.name.endswith(".provenance.json")
    }


def same(found: Path, whole: Path) -> bool:
    """Demand that a folder holds what the undisturbed one holds, or a part of it, file by file."""
    actual, expected = contents(found), contents(whole)
    assert {name for name, content in actual.items() if content != expected.get(name)} == set()
    return len(actual) == len(expected)


def copy_sources(folder: Path) -> None:
    """Copy what a workflow consists of, compiled modules included, without data and results."""
    for name in SOURCES:
        source = HOME / name
        if source.is_dir():
            copy_folder(source, folder / name)
        else:
            shutil.copy(source, folder / name)


def seal(folder: Path, spec: Mapping[str, Any], note: str = "", **provenance: str) -> None:
    """Give a pretended run's files the specification, times and provenance that reports ask for."""
    (folder / "spec.yaml").write_text(yaml.dump(dict(spec), Dumper=QUICK) + note)
    timing = folder / "timing.json"
    times = json.loads(timing.read_text()) if timing.exists() else {"device": "cpu"}
    timing.write_text(json.dumps(sealed({key: value for key, value in times.items() if key != SEAL})))
    files = {path.name: sha256_file(path) for path in folder.iterdir() if path.name not in UNLISTED}
    record = {**provenance, "spec_sha256": sha256_text(canonical_json(spec)), "files": files}
    (folder / "provenance.json").write_text(json.dumps(sealed(record)))


def seal_partition(folder: Path) -> None:
    """Give a pretended partition's statistics a file that they belong to."""
    (folder / "partition.npz").write_bytes(b"rows")
    statistics = json.loads((folder / "stats.json").read_text())
    statistics["partition.npz_sha256"] = sha256_file(folder / "partition.npz")
    (folder / "stats.json").write_text(json.dumps(sealed(statistics)))


@dataclass(frozen=True)
class Project:
    folder: Path

    @classmethod
    def copy(cls, folder: Path) -> Project:
        copy_sources(folder)
        (folder / "params.yaml").write_text(yaml.dump(parameters(), Dumper=QUICK, sort_keys=False))
        binary = folder / "bin" / "fedcore"
        binary.parent.mkdir()
        binary.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n')
        binary.chmod(0o755)
        return cls(folder)

    def environment(self, **environment: str) -> dict[str, str]:
        """Return the environment of commands, with the pretended ``fedcore`` first on PATH."""
        folders = (self.folder / "bin", Path(sys.executable).parent, os.environ["PATH"])
        path = os.pathsep.join(map(str, folders))
        variables = {"PATH": path, "PYTHONPATH": str(self.folder), **environment}
        return {key: value for key, value in os.environ.items() if key != "FEDCORE_MIRROR"} | variables

    def call(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the project."""
        return forked.call(self.folder, command, self.environment(**environment))

    def run(self, *command: str, **environment: str) -> str:
        process = self.call(*command, **environment)
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout + process.stderr

    def snakemake(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.call("snakemake", "--cores", "2", *arguments, **environment)

    def make(self, *arguments: str, **environment: str) -> str:
        return self.run("snakemake", "--cores", "2", *arguments, **environment)

    def jobs(self, *arguments: str) -> dict[str, int]:
        """Return the number of jobs of each rule that a dry run announces."""
        text = self.make("--dry-run", *arguments)
        table = text.split("Job stats:", 1)[-1].split("\n\n")[0] if "Job stats:" in text else ""
        counts = {name: int(count) for name, count in re.findall(r"^(\S+)\s+(\d+)$", table, re.MULTILINE)}
        counts.pop("total", None)
        return counts

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.folder / name
        text = path.read_text()
        assert old in text, f"{old!r} is not in {name}"
        path.write_text(text.replace(old, new, 1))

    def executed(self) -> list[str]:
        """Return the run folders that training wrote since the last call."""
        log = self.folder / "executed.txt"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines
