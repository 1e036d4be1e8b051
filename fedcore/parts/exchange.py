"""Exchange: what travels besides models."""

from dataclasses import dataclass
from math import nan
from typing import Literal

import numpy as np

from fedcore.base.lazy import Tensor, torch
from fedcore.engines import Job, Upload
from fedcore.engines.forward import features
from fedcore.engines.train import batches, rows_of_steps
from fedcore.models import initialise
from fedcore.parts import Exchange, Message, Plan, Run, State, Work
from fedcore.parts.aggregate import client_shares
from fedcore.parts.discrepancy import Discrepancy, mmd

Density = Literal["gaussian", "mean"]
When = Literal["local", "global"]


@dataclass(frozen=True)
class Deltas(Exchange):
    """Mean features of clients: how one is computed, and what travels.

    ``when="local"``: from a client's own model; a client receives the vectors of all that share theirs.
    ``when="global"``: from the global model; a client receives one vector, their mean.
    ``noise`` is sigma C_0: Gaussian noise of standard deviation noise / L is added to each delta before
    it leaves the client, L the batch size (rFedAvg, Section VI-B8).
    ``precision="bf16"`` computes phi in bfloat16; the mean is taken in the model's own type.
    """

    when: When
    noise: float = 0.0
    precision: Literal["fp32", "bf16"] = "fp32"
    label: str = "mean features"
    cohort_only = True

    def start(self, run: Run, state: State) -> None:
        width = features(run.problem, state.model, run.problem.test.x[:1]).shape[1]
        state.server["delta"] = state.model.new_zeros(len(run.problem.clients), width)

    def messages(self) -> tuple[Message, ...]:
        """The vectors of all that share theirs, or their mean, down, and one vector up."""
        up = Message("up", "mean feature delta_k", _delta_size)
        if self.when == "global":
            return Message("down", "the others' mean feature", _delta_size), up
        whose = "the round's clients" if self.cohort_only else "all N clients"
        return Message("down", f"mean features delta_j of {whose}", _deltas_size), up

    def columns(self, state: State) -> dict[str, float]:
        """Report the mean distance of the deltas to their mean, of all clients with data or of the cohort."""
        delta = state.server["delta"][state.values.get("with_rows", state.values["sharing"])]
        return {"delta_spread": float((delta - delta.mean(dim=0)).norm(dim=1).double().mean())}

    def _delta(self, run: Run, model: Tensor, client: int, round: int, one_batch: bool = False) -> Tensor:
        """Return a client's delta under a model, over all its rows or those of one shuffled batch."""
        block, batch_size = run.problem.clients[client], run.spec.training.batch_size
        x = block.x
        if one_batch:
            x, _ = next(batches(block, batch_size, False, run.streams.get("delta batch", round, client)))
        delta = features(run.problem, model, x, self.precision).mean(dim=0)
        if self.noise:
            drawn = run.streams.get("delta noise", round, client).standard_normal(len(delta))
            size = rows_of_steps(len(block), batch_size, False, 1)
            delta = delta + torch.as_tensor(drawn).to(delta) * (self.noise / size)
        return delta


@dataclass(frozen=True)
class FeatureMeans(Deltas):
    """delta_k = (1/n_k) sum_i phi(w, x_ki), first from w_0, then renewed by each round's cohort.

    ``when="local"``: from the client's model after its local steps (rFedAvg, Algorithm 1).
    ``when="global"``: from the new global model in a second synchronisation (rFedAvg+, Algorithm 2).
    ``at_start`` takes the local delta under the model received instead, as Algorithm 1, line 10, is
    printed; ``zero`` starts from zero vectors, and nothing is sent before the first round.
    ``cohort_only`` shares the vectors of the round's clients alone, and not of all N.
    """

    at_start: bool = False
    zero: bool = False
    cohort_only: bool = False

    def work(self, validation: float) -> Work:
        """Features of each client's rows."""
        return Work(rows=1, first_rows=0 if self.zero else 1)

    def start(self, run: Run, state: State) -> None:
        """Let every client with data send delta from w_0, and count that, unless deltas start at zero."""
        super().start(run, state)
        state.values["sharing"] = state.values["with_rows"] = run.problem.active
        if not self.zero:
            for client in run.problem.active:
                state.server["delta"][client] = self._delta(run, state.model, client, -1)
            _count_first(run, state, _delta_size(run, state))

    def before(self, run: Run, state: State, plan: Plan) -> None:
        """Note whose vectors the round's clients share, unless they are all clients'."""
        if self.cohort_only:
            state.values["sharing"] = list(plan.cohort)

    def uploaded(self, run: Run, state: State, job: Job, upload: Upload) -> None:
        if self.when == "local":
            model = job.received if self.at_start else upload.model
            upload.extras["delta"] = self._delta(run, model, job.client, state.round)

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        delta = state.server["delta"].clone()
        for upload in uploads:
            client, new = upload.client, upload.extras.get("delta")
            delta[client] = self._delta(run, state.model, client, state.round) if new is None else new
        state.server["delta"] = delta

    def messages(self) -> tuple[Message, ...]:
        """Mean feature vectors; with ``when="global"`` the new model travels down a second time."""
        again = Message("down", "the new model, for the second synchronisation", is_model=True)
        return (*super().messages(), *([again] if self.when == "global" else []))


@dataclass(frozen=True)
class BatchMeans(Deltas):
    """The mean features of one shuffled batch of each client of the round's cohort, before it trains.

    ``when="local"``: under the client's own model as it left it when it last took part, in its first round
    under a random start of its own. ``when="global"``: under the global model. Nothing is kept for later
    rounds, and other clients don't count. The authors' released code of rFedAvg and rFedAvg+.
    """

    def work(self, validation: float) -> Work:
        """Features of a batch, and a model that each client keeps, unless the global one serves all."""
        return Work(pieces=1, held=1 if self.when == "local" else 0)

    def start(self, run: Run, state: State) -> None:
        """Start without any vector."""
        super().start(run, state)
        state.values["sharing"] = []

    def before(self, run: Run, state: State, plan: Plan) -> None:
        delta = torch.zeros_like(state.server["delta"])
        for client in plan.cohort:
            model = self._own(run, state, client) if self.when == "local" else state.model
            delta[client] = self._delta(run, model, client, state.round, one_batch=True)
        state.server["delta"], state.values["sharing"] = delta, list(plan.cohort)

    def uploaded(self, run: Run, state: State, job: Job, upload: Upload) -> None:
        """Let the client keep its trained model."""
        if self.when == "local":
            state.clients["own_model"][job.client] = upload.model

    def _own(self, run: Run, state: State, client: int) -> Tensor:
        if (model := state.clients["own_model"].get(client)) is not None:
            return model
        rng = run.streams.get("own start", client=client)
        drawn, _ = initialise(run.problem.whole, run.spec.model.options.init, rng, state.model.dtype)
        return drawn.to(state.model.device)


@dataclass(frozen=True)
class Densities(Exchange):
    """Each client's density of phi(x): first from w_0, then from its local model after training.

    ``gaussian``: mean and variance of each feature (a diagonal Gaussian); ``mean``: all mass at the mean. The
    server mixes them with weights n_k/n. Clients that do not take part keep their last density. FedAvgR,
    Algorithm 1.

    ``mmd`` and ``samples`` say how history.csv reports the MMD between a client's density and the mixture:
    from so many points of each, weighted by n_k/n over the clients, in rounds that are measured.
    """

    density: Density
    mmd: Discrepancy
    samples: int
    label: str = "feature densities"

    def work(self, validation: float) -> Work:
        """Features of each client's rows, and with a kernel distances of points."""
        return Work(rows=1, first_rows=1, measured=2 * self.samples if self.mmd == "kernel" else 0)

    def start(self, run: Run, state: State) -> None:
        """Let every client with data send its density under w_0, and count that."""
        problem = run.problem
        first = torch.stack([self._estimate(run, state.model, client) for client in problem.active])
        state.server["density"] = first.new_zeros(len(problem.clients), *first.shape[1:])
        state.server["density"][problem.active] = first
        state.server["density_weights"] = client_shares(run, state)
        _count_first(run, state, first[0].numel())
        state.values["mmd"] = self._distance(run, state, 0)

    def uploaded(self, run: Run, state: State, job: Job, upload: Upload) -> None:
        upload.extras["density"] = self._estimate(run, upload.model, job.client)

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        state.server["density"] = state.server["density"].clone()
        for upload in uploads:
            state.server["density"][upload.client] = upload.extras["density"]
        due = run.due(state.round + 1, run.spec.evaluation.every)
        state.values["mmd"] = self._distance(run, state, state.round + 1) if due else nan

    def columns(self, state: State) -> dict[str, float]:
        return {"mmd": state.values["mmd"]}

    def messages(self) -> tuple[Message, ...]:
        """One density up; down the mixture: its mean, or every component with its weight."""
        if self.density == "mean":
            down = Message("down", "mean feature of all clients", _density_size)
            return down, Message("up", "mean feature", _density_size)
        down = Message("down", "densities of all clients and their weights", _mixture_size)
        return down, Message("up", "density parameters", _density_size)

    def _distance(self, run: Run, state: State, round: int) -> float:
        total = 0.0
        for client in run.problem.active:
            rng = run.streams.get("density distance", round, client)
            points = state.server["density"][client]
            if self.density == "gaussian":
                points = draw(points.expand(self.samples, -1, -1), rng)
            mixed = draw_mixture(state, self.samples, rng)
            total += float(state.server["density_weights"][client]) * mmd(self.mmd, points, mixed)
        return total

    def _estimate(self, run: Run, model: Tensor, client: int) -> Tensor:
        """Return the mean (and the variance) of the client's features, [1 or 2, features]."""
        phi = features(run.problem, model, run.problem.clients[client].x)
        variance = [phi.var(dim=0, correction=0)] if self.density == "gaussian" else []
        return torch.stack([phi.mean(dim=0), *variance])


def _delta_size(run: Run, state: State) -> int:
    return int(state.server["delta"].shape[1])


def _deltas_size(run: Run, state: State) -> int:
    return len(state.values["sharing"]) * _delta_size(run, state)


def _density_size(run: Run, state: State) -> int:
    return state.server["density"][0].numel()


def _mixture_size(run: Run, state: State) -> int:
    """Return the numbers of every component with its weight, which a single one does not need."""
    components = len(run.problem.active)
    return components * (_density_size(run, state) + (components > 1))


def _count_first(run: Run, state: State, numbers: int) -> None:
    """Count that every client with data receives w_0, and keeps it, and sends so many numbers."""
    state.holders = list(run.problem.active)
    state.count(down=len(state.holders) * state.model.numel(), up=len(state.holders) * numbers)


def draw_mixture(state: State, count: int, rng: np.random.Generator) -> Tensor:
    """Draw ``count`` points [count, features] from the mixture; with densities of kind ``mean`` return the
    mixture's mean [1, features] itself.
    """
    weights, density = state.server["density_weights"], state.server["density"]
    if density.shape[1] == 1:
        return weights[None] @ density[:, 0]
    p = weights.double().cpu().numpy()
    return draw(density[rng.choice(len(p), size=count, p=p / p.sum())], rng)


def draw(density: Tensor, rng: np.random.Generator) -> Tensor:
    """Draw one point from each diagonal Gaussian of ``density`` [n, 2, features]."""
    noise = rng.standard_normal((len(density), density.shape[2]))
    return density[:, 0] + density[:, 1].sqrt() * torch.as_tensor(noise).to(density)
