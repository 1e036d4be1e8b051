"""Local update rules: the direction that a client's optimizer follows."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fedcore.base import sum_in_order
from fedcore.base.lazy import Tensor
from fedcore.engines import Direction, Job, Upload
from fedcore.parts import Message, Part, Plan, Run, State, UpdateRule, Work
from fedcore.parts.aggregate import Weights, weighted_sum
from fedcore.parts.steps import coefficient_sum, learning_rate, learning_rates

Averaging = Literal["uniform", "mixed", "nk"]
Divisor = Literal["steps", "norm"]
MOMENTUM = (Message("down", "server momentum m"),)


@dataclass(frozen=True)
class ControlVariates(UpdateRule):
    """Local step w_k <- w_k - eta (g - c_k + c); controls start at zero and persist.

    Option 1: c_k+ is the client's full gradient at the server's model. Option 2: c_k+ = c_k - c +
    (w - w_k) / (tau_k eta), tau_k eta the sum of the steps' rates. The server adds (S/N) mean(c_k+ - c_k) to
    c, or with averaging ``nk`` sum_k (n_k/n) (c_k+ - c_k) over the cohort. Karimireddy et al., Algorithm 1.

    With local momentum (w - w_k) / (tau_k eta) is no gradient: 2.26 for a gradient of 1, momentum .9 and
    four steps; nor is it with RMSProp, 7.0 for 1 after four steps. ``divisor="norm"`` takes (w - w_k) /
    (||a_k||_1 eta), a mean of the gradients on the way, with a_k of FedNova (``steps.coefficients``).
    """

    option: Literal[1, 2] = 1
    averaging: Averaging = "uniform"
    divisor: Divisor = "steps"
    label: str = "corrected SGD"
    sends = (Message("down", "control variate c"), Message("up", "change of the control variate c_k"))

    def start(self, run: Run, state: State) -> None:
        """Start the server's control at zero, as the clients' are until they train."""
        state.server["control"] = state.model.new_zeros(state.model.shape)

    def work(self, validation: float) -> Work:
        """An offset in each step, a control per client, and with option 1 a gradient over its rows."""
        return Work(vectors=1, gradients=1 if self.option == 1 else 0, held=1)

    def direction(self, run: Run, state: State, job: Job) -> Direction:
        """Return the offset c - c_k."""
        return Direction(offset=state.server["control"] - _control(state, job.client))

    def uploaded(self, run: Run, state: State, job: Job, upload: Upload) -> None:
        if self.option == 1:
            block = run.problem.clients[job.client]
            upload.extras["control"] = run.engine.full_gradient(job.received, block)
        else:
            steps = sum_in_order(rate / upload.lr for rate in learning_rates(run, state, job.client))
            length = steps if self.divisor == "steps" else coefficient_sum(run, state, job.client)
            drift = (upload.received - upload.model) / (length * upload.lr)
            upload.extras["control"] = _control(state, job.client) - state.server["control"] + drift

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        total = sum(run.problem.sizes)
        control = state.server["control"].clone()
        for upload in uploads:
            new = upload.extras["control"]
            weight = upload.samples / total if self.averaging == "nk" else 1 / len(run.problem.active)
            control.add_(new - _control(state, upload.client), alpha=weight)
            state.clients["control"][upload.client] = new
        state.server["control"] = control


def _control(state: State, client: int) -> Tensor:
    stored = state.clients["control"].get(client)
    return state.model.new_zeros(state.model.shape) if stored is None else stored


@dataclass(frozen=True)
class Deviations(UpdateRule):
    """w_k <- w_k - eta (g - Delta_k), Delta_k <- Delta_k + (w - w_k) / (tau_k eta) with w the new mean model.

    With local momentum ||a_k||_1 (FedNova's) stands for tau_k, so that moves are means of gradients. Delta_k
    starts at zero and tends to the client's gradient minus the mean gradient. The clients of a round receive
    its new model at once; those that take part again next round need no other copy. Liang et al. (VRL-SGD),
    Algorithm 1.
    """

    label: str = "corrected SGD"
    sends = (Message("down", "the new model, at the end of the round", is_model=True),)
    costs = Work(vectors=1, held=1)  # an offset in each step, and a deviation per client

    def direction(self, run: Run, state: State, job: Job) -> Direction:
        """Return the offset -Delta_k."""
        deviation = state.clients["deviation"].get(job.client)
        return Direction(offset=None if deviation is None else -deviation)

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        store = state.clients["deviation"]
        for upload in uploads:
            moved = (state.model - upload.model) / (coefficient_sum(run, state, upload.client) * upload.lr)
            store[upload.client] = moved + store[upload.client] if upload.client in store else moved


@dataclass(frozen=True)
class Mimicry(UpdateRule):
    """w_k <- w_k - eta ((1 - beta) (g(w_k) - g(w) + c) + beta s), both g on the same batch.

    c is the cohort's mean gradient at the server's model w over all of its data, and s the server's momentum,
    held fixed during local steps; after the round s <- (1 - beta) c + beta s, from zero. ``lite`` leaves
    the correction -g(w) + c out. Karimireddy et al. (Mime), Algorithm 1 with SGD with momentum as base.
    """

    beta: float
    lite: bool = False
    weights: Weights = "nk"
    label: str = "corrected SGD with server momentum"
    family = "corrected SGD"

    def work(self, validation: float) -> Work:
        """A gradient over each client's rows, and unless lite another one in each step."""
        return Work(vectors=3, batch=0 if self.lite else 3, gradients=1)

    def start(self, run: Run, state: State) -> None:
        state.server["momentum"] = state.model.new_zeros(state.model.shape)

    def before(self, run: Run, state: State, plan: Plan) -> None:
        sizes = [len(run.problem.clients[k]) if self.weights == "nk" else 1 for k in plan.cohort]
        gradients = (run.engine.full_gradient(state.model, run.problem.clients[k]) for k in plan.cohort)
        state.server["gradient"] = weighted_sum(gradients, [size / sum(sizes) for size in sizes])

    def direction(self, run: Run, state: State, job: Job) -> Direction:
        offset = state.server["momentum"] * self.beta
        if not self.lite:
            offset.add_(state.server["gradient"], alpha=1 - self.beta)
        return Direction(offset, 1 - self.beta, anchored=not self.lite)

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        moved = state.server["momentum"] * self.beta
        state.server["momentum"] = moved.add_(state.server["gradient"], alpha=1 - self.beta)

    def messages(self) -> tuple[Message, ...]:
        """s, and c unless lite, down; each client's gradient up."""
        mean = () if self.lite else (Message("down", "the cohort's mean gradient c"),)
        gradient = Message("up", "full gradient at the server's model")
        return (Message("down", "server momentum s"), *mean, gradient)


@dataclass(frozen=True)
class EmbeddedMomentum(UpdateRule):
    """w_k <- w_k - eta (g + beta_local m / tau_k): a share of the server's momentum m, spread over the
    client's tau_k steps; with local momentum over ||a_k||_1 (FedNova's). Ozfatura et al. (FedADC).
    """

    beta_local: float
    label: str = "SGDm"
    sends = MOMENTUM
    costs = Work(vectors=1)  # an offset in each step

    def direction(self, run: Run, state: State, job: Job) -> Direction:
        """Return the offset beta_local m / tau_k."""
        m, length = first_moment(state), coefficient_sum(run, state, job.client)
        return Direction(offset=None if m is None else m * (self.beta_local / length))


@dataclass(frozen=True)
class BlendedMomentum(UpdateRule):
    """Another rule's direction d, blended with the server's first moment m: (1 - weight) d + weight s.

    s = -m / (eta ||a_k||_1) is m as a gradient: followed alone through the client's whole round it moves
    the model by m, whatever the number of steps, the local learning rate and the local momentum (a_k as
    in FedNova); by m / S where S clients train a model in turn. With s = 0 before the first change, and in a
    steady state (every client moving by m) the blend leaves the change alone, but for weight decay. Mime's
    blend (Karimireddy et al.) in ComFed's setting, which proposes server momenta in local updates beside the
    variance reduction (Section VI) and leaves the formula open.
    """

    rule: UpdateRule
    weight: float
    label: str = "blended with server momentum"
    sends = MOMENTUM
    costs = Work(vectors=1)  # an offset in each step

    def direction(self, run: Run, state: State, job: Job) -> Direction:
        inner = self.rule.direction(run, state, job)
        rest = 1 - self.weight
        offset = None if inner.offset is None else inner.offset * rest
        if (m := first_moment(state)) is not None:
            length = learning_rate(run, state, job.client) * coefficient_sum(run, state, job.client)
            s = m * (-self.weight / (length * run.recipe.schedule.in_turn))
            offset = s if offset is None else offset + s
        return Direction(offset, inner.scale * rest, inner.anchored)

    def parts(self) -> Iterator[Part]:
        """Yield the other rule, which keeps its own memory and sends its own messages, then this one."""
        yield from (*self.rule.parts(), self)


def first_moment(state: State) -> Tensor | None:
    """Return the server optimizer's first moment m [d], or None before its first step."""
    return state.optimizer_state.get(0, {}).get("m")
