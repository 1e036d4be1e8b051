"""Stands in for the command line of fedcore: plausible files in no time, so that tests can count jobs."""

import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from fedcore.base.files import sha256_file
from fedcore.execution.integrity import finished, sealed

QUICK = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
STATISTICS = {
    "clients": 2,
    "empty_clients": [],
    "sizes": {"min": 3, "max": 9, "mean": 6.0, "std": 3.0, "total": 12},
    "c_score": 0.5,
    "label_counts": [[3, 0], [4, 5]],
}


def canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def option(name: str, arguments: list[str]) -> str:
    return arguments[arguments.index(name) + 1]


def run(item: dict[str, Any]) -> None:
    spec, out = item["spec"], Path(item["out"])
    digest = hashlib.sha256(canonical(spec).encode()).hexdigest()
    provenance = {**item["provenance"], "spec_sha256": digest}
    if finished(out, provenance):
        return
    assert Path(item["partition"]).exists(), item["partition"]
    if os.environ.get("FAKE_FAILS", "?") in str(out):
        sys.exit(f"error: {out}: made to fail")
    once = Path(f"{out.name}.failed")
    if os.environ.get("FAKE_FAILS_ONCE", "?") in str(out) and not once.exists():
        once.touch()
        sys.exit(f"error: {out}: made to fail once")
    time.sleep(float(os.environ.get("FAKE_SECONDS", "0")))
    accuracy = int(digest[:4], 16) / 0xFFFF
    diverged = os.environ.get("FAKE_DIVERGES", "?") in str(out)
    summary: dict[str, object] = {
        "status": "diverged" if diverged else "completed",
        "final": None if diverged else {"test_accuracy": accuracy, "test_loss": 1.0, "train_loss": 1.0},
        "spec_sha256": digest,
        "parameters": 10,
        "clients": 10,
        "empty_clients": [],
        "data_note": f"made-up {spec['data']['name']}",
        "data_state": "synthetic",
        "data_sha256": "0" * 64,
        "partition_sha256": "0" * 64,
    }
    rounds = spec["training"]["rounds"]
    lines = [f"{r},1.0,1.0,{accuracy * r / rounds},0,0" for r in range(rounds + 1)]
    out.mkdir(parents=True, exist_ok=True)
    (out / "spec.yaml").write_text(yaml.dump(spec, Dumper=QUICK))
    header = "round,train_loss,test_loss,test_accuracy,bytes_down,bytes_up"
    (out / "history.csv").write_text("\n".join([header, *lines]) + "\n")
    (out / "timing.json").write_text(json.dumps(sealed({})))
    (out / "summary.json").write_text(json.dumps(summary))
    files = {name: sha256_file(out / name) for name in ("spec.yaml", "history.csv", "summary.json")}
    (out / "provenance.json").write_text(json.dumps(sealed({**provenance, "files": files})))
    with Path("executed.txt").open("a") as log:
        log.write(f"{out}\n")


def main(arguments: list[str]) -> None:
    if arguments[0] == "run-batch":
        for item in json.loads(Path(arguments[1]).read_text()):
            run(item)
    elif arguments[0] == "partition":
        out = Path(option("--out", arguments))
        out.mkdir(parents=True, exist_ok=True)
        (out / "partition.npz").write_text(Path(arguments[1]).read_text())
        digest, code = sha256_file(out / "partition.npz"), option("--code", arguments)
        statistics = {**STATISTICS, "partition.npz_sha256": digest, "code": code}
        (out / "stats.json").write_text(json.dumps(sealed(statistics)))
    elif arguments[:2] == ["data", "fetch"]:
        sys.exit(f"error: {arguments[2]}: no mirror, and upstream can't be reached")


main(sys.argv[1:])
