"""Other schedules and learned mixtures reach an independent implementation's numbers on five clients."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cases import CLIENTS, HERE, Case, Section, at, expected, names, server, specification
from numpy.typing import NDArray

from fedcore.execution.runner import Settings, prepare, run
from fedcore.execution.simulation import simulate
from fedcore.parts import State
from fedcore.parts.aggregate import project_simplex, staleness_weight
from fedcore.parts.discrepancy import mmd
from fedcore.parts.observers.risk import risk_terms
from fedcore.parts.pooled import divergence_from_centralised, divergence_of_models
from fedcore.spec import parse

Vector = NDArray[np.floating]


def dlu(name: str, hyper: Case) -> Section:
    if name == "DL-u":
        return {"name": "dl_u"}
    return {"name": "oneshot", "weights": hyper.get("agg", "nk")}


def dlopt(name: str, hyper: Case) -> Section:
    return {"name": "dl_opt", **mixture(hyper)}


def fedomw(name: str, hyper: Case) -> Section:
    options = {"p_reset": hyper.get("p_reset", False), "mu": hyper.get("mu", 0.0)}
    return {"name": "fedomw", **mixture(hyper), **options}


def mixture(hyper: Case) -> Section:
    return {
        "gamma": hyper["gamma"],
        "lr_p": hyper["lr_p"],
        "steps_p": hyper["Tc"],
        "regulariser": hyper.get("reg", "plain"),
        "reg_bias": hyper.get("reg_bias", False),
        "simplex": hyper.get("simplex", False),
    }


def fedavgr(name: str, hyper: Case) -> Section:
    weights = {key: hyper[key] for key in ("alpha", "beta", "gamma")}
    reading = {"density": "mean", "mmd": "mean", "squared": hyper.get("mmd") == "sq"}
    return {"name": "fedavgr", **weights, **reading}


def radfed(name: str, hyper: Case) -> Section:
    variant = hyper.get("variant")
    sections: dict[str | None, Section] = {
        None: {"name": "radfed"},
        "p": {"name": "radfed_p", "mu": hyper.get("mu")},
        "m": {"name": "radfed_m", "alpha": hyper.get("alpha")},
        "i": {"name": "radfed_i", "gamma": hyper.get("g")},
    }
    if variant == "a":
        shared = {"server": hyper["server"], "root": not hyper.get("no_sqrt", False)}
        return {"name": "radfed_a", "redistributions": hyper["S"], **shared, **server(hyper)}
    return {"redistributions": hyper["S"], **sections[variant]}


def fedasync(name: str, hyper: Case) -> Section:
    decay = {"constant": "constant", "poly": "polynomial", "hinge": "hinge"}[hyper["s"]]
    given = {key: hyper[key] for key in ("alpha", "a", "b") if key in hyper}
    fresh = int(hyper.get("d_plus1", False))
    return {"name": "fedasync", "staleness": decay, "rho": hyper["rho_prox"], "fresh": fresh, **given}


ALGORITHMS: dict[str, Callable[[str, Case], Section]] = {
    function.__name__: function for function in (dlu, dlopt, fedomw, fedavgr, radfed, fedasync)
}
CASES = names(*ALGORITHMS)


def participation(case: Case) -> Section:
    """Return the assignments or events that the oracle followed."""
    hyper = case["hyper"]
    if case["function"] == "radfed":
        models = hyper.get("m", CLIENTS)
        stride = 1 if models == CLIENTS else 2
        inner = product(range(hyper["T"]), range(hyper["S"]))
        return {"assignments": [[(stride * i + s + t) % CLIENTS for i in range(models)] for t, s in inner]}
    if case["function"] == "fedasync":
        stale = [0, 1, 3, 6, 2, 8]
        return {"events": [[2 * t % CLIENTS, stale[t % 6]] for t in range(1, hyper["T"] + 1)]}
    return {}


@pytest.fixture(scope="session")
def rff(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The start of the oracle's model with trained random features: 64 inputs, 8 features, 10 classes."""
    i, j = np.meshgrid(np.arange(8), np.arange(10), indexing="ij")
    weight = 0.2 * (i == j) + 0.1 * np.cos(1.7 * (i + 1) * (j + 1) + 2)
    i, j = np.meshgrid(np.arange(64), np.arange(8), indexing="ij")
    phase = np.pi * (1 + np.cos(5 * np.arange(8) + 2))
    path = tmp_path_factory.mktemp("start") / "rff.npz"
    np.savez(path, weight=weight.T, omega=0.5 * np.cos(7 * i + 13 * j + 1), phase=phase)
    return path


def spec_of(name: str, rff: Path) -> dict[str, Any]:
    case = expected()["A"][name]
    hyper = {"T": 1, "steps": case["hyper"].get("Tl"), **case["hyper"]}
    spec = specification({**case, "hyper": hyper}, ALGORITHMS[case["function"]](name, hyper), "")
    if case["model"] == "rff":
        options = {"features": 8, "scale": "sqrt2", "learnable": True, "init": str(rff)}
        spec["model"] = {"name": "rff_linear", **options}
    return spec | {"participation": participation(case)}


def probed(parameters: dict[str, Vector]) -> dict[str, Vector]:
    if "omega" in parameters:
        return {"W": parameters["weight"].T, "Om": parameters["omega"], "b": parameters["phase"]}
    return {"W": parameters["weight"].T, "b": parameters["bias"]}


def state_after(spec: dict[str, Any]) -> State:
    prepared, _, _ = prepare(parse(spec), Settings())
    state = State(round=0, models=prepared.problem.start.clone()[None])
    for _ in simulate(prepared, state):
        pass
    return state


def test_every_case_of_these_functions_is_covered() -> None:
    assert len(CASES) == 38


@pytest.mark.parametrize("name", CASES)
def test_float64(name: str, rff: Path) -> None:
    case = expected()["A"][name]
    result = run(spec_of(name, rff))
    path = [row["train_loss"] for row in result.rows]
    assert path[0] == pytest.approx(case["loss0"], rel=0, abs=1e-9)
    assert path[1:6] == pytest.approx(case["loss_first5"], rel=0, abs=1e-9)
    assert path[-1] == pytest.approx(case["loss"], rel=0, abs=1e-9)
    assert result.rows[-1]["test_loss"] == pytest.approx(case["loss_test"], rel=0, abs=1e-9)
    assert result.rows[-1]["test_accuracy"] == pytest.approx(case["acc_test"], rel=0, abs=1e-9)
    for probe, value in case["probe"].items():
        parameter = at(probed(result.parameters), probe)
        np.testing.assert_allclose(parameter, value, rtol=0, atol=1e-8, err_msg=probe)


@pytest.mark.parametrize("name", [name for name in CASES if expected()["A"][name]["primary"]])
def test_float32(name: str, rff: Path) -> None:
    case = expected()["A"][name]
    loss = run(spec_of(name, rff) | {"dtype": "float32"}).rows[-1]["train_loss"]
    assert loss == pytest.approx(case["loss"], rel=0, abs=max(2e-6, 5 * case["f32_dev"]))


@pytest.mark.parametrize("name", [name for name in CASES if "p" in expected()["A"][name]])
def test_mixture_weights(name: str, rff: Path) -> None:
    p = state_after(spec_of(name, rff)).server["mixture"]
    np.testing.assert_allclose(p, expected()["A"][name]["p"], rtol=0, atol=1e-9)


def test_importance_scores(rff: Path) -> None:
    scores = state_after(spec_of("RADFedi", rff)).server["importance"]
    np.testing.assert_allclose(scores, expected()["A"]["RADFedi"]["importance"], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["FedAvgR", "FedAvgR@mmd2", "FedAvgR/gamma_only"])
def test_mixture_of_densities(name: str, rff: Path) -> None:
    server = state_after(spec_of(name, rff)).server
    mean = server["density_weights"] @ server["density"][:, 0]
    assert float(mean.norm()) == pytest.approx(expected()["A"][name]["mu_norm"], abs=1e-9)


def quadratics(rounds: int, assignments: list[list[int]], start: str = "zeros") -> float:
    spec = {
        "data": {"name": "quadratics"},
        "model": {"name": "scalar_quadratic", "init": start},
        "algorithm": {"name": "radfed", "redistributions": 2},
        "training": {"rounds": rounds, "local_steps": 10, "batch_size": "full", "lr": 0.02},
        "participation": {"assignments": assignments},
        "dtype": "float64",
    }
    return float(run(spec).parameters["w"][0])


def test_cyclic_redistribution_on_two_quadratics() -> None:
    reached = expected()["Q"]["RADFed S=2 cyclic"]["iterated_T"]
    assert quadratics(200, [[0, 1], [1, 0]]) == pytest.approx(reached, abs=1e-11)


def test_expected_redistribution_on_two_quadratics(tmp_path: Path) -> None:
    """With clients drawn at random the mean model has FedAvg's fixed point."""
    np.savez(tmp_path / "one.npz", w=np.ones(1))
    drawn = list(product(range(2), repeat=2))
    offset = np.mean([quadratics(1, [[a], [b]]) for a, b in drawn])
    at_one = np.mean([quadratics(1, [[a], [b]], str(tmp_path / "one.npz")) for a, b in drawn])
    fixed = offset / (1 - (at_one - offset))
    assert fixed == pytest.approx(expected()["Q"]["E[RADFed S=2] fixed point"]["closed_form"], abs=1e-11)


def trained(algorithm: Section, rounds: int = 1, **participation: Any) -> dict[str, Vector]:
    case = {"model": "softmax", "hyper": {"T": rounds, "steps": 3, "lr": 0.1}}
    return run({**specification(case, algorithm, ""), "participation": participation}).parameters


def flat(parameters: dict[str, Vector]) -> Vector:
    return np.concatenate([parameters["weight"].ravel(), parameters["bias"]])


@pytest.mark.parametrize("key", ["E_RADFed_S2_steps3_lr.1_A", "E_FedAvg_2clients_steps3_lr.1_A"])
def test_expectation_over_random_clients(key: str) -> None:
    if "RADFed" in key:
        section = {"name": "radfed", "redistributions": 2}
        pairs = product(range(CLIENTS), repeat=2)
        models = [trained(section, assignments=[[first], [second]]) for first, second in pairs]
    else:
        models = [trained({"name": "fedavg"}, cohorts=[pair]) for pair in combinations(range(CLIENTS), 2)]
    mean = {name: np.mean([model[name] for model in models], axis=0) for name in models[0]}
    case = expected()["misc"][key]
    assert np.linalg.norm(flat(mean)) == pytest.approx(case["w_norm"], abs=1e-9)
    for probe, value in case["probe"].items():
        np.testing.assert_allclose(at(probed(mean), probe), value, rtol=0, atol=1e-9, err_msg=probe)


def client_rows() -> list[Vector]:
    return [np.load(HERE / f"data/clients/{k}.npz")["x"].reshape(-1, 64) for k in range(CLIENTS)]


def test_distances_of_mean_features() -> None:
    rows = [torch.tensor(x) for x in client_rows()]
    distances = [[mmd("mean", x, z) for z in rows] for x in rows]
    np.testing.assert_allclose(distances, expected()["misc"]["MMD_identity_A"], rtol=0, atol=1e-9)


def test_divergence_from_centralised_training() -> None:
    federated, central = (flat(trained({"name": name}, 10)) for name in ("fedavg", "centralised"))
    divergence = divergence_from_centralised(federated, central)
    assert divergence == pytest.approx(expected()["misc"]["DC_A"], abs=1e-9)


def test_divergence_of_local_updates() -> None:
    updates = np.stack([flat(trained({"name": "fedavg"}, cohorts=[[k]])) for k in range(CLIENTS)])
    assert divergence_of_models(updates) == pytest.approx(expected()["misc"]["DL_eq3_A"], abs=1e-9)


def test_terms_of_the_excess_risk_bound() -> None:
    case, rows = expected()["misc"]["excess_risk_A"], client_rows()
    sizes = np.array([len(x) for x in rows])
    weight = trained({"name": "fedavg"}, 10)["weight"]
    uniform = np.full(CLIENTS, 1 / CLIENTS)
    agnostic, terms = (risk_terms(weight, rows, p) for p in (uniform, sizes / sizes.sum()))
    assert agnostic["agnostic_complexity"] == pytest.approx(case["G1_rademacher_p_uniform"], abs=1e-9)
    assert agnostic["agnostic_deviation"] == pytest.approx(case["G1_sqrt"], abs=1e-9)
    assert terms["approximation"] == pytest.approx(case["G2"], abs=1e-9)
    assert terms["federated"] == pytest.approx(case["G3_without_disc"], abs=1e-9)


def test_staleness_laws() -> None:
    table = expected()["misc"]["staleness"]
    polynomial = [staleness_weight("polynomial", d, 0.5, 0.0) for d in table["d"]]
    hinge = [staleness_weight("hinge", d, 10.0, 4.0) for d in table["d"]]
    assert polynomial == pytest.approx(table["poly_a05"], abs=1e-11)
    assert hinge == pytest.approx(table["hinge_a10_b4"], abs=1e-11)


def test_projection_onto_the_simplex() -> None:
    case = expected()["misc"]["project_simplex"]
    projection = project_simplex(torch.tensor(case["v"], dtype=torch.float64))
    np.testing.assert_allclose(projection, case["p"], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("point", "nearest"),
    [([5.0, 0.0], [1.0, 0.0]), ([-3.0, -3.0], [0.5, 0.5]), ([0.25, 0.75], [0.25, 0.75]), ([7.0], [1.0])],
)
def test_points_far_from_the_simplex_and_on_it(point: list[float], nearest: list[float]) -> None:
    assert project_simplex(torch.tensor(point, dtype=torch.float64)).tolist() == pytest.approx(nearest)
