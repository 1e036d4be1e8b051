"""Training on the pooled rows of clients."""

from dataclasses import dataclass, replace

from fedcore.base.errors import SpecError
from fedcore.base.lazy import Tensor, torch
from fedcore.engines import Job, Upload, choose
from fedcore.engines.problem import Block
from fedcore.parts import Aggregation, Run, State, UpdateRule
from fedcore.parts.steps import count_rows, make_task, number_of_steps, refuse_rates_by_step
from fedcore.spec import Spec


@dataclass(frozen=True)
class PooledTraining(Aggregation):
    """The change that local training makes on the pooled rows of the round's cohort.

    With full participation that is ordinary training on all data; with part of the clients each round uses
    the rows that a federated run of the same seed uses, as RADFed's divergence DC asks (Section V-B).
    ``equal_steps`` takes as many steps as the clients of the cohort take together.
    """

    equal_steps: bool = False
    label: str = "training on pooled data"

    def change(self, run: Run, state: State, model: Tensor, uploads: list[Upload]) -> Tensor:
        """Train from ``model`` [d] on the pooled rows and return the change [d]."""
        cohort = run.recipe.select.cohort(run, state)
        steps = sum(number_of_steps(run, client) for client in cohort) if self.equal_steps else None
        return train_pooled(run, state, model, cohort, 0, steps, count=True) - model


def check_pooled(spec: Spec) -> None:
    """Refuse steps by client, which training on pooled rows can't take."""
    if isinstance(spec.training.local_steps, tuple):
        raise SpecError("training.local_steps: got a list, pooled rows train one model; expected a number")


def train_pooled(
    run: Run,
    state: State,
    model: Tensor,
    cohort: tuple[int, ...],
    stage: int,
    steps: int | None = None,
    count: bool = False,
) -> Tensor:
    """Return the model [d] after plain local training from ``model`` on the pooled rows of some clients.

    It takes ``steps`` steps, or what ``training`` asks for; ``count``: its rows count as training's.
    """
    pool = run.problem.train
    if sorted(cohort) != run.problem.active:
        if run.spec.training.local_epochs or (steps is not None and run.spec.participation.cohorts):
            refuse_rates_by_step(run.spec, "pooled rows of some clients")
        blocks = [run.problem.clients[client] for client in cohort]
        pool = Block(torch.cat([block.x for block in blocks]), torch.cat([block.y for block in blocks]))
    problem = replace(run.problem, clients=(pool,), train=pool)
    engine = choose.select_engine(run.spec, problem)
    plain = replace(run.recipe, objective=(), update=UpdateRule(), exchange=())
    taken: list[int | None] = run.steps[:1] if steps is None else [steps]
    alone = replace(run, problem=problem, engine=engine, recipe=plain, steps=taken)
    task = make_task(alone, state, Job(client=0, slot=0, stage=stage, received=model))
    if count:
        count_rows(alone, state, task)
    (upload,) = engine.train([task])
    return upload.model
