"""``scaling: by_client``: every client, held out or not, standardises its own rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcore.base.errors import SpecError
from fedcore.data import Source
from fedcore.execution.runner import Settings, prepare
from fedcore.spec import parse

ROOT = Path(__file__).parents[2] / "data"
SPEC: dict[str, Any] = {
    "data": {"name": "covertype", "edition": "demo", "scaling": "by_client", "pool": True},
    "partition": {"name": "iid", "clients": 10, "fold": {"index": 0}},
    "model": {"name": "linear"},
    "algorithm": {"name": "fedavg"},
    "training": {"rounds": 1, "batch_size": 32, "lr": 0.1},
}


def test_each_clients_quantities_have_mean_zero_and_deviation_one() -> None:
    prepared, _, _ = prepare(parse(SPEC), Settings(source=Source(ROOT)))
    assert len(prepared.problem.clients) == 6
    for block in prepared.problem.clients:
        x = block.x[:, :10].double().numpy()
        assert np.abs(x.mean(axis=0)).max() < 1e-5
        assert x.std(axis=0) == pytest.approx(np.ones(10), abs=1e-4)
    test = prepared.problem.test.x[:, :10].double().numpy()
    assert np.abs(test.mean(axis=0)).max() < 1e-5
    assert np.abs(test.std(axis=0) - 1).max() < 1e-4


def test_noise_comes_after_standardisation() -> None:
    plain, noisy = (
        prepare(parse({**SPEC, "partition": SPEC["partition"] | more}), Settings(source=Source(ROOT)))[
            0
        ].problem
        for more in ({}, {"noise": 0.5})
    )
    for number, (before, after) in enumerate(zip(plain.clients, noisy.clients, strict=True), 1):
        assert float((after.x - before.x).double().var()) == pytest.approx(0.5 * number / 6, rel=0.1)
    assert (noisy.test.x == plain.test.x).all()


@pytest.mark.parametrize("share", [{}, {"test": 0.2}, {"selection": 0.2}, {"validation": 0.2}])
def test_it_needs_a_split_by_client(share: dict[str, float]) -> None:
    data = {**SPEC["data"], "pool": bool(share.get("test"))}
    spec = {**SPEC, "data": data, "partition": {"name": "iid", "clients": 10, **share}}
    with pytest.raises(SpecError, match=r"data\.scaling: 'by_client' needs .* partition\.fold"):
        prepare(parse(spec), Settings(source=Source(ROOT)))
