"""Schedules: what each reduces to, what it draws, what it counts, and that it survives interruption."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rounds import prepared, started
from scipy.spatial.distance import pdist

from fedcore.base.errors import SpecError
from fedcore.engines.forward import forward
from fedcore.engines.sample_gradients import batch_norms
from fedcore.execution.integrity import CHECKPOINT
from fedcore.execution.result import Result
from fedcore.execution.runner import Settings, run
from fedcore.execution.simulation import advance, simulate
from fedcore.parts import State
from fedcore.parts.pooled import train_pooled
from fedcore.parts.schedule import Clustered, distances
from fedcore.parts.select import Importance, cohort_size

Values = dict[str, Any]
EVERY = [
    {"name": "oneshot"},
    {"name": "dl_u"},
    {"name": "dl_opt", "steps_p": 5},
    {"name": "fedomw", "epochs_p": 2, "batch_p": 16, "momentum_p": 0.5},
    {"name": "fedavgr"},
    {"name": "fedavgr", "density": "mean", "mmd": "mean"},
    {"name": "radfed", "redistributions": 3},
    {"name": "radfed_p", "redistributions": 3, "mu": 0.1},
    {"name": "radfed_m", "redistributions": 3, "alpha": 0.7},
    {"name": "radfed_a", "redistributions": 3, "server": "yogi"},
    {"name": "radfed_i", "redistributions": 3},
    {"name": "fedasync", "max_staleness": 2},
    {"name": "fl_hc", "cluster_round": 2, "threshold": 0.5},
    {"name": "centralised"},
]
BY_STEP = {"lr_schedule": {"name": "inverse_time", "offset": 1.0}}


def ident(algorithm: Values) -> str:
    return "-".join(str(value) for value in algorithm.values())


def using(spec: Values, algorithm: Values, **sections: Any) -> Values:
    """Return a specification with another algorithm and changed sections; one-shot ones get one round."""
    merged = {**spec, "algorithm": algorithm}
    if "participation" in sections:
        merged.pop("participation", None)
    for key, value in sections.items():
        merged[key] = {**merged.get(key, {}), **value} if isinstance(value, dict) else value
    if algorithm["name"] in {"oneshot", "dl_u", "dl_opt"}:
        merged["training"] = {**merged["training"], "rounds": 1}
    return merged


def equal_models(a: Result, b: Result, atol: float = 1e-12) -> None:
    for name, array in a.parameters.items():
        np.testing.assert_allclose(array, b.parameters[name], rtol=0, atol=atol, err_msg=name)


def finished(spec: Values) -> State:
    setup, state = prepared(spec)
    for _ in simulate(setup, state):
        pass
    return state


@pytest.fixture
def equal(tmp_path: Path, digits: Path) -> Path:
    """Four clients of 30 rows each."""
    rows = [np.load(digits / f"clients/{k}.npz") for k in range(1, 5)]
    (tmp_path / "equal/clients").mkdir(parents=True)
    for k, arrays in enumerate(rows):
        np.savez(tmp_path / f"equal/clients/{k}.npz", x=arrays["x"][::2][:30], y=arrays["y"][::2][:30])
    with np.load(digits / "test.npz") as test:
        np.savez(tmp_path / "equal/test.npz", x=test["x"], y=test["y"])
    return tmp_path / "equal"


def test_one_redistribution_of_equal_clients_is_fedavg(spec: Values, equal: Path) -> None:
    spec = {**spec, "data": {"name": "npz", "path": str(equal)}, "dtype": "float64", "participation": {}}
    fedavg = run(using(spec, {"name": "fedavg"}))
    equal_models(run(using(spec, {"name": "radfed", "redistributions": 1})), fedavg)
    mixed = {"name": "radfed_m", "redistributions": 1, "alpha": 1.0}
    equal_models(run(using(spec, mixed)), fedavg)
    equal_models(run(using(spec, {"name": "radfed_p", "redistributions": 1, "mu": 0.0})), fedavg)


def test_redistribution_follows_its_assignments(spec: Values) -> None:
    """One model that visits clients 2 and 0 is local training on 2, then on 0."""
    full = {"batch_size": "full", "rounds": 1, "local_epochs": 3}
    spec = {**spec, "training": {**spec["training"], **full}, "dtype": "float64"}
    travelled = run(
        using(spec, {"name": "radfed", "redistributions": 2}, participation={"assignments": [[2], [0]]})
    )
    visits = run(
        using(spec, {"name": "fedavg"}, training={"rounds": 2}, participation={"cohorts": [[2], [0]]})
    )
    equal_models(travelled, visits)


@pytest.mark.parametrize(
    ("fraction", "size"), [(0.01, 1), (0.29, 1), (0.3, 2), (0.5, 3), (0.69, 3), (1.0, 5)]
)
def test_a_cohort_is_the_nearest_number_of_clients_and_half_a_client_one_more(
    spec: Values, fraction: float, size: int
) -> None:
    setup, _ = prepared(using(spec, {"name": "fedavg"}, participation={"fraction": fraction}))
    assert cohort_size(setup) == size


def test_redistribution_draws_distinct_clients_anew(spec: Values) -> None:
    setup, state = prepared(using(spec, {"name": "radfed", "redistributions": 4}))
    for round in range(3):
        state.round = round
        plan = setup.recipe.schedule.plan(setup, state)
        inner = [[client for _, client in stage] for stage in plan.stages]
        assert len(inner) == 4
        assert all(len(set(clients)) == len(clients) == 3 for clients in inner)
        assert len({tuple(clients) for clients in inner}) > 1
        assert plan.cohort == tuple(inner[0])


def test_importance_draws_in_proportion_to_scores(spec: Values) -> None:
    spec = using(spec, {"name": "radfed_i", "redistributions": 1}, participation={"fraction": 0.2})
    setup, state = prepared(spec)
    setup.recipe.select.start(setup, state)
    state.server["importance"] = torch.tensor([0.0, 1.0, 2.0, 4.0, 1.0], dtype=torch.float64)
    drawn: list[int] = []
    for round in range(2000):
        state.round = round
        drawn += setup.recipe.select.cohort(setup, state)
    share = np.bincount(drawn, minlength=5) / len(drawn)
    np.testing.assert_allclose(share, [0, 1 / 8, 2 / 8, 4 / 8, 1 / 8], atol=4 * np.sqrt(0.25 / 2000))


@pytest.mark.parametrize("bad", [0.0, float("inf"), float("nan")])
def test_importance_survives_degenerate_scores(spec: Values, bad: float) -> None:
    setup, state = prepared(using(spec, {"name": "radfed_i"}))
    setup.recipe.select.start(setup, state)
    state.server["importance"] = torch.tensor([bad, bad, bad, bad, 1.0], dtype=torch.float64)
    assert len(set(setup.recipe.select.cohort(setup, state))) == 3
    state.server["importance"] = torch.full((5,), bad, dtype=torch.float64)
    assert len(set(setup.recipe.select.cohort(setup, state))) == 3


def test_an_infinite_score_counts_as_the_largest_and_none_as_a_small_chance(spec: Values) -> None:
    setup, state = started(using(spec, {"name": "radfed_i"}))
    select = setup.recipe.select
    assert isinstance(select, Importance)
    state.server["importance"] = torch.tensor([np.inf, 4.0, 0.0, 1.0, 3.0], dtype=torch.float64)
    probabilities = select.probabilities(setup, state)
    assert probabilities is not None
    assert probabilities[[0, 1, 3, 4]] == pytest.approx(np.array([4, 4, 1, 3]) / 12)
    assert 0 < probabilities[2] < 1e-9


def test_importance_scores_accumulate(spec: Values) -> None:
    """gamma = 0 keeps the first scores; a client that was never drawn keeps its own."""
    kept = finished(using(spec, {"name": "radfed_i", "redistributions": 2, "gamma": 0.0}))
    assert kept.server["importance"].tolist() == [1.0] * 5
    given = {"assignments": [[1, 3]]}
    moved = finished(using(spec, {"name": "radfed_i", "redistributions": 2}, participation=given))
    unmoved = [score == 1.0 for score in moved.server["importance"].tolist()]
    assert unmoved == [True, False, True, False, True]


@pytest.mark.parametrize("stage", [0, 1])
def test_scores_of_batches_are_of_other_batches_in_each_inner_round(spec: Values, stage: int) -> None:
    """A model that visits client 1 alone; with gamma = 1 its last score counts."""
    algorithm = {"name": "radfed_i", "redistributions": stage + 1, "score": "batch", "gamma": 1.0}
    given = {"participation": {"assignments": [[1]]}, "dtype": "float64"}
    setup, state = started(using(spec, algorithm, **given))
    advance(setup, state)
    rng = setup.streams.get(f"score batches/{stage}", 0, 1)
    norms = batch_norms(setup.engine, state.model, setup.problem.clients[1], 16, rng)
    assert float(state.server["importance"][1]) == pytest.approx(float(norms.mean()), rel=1e-9)


def test_fresh_full_updates_of_one_client_are_sequential_training(spec: Values) -> None:
    fresh = {"name": "fedasync", "alpha": 1.0, "rho": 0.0}
    asynchronous = using(spec, fresh, participation={"events": [[3, 0]]}, dtype="float64")
    alone = using(spec, {"name": "fedavg"}, participation={"cohorts": [[3]]}, dtype="float64")
    equal_models(run(asynchronous), run(alone))


def test_a_stale_update_is_trained_on_an_old_version(spec: Values) -> None:
    """The second update of staleness 1 starts from w_0: w_2 = w_1 + .5 (u(w_0) - w_1)."""
    spec = {**spec, "training": {**spec["training"], "rounds": 2, "batch_size": "full"}, "dtype": "float64"}
    half = {"name": "fedasync", "alpha": 0.5, "rho": 0.0, "staleness": "constant"}
    got = run(using(spec, half, participation={"events": [[0, 0], [1, 1]]})).parameters
    once = {"training": {"rounds": 1}, "participation": {"cohorts": [[1]]}}
    u = run(using(spec, {"name": "fedavg"}, **once)).parameters
    w1 = run(using(spec, half, training={"rounds": 1}, participation={"events": [[0, 0]]})).parameters
    for name, array in got.items():
        np.testing.assert_allclose(array, w1[name] + 0.5 * (u[name] - w1[name]), atol=1e-12)


def test_staleness_is_drawn_up_to_the_maximum_and_cut_to_the_versions_there_are(spec: Values) -> None:
    spec = using(spec, {"name": "fedasync", "max_staleness": 3}, training={"rounds": 40})
    stale = [row["staleness"] for row in run(spec).rows[1:]]
    assert stale[0] == 0
    assert all(s <= round for round, s in enumerate(stale))
    assert set(stale[3:]) == {1, 2, 3}
    newest = using(spec, {"name": "fedasync", "max_staleness": 0}, training={"rounds": 5})
    assert {row["staleness"] for row in run(newest).rows} == {0}


def test_staleness_beyond_the_run_takes_no_memory(spec: Values) -> None:
    whole, beyond = (
        run(using(spec, {"name": "fedasync"}, participation={"events": [[0, 0], [1, oldest]]})).rows
        for oldest in (6, 2 * 10**9)
    )
    assert whole == beyond
    assert len(run(using(spec, {"name": "fedasync", "max_staleness": 2 * 10**9})).rows) == len(whole)


def test_one_cluster_is_fedavg(spec: Values) -> None:
    spec = using(spec, {"name": "fedavg"}, participation={"fraction": 1.0}, dtype="float64")
    clustered = {"name": "fl_hc", "cluster_round": 2, "threshold": 1e9}
    assert finished(using(spec, clustered)).models.shape[0] == 1
    equal_models(run(using(spec, clustered)), run(spec))


def test_clusters_are_found_and_trained_apart(spec: Values, tmp_path: Path) -> None:
    """Clients 0, 2 and 1, 3 label the same inputs in opposite ways: two clusters, each right for its own."""
    rng = np.random.default_rng(0)
    (tmp_path / "two/clients").mkdir(parents=True)
    for k in range(4):
        x = rng.normal(size=(40, 3))
        np.savez(tmp_path / f"two/clients/{k}.npz", x=x, y=((x[:, 0] > 0) ^ (k % 2)).astype(np.int64))
    np.savez(tmp_path / "two/test.npz", x=x, y=(x[:, 0] > 0).astype(np.int64))
    spec = using(
        spec, {"name": "fl_hc", "cluster_round": 1, "threshold": 1.0}, participation={"fraction": 1.0}
    )
    spec |= {"data": {"name": "npz", "path": str(tmp_path / "two")}, "model": {"name": "linear"}}
    setup, state = prepared(spec)
    for _ in simulate(setup, state):
        pass
    assert state.values["clusters"] == [0, 1, 0, 1]
    assert [row["clusters"] for row in state.history] == [1, 1, 2, 2, 2, 2, 2]
    for client, cluster in enumerate(state.values["clusters"]):
        block = setup.problem.clients[client]
        right = [float(forward(setup.problem, w, block.x, block.y)[1].float().mean()) for w in state.models]
        assert right[cluster] > 0.75 > 0.25 > right[1 - cluster]
    test = setup.problem.test
    tested = [float(forward(setup.problem, w, test.x, test.y)[1].double().mean()) for w in state.models]
    assert state.history[-1]["test_accuracy"] == pytest.approx(sum(tested) / 2)


def test_all_clients_train_in_the_round_that_clusters_and_the_cohort_in_others(spec: Values) -> None:
    setup, state = prepared(using(spec, {"name": "fl_hc", "cluster_round": 2, "threshold": 0.5}))
    setup.recipe.schedule.start(setup, state)
    cohorts = []
    for round in range(4):
        state.round = round
        cohorts.append(setup.recipe.schedule.plan(setup, state).cohort)
    assert [len(cohort) for cohort in cohorts] == [3, 3, 5, 3]
    assert cohorts[2] == tuple(range(5))


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "manhattan"])
def test_distances_of_updates(metric: Any) -> None:
    rows = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    name = "cityblock" if metric == "manhattan" else metric
    np.testing.assert_allclose(distances(rows, metric), pdist(rows.numpy(), name), atol=1e-12)


@pytest.mark.parametrize(
    ("linkage", "updates", "clusters"),
    [
        ("average", [0.0], [0]),
        ("average", [0.0, 0.5], [0, 0]),
        ("average", [0.0, 1.5], [0, 1]),
        ("average", [3.0, 0.0, 0.7, 1.5], [0, 1, 1, 2]),
        ("single", [3.0, 0.0, 0.7, 1.5], [0, 1, 1, 1]),
    ],
)
def test_clusters_of_updates_on_a_line(linkage: Any, updates: list[float], clusters: list[int]) -> None:
    """Merged up to a distance of 1; from 1.5 it is 0.8 to the nearest of 0 and 0.7, and 1.15 on average."""
    rule = Clustered(linkage, "euclidean", threshold=1.0, cluster_round=0)
    assert rule._cluster(torch.tensor(updates)[:, None]) == clusters


@pytest.mark.parametrize("metric", ["manhattan", "euclidean", "cosine"])
@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 3e38), (torch.float64, 1e308)])
def test_updates_near_the_end_of_their_type_are_clustered_or_stay_together(
    metric: Any, dtype: torch.dtype, size: float
) -> None:
    updates = torch.tensor([[size, size], [size, -size], [-size, -size]], dtype=dtype)
    rule = Clustered("average", metric, threshold=0.5, cluster_round=0)
    apart = metric == "cosine" or dtype == torch.float32
    assert rule._cluster(updates) == ([0, 1, 2] if apart else [0, 0, 0])


@pytest.mark.parametrize(
    "algorithm", [{"name": "fedprox", "mu": 9.0}, {"name": "scaffold"}, {"name": "moon"}]
)
def test_training_on_pooled_rows_is_plain_whatever_the_algorithm(spec: Values, algorithm: Values) -> None:
    """In a round after one in which all clients have got controls and models of their own."""
    cohort, everyone = (1, 3), {"fraction": 1.0}
    models = []
    for method in ({"name": "fedavg"}, algorithm):
        setup, state = started(using(spec, method, dtype="float64", participation=everyone))
        advance(setup, state)
        start = setup.problem.start
        models.append([train_pooled(setup, state, start, cohort, stage) for stage in (0, 0, 1)])
    plain, other = models
    torch.testing.assert_close(other, plain, rtol=0, atol=0)
    assert torch.equal(plain[0], plain[1])
    assert not torch.equal(plain[0], plain[2]), "another stage draws other batches"


def test_an_event_names_a_client_with_rows(spec: Values, equal: Path) -> None:
    np.savez(equal / "clients/2.npz", x=np.zeros((0, 64)), y=np.zeros(0, np.int64))
    events = {"participation": {"events": [[0, 0], [2, 0]]}}
    with pytest.raises(SpecError, match=r"participation\.events: .*client 2"):
        run(using(spec, {"name": "fedasync"}, data={"path": str(equal)}, **events))


def test_centralised_training_is_federated_training_with_single_full_steps(spec: Values) -> None:
    step = {"local_epochs": 1, "batch_size": "full"}
    spec = using(spec, {"name": "fedavg"}, training=step, dtype="float64", participation={"fraction": 1.0})
    equal_models(run(using(spec, {"name": "centralised"})), run(spec))
    given = using(spec, {"name": "fedavg"}, participation={"cohorts": [[0, 2], [1, 4]]})
    equal_models(run(using(given, {"name": "centralised"})), run(given))


def test_chained_clients_start_where_the_one_before_them_stopped(spec: Values) -> None:
    full = {"rounds": 1, "batch_size": "full"}
    spec = using(
        spec, {"name": "fedavg"}, training=full, dtype="float64", participation={"cohorts": [[0, 3]]}
    )
    chained = run(using(spec, {"name": "fedavg", "chained": True})).parameters
    visits = {"training": {"rounds": 2}, "participation": {"cohorts": [[0], [3]]}}
    last = run(using(spec, {"name": "fedavg"}, **visits)).parameters
    first = run(using(spec, {"name": "fedavg"}, participation={"cohorts": [[0]]})).parameters
    for name, array in chained.items():
        np.testing.assert_allclose(array, (40 * first[name] + 100 * last[name]) / 140, atol=1e-12)


def test_traffic_counts_every_model_that_moves(spec: Values) -> None:
    model = run(spec).summary["parameters"] * 4

    def last(algorithm: Values) -> tuple[float, float]:
        row = run(using(spec, algorithm)).rows[-1]
        return row["bytes_down"], row["bytes_up"]

    assert last({"name": "radfed", "redistributions": 4}) == (12 * model, 12 * model)
    assert last({"name": "radfed_i", "redistributions": 4}) == (12 * model, 12 * (model + 4))
    assert last({"name": "fedasync"}) == (model, model)
    assert last({"name": "centralised"}) == (0, 0)
    mean = {"name": "fedavgr", "density": "mean"}
    assert last(mean) == (3 * (model + 16 * 4), 3 * (model + 16 * 4))
    assert last({"name": "fedavgr"}) == (3 * (model + 5 * (2 * 16 + 1) * 4), 3 * (model + 2 * 16 * 4))


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("algorithm", EVERY, ids=ident)
def test_interrupted_runs_give_equal_bytes(
    algorithm: Values, variant: str, spec: Values, tmp_path: Path
) -> None:
    """Stopped in the last round but one, or the only one: after FL-HC has clustered."""

    class Stop(Exception):
        pass

    def progress(done: int, total: int, row: Any) -> None:
        if done == min(5, total):
            raise Stop

    spec = using(spec, algorithm, variant=variant)
    run(spec, tmp_path / "whole", Settings(save_model=True))
    (tmp_path / "cut").mkdir()
    with pytest.raises(Stop):
        run(spec, tmp_path / "cut", Settings(checkpoint_seconds=0.0), progress)
    assert (tmp_path / "cut" / CHECKPOINT).exists()
    rounds: list[int] = []
    run(spec, tmp_path / "cut", Settings(save_model=True), lambda done, *_: rounds.append(done))
    assert rounds[0] == min(5, spec["training"]["rounds"])
    for name in ("history.csv", "summary.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    with np.load(tmp_path / "cut/model.npz") as cut, np.load(tmp_path / "whole/model.npz") as whole:
        assert all((cut[name] == whole[name]).all() for name in whole.files)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("algorithm", EVERY, ids=ident)
def test_divergence_ends_the_run_with_a_status(algorithm: Values, spec: Values) -> None:
    endless = {"lr": 1e30, "local_epochs": 5}
    spec = using(spec, algorithm, training=endless, participation={"fraction": 1.0})
    assert run(spec).summary["status"] == "diverged"


CORRECTED = [{"name": name} for name in ("rfedavg", "rfedavg_plus", "scaffold", "vrl_sgd", "mime", "moon")]


@pytest.mark.parametrize("algorithm", [*EVERY, *CORRECTED], ids=ident)
def test_a_client_without_rows_changes_nothing(algorithm: Values, spec: Values, equal: Path) -> None:
    """But for what follows from FedAvgR's draws of components, and the smallest weight, which is then 0."""
    with np.load(equal / "test.npz") as test:
        np.savez(equal / "validation.npz", x=test["x"][:50], y=test["y"][:50])
    asked = using(
        spec, algorithm, data={"path": str(equal)}, participation={"fraction": 1.0}, dtype="float64"
    )
    before = run(asked)
    np.savez(equal / "clients/4.npz", x=np.zeros((0, 64)), y=np.zeros(0, np.int64))
    after = run(asked)
    assert after.summary["empty_clients"] == [4]
    for row, other in zip(before.rows, after.rows, strict=True):
        if algorithm == {"name": "fedavgr"}:
            row, other = ({key: its[key] for key in ("bytes_up", "bytes_down")} for its in (row, other))
        assert {**other, "mixture_min": None} == pytest.approx({**row, "mixture_min": None}, nan_ok=True)


@pytest.mark.parametrize("algorithm", EVERY, ids=ident)
def test_a_client_without_rows_is_left_out(algorithm: Values, spec: Values, equal: Path) -> None:
    np.savez(equal / "clients/2.npz", x=np.zeros((0, 64)), y=np.zeros(0, np.int64))
    with np.load(equal / "test.npz") as test:
        np.savez(equal / "validation.npz", x=test["x"][:50], y=test["y"][:50])
    asked = using(spec, algorithm, data={"path": str(equal)}, participation={"fraction": 1.0})
    summary = run(asked).summary
    assert summary["status"] == "completed"
    assert summary["empty_clients"] == [2]
    _, state = started(asked)
    for name in {"density", "importance"} & set(state.server):
        assert [bool(of_client.any()) for of_client in state.server[name]] == [True, True, False, True]


@pytest.mark.parametrize(
    ("algorithm", "sections", "message"),
    [
        ({"name": "oneshot"}, {"training": {"rounds": 2}}, "training.rounds: got 2"),
        ({"name": "fl_hc", "linkage": "ward"}, {}, "needs 'euclidean'"),
        ({"name": "fl_hc", "metric": "hamming"}, {}, "algorithm.metric"),
        ({"name": "radfed", "redistributions": 0}, {}, "algorithm.redistributions"),
        ({"name": "radfed_m", "alpha": 0}, {}, "algorithm.alpha"),
        ({"name": "radfed_i", "gamma": 1.5}, {}, "algorithm.gamma"),
        ({"name": "radfed"}, {"participation": {"assignments": [[0, 1], [2]]}}, "got 2 and 1 clients"),
        ({"name": "radfed"}, {"participation": {"assignments": [[0, 0]]}}, "given twice"),
        ({"name": "radfed"}, {"participation": {"assignments": [[0, 5]]}}, "no client 5"),
        ({"name": "fedasync"}, {"participation": {"events": [[9, 0]]}}, "no client 9"),
        ({"name": "fedasync"}, {"participation": {"cohorts": [[0]]}}, "expected events"),
        *(
            (algorithm, {"participation": {"events": [[0, 0]]}}, f"'{algorithm['name']}' is synchronous, exp")
            for algorithm in (
                {"name": "fedavg"},
                {"name": "fedavg", "chained": True},
                {"name": "radfed"},
                {"name": "centralised"},
                {"name": "fl_hc"},
            )
        ),
        ({"name": "fedasync", "staleness": "linear"}, {}, "algorithm.staleness"),
        ({"name": "centralised"}, {"training": {"local_steps": [1, 2, 3, 4, 5]}}, "training.local_steps"),
        (
            {"name": "fedavg"},
            {"training": {"local_steps": [1, 2, 3, 4, 5]}, "evaluation": {"divergence": True}},
            "training.local_steps: got a list, pooled rows train one model",
        ),
        *(
            (
                algorithm,
                {"training": BY_STEP, "participation": {"fraction": 0.6}, **more},
                f"with {what}, exp",
            )
            for algorithm, more, what in (
                ({"name": "radfed"}, {}, "15 redistributions"),
                ({"name": "fedavg", "chained": True}, {}, "clients in turn"),
                ({"name": "centralised"}, {}, "pooled rows of some clients"),
                (
                    {"name": "centralised", "equal_steps": True},
                    {"participation": {"cohorts": [[0, 1, 2, 3, 4], [0, 1]]}},
                    "pooled rows of some clients",
                ),
                ({"name": "fedavg"}, {"evaluation": {"divergence": True}}, "pooled rows of some clients"),
                ({"name": "fedasync"}, {"evaluation": {"divergence": True}}, "pooled rows of some clients"),
            )
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refused(algorithm: Values, sections: Values, message: str, spec: Values, tmp_path: Path) -> None:
    merged = {**spec, "algorithm": algorithm}
    for key, values in sections.items():
        merged[key] = values if key == "participation" else {**spec.get(key, {}), **values}
    if "local_steps" in merged["training"]:
        merged["training"].pop("local_epochs")
    with pytest.raises(SpecError, match=message):
        run(merged, tmp_path / "out", Settings(checkpoint_seconds=0.0))
    assert not (tmp_path / "out").exists()


def test_own_starts_are_drawn_as_the_whole_model_is(spec: Values) -> None:
    """Random features are fixed, so a run trains the rest; its start is Xavier's all the same."""
    model = {"name": "rff_linear", "features": 400}
    setup, state = prepared(using({**spec, "model": model}, {"name": "oneshot", "same_start": False}))
    starts = setup.recipe.schedule.plan(setup, state).starts
    assert setup.problem.model is not setup.problem.whole
    bound = float(setup.problem.start.abs().max())
    assert all(0.9 * bound < float(start.abs().max()) < 1.1 * bound for start in starts)


def test_the_clusters_of_a_run_are_kept(spec: Values, equal: Path) -> None:
    algorithm = {"name": "fl_hc", "cluster_round": 1, "threshold": 0.0}
    data = {"name": "npz", "path": str(equal)}
    result = run(using(spec, algorithm, data=data, participation={"fraction": 1.0}))
    kept = result.arrays["clusters"]
    assert kept["clusters"].tolist() == [0, 1, 2, 3]
    assert len(kept["models"]) == result.rows[-1]["clusters"] == 4
    first = np.concatenate([array.reshape(-1) for array in result.parameters.values()])
    assert kept["models"][0].tolist() == first.tolist()


def test_a_cohort_without_any_rows_is_refused(spec: Values, equal: Path) -> None:
    np.savez(equal / "clients/2.npz", x=np.zeros((0, 64)), y=np.zeros(0, np.int64))
    data = {"name": "npz", "path": str(equal)}
    empty = using(spec, {"name": "fedavg"}, data=data, participation={"cohorts": [[0, 1], [2]]})
    with pytest.raises(SpecError, match=r"^participation\.cohorts: no client of \[2\] holds rows$"):
        run(empty)


@pytest.mark.parametrize("name", ["centralised", "fedavg"])
def test_rates_by_step_fit_pooled_rows_of_all_clients(name: str, spec: Values) -> None:
    whole = using(spec, {"name": name}, training=BY_STEP, participation={"fraction": 1.0})
    run({**whole, "evaluation": {"divergence": name == "fedavg"}})
