"""SCAFFOLD's control variates: a correction of every local gradient by c - c_k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedcore.base.errors import SpecError
from fedcore.base.lazy import Tensor
from fedcore.engines.forward import full_gradient
from fedcore.parts import Cargo, Direction, Job, Plan, Run, State, Traffic, UpdateRule, Upload
from fedcore.parts.accumulation import norm
from fedcore.parts.aggregate.mean import Weights

Averaging = Literal["uniform", "mixed", "nk"]
Divisor = Literal["steps", "norm"]


@dataclass(frozen=True)
class ControlVariates(UpdateRule):
    """Local step w_k <- w_k - eta (g - c_k + c); controls start at zero and persist.

    Option 1: c_k+ is the client's full gradient at the server's model. Option 2: c_k+ = c_k - c +
    (w - w_k) / (tau_k eta). The server adds (S/N) mean(c_k+ - c_k) to c, or with averaging ``nk``
    sum_k (n_k/n) (c_k+ - c_k) over the cohort. Karimireddy et al., Algorithm 1.

    With local momentum (w - w_k) / (tau_k eta) is no gradient: 2.26 for a gradient of 1, momentum .9 and
    four steps. ``divisor="norm"`` takes (w - w_k) / (||a_k||_1 eta), a mean of the gradients on the way, with
    a_k of FedNova (``fedcore.parts.accumulation``).
    """

    option: Literal[1, 2] = 1
    averaging: Averaging = "uniform"
    divisor: Divisor = "steps"
    label: str = "corrected SGD"

    def start(self, run: Run, state: State) -> None:
        """Start all controls at zero."""
        state.server["control"] = state.model.new_zeros(state.model.shape)
        state.clients["control"] = {}

    def direction(self, run: Run, state: State, job: Job) -> Direction:
        """Return the offset c - c_k."""
        return Direction(offset=state.server["control"] - _own(state, job.client))

    def uploaded(self, run: Run, state: State, job: Job, upload: Upload) -> None:
        """Compute c_k+ on the client."""
        if self.option == 1:
            upload.extras["control"] = full_gradient(
                run.engine, job.received, run.problem.clients[job.client]
            )
        else:
            length = upload.steps if self.divisor == "steps" else norm(run, state, job.client)
            drift = (upload.received - upload.model) / (length * upload.lr)
            upload.extras["control"] = _own(state, job.client) - state.server["control"] + drift

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        """Move c by the clients' changes and keep each c_k+."""
        total = sum(run.problem.sizes)
        control = state.server["control"].clone()
        for upload in uploads:
            weight = upload.samples / total if self.averaging == "nk" else 1 / len(run.problem.clients)
            control.add_(upload.extras["control"] - _own(state, upload.client), alpha=weight)
        state.server["control"] = control
        for upload in uploads:
            state.clients["control"][upload.client] = upload.extras["control"]

    def cargo(self) -> Cargo:
        """The server's control down, the client's up."""
        return Cargo(down=("control variate c",), up=("change of the control variate c_k",))

    def traffic(self, run: Run, state: State, plan: Plan) -> Traffic:
        """c down and the change of c_k up, for each client of the cohort."""
        control = len(plan.cohort) * state.model.numel() * run.problem.bytes_per_number
        return Traffic(down=control, up=control)


def controls(
    option: Literal[1, 2], averaging: Averaging, divisor: Divisor, optimizer: str
) -> ControlVariates:
    """Return the control variates that an algorithm's options ask for.

    Raises:
        SpecError: ``divisor="norm"`` with option 1, or with an optimizer that isn't linear in the gradients.
    """
    if divisor == "norm" and (option == 1 or optimizer == "rmsprop"):
        found = "option 1" if option == 1 else f"training.optimizer '{optimizer}'"
        raise SpecError(f"algorithm.divisor: got 'norm' with {found}, expected option 2 and sgd or momentum")
    return ControlVariates(option, averaging, divisor)


def model_weights(averaging: Averaging) -> Weights:
    """Return how the models are averaged beside controls of this averaging."""
    return "uniform" if averaging == "uniform" else "nk"


def _own(state: State, client: int) -> Tensor:
    stored = state.clients["control"].get(client)
    return state.model.new_zeros(state.model.shape) if stored is None else stored
