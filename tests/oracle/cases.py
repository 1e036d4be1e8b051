"""Independent numbers, and how each of their cases reads as a specification.

``expected.json`` comes from a separate float64 implementation of the papers' text. A case is named
``Algorithm/scenario@reading``; its ``hyper`` gives the values, ``loss``, ``probe`` and ``loss_first5`` what
must come out. The mapping of one oracle function to an ``algorithm`` section is one function here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
CLIENTS = 5
Case = Mapping[str, Any]
Section = dict[str, Any]


@cache
def expected() -> dict[str, Any]:
    """Return everything the oracle computed."""
    computed: dict[str, Any] = json.loads((HERE / "expected.json").read_text())
    return computed


def names(*functions: str) -> list[str]:
    """Return the cases that some of the oracle's functions computed."""
    return [name for name, case in expected()["A"].items() if case["function"] in functions]


def wave(rows: int, columns: int) -> NDArray[np.float64]:
    """Return the oracle's start weights 0.1 cos(7 i + 13 j + 1), i the input and j the output."""
    i, j = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    start: NDArray[np.float64] = 0.1 * np.cos(7 * i + 13 * j + 1)
    return start


def write_mlp(path: Path) -> Path:
    """Write the start of the oracle's 64-16-10 network under our parameters' names."""
    start: dict[str, Any] = {
        "layers.0.weight": wave(64, 16).T,
        "layers.0.bias": np.zeros(16),
        "layers.1.weight": wave(16, 10).T,
        "layers.1.bias": np.zeros(10),
    }
    np.savez(path, **start)
    return path


def specification(case: Case, algorithm: Section, mlp: Path | str) -> dict[str, Any]:
    """Return the specification of a case that trains in rounds."""
    hyper = case["hyper"]
    model: Section = {"name": "linear", "init": "zeros"}
    if case["model"] == "mlp":
        model = {"name": "mlp", "hidden": [16], "activation": "tanh", "init": str(mlp)}
    training = {"rounds": hyper["T"], "local_steps": hyper["steps"], "batch_size": "full", "lr": hyper["lr"]}
    if "rho" in hyper:
        training |= {"optimizer": "momentum", "momentum": hyper["rho"]}
    participation = {}
    if hyper.get("part") == "abc":
        participation = {"cohorts": [[t, (t + 1) % CLIENTS, (t + 3) % CLIENTS] for t in range(CLIENTS)]}
    return {
        "data": {"name": "npz", "path": str(HERE / "data")},
        "partition": {"name": "given"},
        "model": model,
        "algorithm": algorithm,
        "training": training,
        "participation": participation,
        "dtype": "float64",
    }


def probed(parameters: Mapping[str, NDArray[np.floating]]) -> dict[str, NDArray[np.floating]]:
    """Return our parameters under the oracle's names and in its layout (inputs x outputs)."""
    if "layers.0.weight" in parameters:
        return {
            "W1": parameters["layers.0.weight"].T,
            "b1": parameters["layers.0.bias"],
            "W2": parameters["layers.1.weight"].T,
            "b2": parameters["layers.1.bias"],
        }
    return {"W": parameters["weight"].T, "b": parameters["bias"]}


def at(arrays: Mapping[str, NDArray[np.floating]], probe: str) -> NDArray[np.floating]:
    """Return the entries that a probe such as ``W[10,0]``, ``b1[4]`` or ``b`` names."""
    name, _, index = probe.rstrip("]").partition("[")
    array = arrays[name]
    return array[tuple(int(i) for i in index.split(","))] if index else array


def fedavg(name: str, hyper: Case) -> Section:
    return {"name": "fedavg", "averaging": hyper.get("agg", "nk")}


def fedprox(name: str, hyper: Case) -> Section:
    return {"name": "fedprox", "mu": hyper["mu"]}


def fednova(name: str, hyper: Case) -> Section:
    return {"name": "fednova", "tau_eff": hyper.get("taueff", "norm")}


def scaffold(name: str, hyper: Case) -> Section:
    return {"name": "scaffold", "option": hyper["option"], "averaging": hyper["agg"]}


def qfedavg(name: str, hyper: Case) -> Section:
    return {"name": "qfedavg", "q": hyper["q"], "weights": hyper["agg"]}


def server(hyper: Case) -> Section:
    return {
        "server_lr": hyper["lr_g"],
        "beta1": hyper["b1"],
        "beta2": hyper["b2"],
        "tau": hyper["tau"],
        "v0": hyper["v0"],
        "second_moment_of": "momentum" if hyper.get("v_uses") == "m" else "change",
    }


def fedopt(name: str, hyper: Case) -> Section:
    kind = hyper["server"]
    if kind == "avgm":
        return {"name": "fedavgm", "beta": hyper["beta"], "server_lr": 1.0}
    if name.startswith("FedAdapt"):
        return {"name": "fedadapt", "server": kind, **server(hyper)}
    return {"name": f"fed{kind}", **server(hyper)}


def comfed(name: str, hyper: Case) -> Section:
    options = {
        "prox": {"mu": hyper["mu"]},
        "scaf": {"option": hyper["option"], "averaging": hyper.get("agg", "nk")},
        "nova": {},
    }
    return {"name": f"{hyper['client']}_{hyper['server']}", **options[hyper["client"]], **server(hyper)}


def rfedavg(name: str, hyper: Case) -> Section:
    section = {"lambda": hyper["lam"], "delta_start": hyper.get("delta0", "model")}
    if hyper["plus"]:
        return {"name": "rfedavg_plus", "include_self": hyper.get("self_in_mean", False), **section}
    section["delta_model"] = "received" if hyper.get("delta") == "start" else "local"
    section["distances"] = hyper.get("norm", "mean")
    return {"name": "rfedavg", **section}


ALGORITHMS: dict[str, Callable[[str, Case], Section]] = {
    function.__name__: function
    for function in (fedavg, fedprox, fednova, scaffold, qfedavg, fedopt, comfed, rfedavg)
}
