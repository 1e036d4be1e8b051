"""Combinations that make no sense are refused in one line."""

from __future__ import annotations

from typing import Any

import pytest
from wording import one_line

from fedcore.base.errors import SpecError
from fedcore.spec import parse


@pytest.mark.parametrize(
    ("algorithm", "training", "message"),
    [
        ({"name": "fednova"}, {"optimizer": "rmsprop"}, "normalised averaging expects sgd or momentum"),
        ({"name": "nova_yogi"}, {"optimizer": "rmsprop"}, "normalised averaging expects sgd or momentum"),
        (
            {"name": "prox_adam", "momentum_in_local": 0.5},
            {"optimizer": "rmsprop"},
            "training.optimizer: got 'rmsprop', momentum_in_local expects sgd or momentum",
        ),
        ({"name": "feddc"}, {"optimizer": "rmsprop"}, "'feddc' expects sgd or momentum"),
        ({"name": "vrl_sgd"}, {"optimizer": "rmsprop"}, "'vrl_sgd' expects sgd or momentum"),
        ({"name": "fedadc"}, {"optimizer": "rmsprop"}, "'fedadc' expects sgd or momentum"),
        (
            {"name": "fedadc", "beta": 0.5, "beta_local": 0.9},
            {},
            "algorithm.beta_local: got 0.9, expected at most beta, which is 0.5",
        ),
        ({"name": "fedyogi", "tau": 0}, {}, "algorithm.tau: got 0, expected a number greater than 0"),
        ({"name": "fedadam", "beta1": 1}, {}, "algorithm.beta1: got 1, expected a number less than 1"),
        ({"name": "fedadapt", "server": "sgd"}, {}, "algorithm.server: got 'sgd', expected 'adam'"),
        ({"name": "scaf_adam", "option": 3}, {}, "algorithm.option: got 3, expected 1 or 2"),
        ({"name": "scaf_adam", "mu": 1}, {}, "algorithm.mu: unknown key"),
        ({"name": "moon", "temperature": 0}, {}, "algorithm.temperature: got 0"),
        ({"name": "feddc", "alpha": -1}, {}, "algorithm.alpha: got -1"),
    ],
)
def test_one_line(
    algorithm: dict[str, Any], training: dict[str, Any], message: str, spec: dict[str, Any]
) -> None:
    spec = {**spec, "algorithm": algorithm, "training": {**spec["training"], **training}}
    with pytest.raises(SpecError) as caught:
        parse(spec)
    assert message in str(caught.value)
    one_line(caught.value)
