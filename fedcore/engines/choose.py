"""Choosing the engine of a run."""

from collections.abc import Callable, Mapping

from fedcore.base.errors import SpecError
from fedcore.engines import analytic, compiled, stacked
from fedcore.engines.autograd import Autograd
from fedcore.engines.fused import Fused
from fedcore.engines.problem import Problem
from fedcore.spec import Spec

Unsupported = Callable[[Spec, Problem], str | None]
ENGINES: Mapping[str, tuple[Unsupported, Callable[[Problem, str], Autograd]]] = {
    "autograd": (lambda spec, problem: None, Autograd),
    "analytic": (analytic.unsupported, analytic.Analytic),
    "stacked": (stacked.unsupported, stacked.Stacked),
    "fused": (analytic.unsupported, Fused),
    "compiled": (compiled.unsupported, compiled.make),
}


def select_engine(spec: Spec, problem: Problem) -> Autograd:
    """Return the engine that the specification names; SpecError where it does not support the run.

    ``auto`` is ``stacked`` on a GPU and ``analytic`` on a CPU where they support the run, else ``autograd``;
    never ``fused`` or ``compiled``, whose rounding differs, so that a specification keeps its bytes.
    """
    fast = ("stacked", "analytic") if problem.start.device.type == "cuda" else ("analytic",)
    names: tuple[str, ...] = (*fast, "autograd") if spec.engine == "auto" else (spec.engine,)
    for name in names:
        unsupported, make = ENGINES[name]
        if (reason := unsupported(spec, problem)) is None:
            return make(problem, spec.precision)
    able = [name for name, (unsupported, _) in ENGINES.items() if unsupported(spec, problem) is None]
    raise SpecError(f"engine: '{spec.engine}' does not support {reason}; {', '.join(able)} can")
