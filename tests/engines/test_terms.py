"""Every term's closed-form gradient in the features is the derivative of its loss."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from engine_cases import ALGORITHMS, specification

from fedcore.engines import Batch, BoundTerm, Job
from fedcore.execution.runner import Settings, prepare
from fedcore.execution.simulation import simulate
from fedcore.parts import State
from fedcore.spec import parse

ON_FEATURES = {"fedavgr", "moon", "rfedavg", "rfedavg_plus"}


def bound_terms(folder: Path, algorithm: str) -> list[tuple[BoundTerm, torch.Tensor]]:
    """Return an algorithm's terms as bound after some rounds, with rows of the client."""
    spec = specification(folder, algorithm, "tanh")
    spec["training"] = {**spec["training"], "rounds": min(3, spec["training"]["rounds"])}
    run, _, _ = prepare(parse(spec), Settings(device="cpu"))
    state = State(round=0, models=run.problem.start.clone().unsqueeze(0))
    list(simulate(run, state))
    pairs = []
    for client in run.problem.active:
        job = Job(client, 0, 0, state.model + 0.01)
        for term in run.recipe.objective:
            pairs.append((term.bind(run, state, job), run.problem.clients[client].x))
    return pairs


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_feature_gradient_is_the_derivative(images: Path, algorithm: str) -> None:
    rng, compared = torch.Generator().manual_seed(1), 0
    for term, x in bound_terms(images, algorithm):
        if term.feature_loss is None:
            assert term.feature_gradient is None
            continue
        for size in (1, len(x)):
            phi = torch.randn(size, 6, generator=rng, dtype=torch.float64, requires_grad=True)
            batch = Batch(x[:size], torch.full((size,), 1 / size, dtype=torch.float64))
            (expected,) = torch.autograd.grad(term.loss(phi, batch), phi)
            assert term.feature_gradient is not None
            gradient = term.feature_gradient(phi.detach(), batch)
            torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-12)
            assert expected.abs().sum() > 0
            compared += 1
    assert bool(compared) == (algorithm in ON_FEATURES)
