"""The terms of FedAvgR's excess-risk bound, measured on a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from fedcore.base.lazy import Tensor
from fedcore.base.options import Options
from fedcore.base.registry import Plugin
from fedcore.engines import Upload
from fedcore.engines.forward import features, mean_loss
from fedcore.parts import Part, Plan, Run, State, analysis
from fedcore.spec import Spec

POINTS = 100


class RiskOptions(Options):
    """``every``: rounds between two measurements; the last round is measured always."""

    every: PositiveInt = 1


@dataclass(frozen=True)
class RiskBound(Part):
    """Measures the terms of the bound under the new global model. FedAvgR, Section 3.

    p and its estimate are n_k/n both, so rho~ = rho. disc_L(rho_k, rho) is estimated from below, as the
    largest gap over the models at hand: the global one and those that the round's clients sent. ``mmd`` is
    that of the features of a client and of all clients, with a Gaussian kernel and the median heuristic,
    between 100 rows of each, or as many as there are. Both are means over clients, weighted by p.
    """

    every: int
    label: str = "terms of the risk bound"

    def start(self, run: Run, state: State) -> None:
        """Measure w_0."""
        state.values["risk"] = [self._row(run, 0, state.model, [state.model])]

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        """Measure the new model, if it is its turn."""
        done = state.round + 1
        if done % self.every == 0 or done == run.spec.training.rounds:
            models = [state.model, *(upload.model for upload in uploads)]
            row = self._row(run, done, state.model, models)
            state.values["risk"] = [*state.values["risk"], row]

    def tables(self, state: State) -> dict[str, list[dict[str, float]]]:
        """Return one row per measured round."""
        return {"risk": state.values["risk"]}

    def _row(self, run: Run, round: int, model: Tensor, at_hand: Sequence[Tensor]) -> dict[str, float]:
        problem, active = run.problem, run.problem.active
        phi = [features(problem, model, problem.clients[k].x).double().cpu().numpy() for k in active]
        sizes = np.array([len(rows) for rows in phi])
        p = sizes / sizes.sum()
        head = problem.model.trainable.views(model)[problem.model.head].double().cpu().numpy()
        losses = np.array([[mean_loss(problem, w, client) for client in active] for w in at_hand])
        terms = analysis.risk_terms(head.reshape(len(head), -1), phi, p, p)
        return {
            "round": round,
            "discrepancy": float(p @ analysis.discrepancies(losses, p)),
            "mmd": float(p @ _distances(run, round, phi)),
            **terms,
        }


def _distances(run: Run, round: int, phi: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the MMD [K] between drawn rows of each client's features and of all clients'."""
    everything = np.concatenate(phi)

    def distance(client: int, rows: NDArray[np.float64]) -> float:
        rng = run.streams.get("risk points", round, client)
        some, others = (points[rng.permutation(len(points))[:POINTS]] for points in (rows, everything))
        return analysis.kernel_mmd(some, others)

    return np.array([distance(client, rows) for client, rows in zip(run.problem.active, phi, strict=True)])


def build(options: RiskOptions, spec: Spec) -> RiskBound:
    """Observe the terms at regular rounds."""
    return RiskBound(options.every)


PLUGIN = Plugin(
    "risk",
    RiskOptions,
    build,
    "discrepancy, complexity and deviation terms of the excess-risk bound over rounds, in risk.csv",
    "FedAvgR, Section 3",
)
