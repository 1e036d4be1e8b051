"""Training on the pooled rows of clients, and how far a run's models are from it and from each other."""

from dataclasses import dataclass, replace
from itertools import combinations
from math import nan

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import SpecError
from fedcore.base.lazy import Tensor, torch
from fedcore.engines import Job, Upload, choose
from fedcore.engines.problem import Block
from fedcore.parts import Aggregation, Part, Plan, Run, State, UpdateRule
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

    def start(self, run: Run, state: State) -> None:
        """Refuse rates by step where they don't fit the pooled rows."""
        _refuse_changing_rows(run, state, self.equal_steps)

    def change(self, run: Run, state: State, model: Tensor, uploads: list[Upload]) -> Tensor:
        """Train from ``model`` [d] on the pooled rows and return the change [d]."""
        cohort = run.recipe.select.cohort(run, state)
        steps = sum(number_of_steps(run, client) for client in cohort) if self.equal_steps else None
        return train_pooled(run, state, model, cohort, 0, steps, count=True) - model


def check_pooled(spec: Spec) -> None:
    """Refuse steps by client, which training on pooled rows can't take."""
    if isinstance(spec.training.local_steps, tuple):
        raise SpecError("training.local_steps: got a list, pooled rows train one model; expected a number")


def _refuse_changing_rows(run: Run, state: State, equal_steps: bool = False) -> None:
    """Refuse rates by step where rounds have rows of some clients, and so a number of steps of their own."""
    cohorts = run.spec.participation.cohorts
    for number in range(min(run.spec.training.rounds, len(cohorts)) if cohorts else 1):
        cohort = run.recipe.select.cohort(run, replace(state, round=number))
        some = run.recipe.schedule.trainings(len(cohort)) < len(run.problem.active)
        if some and (run.spec.training.local_epochs or (equal_steps and cohorts)):
            refuse_rates_by_step(run.spec, "pooled rows of some clients")


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


@dataclass(frozen=True)
class Divergence(Part):
    """Measures DL after each inner round and DC after each round. RADFed, Section V-B.

    ``local``: DL of the models that the inner round's clients return (nan for a single one). ``centralised``:
    DC between the server's model and a model trained side by side, from the same start, on the pooled rows of
    the clients that trained in each inner round (nan where models are not merged).
    """

    label: str = "divergence"

    def start(self, run: Run, state: State) -> None:
        """Start the centralised model at w_0; refuse an algorithm that lets no client train."""
        if not run.recipe.schedule.federated:
            name = run.spec.algorithm.name
            raise SpecError(f"evaluation.divergence: true, but '{name}' has no clients' models to compare")
        check_pooled(run.spec)
        _refuse_changing_rows(run, state)
        state.server["centralised"] = state.model.clone()
        state.values["divergence"], state.values["inner"] = [], {"stage": 0, "clients": []}

    def uploaded(self, run: Run, state: State, job: Job, upload: Upload) -> None:
        """Keep the inner round's models; the first job of the next one closes it."""
        if job.stage != state.values["inner"]["stage"]:
            self._close(run, state)
        clients = state.values["inner"]["clients"]
        kept = [state.server["inner_models"]] if clients else []
        state.server["inner_models"] = torch.cat([*kept, upload.model[None]])
        state.values["inner"] = {"stage": job.stage, "clients": [*clients, job.client]}

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        """Close the last inner round and compare the merged model with the centralised one."""
        self._close(run, state)
        if len(state.models) == 1:  # of a cluster's model the clients of all are no counterpart
            pair = (tensor.double().cpu().numpy() for tensor in (state.model, state.server["centralised"]))
            state.values["divergence"][-1]["centralised"] = divergence_from_centralised(*pair)
        state.values["inner"]["stage"] = 0

    def tables(self, state: State) -> dict[str, list[dict[str, float]]]:
        """Return one row per inner round."""
        rows = state.values["divergence"]
        return {"divergence": rows} if rows else {}

    def _close(self, run: Run, state: State) -> None:
        """Measure the inner round's models and train the centralised one on its clients' rows."""
        stage, clients = state.values["inner"]["stage"], state.values["inner"]["clients"]
        models = state.server["inner_models"].double().cpu().numpy()
        local = divergence_of_models(models) if len(clients) > 1 else nan
        row = {"round": state.round + 1, "inner": stage + 1, "local": local, "centralised": nan}
        state.values["divergence"].append(row)
        start = state.server["centralised"]
        state.server["centralised"] = train_pooled(run, state, start, tuple(clients), stage)
        state.values["inner"]["clients"] = []


@np.errstate(all="ignore")
def divergence_from_centralised(federated: NDArray[np.floating], centralised: NDArray[np.floating]) -> float:
    """Return DC = ||w_FL - w_C|| / ||w_C|| of two flat weight vectors [d]. RADFed, Section V-B."""
    return float(np.linalg.norm(federated - centralised) / np.linalg.norm(centralised))


@np.errstate(all="ignore")
def divergence_of_models(models: NDArray[np.floating]) -> float:
    """Return DL, the mean over pairs of clients of 1 - cos of their models [K, d]. RADFed, eq. (3)."""
    unit = models / np.linalg.norm(models, axis=1, keepdims=True)
    return float(np.mean([1 - unit[i] @ unit[j] for i, j in combinations(range(len(unit)), 2)]))
