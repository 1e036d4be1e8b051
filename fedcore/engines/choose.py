"""Choosing the engine of a run."""

from collections.abc import Callable

from fedcore.base.errors import SpecError
from fedcore.engines import Engine, analytic, fused, stacked
from fedcore.engines.analytic import Analytic
from fedcore.engines.autograd import Autograd
from fedcore.engines.fused import Fused
from fedcore.engines.problem import Problem
from fedcore.engines.stacked import Stacked
from fedcore.spec import Spec

UNSUPPORTED: dict[str, Callable[[Spec, Problem], str | None]] = {
    "autograd": lambda spec, problem: None,
    "analytic": analytic.unsupported,
    "stacked": stacked.unsupported,
    "fused": fused.unsupported,
}


def choose(spec: Spec, problem: Problem) -> Engine:
    """Return the engine that the specification names, which must support the run.

    ``auto`` is ``stacked`` on a GPU and ``analytic`` on a CPU where they support the run, else ``autograd``;
    never ``fused``, whose rounding differs, so that a specification keeps its bytes.
    """
    fast = ("stacked", "analytic") if problem.start.device.type == "cuda" else ("analytic",)
    wanted: tuple[str, ...] = (*fast, "autograd") if spec.engine == "auto" else (spec.engine,)
    name = next((name for name in wanted if UNSUPPORTED[name](spec, problem) is None), None)
    if name is None:
        able = [other for other, reason in UNSUPPORTED.items() if reason(spec, problem) is None]
        reason = UNSUPPORTED[spec.engine](spec, problem)
        raise SpecError(f"engine: '{spec.engine}' does not support {reason}; {', '.join(able)} can")
    if name == "autograd":
        return Autograd(problem, spec.precision)
    others: dict[str, Callable[[Problem], Engine]] = {
        "analytic": Analytic,
        "stacked": Stacked,
        "fused": Fused,
    }
    return others[name](problem)
