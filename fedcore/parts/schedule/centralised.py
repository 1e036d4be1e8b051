"""No federation: the server itself trains on the rows of all clients that would take part."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedcore.base.lazy import Tensor, torch
from fedcore.engines import choose
from fedcore.engines.problem import Block
from fedcore.engines.train import make_task
from fedcore.parts import Aggregation, Job, Plan, Run, Schedule, State, UpdateRule, Upload


@dataclass(frozen=True)
class Centralised(Schedule):
    """No client trains and nothing travels."""

    label: str = "centralised"
    federated = False

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
        return train_pooled(run, state, model, run.recipe.select.cohort(run, state), 0) - model


def train_pooled(run: Run, state: State, model: Tensor, cohort: tuple[int, ...], stage: int) -> Tensor:
    """Return the model [d] after plain local training from ``model`` on the pooled rows of some clients."""
    pool = _pool(run, cohort)
    problem = replace(run.problem, clients=(pool,), train=pool)
    engine = choose.choose(run.spec, problem)
    plain = replace(run.recipe, objective=(), update=UpdateRule(), exchange=())
    alone = replace(run, problem=problem, engine=engine, recipe=plain, steps=run.steps[:1])
    (upload,) = engine.train([make_task(alone, state, Job(client=0, slot=0, stage=stage, received=model))])
    return upload.model


def _pool(run: Run, cohort: tuple[int, ...]) -> Block:
    if sorted(cohort) == run.problem.active:
        return run.problem.train
    blocks = [run.problem.clients[client] for client in cohort]
    return Block(torch.cat([block.x for block in blocks]), torch.cat([block.y for block in blocks]))
