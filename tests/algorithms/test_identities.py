"""Algorithms that coincide in theory coincide here."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcore.execution.runner import run

Spec = dict[str, Any]
KINDS = ("adam", "adagrad", "yogi")
FEDAVG = {"name": "fedavg"}


@pytest.fixture
def federation(spec: Spec) -> Spec:
    """Mini-batches, sampled clients of unequal sizes, float64."""
    spec["training"] |= {"rounds": 4, "local_epochs": 1, "lr": 0.2}
    return {**spec, "dtype": "float64"}


@pytest.fixture
def equal(federation: Spec) -> Spec:
    """The same with five clients of equal sizes, and with them equal numbers of local steps."""
    return {**federation, "partition": {"name": "iid", "clients": 5}}


@pytest.fixture
def whole(equal: Spec) -> Spec:
    """Five clients of equal sizes, all of them in every round, full batches, three local steps."""
    equal["training"] = {"rounds": 4, "local_steps": 3, "batch_size": "full", "lr": 0.2}
    return {**equal, "participation": {"fraction": 1.0}}


@pytest.fixture
def twins(whole: Spec, digits: Path, tmp_path: Path) -> Spec:
    """Three clients that hold the same rows."""
    (tmp_path / "clients").mkdir()
    rows = dict(np.load(digits / "test.npz"))
    np.savez(tmp_path / "test.npz", **rows)
    for client in range(3):
        np.savez(tmp_path / "clients" / f"{client}.npz", **{name: a[:60] for name, a in rows.items()})
    return {**whole, "data": {"name": "npz", "path": str(tmp_path)}, "partition": {"name": "given"}}


def trained(spec: Spec, algorithm: Spec, **training: Any) -> np.ndarray:
    """Return the final model of a run as one vector."""
    spec = copy.deepcopy(spec) | {"algorithm": algorithm}
    spec["training"] |= training
    parameters = run(spec).parameters
    return np.concatenate([parameters[name].ravel() for name in sorted(parameters)])


def same(first: np.ndarray, second: np.ndarray) -> None:
    np.testing.assert_allclose(first, second, rtol=0, atol=1e-11)


def different(first: np.ndarray, second: np.ndarray) -> None:
    assert np.abs(first - second).max() > 1e-6


@pytest.mark.parametrize(
    "algorithm",
    [
        {"name": "fedprox", "mu": 0},
        {"name": "rfedavg", "lambda": 0},
        {"name": "rfedavg_plus", "lambda": 0},
        {"name": "moon", "mu": 0},
        {"name": "fedavgm", "beta": 0, "server_lr": 1},
        {"name": "slowmo", "beta": 0, "server_lr": 1},
        {"name": "fedadc", "beta": 0, "server_lr": 1},
        {"name": "mime", "beta": 0, "lite": True},
    ],
    ids=lambda algorithm: algorithm["name"],
)
def test_switched_off_is_fedavg(algorithm: Spec, federation: Spec) -> None:
    same(trained(federation, algorithm), trained(federation, FEDAVG))


@pytest.mark.parametrize(
    "algorithm",
    [
        {"name": "fedprox", "mu": 0.5},
        {"name": "rfedavg", "lambda": 0.5},
        {"name": "rfedavg_plus", "lambda": 0.5},
        {"name": "moon", "mu": 5},
        {"name": "fedavgm", "beta": 0.5},
        {"name": "slowmo", "beta": 0.5},
        {"name": "fedadc", "beta": 0.5},
        {"name": "mime", "beta": 0.5, "lite": True},
        {"name": "mime", "beta": 0},
        {"name": "fednova"},
        {"name": "scaffold"},
        {"name": "vrl_sgd"},
        {"name": "feddc"},
        {"name": "qfedavg", "q": 0},
    ],
    ids=lambda algorithm: algorithm["name"],
)
def test_switched_on_is_not(algorithm: Spec, federation: Spec) -> None:
    different(trained(federation, algorithm), trained(federation, FEDAVG))


def test_without_fairness_clients_weigh_alike(federation: Spec, equal: Spec) -> None:
    fair = {"name": "qfedavg", "q": 0}
    same(trained(federation, fair), trained(federation, {"name": "fedavg", "averaging": "uniform"}))
    same(trained(equal, fair), trained(equal, FEDAVG))
    same(trained(federation, {**fair, "weights": "nk"}), trained(federation, FEDAVG))


def test_released_algorithms_without_their_terms_average_plainly(federation: Spec) -> None:
    plain = trained(federation, {"name": "fedavg", "averaging": "uniform"})
    released = {**federation, "variant": "released"}
    for algorithm in (
        {"name": "scaffold"},
        {"name": "rfedavg", "lambda": 0},
        {"name": "rfedavg_plus", "lambda": 0},
    ):
        same(trained(released, algorithm), plain)


def test_released_fedprox_has_twice_the_pull(federation: Spec) -> None:
    released = {**federation, "variant": "released"}
    twice = trained(federation, {"name": "fedprox", "mu": 0.5})
    same(trained(released, {"name": "fedprox", "mu": 0.25}), twice)
    same(trained(federation, {"name": "fedprox", "mu": 0.25, "half": False}), twice)
    same(trained(released, {"name": "fedprox", "mu": 0.5, "half": True}), twice)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_nova_with_equal_steps_is_averaging(equal: Spec, momentum: float) -> None:
    same(trained(equal, {"name": "fednova"}, momentum=momentum), trained(equal, FEDAVG, momentum=momentum))
    near = {"mu": 0.5}
    same(
        trained(equal, {"name": "fednova", **near}, momentum=momentum),
        trained(equal, {"name": "fedprox", **near}, momentum=momentum),
    )


@pytest.mark.parametrize(
    ("momentum", "steps", "one"), [(0.0, 1.0, 1 / 3), (0.9, 3 / 5.61, 1 / 5.61)], ids=["sgd", "momentum"]
)
def test_what_nova_multiplies_with(whole: Spec, momentum: float, steps: float, one: float) -> None:
    """Three steps with momentum .9 accumulate 1 + 1.9 + 2.71 gradients; one round moves along one line."""
    start = trained(whole, FEDAVG, rounds=1, lr=1e-300)
    moved = trained(whole, FEDAVG, rounds=1, momentum=momentum) - start
    for tau_eff, share in (("norm", 1.0), ("steps", steps), ("one", one)):
        final = trained(whole, {"name": "fednova", "tau_eff": tau_eff}, rounds=1, momentum=momentum)
        same(final - start, share * moved)


def test_controls_of_identical_clients_cancel(twins: Spec) -> None:
    plain = trained(twins, FEDAVG)
    for algorithm in (
        {"name": "scaffold", "option": 1},
        {"name": "scaffold", "option": 2},
        {"name": "vrl_sgd"},
    ):
        same(trained(twins, algorithm), plain)
    for kind in KINDS:
        same(trained(twins, {"name": f"scaf_{kind}"}), trained(twins, {"name": f"fed{kind}"}))


def test_controls_start_at_zero(federation: Spec) -> None:
    first = trained(federation, FEDAVG, rounds=1)
    same(trained(federation, {"name": "vrl_sgd"}, rounds=1), first)
    same(trained(federation, {"name": "scaffold", "averaging": "nk"}, rounds=1), first)
    same(trained(federation, {"name": "moon", "mu": 5}, rounds=1), first)


@pytest.mark.parametrize("averaging", ["uniform", "nk"])
def test_vrl_sgd_is_scaffold_of_the_second_kind_when_all_take_part(whole: Spec, averaging: str) -> None:
    """c_k - c then moves by (mean model - own model) / (tau eta) in both, on clients of unequal sizes too."""
    whole["partition"] = {"name": "given"}
    scaffold = {"name": "scaffold", "option": 2, "averaging": averaging}
    same(trained(whole, {"name": "vrl_sgd", "averaging": averaging}), trained(whole, scaffold))


@pytest.mark.parametrize("kind", KINDS)
def test_comfeds_clients_without_effect_leave_the_server(kind: str, equal: Spec) -> None:
    plain = trained(equal, {"name": f"fed{kind}"})
    same(trained(equal, {"name": f"prox_{kind}", "mu": 0}), plain)
    same(trained(equal, {"name": f"nova_{kind}"}), plain)
    same(trained(equal, {"name": "fedadapt", "server": kind}), plain)
    different(trained(equal, {"name": f"scaf_{kind}"}), plain)


def test_slowmo_is_fedavgm_under_a_constant_rate(federation: Spec) -> None:
    keys = {"beta": 0.6, "server_lr": 0.8}
    same(trained(federation, {"name": "slowmo", **keys}), trained(federation, {"name": "fedavgm", **keys}))
    decay = {"lr_schedule": {"name": "milestones", "milestones": {3: 0.05}}}
    different(
        trained(federation, {"name": "slowmo", **keys}, **decay),
        trained(federation, {"name": "fedavgm", **keys}, **decay),
    )


def test_fedadc_without_local_momentum_is_slowmo(federation: Spec) -> None:
    keys = {"beta": 0.6, "server_lr": 0.8}
    same(
        trained(federation, {"name": "fedadc", "beta_local": 0, **keys}),
        trained(federation, {"name": "slowmo", **keys}),
    )


def test_one_full_step_of_mime_is_centralised_momentum(whole: Spec) -> None:
    """x <- x - eta s with s <- (1 - beta) grad + beta s: FedAvgM at server rate 1 - beta."""
    single_step = {"local_steps": 1}
    central = trained(whole, {"name": "fedavgm", "beta": 0.8, "server_lr": 0.2}, **single_step)
    same(trained(whole, {"name": "mime", "beta": 0.8}, **single_step), central)
    same(trained(whole, {"name": "mime", "beta": 0.8, "lite": True}, **single_step), central)


def test_mime_on_identical_clients_needs_no_correction(twins: Spec) -> None:
    same(
        trained(twins, {"name": "mime", "beta": 0.5}),
        trained(twins, {"name": "mime", "beta": 0.5, "lite": True}),
    )


def test_feddc_counts_the_first_change_twice(federation: Spec) -> None:
    """Without penalty and controls yet, round one adds each client's drift, its change, to its model."""
    first = trained(federation, {"name": "feddc", "alpha": 0}, rounds=1)
    same(first, trained(federation, {"name": "fedavgm", "beta": 0, "server_lr": 2}, rounds=1))


def test_contrast_of_fixed_features_has_no_gradient(federation: Spec) -> None:
    federation["model"] = {"name": "linear"}
    same(trained(federation, {"name": "moon", "mu": 5}), trained(federation, FEDAVG))


@pytest.mark.parametrize("kind", KINDS)
def test_momentum_in_local_steps_starts_as_a_smaller_rate(kind: str, federation: Spec) -> None:
    """Before there is a momentum, a share w of it leaves the share 1 - w of each local gradient."""
    blended = trained(federation, {"name": f"fed{kind}", "momentum_in_local": 0.25}, rounds=1)
    same(blended, trained(federation, {"name": f"fed{kind}"}, rounds=1, lr=0.75 * 0.2))
    different(
        trained(federation, {"name": f"fed{kind}", "momentum_in_local": 0.25}),
        trained(federation, {"name": f"fed{kind}"}, lr=0.75 * 0.2),
    )


def test_a_large_tau_makes_the_server_plain(federation: Spec) -> None:
    """lr D / (sqrt(v) + tau) tends to D as lr = tau grows."""
    keys = {"beta1": 0, "tau": 1e9, "server_lr": 1e9}
    for kind in KINDS:
        np.testing.assert_allclose(
            trained(federation, {"name": f"fed{kind}", **keys}),
            trained(federation, FEDAVG),
            rtol=0,
            atol=1e-6,
        )
