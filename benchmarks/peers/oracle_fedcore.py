"""The oracle's cases by fedcore."""

from __future__ import annotations

from typing import Any

from oracle_cases import Case, Weights, answer

import fedcore

SERVER = {"lr_g": "server_lr", "b1": "beta1", "b2": "beta2", "tau": "tau"}


def section(case: Case) -> dict[str, Any]:
    """Return the `algorithm` section of a case."""
    hyper = case.hyper
    if case.algorithm == "fedopt" and hyper["server"] == "avgm":
        return {"name": "fedavgm", "beta": hyper["beta"], "server_lr": 1.0}
    if case.algorithm == "fedopt":
        return {"name": f"fed{hyper['server']}", **{SERVER[key]: hyper[key] for key in SERVER}}
    keys = {
        "fedprox": ("mu",),
        "scaffold": ("option",),
        "qfedavg": ("q",),
        "mime": ("beta", "lite"),
    }.get(case.algorithm, ())
    more = {"scaffold": {"averaging": "uniform"}, "qfedavg": {"weights": "uniform"}}.get(case.algorithm, {})
    return {"name": case.algorithm, **{key: hyper[key] for key in keys}, **more}


def solve(case: Case) -> Weights:
    """Run a case."""
    result = fedcore.run(
        {
            "data": {"name": "npz", "path": str(case.folder)},
            "model": {"name": "linear", "init": "zeros"},
            "algorithm": section(case),
            "training": {
                "rounds": case.rounds,
                "local_steps": case.steps,
                "batch_size": "full",
                "lr": case.lr,
            },
            "dtype": "float64",
        }
    )
    return result.parameters["weight"].T, result.parameters["bias"]


if __name__ == "__main__":
    answer(solve)
