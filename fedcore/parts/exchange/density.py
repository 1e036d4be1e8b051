"""Estimated densities of every client's features, mixed by the server and sent to all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedcore.base.lazy import Tensor, torch
from fedcore.engines.forward import features
from fedcore.parts import Cargo, Exchange, Job, Plan, Run, State, Traffic, Upload
from fedcore.parts.discrepancy import Discrepancy, mmd

Density = Literal["gaussian", "mean"]


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

    def start(self, run: Run, state: State) -> None:
        """Let every client with data send its density under w_0, and count that."""
        active, problem = run.problem.active, run.problem
        first = {client: self._estimate(run, state.model, client) for client in active}
        width = first[active[0]].shape[1]
        state.server["density"] = state.model.new_zeros(len(problem.clients), self._rows, width)
        for client, found in first.items():
            state.server["density"][client] = found
        total = sum(problem.sizes)
        state.server["density_weights"] = state.model.new_tensor([size / total for size in problem.sizes])
        state.bytes_down += len(active) * state.model.numel() * problem.bytes_per_number
        state.bytes_up += len(active) * self._rows * width * problem.bytes_per_number
        state.values["holders"] = list(active)
        state.values["mmd"] = self._distance(run, state, 0)

    def uploaded(self, run: Run, state: State, job: Job, upload: Upload) -> None:
        """Estimate the client's density under its local model."""
        upload.extras["density"] = self._estimate(run, upload.model, job.client)

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        """Mix the cohort's new densities in."""
        state.server["density"] = state.server["density"].clone()
        for upload in uploads:
            state.server["density"][upload.client] = upload.extras["density"]
        done = state.round + 1
        if done % run.spec.evaluation.every == 0 or done == run.spec.training.rounds:
            state.values["mmd"] = self._distance(run, state, done)

    def columns(self, state: State) -> dict[str, float]:
        """Report the mean MMD between the clients' densities and the mixture."""
        return {"mmd": state.values["mmd"]}

    def traffic(self, run: Run, state: State, plan: Plan) -> Traffic:
        """One density up; down the mixture: its mean, or every component with its weight."""
        _, rows, width = state.server["density"].shape
        components = len(run.problem.active) if self.density == "gaussian" else 1
        down = components * rows * width + (components if components > 1 else 0)
        size = len(plan.cohort) * run.problem.bytes_per_number
        return Traffic(down=size * down, up=size * rows * width)

    def cargo(self) -> Cargo:
        """Name what travels besides models."""
        if self.density == "mean":
            return Cargo(down=("mean feature of all clients",), up=("mean feature",))
        return Cargo(down=("densities of all clients and their weights",), up=("density parameters",))

    def _distance(self, run: Run, state: State, round: int) -> float:
        total = 0.0
        for client in run.problem.active:
            rng = run.streams.get("density distance", round, client)
            own = state.server["density"][client]
            if self.density == "gaussian":
                own = draw(own.expand(self.samples, -1, -1), rng)
            mixed = draw_mixture(state, self.samples, rng)
            total += float(state.server["density_weights"][client]) * mmd(self.mmd, own, mixed)
        return total

    @property
    def _rows(self) -> int:
        return 2 if self.density == "gaussian" else 1

    def _estimate(self, run: Run, model: Tensor, client: int) -> Tensor:
        """Return the mean (and the variance) of the client's features, [1 or 2, features]."""
        phi = features(run.problem, model, run.problem.clients[client].x)
        rows = [phi.mean(dim=0)] + ([phi.var(dim=0, correction=0)] if self._rows == 2 else [])
        return torch.stack(rows)


def draw_mixture(state: State, count: int, rng: np.random.Generator) -> Tensor:
    """Draw ``count`` points [count, features] from the mixture; with densities of kind ``mean`` return the
    mixture's mean [1, features] itself."""
    weights, density = state.server["density_weights"], state.server["density"]
    if density.shape[1] == 1:
        return weights[None] @ density[:, 0]
    p = weights.double().cpu().numpy()
    return draw(density[rng.choice(len(p), size=count, p=p / p.sum())], rng)


def draw(density: Tensor, rng: np.random.Generator) -> Tensor:
    """Draw one point from each diagonal Gaussian of ``density`` [n, 2, features]."""
    noise = rng.standard_normal((len(density), density.shape[2]))
    return density[:, 0] + density[:, 1].sqrt() * torch.as_tensor(noise).to(density)
