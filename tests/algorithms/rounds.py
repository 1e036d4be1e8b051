"""Runs that a test takes through their rounds by hand."""

from __future__ import annotations

from typing import Any

from fedcore.execution.runner import Settings, prepare
from fedcore.parts import Run, State
from fedcore.spec import parse


def prepared(spec: dict[str, Any]) -> tuple[Run, State]:
    """Return a run and its state before the first round; no part has begun."""
    run, _, _ = prepare(parse(spec), Settings())
    return run, State(round=0, models=run.problem.start.clone()[None])


def started(spec: dict[str, Any]) -> tuple[Run, State]:
    """Return a run and its state once all parts have begun."""
    run, state = prepared(spec)
    for part in run.recipe.parts():
        part.start(run, state)
    return run, state
