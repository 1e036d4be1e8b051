"""Do the peers compute what the papers say? Each one's own implementation on a small case with known values.

    python benchmarks/peers/correctness.py
    python benchmarks/peers/correctness.py --peer flower --only FedAdam

Five clients of 40 to 120 rows, softmax regression from zero, three full-batch local steps (one to five where
"unequal steps" is said), 20 rounds: nothing is left to chance. The expected values are those of tests/oracle,
which a separate implementation computed in float64; Mime's, which is not among them, come from reference.py.

"equal": no weight that is compared differs by more than 1e-5. "differs": by how much at most, and, where
another reading of the algorithm gives the peer's values (after three rounds), which one.
"not offered": the library does not have it. The exit code is 1 if fedcore differs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

sys.path.insert(0, str(Path(__file__).parent))

import processes
from environments import OURS, PEERS, ROOT, TITLES, NotInstalled, interpreter
from reference import CLASSES, Array, Reading, clients, readings, result

HERE = Path(__file__).resolve().parent
ORACLE = ROOT / "tests" / "oracle"
SIDES = (OURS, *(peer.name for peer in PEERS))
TOLERANCE, SAME_READING = 1e-5, 1e-6
SHORT = 3
LIMIT = 600.0
MIME = {"T": 20, "lr": 0.1, "steps": [3, 3, 3, 3, 3], "beta": 0.9}


PLAIN = Reading()


@dataclass(frozen=True)
class Oracle:
    """A case with known values: the name of the values in tests/oracle, or None for reference.py's own."""

    name: str
    source: str | None
    algorithm: str = ""
    values: Mapping[str, Any] | None = None
    reading: Reading = PLAIN


UNIFORM = Reading(uniform=True)
ORACLES = (
    Oracle("FedAvg", "FedAvg"),
    Oracle("FedAvg, unequal steps", "FedAvg/uneq"),
    Oracle("FedProx", "FedProx"),
    Oracle("FedAvgM", "FedAvgM"),
    Oracle("FedAdagrad", "FedAdagrad"),
    Oracle("FedAdam", "FedAdam"),
    Oracle("FedYogi", "FedYogi"),
    Oracle("SCAFFOLD, option I", "SCAFFOLD-I@uniform", reading=UNIFORM),
    Oracle("SCAFFOLD, option II", "SCAFFOLD-II@uniform", reading=UNIFORM),
    Oracle("FedNova, unequal steps", "FedNova"),
    Oracle("q-FedAvg", "q-FedAvg@uniform", reading=UNIFORM),
    Oracle("Mime", None, "mime", {**MIME, "lite": False}),
    Oracle("MimeLite", None, "mime", {**MIME, "lite": True}),
)


def expected() -> dict[str, Any]:
    """Return the values of tests/oracle."""
    values: dict[str, Any] = json.loads((ORACLE / "expected.json").read_text())["A"]
    return values


def algorithm_of(oracle: Oracle) -> tuple[str, Mapping[str, Any]]:
    """Return the oracle's algorithm and its values."""
    if oracle.source is None:
        return oracle.algorithm, oracle.values or {}
    case = expected()[oracle.source]
    return case["function"], case["hyper"]


def difference(oracle: Oracle, w: Array) -> float:
    """Return the largest difference of a flat model from the weights that are known."""
    if oracle.source is None:
        return float(np.abs(w - by_reference(oracle, oracle.reading)).max())
    arrays = {"W": w[:-CLASSES].reshape(-1, CLASSES), "b": w[-CLASSES:]}
    return max(
        float(np.abs(_at(arrays, probe) - np.asarray(value)).max())
        for probe, value in expected()[oracle.source]["probe"].items()
    )


def by_reference(oracle: Oracle, reading: Reading, rounds: int | None = None) -> Array:
    """Return what the reference computes in a reading."""
    algorithm, hyper = algorithm_of(oracle)
    hyper = {**hyper, "T": rounds or hyper["T"]}
    return result(algorithm, hyper, clients(ORACLE / "data"), reading)


def explained(oracle: Oracle, short: Array) -> str:
    """Return the reading in words that gives these weights of a few rounds, or nothing.

    After many rounds, rounding may have grown where an algorithm is not stable in that reading.
    """
    algorithm, _ = algorithm_of(oracle)
    for words, reading in readings(algorithm, oracle.reading):
        if float(np.abs(by_reference(oracle, reading, SHORT) - short).max()) <= SAME_READING:
            return words
    return ""


def verdict(oracle: Oracle, answer: Mapping[str, Any], short: Mapping[str, Any]) -> dict[str, Any]:
    """Judge what a side answered, for all rounds and for a few."""
    if "not_offered" in answer:
        return {"verdict": "not offered", "why": answer["not_offered"]}
    if "error" in answer:
        return {"verdict": "error", "why": answer["error"]}
    apart = difference(oracle, _flat(answer))
    if apart <= TOLERANCE:
        return {"verdict": "equal", "by": apart, "why": answer.get("note", "")}
    why = "; ".join(filter(None, (explained(oracle, _flat(short)), answer.get("note", ""))))
    return {"verdict": "differs", "by": apart, "why": why}


def asked(side: str, oracles: list[Oracle], core: int) -> dict[str, dict[str, Any]]:
    """Let a side do the oracles' cases; return its verdicts."""
    try:
        python = interpreter(side)
    except NotInstalled as error:
        return {oracle.name: {"verdict": "error", "why": f"not installed: {error}"} for oracle in oracles}
    cases = []
    for oracle in oracles:
        algorithm, hyper = algorithm_of(oracle)
        for name, rounds in ((oracle.name, hyper["T"]), (f"{oracle.name}, short", SHORT)):
            cases.append({"name": name, "algorithm": algorithm, "hyper": {**hyper, "T": rounds}})
    environment = {"PYTHONPATH": os.pathsep.join([str(HERE), *([str(ROOT)] if side == OURS else [])])}
    request = json.dumps({"folder": str(ORACLE / "data"), "cases": cases})
    process = processes.run([python, HERE / f"oracle_{side}.py", request], environment, core, LIMIT)
    if process.code:
        return {oracle.name: {"verdict": "error", "why": process.reason} for oracle in oracles}
    answers = json.loads(process.output.strip().splitlines()[-1])
    return {o.name: verdict(o, answers[o.name], answers[f"{o.name}, short"]) for o in oracles}


def said(judged: Mapping[str, Any]) -> str:
    """Return a verdict in words."""
    by = f" by {judged['by']:.1g}" if judged["verdict"] == "differs" else ""
    why = f": {judged['why']}" if judged["why"] else ""
    return f"{judged['verdict']}{by}{why}"


def main(
    only: Annotated[list[str] | None, typer.Option(help="Oracles whose name begins so; repeatable.")] = None,
    peer: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(SIDES)}; repeatable.")] = None,
    core: Annotated[int, typer.Option(help="Which core to run on; -1 for the last one.")] = -1,
    out: Annotated[
        Path, typer.Option(help="Where the verdicts go.", show_default="benchmarks/out/correctness.json")
    ] = ROOT / "benchmarks/out/correctness.json",
) -> None:
    """Print peer by oracle."""
    for name in peer or ():
        if name not in SIDES:
            raise typer.BadParameter(f"'{name}', expected one of {', '.join(SIDES)}", param_hint="--peer")
    oracles = [o for o in ORACLES if not only or any(o.name.lower().startswith(x.lower()) for x in only)]
    core = max(os.sched_getaffinity(0)) if core < 0 else core
    verdicts = {side: asked(side, oracles, core) for side in SIDES if not peer or side in peer}
    for oracle in oracles:
        print(f"\n{oracle.name}")
        for side, judged in verdicts.items():
            print(f"  {TITLES[side]:13s} {said(judged[oracle.name])}")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(verdicts, indent=1) + "\n")
    wrong = [name for name, judged in verdicts.get(OURS, {}).items() if judged["verdict"] != "equal"]
    raise typer.Exit(bool(wrong))


def _flat(answer: Mapping[str, Any]) -> Array:
    return np.concatenate([np.asarray(answer["W"]).ravel(), np.asarray(answer["b"])])


def _at(arrays: Mapping[str, Array], probe: str) -> Array:
    name, _, index = probe.rstrip("]").partition("[")
    return arrays[name][tuple(int(i) for i in index.split(","))] if index else arrays[name]


if __name__ == "__main__":
    main.__doc__ = __doc__.replace("\n\n    python", "\n\n\b\n    python", 1)
    app = typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
