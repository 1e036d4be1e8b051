"""RADFed's tables: equal work at the clients, and variants with the values of what they join."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from project import HOME, parameters

from fedcore.base.errors import SpecError
from fedcore.base.registry import plugins
from fedcore.execution import runner
from fedcore.execution.simulation import simulate, train
from fedcore.parts import State, select
from fedcore.spec import Participation, parse
from pipeline.catalogue import Catalogue
from pipeline.catalogue.params import overlay
from pipeline.catalogue.specification import cohort_size, training_clients, worth
from pipeline.papers import build_catalogue, catalogue_of
from pipeline.papers.radfed.settings import SETTINGS

Values = dict[str, Any]
JOINED = {"radfed_a": "fedadapt", "radfed_p": "fedprox", "radfed_m": "fedasync"}
COHORTS = {("eicu", "demo"): 6, ("eicu", "quick"): 2, ("eicu", "paper"): 2, ("shakespeare", "paper"): 9}


def catalogue(scale: str, editions: bool = False) -> Catalogue:
    return catalogue_of(HOME / "params.yaml", scale, *([HOME / "data/editions.yaml"] if editions else []))


def changed(**algorithms: Values) -> Catalogue:
    """Return RADFed's catalogue at paper scale with other entries of algorithms."""
    params = overlay(parameters("radfed"), {"papers": {"radfed": {"algorithms": algorithms}}})
    return build_catalogue(params | {"scale": "paper", "primary_paper": "radfed"})


@pytest.mark.parametrize("editions", [False, True])
@pytest.mark.parametrize("scale", ["demo", "quick", "paper"])
def test_clients_train_equally_often_under_all_methods(scale: str, editions: bool) -> None:
    cells = catalogue(scale, editions).cells("radfed", "table3")
    for column in SETTINGS:
        specs = {row: [run.spec for run in runs] for (row, key), runs in cells.items() if key == column}
        assert len(specs) == 9
        rounds = {row: {spec["training"]["rounds"] for spec in of_row} for row, of_row in specs.items()}
        trainings = {
            row: {spec["training"]["rounds"] * worth(spec) * cohort_size(spec) for spec in of_row}
            for row, of_row in specs.items()
        }
        (cohort,) = {cohort_size(spec) for of_row in specs.values() for spec in of_row}
        print(f"{scale} {column}: cohort {cohort}, {trainings['fedavg']} trainings, rounds {rounds}")
        assert len(set.union(*trainings.values())) == 1, trainings
        assert rounds["fedasync"] == {cohort * number for number in rounds["fedavg"]}
        expected = COHORTS.get((column, scale)) if editions or scale != "paper" or column != "eicu" else 10
        assert expected in (None, cohort)


@pytest.mark.parametrize("name", sorted({*plugins("algorithm")} - {"centralised"}))
def test_a_round_trains_as_many_clients_as_its_schedule_says(spec: Values, name: str) -> None:
    model = {"name": "rff_linear", "features": 8, "learnable": True}
    divided = {"name": "iid", "clients": 7, "validation": 0.2}
    training = {**spec["training"], "rounds": 1}
    spec = {**spec, "model": model, "partition": divided, "training": training, "algorithm": {"name": name}}
    run, _, _ = runner.prepare(parse(spec), runner.Settings())
    state = State(round=0, models=run.problem.start.clone().unsqueeze(0))
    next(simulate(run, state))
    plan = run.recipe.schedule.plan(run, state)
    for part in run.recipe.parts():
        part.before(run, state, plan)
    _, trained = train(run, state, plan)
    assert len(trained) == run.recipe.schedule.trainings(select.cohort_size(run))
    assert cohort_size(run.spec.resolved()) == select.cohort_size(run) == 4


@pytest.mark.parametrize(
    ("fraction", "clients", "size"),
    [(0.1, 100, 10), (0.25, 10, 3), (0.29, 50, 15), (0.31, 50, 16), (0.58, 25, 15), (0.01, 10, 1)],
)
def test_half_a_client_counts_as_one(fraction: float, clients: int, size: int) -> None:
    """Also where the product in binary lies just below the half."""
    assert Participation(fraction=fraction).cohort_size(clients) == size


@pytest.mark.parametrize(
    ("scale", "column"), [("demo", "eicu"), ("demo", "shakespeare"), ("quick", "shakespeare")]
)
def test_the_cohort_is_the_one_that_a_run_has(scale: str, column: str) -> None:
    run = catalogue(scale).cells("radfed", "table3")["fedasync", column][0]
    prepared, _, _ = runner.prepare(parse(dict(run.spec)), runner.Settings())
    assert cohort_size(run.spec) == select.cohort_size(prepared)


@pytest.mark.parametrize(
    ("fraction", "size"), [(0.01, 1), (0.29, 1), (0.3, 2), (0.5, 3), (0.69, 3), (1.0, 5)]
)
def test_parameters_round_a_cohort_as_runs_do(fraction: float, size: int) -> None:
    assert cohort_size({"participation": {"fraction": fraction}, "partition": {"clients": 5}}) == size


@pytest.mark.parametrize(
    ("fold", "left"), [({}, 5), ({"index": 1}, 5), ({"index": 2}, 6), ({"index": 3}, 6), ({"rotation": 3}, 6)]
)
def test_clients_that_a_fold_leaves_are_counted_before_any_are_drawn(
    fold: Values, left: int, spec: Values
) -> None:
    """Of 11 clients in four sets, the last of two, one set is held out to test, another to validate."""
    divided = {"name": "iid", "clients": 11, "fold": {"of": 4, "index": 0} | fold}
    run, _, _ = runner.prepare(parse({**spec, "partition": divided}), runner.Settings())
    assert training_clients(run.spec.resolved()) == len(run.problem.clients) == left


def test_a_number_of_clients_that_only_the_files_tell_is_asked_for() -> None:
    params = parameters("radfed")
    params["papers"]["radfed"]["datasets"]["eicu"]["data"]["min_admissions"] = 50
    paper = build_catalogue(params | {"scale": "paper", "primary_paper": "radfed"})
    message = r"^papers\.radfed\.data: only the files tell how many clients 'eicu' names$"
    with pytest.raises(SpecError, match=message):
        paper.cells("radfed", "table3")


def test_rounds_that_are_no_whole_number_are_refused() -> None:
    paper = changed(radfed={"per": {"eicu": {"redistributions": 7}}})
    message = (
        r"training\.rounds: got 2400 synchronous rounds, expected a multiple of 7, which one round of 'rad"
    )
    with pytest.raises(SpecError, match=message):
        paper.cells("radfed", "table3")


@pytest.mark.parametrize("scale", ["demo", "quick", "paper"])
@pytest.mark.parametrize("variant", JOINED)
def test_a_variant_takes_the_values_of_the_methods_that_it_joins(scale: str, variant: str) -> None:
    cells = catalogue(scale, editions=True).cells("radfed", "table3")
    for column in SETTINGS:
        options, delay, joined = (
            cells[row, column][0].spec["algorithm"] for row in (variant, "radfed", JOINED[variant])
        )
        assert options["redistributions"] == delay["redistributions"]
        shared = {*options} & {*joined} - {"name"}
        assert shared
        assert {key: options[key] for key in shared} == {key: joined[key] for key in shared}


def test_a_value_that_is_chosen_for_one_data_set_reaches_the_variant_there_alone() -> None:
    before, after = changed(), changed(fedprox={"per": {"mnist_1": {"mu": 0.5}, "eicu": {"mu": 0.25}}})
    for column in SETTINGS:
        old, new = (paper.cells("radfed", "table3")["radfed_p", column][0].spec for paper in (before, after))
        expected = {"mnist_1": 0.5, "eicu": 0.25}.get(column, old["algorithm"]["mu"])
        assert new == {**old, "algorithm": {**old["algorithm"], "mu": expected}}
    overridden = changed(fedprox={"mu": 0.5}, radfed_p={"mu": 0.125})
    assert overridden.cells("radfed", "table3")["radfed_p", "eicu"][0].spec["algorithm"]["mu"] == 0.125


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            ["radfed", "fedadpt"],
            r"options_of: got 'fedadpt', which is not defined \(did you mean 'fedadapt'\?\)",
        ),
        (
            ["radfed_p"],
            "options_of: got 'radfed_p', which takes options itself; name those entries",
        ),
        ("fedadapt", r"options_of: got 'fedadapt', expected a list"),
    ],
)
def test_a_wrong_reference_is_one_line(entry: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=rf"^papers\.radfed\.algorithms\.radfed_a\.{message}$"):
        changed(radfed_a={"options_of": entry}).cells("radfed", "table3")
