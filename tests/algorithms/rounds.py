"""Runs that a test takes through their rounds by hand."""

from __future__ import annotations

from typing import Any

from fedcore.execution.runner import Settings, prepare
from fedcore.parts import Run, State
from fedcore.spec import parse


def prepared(spec: dict[str, Any]) -> tuple[Run, State]:
    """Return a run and its state before the first round; no part has begun."""
    made, _, _ = prepare(parse(spec), Settings())
    return made, State(round=0, models=made.problem.start.clone()[None])


def started(spec: dict[str, Any]) -> tuple[Run, State]:
    """Return a run and its state once all parts have begun."""
    made, state = prepared(spec)
    for part in made.recipe.parts():
        part.start(made, state)
    return made, state
