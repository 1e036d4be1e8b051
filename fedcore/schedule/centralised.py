"""No federation: the server itself trains on the rows of all clients that would take part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fedcore.local import engines
from fedcore.parts import Aggregation, Job, Plan, Run, Schedule, State, Upload
from fedcore.problem import Block

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Centralised(Schedule):
    """No client trains and nothing travels."""

    label: str = "centralised"

    def plan(self, run: Run, state: State) -> Plan:
        """Plan a round without jobs."""
        return Plan(cohort=(), starts=(), stages=(), groups=(0,))


@dataclass(frozen=True)
class PooledTraining(Aggregation):
    """The change that local training makes on the pooled rows of the round's cohort.

    With full participation that is ordinary training on all data; with part of the clients each round uses
    the rows that a federated run of the same seed uses, as RADFed's divergence DC asks (Section V-B).
    """

    label: str = "training on pooled data"

    def change(self, run: Run, state: State, model: Tensor, uploads: list[Upload]) -> Tensor:
        """Train from ``model`` [d] on the pooled rows and return the change [d]."""
        pool = _pool(run, run.recipe.select.cohort(run, state))
        problem = replace(run.problem, clients=(pool,), train=pool)
        engine = engines.choose(run.spec, problem)
        alone = replace(run, problem=problem, engine=engine, steps=run.steps[:1])
        (upload,) = engine.train(alone, state, [Job(client=0, slot=0, stage=0, received=model)])
        return upload.change


def _pool(run: Run, cohort: tuple[int, ...]) -> Block:
    import torch

    if list(cohort) == run.problem.active:
        return run.problem.train
    blocks = [run.problem.clients[client] for client in cohort]
    return Block(torch.cat([block.x for block in blocks]), torch.cat([block.y for block in blocks]))
