"""The workload in fedcore, through what `fedcore run` calls."""

from __future__ import annotations

import torch
from protocol import Clock, Request, answer, request
from workloads import weights

from fedcore.base import __version__
from fedcore.execution.runner import Settings, prepare
from fedcore.execution.simulation import simulate
from fedcore.parts import State
from fedcore.spec import parse


def specification(measurement: Request) -> dict[str, object]:
    """Return the workload as a specification."""
    work = measurement.work
    data = {"name": "npz", "path": measurement.folder}
    steps = {"batch_size": "full", "local_steps": work.epochs}
    if not measurement.full_batch:
        steps = {"batch_size": work.batch, "local_epochs": work.epochs}
    return {
        "data": data | ({"vocabulary": work.vocabulary} if work.vocabulary else {}),
        "model": {**work.model, "init": str(measurement.start)},
        "algorithm": {"name": "fedavg", "averaging": "uniform"},
        "participation": {"cohorts": [work.round_of(number) for number in range(measurement.rounds)]},
        "training": {"rounds": measurement.rounds, "lr": work.lr, **steps},
        "evaluation": {"every": measurement.rounds, "train_every": 0},
        "engine": measurement.engine,
    }


def main() -> None:
    """Do what was asked."""
    measurement, clock = request(), Clock()
    torch.set_num_threads(1)
    run, _, _ = prepare(parse(specification(measurement)), Settings(device=measurement.work.device))
    state = State(round=0, models=run.problem.start.clone().unsqueeze(0))
    rounds = simulate(run, state)
    next(rounds)
    clock.mark(measurement.work.device)
    for _ in rounds:
        clock.mark(measurement.work.device)
    arrays = run.problem.model.trainable.arrays(state.model)
    final = {name: array for name, array in arrays.items() if name in weights(measurement.start)}
    answer(measurement, clock, final, __version__, run.engine.name)


if __name__ == "__main__":
    main()
