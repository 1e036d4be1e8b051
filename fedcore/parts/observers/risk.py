"""The terms of FedAvgR's excess-risk bound, measured on a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from fedcore.base.lazy import Tensor, torch
from fedcore.base.options import Options
from fedcore.base.registry import Plugin
from fedcore.engines import Upload
from fedcore.engines.forward import features, mean_loss
from fedcore.parts import Part, Plan, Run, State
from fedcore.parts.discrepancy import mmd

POINTS = 100
Array = NDArray[np.floating]


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
        state.values["risk"] = [self._row(run, 0, state.model, [state.model])]

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        if run.due(state.round + 1, self.every):
            models = [state.model, *(upload.model for upload in uploads)]
            row = self._row(run, state.round + 1, state.model, models)
            state.values["risk"] = [*state.values["risk"], row]

    def tables(self, state: State) -> dict[str, list[dict[str, float]]]:
        """Return one row per measured round."""
        return {"risk": state.values["risk"]}

    def _row(self, run: Run, round: int, model: Tensor, models: Sequence[Tensor]) -> dict[str, float]:
        problem, active = run.problem, run.problem.active
        phi = [features(problem, model, problem.clients[k].x).double().cpu().numpy() for k in active]
        sizes = np.array([len(rows) for rows in phi])
        p = sizes / sizes.sum()
        head = problem.parameters(model)[problem.model.head].double().cpu().numpy()
        losses = np.array([[mean_loss(problem, w, problem.clients[k]) for k in active] for w in models])
        terms = risk_terms(head.reshape(len(head), -1), phi, p)
        return {
            "round": round,
            "discrepancy": float(p @ discrepancies(losses, p)),
            "mmd": float(p @ _distances(run, round, phi)),
            **terms,
        }


def _distances(run: Run, round: int, phi: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the MMD [K] between drawn rows of each client's features and of all clients'.

    FedAvgR, Section 4, leaves kernel and bandwidth open.
    """
    everything, distances = np.concatenate(phi), []
    for client, rows in zip(run.problem.active, phi, strict=True):
        rng = run.streams.get("risk points", round, client)
        drawn = (points[rng.permutation(len(points))[:POINTS]] for points in (rows, everything))
        distances.append(mmd("kernel", *map(torch.as_tensor, drawn)))
    return np.array(distances)


def discrepancies(losses: Array, p: Array) -> NDArray[np.float64]:
    """Return max over models f of |E_k(f) - sum_j p_j E_j(f)| [K]: a lower estimate of disc_L(rho_k, rho).

    ``losses`` [models, K]: the mean loss of each model on each client's rows; ``p`` [K]: mixture weights.
    FedAvgR, Section 3, takes the supremum over all models.
    """
    return np.abs(losses - (losses @ p)[:, None]).max(axis=0)  # type: ignore[no-any-return]


def risk_terms(head: Array, features: Sequence[Array], p: Array) -> dict[str, float]:
    """Return the terms of the excess-risk bound that can be computed, up to constants and discrepancies.

    ``agnostic_complexity``: sum_k p_k B sqrt(C) / n_k ||phi(X^k)||_F, of G_1. ``agnostic_deviation``:
    sqrt(S(p | n) / n) with S = chi^2 + 1, of G_1. ``approximation``: G_2 = B sqrt(C) / n ||phi(X)||_F +
    sqrt(1/n). ``federated``: G_3 = sum_k p_k (B sqrt(C) / n_k ||phi(X^k)||_F + sqrt(1/n_k)). FedAvgR,
    Section 3. ``head`` is W [C, D], whose trace norm stands for B, ``features`` are phi(X^k) [n_k, D] of each
    client, and ``p`` [K] the mixture weights, of G_1 those that the algorithm uses.
    """
    sizes = np.array([len(phi) for phi in features])
    total = int(sizes.sum())
    norms = np.array([np.linalg.norm(phi) for phi in features])
    known = np.isfinite(head).all()
    complexity = float(np.linalg.svd(head, compute_uv=False).sum()) * sqrt(len(head)) if known else np.nan
    per_client = complexity / sizes * norms
    return {
        "agnostic_complexity": float(p @ per_client),
        "agnostic_deviation": sqrt(float((p**2 / (sizes / total)).sum()) / total),
        "approximation": complexity / total * float(np.linalg.norm(norms)) + sqrt(1 / total),
        "federated": float(p @ (per_client + np.sqrt(1 / sizes))),
    }


PLUGIN = Plugin(
    "risk",
    RiskOptions,
    lambda options, spec: RiskBound(options.every),
    "discrepancy, complexity and deviation terms of the excess-risk bound over rounds, in risk.csv",
    "FedAvgR, Section 3",
)
