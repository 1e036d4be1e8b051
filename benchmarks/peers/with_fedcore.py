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


def specification(asked: Request) -> dict[str, object]:
    """Return the workload as a specification."""
    work = asked.work
    data = {"name": "npz", "path": asked.folder}
    steps = {"batch_size": "full", "local_steps": work.epochs}
    if not asked.full_batch:
        steps = {"batch_size": work.batch, "local_epochs": work.epochs}
    return {
        "data": data | ({"vocabulary": work.vocabulary} if work.vocabulary else {}),
        "model": {**work.model, "init": str(asked.start)},
        "algorithm": {"name": "fedavg", "averaging": "uniform"},
        "participation": {"cohorts": [work.round_of(number) for number in range(asked.rounds)]},
        "training": {"rounds": asked.rounds, "lr": work.lr, **steps},
        "evaluation": {"every": asked.rounds, "train_every": 0},
        "engine": asked.engine,
    }


def main() -> None:
    """Do what was asked."""
    asked, clock = request(), Clock()
    torch.set_num_threads(1)
    made, _, _ = prepare(parse(specification(asked)), Settings(device=asked.work.device))
    state = State(round=0, models=made.problem.start.clone().unsqueeze(0))
    rounds = simulate(made, state)
    next(rounds)
    clock.mark(asked.work.device)
    for _ in rounds:
        clock.mark(asked.work.device)
    arrays = made.problem.model.trainable.arrays(state.model)
    final = {name: array for name, array in arrays.items() if name in weights(asked.start)}
    answer(asked, clock, final, __version__, made.engine.name)


if __name__ == "__main__":
    main()
