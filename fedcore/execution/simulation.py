"""One federated run, round by round."""

import time
from collections.abc import Iterable, Iterator, Mapping

from fedcore.base.errors import BrokenContract
from fedcore.base.lazy import Tensor
from fedcore.engines import Job, Task, Upload
from fedcore.execution.metrics import finite, measure
from fedcore.parts import Plan, Run, State
from fedcore.parts.steps import count_first_rows, count_rows, make_task, server_step

TRAFFIC = ("bytes_down", "bytes_up")


def simulate(run: Run, state: State) -> Iterator[float | None]:
    """Run the remaining rounds, moving ``state``; pause after the initial measurement and each round.

    Ends early if the run has diverged or measures ``evaluation.stop_at``: the last record then says
    so. Yields a round's wall-clock seconds, without measuring, and None after the initial measurement.
    """
    rounds = run.spec.training.rounds
    recorded = {key: sum(int(row[key]) for row in state.history) for key in TRAFFIC}
    if not state.history:
        for part in run.recipe.parts():
            part.start(run, state)
        count_first_rows(run, state)
        recorded = record(run, state, recorded)
        yield None
    broken = diverged(state)
    while state.round < rounds and not broken and not arrived(run, state.history[-1]):
        began = time.perf_counter()
        advance(run, state)
        broken = diverged(state)
        seconds = time.perf_counter() - began
        if run.due(state.round, run.spec.evaluation.every) or broken:
            recorded = record(run, state, recorded)
        yield seconds


def advance(run: Run, state: State) -> None:
    """Do one round."""
    plan = run.recipe.schedule.plan(run, state)
    for part in run.recipe.parts():
        part.before(run, state, plan)
    uploads, trained = train(run, state, plan)
    previous = state.models
    state.models = merge(run, state, plan, uploads)
    for part in run.recipe.parts():
        part.after(run, state, plan, uploads, previous)
    account(run, state, plan, trained)
    state.round += 1


def train(run: Run, state: State, plan: Plan) -> tuple[list[Upload], list[int]]:
    """Do the round's local training; return the uploads to merge and who trained, job by job."""
    newest = list(plan.starts)
    kept: dict[tuple[int, int], Upload] = {}
    trained: list[int] = []
    parts = run.recipe.parts()
    for stage, pairs in enumerate(plan.stages):
        jobs = [Job(client, slot, stage, newest[slot]) for slot, client in pairs]
        for job, upload in zip(jobs, run.engine.train(_tasks(run, state, jobs)), strict=True):
            for part in parts:
                part.uploaded(run, state, job, upload)
            newest[job.slot] = upload.model
            kept[job.slot, stage if plan.every_stage else 0] = upload
            trained.append(job.client)
    return list(kept.values()), trained


def _tasks(run: Run, state: State, jobs: Iterable[Job]) -> Iterator[Task]:
    """Bind jobs one by one, when their turn comes, and count the rows of each."""
    for job in jobs:
        task = make_task(run, state, job)
        count_rows(run, state, task)
        yield task


def merge(run: Run, state: State, plan: Plan, uploads: list[Upload]) -> Tensor:
    """Aggregate each group's uploads and take the server's step; return the new models [groups, d]."""
    models = state.models.clone()
    for group in sorted(set(plan.groups)):
        members = [upload for upload in uploads if plan.groups[upload.slot] == group]
        past = state.optimizer_state.get(group, {})
        models[group], state.optimizer_state[group] = server_step(run, state, models[group], members, past)
    return models


def account(run: Run, state: State, plan: Plan, trained: list[int]) -> None:
    """Count the round's traffic: messages, and each job's model, down unless the client holds it, and up."""
    model, messages, holders = state.models.shape[1], run.recipe.messages(), set(state.holders)
    sent = {"down": model * sum(client not in holders for client in trained), "up": model * len(trained)}
    for message in messages:
        sent[message.way] += len(plan.cohort) * message.size(run, state)
    state.count(**sent)
    state.holders = list(plan.cohort) if any(message.is_model for message in messages) else []


def record(run: Run, state: State, recorded: Mapping[str, int]) -> dict[str, int]:
    """Measure the models, append a row, and return the traffic so far; ``recorded`` is that of other rows."""
    row: dict[str, float] = {"round": state.round}
    measured = measure(run, state, final=state.round == run.spec.training.rounds)
    row |= measure(run, state, final=True) if arrived(run, measured) else measured
    traffic = {key: getattr(state, key) for key in TRAFFIC}
    row |= {key: total - recorded[key] for key, total in traffic.items()}
    for part in run.recipe.parts():
        for key, value in part.columns(state).items():
            if key in row:
                raise BrokenContract(
                    f"{type(part).__name__}.columns: '{key}' is taken, expected another name"
                )
            row[key] = value if isinstance(value, int | float) else float(value)
    state.history.append(row)
    return traffic


def arrived(run: Run, row: Mapping[str, float]) -> bool:
    """Whether a record has the test accuracy at which the run ends."""
    stop = run.spec.evaluation.stop_at
    return stop is not None and row["test_accuracy"] >= stop


def diverged(state: State) -> bool:
    """Whether the run has left the finite numbers: its models have, or what the server's steps remember."""
    memory = (tensor for past in state.optimizer_state.values() for tensor in past.values())
    return not all(map(finite, (state.models, *memory)))
