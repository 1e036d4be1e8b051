"""Choosing the engine of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedcore.local import analytic
from fedcore.local.analytic import Analytic
from fedcore.local.autograd import Autograd

if TYPE_CHECKING:
    from fedcore.local.engine import Engine
    from fedcore.parts import Recipe
    from fedcore.problem import Problem
    from fedcore.spec import Spec


def choose(spec: Spec, problem: Problem, recipe: Recipe) -> Engine:
    """Return the engine that the specification names, or the fastest that supports the run."""
    if spec.engine in ("auto", "analytic") and analytic.supports(problem.model) and spec.precision == "fp32":
        return Analytic(problem)
    return Autograd(problem, spec.precision)
