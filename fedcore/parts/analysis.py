"""Figures' quantities: distances of feature distributions, divergences of weights, terms of risk bounds.

Pure functions of arrays, for reports and for studies of saved models.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from fedcore.base.lazy import torch
from fedcore.parts.discrepancy import mmd

Array = NDArray[np.floating]


def kernel_mmd(x: Array, z: Array) -> float:
    """Return the MMD of points ``x`` [n, d] and ``z`` [m, d] under a Gaussian kernel whose bandwidth is the
    median distance of the pooled points. FedAvgR, Section 4, leaves kernel and bandwidth open.
    """
    points = (torch.as_tensor(array, dtype=torch.float64) for array in (x, z))
    return mmd("kernel", *points)


def divergence_from_centralised(federated: Array, centralised: Array) -> float:
    """Return DC = ||w_FL - w_C|| / ||w_C|| of two flat weight vectors [d]. RADFed, Section V-B."""
    return float(np.linalg.norm(federated - centralised) / np.linalg.norm(centralised))


def divergence_of_updates(updates: Array) -> float:
    """Return DL, the mean over pairs of clients of 1 - cos of their updates [K, d]. RADFed, eq. (3)."""
    unit = updates / np.linalg.norm(updates, axis=1, keepdims=True)
    return float(np.mean([1 - unit[i] @ unit[j] for i, j in combinations(range(len(unit)), 2)]))


def discrepancies(losses: Array, p: Array) -> NDArray[np.float64]:
    """Return max over models f of |E_k(f) - sum_j p_j E_j(f)| [K]: a lower estimate of disc_L(rho_k, rho).

    Args:
        losses: mean loss of each model on each client's rows [models, K].
        p: mixture weights [K].

    FedAvgR, Section 3, takes the supremum over all models.
    """
    return np.abs(losses - (losses @ p)[:, None]).max(axis=0)  # type: ignore[no-any-return]


def risk_terms(head: Array, features: Sequence[Array], p: Array, estimated: Array) -> dict[str, float]:
    """Return the terms of the excess-risk bound that can be computed, up to constants and discrepancies.

    ``agnostic_complexity``: sum_k p^_k B sqrt(C) / n_k ||phi(X^k)||_F, of G_1. ``agnostic_deviation``:
    sqrt(S(p^ | n) / n) with S = chi^2 + 1, of G_1. ``approximation``: G_2 = B sqrt(C) / n ||phi(X)||_F +
    sqrt(1/n). ``federated``: G_3 = sum_k p_k (B sqrt(C) / n_k ||phi(X^k)||_F + sqrt(1/n_k)). FedAvgR,
    Section 3.

    Args:
        head: output weights W [C, D], whose trace norm stands for B.
        features: phi(X^k) [n_k, D] of each client.
        p: true mixture weights [K].
        estimated: the weights p^ [K] that the algorithm uses.
    """
    sizes = np.array([len(phi) for phi in features])
    total = int(sizes.sum())
    norms = np.array([np.linalg.norm(phi) for phi in features])
    complexity = float(np.linalg.svd(head, compute_uv=False).sum()) * sqrt(len(head))
    per_client = complexity / sizes * norms
    return {
        "agnostic_complexity": float(estimated @ per_client),
        "agnostic_deviation": sqrt(float((estimated**2 / (sizes / total)).sum()) / total),
        "approximation": complexity / total * float(np.linalg.norm(norms)) + sqrt(1 / total),
        "federated": float(p @ (per_client + np.sqrt(1 / sizes))),
    }
