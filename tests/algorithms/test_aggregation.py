"""Aggregation and staleness on two quadratics, where a round is a line of arithmetic."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from rounds import prepared, started

from fedcore.base.errors import SpecError
from fedcore.engines.forward import features
from fedcore.execution.runner import run
from fedcore.execution.simulation import simulate
from fedcore.parts import Work, aggregate
from fedcore.parts.aggregate import (
    DriftCorrectedMean,
    Fair,
    LearnedMixture,
    NormalisedMean,
    PlainMean,
    WeightedMean,
    averaging,
    changes,
    client_scores,
    project_simplex,
    sample_weights,
    staleness_weight,
    weighted_sum,
)
from fedcore.parts.schedule import Asynchronous, Redistribution, Synchronous
from fedcore.parts.select import Assignments

Values = dict[str, Any]
CURVATURES, CENTRES = (1.0, 4.0, 2.0), (0.0, 1.0, -2.0)
LR, STEPS, START = 0.1, 3, 1.75


@pytest.fixture
def quadratics(tmp_path: Path) -> Values:
    """Three quadratics, full gradients, a start that is no optimum."""
    np.savez(tmp_path / "start.npz", w=np.full(1, START))
    return {
        "data": {"name": "quadratics", "curvatures": CURVATURES, "centres": CENTRES},
        "model": {"name": "scalar_quadratic", "init": str(tmp_path / "start.npz")},
        "training": {"rounds": 1, "local_steps": STEPS, "batch_size": "full", "lr": LR},
        "dtype": "float64",
    }


def trained(client: int, w: float) -> float:
    """Return a client's model after its gradient steps from w."""
    return CENTRES[client] + (1 - LR * CURVATURES[client]) ** STEPS * (w - CENTRES[client])


def loss(client: int, w: float) -> float:
    return CURVATURES[client] / 2 * (w - CENTRES[client]) ** 2


def ended(spec: Values, algorithm: Values, rounds: int = 1, **more: Any) -> float:
    training = {**spec["training"], "rounds": rounds}
    return float(run({**spec, **more, "training": training, "algorithm": algorithm}).parameters["w"][0])


EVENTS = [[0, 0], [1, 1], [2, 3], [0, 2], [1, 0], [2, 4], [1, 1]]


@pytest.mark.parametrize("fresh", [0, 1])
@pytest.mark.parametrize(("decay", "a", "b"), [("constant", 0, 0), ("polynomial", 0.5, 0), ("hinge", 2.0, 1)])
def test_asynchronous_updates_mix_in_what_old_versions_become(
    decay: Any, a: float, b: float, fresh: int, quadratics: Values
) -> None:
    versions, rounds = [START], 11
    for number in range(rounds):
        client, stale = EVENTS[number % len(EVENTS)]
        stale = min(stale, number)
        d = stale + fresh
        share = {
            "constant": 1.0,
            "polynomial": (d + 1) ** -a,
            "hinge": 1 if d <= b else 1 / (a * (d - b) + 1),
        }
        weight = 0.6 * share[decay]
        versions.append((1 - weight) * versions[-1] + weight * trained(client, versions[number - stale]))
    options = {"name": "fedasync", "rho": 0, "staleness": decay, "a": a, "b": b, "fresh": fresh}
    final = ended(quadratics, options, rounds, participation={"events": EVENTS})
    assert final == pytest.approx(versions[-1], rel=0, abs=1e-12)


def test_the_staleness_of_each_update_is_reported(quadratics: Values) -> None:
    spec = {**quadratics, "algorithm": {"name": "fedasync"}, "participation": {"events": EVENTS}}
    spec["training"] = {**spec["training"], "rounds": 9}
    rows = run(spec).rows
    assert [row["staleness"] for row in rows] == [0, 0, 1, 2, 2, 0, 4, 1, 0, 1]


def test_hinge_and_polynomial_start_where_the_text_says() -> None:
    assert [staleness_weight("hinge", d, 10.0, 4.0) for d in (0, 4, 5)] == [1.0, 1.0, pytest.approx(1 / 11)]
    assert staleness_weight("hinge", 5, 10.0, 4.5) == pytest.approx(1 / 6)
    assert [staleness_weight("polynomial", d, 2.0, 0.0) for d in (0, 1, 3)] == [1.0, 0.25, 0.0625]
    assert staleness_weight("constant", 9, 2.0, 0.0) == 1.0


def test_events_are_drawn_anew_for_each_update_from_all_clients_and_delays(quadratics: Values) -> None:
    setup, state = started({**quadratics, "algorithm": {"name": "fedasync", "max_staleness": 3}})
    schedule = Asynchronous(3)
    drawn = []
    for state.round in range(900):
        client, stale = schedule.event(setup, state)
        assert stale <= state.round
        assert (client, stale) == schedule.event(setup, state), "one round has one event"
        drawn.append((client, stale))
        rng = setup.streams.get("event", state.round)
        assert (client, stale) == (rng.choice(3), min(rng.integers(1, 4), state.round))
    counts = Counter(drawn[3:])
    assert set(counts) == {(client, stale) for client in range(3) for stale in (1, 2, 3)}
    assert max(abs(count - 897 / 9) for count in counts.values()) < 4 * math.sqrt(897 * 8 / 81)
    newest = Asynchronous(0)
    assert {newest.event(setup, state)[1] for state.round in range(50)} == {0}


def test_a_drawn_run_is_the_run_of_its_events(quadratics: Values) -> None:
    algorithm = {"name": "fedasync", "max_staleness": 3, "rho": 0}
    setup, state = started({**quadratics, "algorithm": algorithm})
    events = []
    for state.round in range(20):
        events.append(list(Asynchronous(3).event(setup, state)))
    free = ended(quadratics, algorithm, 20)
    assert free == ended(quadratics, algorithm, 20, participation={"events": events})
    assert free != ended(quadratics, algorithm | {"max_staleness": 0}, 20)


def test_events_name_clients_that_there_are(quadratics: Values) -> None:
    for events in ([[0, 1], [3, 0]], [[0, 0], [1, 2], [7, 0]]):
        with pytest.raises(
            SpecError, match=r"participation\.events: no client [37], expected ids from 0 to 2"
        ):
            ended(quadratics, {"name": "fedasync"}, 3, participation={"events": events})
    assert Asynchronous(3).trainings(7) == 1
    empty = {**quadratics, "partition": {"name": "file", "rows": [[0, 1], [], [2]]}}
    with pytest.raises(SpecError, match=r"participation\.events: client 1 "):
        ended(empty, {"name": "fedasync"}, 3, participation={"events": [[0, 0], [1, 0]]})


def test_an_asynchronous_round_trains_one_client_on_one_version(quadratics: Values) -> None:
    setup, state = started(
        {**quadratics, "algorithm": {"name": "fedasync"}, "participation": {"events": EVENTS}}
    )
    schedule = Asynchronous(18)
    state.server["versions"] = torch.arange(5, dtype=torch.float64)[:, None] + 10
    for state.round, (client, stale) in enumerate(EVENTS):
        plan = schedule.plan(setup, state)
        assert plan.cohort == (client,)
        assert plan.stages == (((0, client),),)
        assert plan.groups == (0,)
        assert plan.starts[0].tolist() == [10 + (state.round - min(stale, state.round)) % 5]
        plan.starts[0].zero_()
    assert state.server["versions"].min() == 10, "training leaves the kept versions alone"


def upload(model: list[float], samples: int, **more: Any) -> Any:
    return SimpleNamespace(model=torch.tensor(model, dtype=torch.float64), samples=samples, **more)


def test_means_of_changes() -> None:
    model = torch.tensor([1.0, 2.0], dtype=torch.float64)
    uploads = [upload([2.0, 2.0], 1), upload([1.0, 6.0], 3)]
    assert sample_weights(uploads) == [0.25, 0.75]
    assert [change.tolist() for change in changes(model, uploads)] == [[1, 0], [0, 4]]
    nothing: Any = None
    assert WeightedMean().change(nothing, nothing, model, uploads).tolist() == [0.25, 3.0]
    assert PlainMean().change(nothing, nothing, model, uploads).tolist() == [0.5, 2.0]
    assert (averaging("nk"), averaging("uniform")) == (WeightedMean(), PlainMean())
    assert model.tolist() == [1, 2]
    assert [sent.model.tolist() for sent in uploads] == [[2, 2], [1, 6]]


@pytest.mark.parametrize(("tau_eff", "effective"), [("norm", 4.25), ("steps", 5.5), ("one", 1.0)])
def test_a_normalised_mean(tau_eff: Any, effective: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares 1/4 and 3/4; norms 2 and 5; steps 4 and 6."""
    seen = []

    def length(run: Any, state: Any, client: int, mu: float) -> float:
        seen.append((run, state, client, mu))
        return {8: 2.0, 9: 5.0}[client]

    monkeypatch.setattr(aggregate, "coefficient_sum", length)
    model = torch.tensor([1.0, 2.0], dtype=torch.float64)
    uploads = [upload([2.0, 2.0], 1, client=8, steps=4), upload([1.0, 6.0], 3, client=9, steps=6)]
    run, state = (SimpleNamespace(name=name) for name in ("run", "state"))
    change = NormalisedMean(0.5, tau_eff).change(run, state, model, uploads)  # type: ignore[arg-type]
    assert seen == [(run, state, 8, 0.5), (run, state, 9, 0.5)]
    assert change.tolist() == pytest.approx([effective * 0.25 / 2, effective * 0.75 * 4 / 5])


def test_a_mean_of_drift_corrected_models() -> None:
    model, nothing = torch.tensor([1.0, 2.0], dtype=torch.float64), SimpleNamespace()
    drifts = [{"drift": torch.tensor(drift, dtype=torch.float64)} for drift in ([1.0, -1.0], [0.0, 2.0])]
    uploads = [upload([2.0, 2.0], 1, extras=drifts[0]), upload([1.0, 6.0], 3, extras=drifts[1])]
    change = DriftCorrectedMean().change(nothing, nothing, model, uploads)  # type: ignore[arg-type]
    assert change.tolist() == [0.25 * 2, -0.25 + 0.75 * 6]


def test_what_is_computed_beside_training() -> None:
    assert Fair(1.0).work(30) == Work(rows=1)
    learned = LearnedMixture(lr=0.1, steps=7)
    assert learned.work(30) == Work(validation=1, server=7, mixed=7 * 30)
    assert replace(learned, batch=16).work(30) == Work(validation=1, server=7, mixed=7 * 16)
    assert replace(learned, batch=64).work(30) == learned.work(30)
    passes = replace(learned, steps=None, epochs=3)
    assert passes.work(30) == Work(validation=1, server=3, mixed=3 * 30)
    assert replace(passes, batch=16).work(30) == Work(validation=1, server=6, mixed=6 * 16)
    for frozen in (replace(learned, steps=0), replace(learned, steps=None), replace(passes, epochs=0)):
        assert frozen.work(30) == Work()
    assert Asynchronous(4).work(30) == Work(versions=5)


def test_how_often_clients_train_in_a_round() -> None:
    assert Synchronous().trainings(6) == 6
    assert Asynchronous(4).trainings(6) == 1
    redistribution = Redistribution(Assignments(redistributions=5))
    assert redistribution.trainings(6) == 30
    state = SimpleNamespace(round=3)
    assert redistribution.columns(state) == {"inner_rounds": 15}  # type: ignore[arg-type]


def test_a_weighted_sum_of_weights_beyond_single_precision_is_infinite() -> None:
    for weight in (3.4e38, -3.4e38):
        assert weighted_sum([torch.zeros(1), torch.ones(1)], [1.0, weight]).item() == pytest.approx(weight)
    for weight in (1e39, -1e39):
        total = weighted_sum([torch.zeros(1), torch.ones(1)], [1.0, weight]).item()
        assert total == math.copysign(math.inf, weight)


def test_the_nearest_point_of_the_simplex() -> None:
    for v, nearest in (
        ([0.2, 0.3, 0.5], [0.2, 0.3, 0.5]),
        ([2.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
        ([1.0, 1.0, -1.0], [0.5, 0.5, 0.0]),
        ([-5.0, -5.0], [0.5, 0.5]),
        ([0.0], [1.0]),
    ):
        assert project_simplex(torch.tensor(v, dtype=torch.float64)).tolist() == pytest.approx(nearest)


def test_a_weighted_sum_leaves_its_vectors_alone() -> None:
    vectors = [torch.ones(2), torch.full((2,), 3.0), torch.full((2,), 5.0)]
    assert weighted_sum(vectors, [2.0, -1.0, 0.5]).tolist() == [1.5, 1.5]
    assert [vector[0].item() for vector in vectors] == [1, 3, 5]
    with pytest.raises(ValueError, match="a sum over no clients"):
        weighted_sum([], [])
    for weights in ([1.0], [1.0, 1.0, 1.0, 1.0]):
        with pytest.raises(ValueError, match="zip"):
            weighted_sum(vectors, weights)


@pytest.mark.parametrize("q", [0, 0.5, 1, 3])
@pytest.mark.parametrize(
    ("weights", "variant", "lipschitz"),
    [
        ("uniform", "paper", None),
        ("nk", "paper", None),
        ("uniform", "released", None),
        ("nk", "released", 7.0),
    ],
)
def test_a_fair_round(
    q: float, weights: str, variant: str, lipschitz: float | None, quadratics: Values
) -> None:
    """Algorithm 2 of q-FFL, L = 1 / lr unless given; the clients have one row each: p_k is a third."""
    p, L = 1 / 3 if weights == "nk" else 1.0, lipschitz or 1 / LR
    top, h = 0.0, 0.0
    for client in range(3):
        step = (START - trained(client, START)) * L
        F = loss(client, START)
        size = (F**q * step if variant == "released" else step) ** 2
        top += p * F**q * step
        h += p * (q * F ** (q - 1) * size + L * F**q)
    options = {"name": "qfedavg", "q": q, "weights": weights, "lipschitz": lipschitz}
    assert ended(quadratics, options, variant=variant) == pytest.approx(START - top / h, rel=1e-12)


def test_a_fair_round_weighs_clients_by_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """q = 1, L = 2: h_k = ||D_k||^2 + 2 F_k with D = (-2, 0) and (0, -8), F = 3 and 5."""
    losses = {"first": 3.0, "second": 5.0}
    seen = []

    def loss(problem: Any, model: Any, block: str, precision: str) -> float:
        seen.append(precision)
        return losses[block]

    monkeypatch.setattr(aggregate, "mean_loss", loss)
    model = torch.tensor([1.0, 2.0], dtype=torch.float64)
    uploads = [upload([2.0, 2.0], 1, client=0, lr=0.5), upload([1.0, 6.0], 3, client=1, lr=0.5)]
    problem = SimpleNamespace(clients=list(losses))
    run: Any = SimpleNamespace(problem=problem, spec=SimpleNamespace(precision="bf16"))
    for weights, p in (("nk", (0.25, 0.75)), ("uniform", (1.0, 1.0))):
        h = p[0] * (4 + 6) + p[1] * (64 + 10)
        change = Fair(1.0, weights).change(run, run, model, uploads)  # type: ignore[arg-type]
        assert change.tolist() == pytest.approx([p[0] * 3 * 2 / h, p[1] * 5 * 8 / h])
    assert set(seen) == {"bf16"}


def test_features_that_do_not_train_are_computed_once(spec: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    for model, often in (({"name": "rff_linear", "features": 8}, 1), ({"name": "mlp", "hidden": [4]}, 0)):
        setup, state = prepared({**spec, "model": model, "algorithm": {"name": "fedavg"}})
        seen: list[Any] = []

        def counted(*about: Any, seen: list[Any] = seen) -> Any:
            seen.append(about)
            return features(*about)

        monkeypatch.setattr(aggregate, "features", counted)
        models = [state.model, state.model * 2, state.model * 3]
        scores = client_scores(setup.problem, models, setup.problem.test.x)
        assert scores.shape[2] == 3
        assert len(seen) == often
        monkeypatch.undo()


def test_a_fair_round_of_clients_without_loss_changes_nothing(quadratics: Values) -> None:
    same = {**quadratics, "data": {"name": "quadratics", "curvatures": CURVATURES, "centres": [START] * 3}}
    for q in (0.5, 1, 2):
        assert ended(same, {"name": "qfedavg", "q": q}) == START


@pytest.mark.parametrize("participation", [{}, {"fraction": 0.6}])
def test_the_path_of_learned_weights_is_a_table(participation: Values, spec: Values) -> None:
    algorithm = {"name": "fedomw", "steps_p": 3, "gamma": 0.5}
    values = {**spec, "algorithm": algorithm, "participation": participation, "dtype": "float64"}
    values["training"] = {**values["training"], "rounds": 1}
    setup, state = started(values)
    aggregate: Any = setup.recipe.aggregate
    sizes = np.array(setup.problem.sizes)
    assert aggregate.tables(state) == {}
    first = state.server["mixture"]
    np.testing.assert_allclose(first, sizes / sizes.sum())
    for _ in simulate(setup, state):
        pass
    assert list(aggregate.tables(state)) == ["mixture"]
    rows = aggregate.tables(state)["mixture"]
    assert [row["pass"] for row in rows] == list(range(len(rows)))
    assert len(rows) == 4
    named = [[row[f"p_{client}"] for client in range(5)] for row in rows]
    np.testing.assert_allclose(named[0], first)
    np.testing.assert_allclose(named[-1], state.server["mixture"])
    p = np.array(named[-1])
    columns = aggregate.columns(state)
    expected = {"mixture_sum": p.sum(), "mixture_min": p.min(), "mixture_max": p.max()}
    assert columns == pytest.approx(expected)
