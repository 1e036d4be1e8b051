"""Readings: what papers leave open, which combinations run, what they tell, and a planted one."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import chain, combinations, product
from pathlib import Path
from types import SimpleNamespace, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin

import numpy as np
import pandas as pd
import pytest
import yaml
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex, to_rgba
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation
from pretended import finish
from typer.testing import CliRunner

from fedcore.algorithms import example
from fedcore.base.errors import DataError, SpecError
from fedcore.base.registry import find, plugins
from fedcore.cli.main import app
from fedcore.data import Source
from fedcore.execution.batch import execute
from fedcore.execution.runner import Settings, prepare
from fedcore.parts import Recipe
from fedcore.parts.aggregate import LearnedMixture
from fedcore.parts.objective import Proximal
from fedcore.spec import parse
from pipeline.catalogue import Catalogue
from pipeline.catalogue.params import load
from pipeline.catalogue.schema import ReadingsParams
from pipeline.catalogue.targets import PlannedRun, Query
from pipeline.claims.checks import Beats
from pipeline.claims.design import design, shares
from pipeline.claims.ledger import ledger
from pipeline.claims.points import Point, accuracy_by, changes_of, points
from pipeline.claims.points import load as load_points
from pipeline.claims.readings import (
    BEYOND,
    ROOM,
    SHOWN,
    TAKEN,
    WITHIN,
    Readings,
    Space,
    _distance,
    figure_of,
    held,
    nearest,
    readings_targets,
    sentences,
    verdict,
)
from pipeline.fidelity.scoreboard import KINDS, claims_by_reading, figure_of_claims
from pipeline.papers import build_catalogue, catalogue_of, papers
from pipeline.reports.drawings import Inputs, Picture
from pipeline.reports.results import read
from pipeline.reports.tables import Table

HOME = Path(__file__).parents[2]
OTHERS = ("-released", "cifar10-skewed")  # settings that are other readings themselves
POINTS = [(paper, name) for paper in papers() for name in points(paper)]
TRIED = [(paper, name) for paper, name in POINTS if not points(paper)[name].fixed]
# How many open points each paper was found to have; what was found later only adds to them.
FOUND = {"comfed": 14, "fedavgr": 18, "fedomw": 14, "radfed": 21, "rfedavg": 31, "mcmahan2017": 4}
SETS = ("dna", "pendigits")
# Choices that are no readings of a paper: which files, what this project adds, and how numbers are computed.
NO_READING = {
    "data.edition": "which copy of the data",
    "data.pool": "follows from folds",
    "algorithm.equal_steps": "pooled training takes as many steps as the clients together",
    "data.iid": "a setting of the synthetic sets' authors",
    "data.padding": "of messages; both ends give the same words",
    "data.task": "the papers name two classes",
    "data.unseen_writers": "a setting of LEAF",
    "model.activation": "the paper names it",
    "model.bias": "the paper's logistic regression has one",
    "algorithm.delta_precision": "arithmetic",
    "algorithm.batch_p": "a hyperparameter of the code",
    "algorithm.same_start": "McMahan et al. show both",
}


@cache
def paper_scale() -> Catalogue:
    return catalogue_of(HOME / "params.yaml", "paper")


def queries(paper: str, point: Point) -> dict[Query, None]:
    """Return all settings and algorithms of a paper's tables that say nothing on a point, each once."""
    about, params = paper_scale().papers[paper], paper_scale().params.papers[paper]
    keys = {key for reading in point.alternatives.values() for key in reading.changes or {}}
    tables = (target for target in about.targets.values() if isinstance(target, Table) and not target.search)
    cells = (query for table in tables for cell in table.cells(params).values() for query in cell)
    plain = (query for query in cells if not query.setting.endswith(OTHERS) and "epochs" not in query.regime)
    return dict.fromkeys(
        query for query in plain if keys.isdisjoint(dict(query.changes)) and query.seeds is None
    )


@pytest.mark.parametrize(("paper", "name"), TRIED)
def test_a_reading_that_can_run_is_a_valid_specification_and_ours_is_what_the_tables_have(
    paper: str, name: str
) -> None:
    catalogue, point, differs = paper_scale(), points(paper)[name], set()
    for query in queries(paper, point):
        plain = catalogue.runs(paper, query)[0].spec
        for alternative in point.tried:
            more = changes_of(catalogue.params.papers[paper], query, point, alternative)
            if more and (alternative == point.paper or alternative not in differs):
                spec = catalogue.runs(paper, replace(query, changes=(*query.changes, *more)))[0].spec
                assert spec == plain or alternative != point.paper, query
                differs |= {alternative} if spec != plain else set()
    measured = {alternative for alternative in point.tried if point.alternatives[alternative].measure}
    assert differs | measured | {point.paper} == {*point.tried}


def partition_readings() -> Iterator[tuple[str, str, str]]:
    """Yield the readings that deal rows out in another way than ours: paper, point and alternative."""
    for paper, name in TRIED:
        for alternative in points(paper)[name].tried[1:]:
            changes = points(paper)[name].alternatives[alternative].changes or {}
            if any(key.startswith("partition.") and key != "partition.seed" for key in changes):
                yield paper, name, alternative


@pytest.mark.parametrize(("paper", "name", "alternative"), [*partition_readings()])
def test_rows_can_be_dealt_out_in_every_way_that_a_partition_can_be_read(
    paper: str, name: str, alternative: str
) -> None:
    catalogue, point = catalogue_of(HOME / "params.yaml", "demo"), points(paper)[name]
    changed = (
        replace(query, changes=(*query.changes, *more))
        for query in queries(paper, point)
        if (more := changes_of(catalogue.params.papers[paper], query, point, alternative))
    )
    run, _, _ = prepare(
        parse(catalogue.runs(paper, next(changed))[0].spec), Settings(source=Source(HOME / "data"))
    )
    assert run.problem.active


@pytest.mark.parametrize("paper", papers())
def test_a_paper_declares_what_was_found_to_be_open_in_it(paper: str) -> None:
    assert len(points(paper)) >= FOUND.get(paper, 0)


@pytest.mark.parametrize(
    ("paper", "name", "options"),
    [
        ("comfed", "network", {"model.channels"}),
        ("comfed", "partition", {"partition.convention"}),
        ("radfed", "burn_in", {"partition.stop"}),
        ("radfed", "server", {"algorithm.server"}),
        ("radfed", "staleness", {"algorithm.staleness"}),
        ("rfedavg", "delta_model", {"algorithm.delta_model"}),
        ("rfedavg", "distances", {"algorithm.distances"}),
        ("rfedavg", "sent140_layer", {"model.dense"}),
        ("rfedavg", "sent140_silos", set()),
        ("rfedavg", "sum_of_losses", set()),
    ],
)
def test_what_was_once_taken_in_silence_is_said_with_its_option_or_why_there_is_none(
    paper: str, name: str, options: set[str]
) -> None:
    point = points(paper)[name]
    assert len(point.alternatives) >= 2
    assert {key for reading in point.alternatives.values() for key in reading.changes or {}} == options
    assert bool(point.fixed) == (not options)


def chosen(kind: Any) -> bool:
    """Say whether an option is a choice: true or false, or one of several words."""
    inner = get_origin(kind)
    if kind is bool or inner is Literal:
        return True
    return inner in {Union, UnionType} and any(map(chosen, get_args(kind)))


def choices() -> Iterator[str]:
    """Yield the options of the papers' plug-ins that are choices, as keys of a specification."""
    for params in paper_scale().params.papers.values():
        named = {("algorithm", method.name or name) for name, method in params.algorithms.items()}
        for dataset in params.datasets.values():
            named |= {("data", dataset.data.name), ("model", dataset.model.name)}
            named |= {("partition", split.name) for split in dataset.splits.values()}
        for kind, name in sorted(named):
            fields = find(kind, name).options.model_fields.items()
            yield from (f"{kind}.{field.alias or key}" for key, field in fields if chosen(field.annotation))


def test_every_choice_among_options_belongs_to_an_open_point_or_is_no_reading() -> None:
    open_keys = {
        key
        for paper, name in POINTS
        for reading in points(paper)[name].alternatives.values()
        for key in reading.changes or {}
    }
    assert {*choices()} - open_keys == {*NO_READING}


def without_readings() -> dict[str, Any]:
    """Return params.yaml without FedOMW's readings, in whose place a test puts its own."""
    config: dict[str, Any] = yaml.safe_load((HOME / "params.yaml").read_text())
    for section in (config, *config["scales"].values()):
        section["papers"].get("fedomw", {}).pop("readings", None)
    return config


def test_the_codes_reading_of_each_point_is_what_the_released_tables_run() -> None:
    config = without_readings()
    open_points = ["labels", "validation_rows", "draw", "start", "fedprox", "p_momentum"]
    readings = {f"table{number}": {"points": open_points, "most": 1} for number in (2, 3)}
    config["papers"]["fedomw"]["readings"], config["scale"] = readings, "paper"
    catalogue = build_catalogue(config)
    code = "-".join(f"{key}_{points('fedomw')[key].released}" for key in open_points)
    for number in (2, 3):
        cells = catalogue.cells("fedomw", f"table{number}_readings")
        for (row, column), runs in catalogue.cells("fedomw", f"table{number}_released").items():
            for combined, run in zip(cells[row, f"{column}@{code}"], runs, strict=False):
                assert recipe(combined) == recipe(run)
                kept = [{**spec, "algorithm": 0, "variant": 0} for spec in (combined.spec, run.spec)]
                assert kept[0] == kept[1]
        first = "-".join(f"{key}_{points('fedomw')[key].paper}" for key in open_points)
        for (row, column), runs in catalogue.cells("fedomw", f"table{number}").items():
            assert cells[row, f"{column}@{first}"] == runs[:1], "this project's reading shares its runs"


CODE: dict[str, dict[str, Any]] = {
    "dl_u": {"chained": True},
    "dl_opt": {"chained": True, "keep_velocity": True, "epochs_p": 100, "batch_p": 16},
    "fedomw": {
        "chained": True,
        "keep_velocity": True,
        "epochs_p": 100,
        "batch_p": 16,
        "momentum_p": 0.9,
    },
    "fedprox": {"half": False},
    "qfedavg": {"scaled": True},
    "radfed_i": {"score": "batch", "scored_start": True},
    "rfedavg": {"delta_before": True},
    "rfedavg_plus": {"delta_before": True},
    "scaffold": {"cancels": True},
}


def test_variant_is_a_name_for_options_of_each_algorithm() -> None:
    assert set(CODE) == {name for name, plugin in plugins("algorithm").items() if plugin.released}
    for name, options in CODE.items():
        with_options, code = example(name, options), example(name, variant="released")
        assert parts(with_options) == parts(code), name
        assert parts(with_options) != parts(example(name)), name


def parts(own: Recipe) -> list[Any]:
    return [
        own.schedule,
        own.select,
        own.aggregate,
        own.server,
        own.objective,
        type(own.update),
        own.exchange,
    ]


def recipe(run: PlannedRun) -> list[Any]:
    """Return a run's parts; in one round nothing is kept for the next, and no plain norm has a half."""
    planned, aggregate = run.recipe, run.recipe.aggregate
    if run.spec["training"]["rounds"] == 1 and isinstance(aggregate, LearnedMixture):
        aggregate = replace(aggregate, keep_velocity=False)
    terms = [
        replace(term, half=True) if isinstance(term, Proximal) and not term.squared else term
        for term in planned.objective
    ]
    return parts(replace(planned, aggregate=aggregate, objective=tuple(terms)))


def test_a_design_is_full_or_holds_each_pair_of_levels() -> None:
    assert design((2, 3), 6, ((0, 0), (1, 2))) == ((0, 0), (1, 2), (0, 1), (0, 2), (1, 0), (1, 1))
    levels, first = (2, 3, 2, 2, 4), ((0,) * 5, (1,) * 5)
    rows = design(levels, 30, first)
    assert rows[:2] == first
    assert len(rows) < math.prod(levels) / 4
    for i, j in combinations(range(5), 2):
        assert {(row[i], row[j]) for row in rows} == {*product(range(levels[i]), range(levels[j]))}


def test_a_design_of_many_points_is_found_in_a_moment() -> None:
    levels = (3, 2) * 7
    rows = design(levels, 32, ((0,) * 14, (1,) * 14))
    assert len(rows) < 32
    for i, j in combinations(range(14), 2):
        assert {(row[i], row[j]) for row in rows} == {*product(range(levels[i]), range(levels[j]))}


def test_shares_of_a_full_design_are_the_main_effects_of_an_analysis_of_variance() -> None:
    rows = np.array([*product("ab", "xyz")])
    # 4 and 0 by the first point, 0, 3 and 6 by the second: sums of squares 6 * 4 and 4 * 9, which is all.
    values = np.array([4.0, 7.0, 10.0, 0.0, 3.0, 6.0])
    assert shares(rows, values) == pytest.approx((24 / 60, 36 / 60))
    # 1 where both levels are the second ones: each point explains a third, their combination the last third.
    pairs = np.array([*product("ab", "xy")])
    assert shares(pairs, np.array([0.0, 0.0, 0.0, 1.0])) == pytest.approx((1 / 3, 1 / 3))
    assert shares(pairs, np.ones(4)) == (0.0, 0.0)
    three = np.array(list(product(range(2), repeat=3)))[:6]
    assert shares(three, np.full(6, 0.1)) == (0.0, 0.0, 0.0), "their variance is rounding"


def test_a_model_that_fits_anything_explains_nothing() -> None:
    rows = np.array([*product("ab", "xyz")])
    noise = np.random.default_rng(0).normal(size=6)
    assert shares(rows[:4], noise[:4]) == (), "four values, four parameters"
    assert sum(shares(rows[:5], noise[:5])) < 1


def test_points_that_always_change_together_share_what_they_explain() -> None:
    rows = np.array([("a", "x", "p"), ("b", "y", "p"), ("a", "x", "q"), ("b", "y", "q")])
    assert shares(rows, np.array([0.0, 2.0, 0.0, 2.0])) == pytest.approx((0.5, 0.5, 0.0))


def test_a_claim_holds_in_all_most_some_or_no_readings() -> None:
    assert [verdict(share) for share in (1.0, 0.51, 0.5, 0.01, 0.0)] == [
        "all",
        "most",
        "some",
        "some",
        "none",
    ]


POINT = {
    "place": "Section 1",
    "open": "whether it is one or two",
    "paper": "one",
    "alternatives": {
        "one": {"says": "one", "changes": {}},
        "two": {"says": "two", "changes": {"training.lr": 2.0}},
    },
}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"paper": "three"}, "paper: got 'three', expected one of one, two"),
        ({"released": "four"}, "released: got 'four', expected one of one, two"),
        (
            {"fixed": "why"},
            "fixed: 2 of its alternatives can run; expected a reason where fewer",
        ),
        ({"only": "fedavg"}, "only: got 'fedavg', expected a list"),
        ({"alternatives": {"one": {"says": "one"}}}, "alternatives: got"),
    ],
)
def test_a_wrong_point_is_refused_in_one_line(change: dict[str, Any], line: str, tmp_path: Path) -> None:
    path = tmp_path / "readings.yaml"
    path.write_text(yaml.safe_dump({"length": POINT | change}))
    with pytest.raises(SpecError) as refused:
        load_points(path)
    assert str(refused.value).startswith(f"{path}: length")
    assert line in str(refused.value)


@pytest.mark.parametrize(
    ("table", "wanted", "line"),
    [
        ("fig1", {"points": ["labels"]}, "readings.fig1: expected a table of numbers"),
        ("table2", {"points": ["label"]}, "points: no open point 'label' (did you mean 'labels'?)"),
        (
            "table2",
            {"points": ["theorem2"]},
            "points: 'theorem2' has one reading that can run",
        ),
        ("table2", {"points": ["labels"], "again": ["labels_x"]}, "again: no reading 'labels_x'"),
        ("table2", {"points": ["labels"], "rows": ["dl_otp"]}, "rows: no 'dl_otp' (did you mean 'dl_opt'?)"),
        (
            "table2",
            {"points": ["labels"], "columns": ["usp"]},
            "columns: no 'usp' (did you mean 'usps'?)",
        ),
        (
            "table2",
            {"points": ["labels"], "changes": {"training.round": 2}},
            "readings.table2.changes: no run has a key 'training.round'",
        ),
        (
            "late",
            {"of": "tabel2", "points": ["labels"]},
            "readings.late.of: expected a table of numbers (did you mean 'table2'?)",
        ),
        (
            "late",
            {"of": "table2", "points": ["labels"], "changes": {"training.round": 2}},
            "readings.late.changes: no run has a key 'training.round'",
        ),
    ],
)
def test_a_wrong_wish_is_refused_in_one_line(table: str, wanted: dict[str, Any], line: str) -> None:
    config = without_readings()
    config["papers"]["fedomw"]["readings"] = {table: wanted}
    with pytest.raises(SpecError) as refused:
        build_catalogue(config)
    assert str(refused.value).startswith("papers.fedomw.readings.")
    assert line in str(refused.value)


def test_readings_may_run_with_a_part_of_their_table() -> None:
    config, part = (
        without_readings(),
        {"points": ["labels", "start"], "rows": ["dl_opt"], "columns": ["dna"]},
    )
    config["papers"]["fedomw"]["readings"] = {"table2": part}
    cells = build_catalogue(config).cells("fedomw", "table2_readings")
    assert {(row, column.partition("@")[0]) for row, column in cells} == {("dl_opt", "dna")}
    assert len(cells) == 4


def test_a_table_may_have_readings_of_its_parts_under_other_names() -> None:
    config, open_points = without_readings(), ["labels", "start"]
    wishes = {name: {"of": "table2", "points": open_points, "columns": [name]} for name in ("dna", "usps")}
    config["papers"]["fedomw"]["readings"] = wishes | {"table2": {"points": open_points}}
    catalogue = build_catalogue(config)
    of_table = catalogue.cells("fedomw", "table2_readings")
    for name in wishes:
        cells = catalogue.cells("fedomw", f"{name}_readings")
        assert {column.partition("@")[0] for _, column in cells} == {name}
        assert all(runs == of_table[cell] for cell, runs in cells.items())


def test_a_run_that_a_change_makes_of_several_counts_once() -> None:
    config = without_readings()
    part = {"points": ["merging"], "columns": ["eicu"], "changes": {"partition.fold.index": 0}}
    config["papers"]["radfed"]["readings"], config["scale"] = {"table3": part}, "paper"
    config["scales"]["paper"]["papers"].pop("radfed")
    catalogue = build_catalogue(config)
    folds = catalogue.cells("radfed", "table3")["fedavg", "eicu"]
    assert len(folds) == 5 * 3
    for runs in catalogue.cells("radfed", "table3_readings").values():
        assert [run.seed for run in runs] == [0]


def test_readings_may_all_run_with_the_same_changes() -> None:
    config, changes = without_readings(), {"training.local_epochs": 3, "algorithm.lr_p": 0.5}
    part = {"points": ["labels", "start"], "columns": ["dna"], "changes": changes}
    config["papers"]["fedomw"]["readings"] = {"table2": part}
    catalogue = build_catalogue(config)
    cells, table = (catalogue.cells("fedomw", name) for name in ("table2_readings", "table2"))
    for (row, _), runs in cells.items():
        specs, plain = [run.spec for run in runs], table[row, "dna"][0].spec
        assert {spec["training"]["local_epochs"] for spec in specs} == {3}
        rates = {spec["algorithm"].get("lr_p") for spec in specs}
        assert rates == ({0.5} if "lr_p" in plain["algorithm"] else {None})


def test_a_table_of_partitions_has_readings_that_train_nothing() -> None:
    config = without_readings()
    part = {"points": ["xi"], "rows": ["mnist_1"], "columns": ["c_score"]}
    config["papers"]["radfed"]["readings"] = {"table1": part}
    catalogue = build_catalogue(config)
    assert catalogue.target("radfed", "table1_readings").needs == "partitions"
    cells = catalogue.cells("radfed", "table1_readings")
    steps = {
        column.partition("@")[2]: {(run.spec["partition"]["xi"], run.spec["partition"]["xi_reading"])}
        for (_, column), (run, *_) in cells.items()
    }
    assert steps == {
        "xi_relative": {(0.002, "relative")},
        "xi_samples": {(0.002, "samples")},
        "xi_small": {(0.0002, "relative")},
    }


@pytest.mark.parametrize("name", ["table1_2nn", "rates_2nn"])
def test_tables_of_other_pixels_differ_in_these_alone(name: str) -> None:
    catalogue = build_catalogue(without_readings())
    unit, symmetric = (catalogue.cells("mcmahan2017", f"{name}{ending}") for ending in ("", "_symmetric"))
    pairs = zip(chain(*unit.values()), chain(*symmetric.values()), strict=True)
    for run, again in pairs:
        assert run.spec["data"]["scaling"] == "unit"
        assert again.spec == {**run.spec, "data": {**run.spec["data"], "scaling": "symmetric"}}
    about = catalogue.target("mcmahan2017", "table1_2nn_symmetric")
    assert cast("Table", about).beside == "table1_2nn"


def small(readings: dict[str, Any], seeds: list[int], numbers: Path) -> Catalogue:
    """Return FedOMW on two small sets for a few epochs, beside these published numbers."""
    config = without_readings()
    paper, demo = config["papers"]["fedomw"], config["scales"]["demo"]
    demo |= {"seeds": seeds, "papers": {"fedomw": demo["papers"]["fedomw"]}}
    demo["papers"]["fedomw"]["regimes"]["dl"]["training"]["local_epochs"] = 4
    for section in (paper, demo["papers"]["fedomw"]):
        section["datasets"] = {name: section["datasets"][name] for name in SETS}
    for about in paper["algorithms"].values():
        about["per"] = {key: case for key, case in about.get("per", {}).items() if key in {*SETS, "released"}}
    paper["readings"] = {"table2": readings}
    params = load({**config, "papers": {"fedomw": paper}, "primary_paper": "fedomw"})
    about = replace(papers()["fedomw"], numbers=numbers)
    targets = {**about.targets, **readings_targets("fedomw", about, params.papers["fedomw"])}
    return Catalogue(params, {"fedomw": replace(about, targets=targets)})


@pytest.mark.slow
def test_a_planted_reading_is_found_from_the_numbers_that_were_made_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    planted = {"labels": "iid", "start": "parallel", "rates_under_skew": "lower"}
    name = "-".join(map("_".join, planted.items()))
    numbers = tmp_path / "published.csv"
    numbers.write_text("target,row,column,mean,std,unit,mark,note\n")
    ask = {"points": [*planted]}
    printed = small(ask, [7, 8], numbers)
    all_cells = printed.cells("fedomw", "table2_readings")
    cells = {cell: runs for cell, runs in all_cells.items() if cell[1].endswith(f"@{name}")}
    train(run for runs in cells.values() for run in runs)
    for (row, column), runs in cells.items():
        scores = [pd.read_csv(f"{run.folder}/history.csv")["test_accuracy"].iloc[-1] for run in runs]
        with numbers.open("a") as file:
            file.write(f"table2,{row},{column.partition('@')[0]},{100 * np.mean(scores):.2f},,percent,,\n")

    catalogue = small(ask, [0, 1], numbers)
    train(catalogue.needed("fedomw", "table2_readings"))
    outputs = catalogue.target("fedomw", "table2_readings").paths(tmp_path, "readings")
    catalogue.sources("fedomw", "table2_readings").build(outputs)
    report = pd.read_csv(outputs["csv"])
    assert nearest(report, 1) == [name]
    assert f"Nearest to the paper: {name}," in sentences(report)[1]
    assert outputs["svg"].stat().st_size
    lines = report[report["row"] == "distance"].set_index("column")
    assert len(lines) == 8
    assert lines["of"].eq(4).all()
    # What one reading's line says, from its cells: the mean of the distances in margins of a point or more.
    planted_cells = report[report["column"].str.endswith(f"@{name}")]
    apart = (planted_cells["mean"] - planted_cells["published_mean"]).abs() / planted_cells["margin"]
    assert lines.loc[name, "mean"] == pytest.approx(apart.mean(), rel=1e-4)
    parts = report[report["row"] == "share"].set_index("column")["mean"]
    assert 0 < parts.sum() <= 1 + 1e-9
    claims = report[report["row"] == "claim"]
    held = [len(str(names).split()) for names in claims["in"].astype(object).fillna("")]
    assert (claims["mean"] * claims["of"]).tolist() == pytest.approx(held)


def printed(path: Path, *cells: tuple[str, str, float]) -> Path:
    """Write published numbers of Table 2."""
    lines = [f"table2,{row},{column},{mean},,percent,," for row, column, mean in cells]
    path.write_text("\n".join(["target,row,column,mean,std,unit,mark,note", *lines]) + "\n")
    return path


def claimed(monkeypatch: pytest.MonkeyPatch, target: str = "table2") -> None:
    """Let the ledger hold one claim: on dna DL-opt leads by ten points."""
    first = next(claim for claim in ledger("fedomw") if isinstance(claim.check, Beats))
    assert first.check
    check = first.check.model_copy(update={"columns": ("dna",), "by_at_least": 10.0})
    claim = first.model_copy(update={"id": "ten-points", "target": target, "check": check})
    monkeypatch.setattr("pipeline.claims.readings.ledger", lambda paper: (claim,))


OURS, CODES = "labels_skewed", "labels_iid"
SCORES: dict[
    str, dict[tuple[str, str], tuple[int, ...]]
] = {  # by reading, the scores in per cent at each seed
    OURS: {("dl_u", "dna"): (82,), ("dl_u", "pendigits"): (80,), ("dl_opt", "dna"): (93,)},
    CODES: {
        ("dl_u", "dna"): (80, 81, 82),
        ("dl_u", "pendigits"): (80, 80, 80),
        ("dl_opt", "dna"): (90, 90, 90),
    },
}


@pytest.fixture
def picture_of(tmp_path: Path) -> Callable[..., Picture]:
    """Return what draws Table 2's readings from the scores above; what is given is set in place of one."""
    cells = (("dl_u", "dna", 80.0), ("dl_u", "pendigits", 80.0), ("dl_opt", "dna", 90.0))

    def draw(diverged: Mapping[tuple[str, str], float], **more: Any) -> Picture:
        wish = {"points": ["labels"], "again": [CODES], **more}
        catalogue = small(wish, [0, 1, 2], printed(tmp_path / "n.csv", *cells))
        target = catalogue.target("fedomw", "table2_readings")
        assert isinstance(target, Readings)
        all_cells = catalogue.cells("fedomw", "table2_readings")
        for (row, column), runs in all_cells.items():
            dataset, _, reading = column.partition("@")
            scores = SCORES[reading].get((row, dataset), (99,) * len(runs))
            assert len(scores) == len(runs), "all seeds where it is asked for, else one"
            for run, score in zip(runs, scores, strict=True):
                finish(run, tmp_path, None if (reading, dataset) in diverged else score / 100)
        inputs = Inputs(catalogue.params.papers["fedomw"], read(all_cells, tmp_path))
        return target.draw(inputs)

    return draw


def test_readings_are_measured_in_margins_and_judged_by_the_claims(
    picture_of: Callable[..., Picture], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A margin is a point. Ours is 2, 0 and 3 off; the code's by seed 0, 1 and 2 in one of three cells."""
    claimed(monkeypatch)
    drawn = picture_of({})
    lines = drawn.numbers[drawn.numbers["row"] == "distance"].set_index("column")
    assert lines["mean"].to_dict() == pytest.approx({OURS: 5 / 3, CODES: 1 / 3})
    assert lines["std"].to_dict() == pytest.approx({OURS: math.nan, CODES: 1 / 3}, nan_ok=True)
    assert lines[["near", "of", "labels"]].to_numpy().tolist() == [[1, 3, "skewed"], [3, 3, "iid"]]
    assert "share" not in set(drawn.numbers["row"]), "two readings for two parameters"
    (claim,) = drawn.numbers[drawn.numbers["row"] == "claim"].to_dict("records")
    values = tuple(claim[key] for key in ("column", "mean", "of", "says", "in", "out"))
    assert values == ("ten-points", 0.5, 2, "some", OURS, CODES)
    cells = drawn.numbers.set_index(["row", "column"])
    assert cells.loc[("dl_opt", f"dna@{OURS}"), "away"] == pytest.approx(3)
    assert cells.loc[("dl_u", f"dna@{CODES}"), "n"] == 3
    assert drawn.sentences == [
        SHOWN,
        "2 readings.",
        "Nearest to the paper: reading 1, 0.3 ± 0.3 margins away on average, 3 of 3 cells near; "
        "next: reading 2, 1.7 margins away on average, 1 of 3 cells near.",
    ]
    assert held(drawn.numbers) == ["Claims hold in a share of the readings: ten-points in some (50%)."]
    assert nearest(drawn.numbers, 1) == [CODES]
    assert nearest(drawn.numbers, 2) == [CODES, OURS]


@pytest.mark.parametrize("part", [{"rows": ["dl_u", "dl_opt"]}, {"changes": {"training.local_epochs": 3}}])
def test_claims_on_a_part_or_of_changed_runs_have_a_name_of_their_own(
    part: dict[str, Any], picture_of: Callable[..., Picture], monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed(monkeypatch)
    drawn = picture_of({}, **part)
    (claim,) = drawn.numbers[drawn.numbers["column"] == "ten-points"].to_dict("records")
    assert (claim["row"], claim["says"]) == ("claim_in_part", "some")
    assert "Claims are judged on what was run here." in drawn.sentences
    assert held(drawn.numbers) == [
        "On what was run here, claims hold in a share of the readings: ten-points in some (50%)."
    ]
    sentence = "All runs differ from the table's: training.local_epochs is 3."
    assert (sentence in drawn.sentences) == ("changes" in part)
    assert [text.get_text() for text in drawn.figure.axes[2].get_yticklabels()] == ["ten-points: in some"]


def test_the_figure_of_readings_shows_near_ones_first_what_they_take_and_which_claims_hold(
    picture_of: Callable[..., Picture], monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed(monkeypatch)
    above, choices, decided = picture_of({}).figure.axes
    (dots,) = (collection for collection in above.collections if isinstance(collection, PathCollection))
    assert np.asarray(dots.get_offsets()) == pytest.approx(np.array([[0, 1 / 3], [1, 5 / 3]]))
    near, beyond = (to_hex(colour) for colour in dots.get_facecolors())  # type: ignore[attr-defined]
    assert (near.upper(), beyond.upper()) == (WITHIN, BEYOND)
    assert {text.get_text(): cast(Annotation, text).xy[0] for text in above.texts} == {"code": 0, "paper": 1}
    assert above.get_yscale() == "log"
    assert [label.get_text() for label in choices.get_yticklabels()] == [
        "labels: skewed",
        "labels: iid",
    ]
    assert [np.asarray(marks.get_offsets()).tolist() for marks in choices.collections] == [[[1, 0]], [[0, 1]]]
    assert choices.get_ylim() == (1.5, -0.5)
    assert [label.get_text() for label in above.get_xticklabels()] == ["1", "2"]
    assert [label.get_text() for label in decided.get_yticklabels()] == ["ten-points: in some"]
    full, empty = decided.collections
    assert np.asarray(full.get_offsets()).tolist() == [[1, 0]]
    assert np.asarray(empty.get_offsets()).tolist() == [[0, 0]]
    assert len(full.get_facecolors()) == 1  # type: ignore[attr-defined]
    assert len(empty.get_facecolors()) == 0  # type: ignore[attr-defined]


def test_a_reading_with_a_diverged_run_has_no_distance_and_no_claim_is_no_line(
    picture_of: Callable[..., Picture], monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed(monkeypatch, target="table3")
    drawn = picture_of({(OURS, "pendigits"): 0.0})
    lines = drawn.numbers[drawn.numbers["row"] == "distance"].set_index("column")
    assert lines["mean"].to_dict() == pytest.approx({OURS: math.nan, CODES: 1 / 3}, nan_ok=True)
    assert (lines["near"][OURS], lines["of"][OURS]) == (0, 3)
    assert "claim" not in set(drawn.numbers["row"])
    assert drawn.sentences[:3] == [
        SHOWN,
        "2 readings.",
        "Nearest to the paper: reading 1, 0.3 ± 0.3 margins away on average, 3 of 3 cells near.",
    ]
    assert not any("Claims" in sentence for sentence in drawn.sentences)
    assert not drawn.figure.axes[2].get_visible()


def test_a_reading_may_take_another_number_of_its_runs(tmp_path: Path) -> None:
    """A run of .8 measures .1, .4 and .8; a printed deviation of 2 gives a margin of 4 points."""
    printed(tmp_path / "n.csv", ("dl_u", "dna", 80.0)).write_text(
        "target,row,column,mean,std,unit,mark,note\ntable2,dl_u,dna,80,2,percent,,\n"
    )
    catalogue = small({"points": ["labels"]}, [0, 1], tmp_path / "n.csv")
    about, params = catalogue.papers["fedomw"], catalogue.params.papers["fedomw"]
    table = about.targets["table2"]
    assert isinstance(table, Table)
    scores = point("last", None, last={"measure": "last"}, mean={"measure": "mean_of_last_five"})
    space = Space(
        "fedomw", "table2", table, about.numbers, {"score": scores}, ReadingsParams(points=("score",))
    )
    cells = {
        (row, column): [run for query in queries for run in catalogue.runs("fedomw", query)]
        for (row, column), queries in space.cells(params).items()
    }
    for run in {run.folder: run for runs in cells.values() for run in runs}.values():
        finish(run, tmp_path, 0.8)
    facts = read(cells, tmp_path)
    for name, mean in {"last": 80.0, "mean": 130 / 3}.items():
        frame = space.measured(Inputs(params, facts), f"score_{name}", {"score": name})
        lines = frame.set_index(["row", "column"])
        assert lines["mean"].to_numpy() == pytest.approx([mean] * len(lines))
        assert [*lines.loc[("dl_u", "dna"), ["margin", "away"]]] == pytest.approx([4, (80 - mean) / 4])
        assert lines["away"].notna().sum() == 1, "one cell is printed"


def test_a_measure_looks_at_measured_rounds_alone() -> None:
    curve = pd.Series([0.9, 0.1, np.nan, 0.2, 0.3, 0.4, 0.5])
    facts: Any = SimpleNamespace(final={}, series={"test_accuracy": curve}.__getitem__)
    measures: Any = ("last", "best", "mean_of_last_five")
    assert [accuracy_by(measure, facts, "dna") for measure in measures] == pytest.approx([50, 90, 30])


def point(paper: str, released: str | None, **alternatives: Any) -> Point:
    """Return an open point with these alternatives, each of which says its name."""
    described = {name: {"says": name, **options} for name, options in alternatives.items()}
    return Point.model_validate(
        {"place": "1", "open": "what", "paper": paper, "released": released, "alternatives": described}
    )


def test_this_projects_reading_comes_first_and_the_codes_second() -> None:
    """Of three points with three alternatives each, nine readings or more hold every pair of two."""
    changes: Any = {"changes": {"training.lr": 1.0}}
    ways = dict.fromkeys("abc", changes)
    known = {"x": point("a", "c", **ways), "y": point("b", None, **ways), "z": point("c", "b", **ways)}
    unused: Any = None
    wish = ReadingsParams(points=("x", "y", "z"), most=26)
    readings = Space("p", "t", unused, unused, known, wish).readings()
    first, second, *_ = readings
    assert (first, second) == ("x_a-y_b-z_c", "x_c-y_b-z_b")
    assert readings[second] == {"x": "c", "y": "b", "z": "b"}
    assert 9 <= len(readings) < 27
    all_readings = Space("p", "t", unused, unused, known, wish.model_copy(update={"most": 27})).readings()
    assert len(all_readings) == 27


def test_a_target_of_readings_is_what_its_table_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    catalogue = small({"points": ["labels"]}, [0, 1], printed(tmp_path / "n.csv"))
    about, params = catalogue.papers["fedomw"], catalogue.params.papers["fedomw"]
    table = about.targets["table2"]
    assert isinstance(table, Table)
    (target,) = readings_targets("fedomw", about, params).values()
    assert isinstance(target, Readings)
    assert target.title == f"{table.title}: readings by their distance from the paper's numbers"
    assert (target.published, target.rows) == (table.published, table.row_labels)
    assert [path.name for path in target.basis] == ["readings.yaml", "claims.yaml"]
    assert all(path.parent.name == "fedomw" and path.exists() for path in target.basis)
    # A point that is a measure fits a table without one alone.
    known = {"labels": point("last", None, last={"measure": "last"}, best={"measure": "best"})}
    monkeypatch.setattr("pipeline.claims.readings.points", lambda paper: known)
    assert [*readings_targets("fedomw", about, params)] == ["table2_readings"]
    with_measure = replace(about, targets={"table2": replace(table, measure=lambda facts, column: 1.0)})
    with pytest.raises(
        SpecError, match=r"^readings\.table2\.points: 'labels' is a measure, and the table has"
    ):
        readings_targets("fedomw", with_measure, params)
    known["labels"] = points("fedomw")["labels"]
    assert [*readings_targets("fedomw", with_measure, params)] == ["table2_readings"]


def cells_beside(*values: str, margin: tuple[float, ...] = (2.0, 0.5)) -> pd.DataFrame:
    """Return lines of two cells, of which 80 and 90 are printed, with these numbers of their seeds."""
    frame = pd.DataFrame({"published_mean": [80.0, 90.0], "margin": margin, "values": values})
    means = pd.Series([np.mean([float(pair.rpartition("=")[2]) for pair in cell.split()]) for cell in values])
    return frame.assign(away=(means - frame["published_mean"]).abs() / frame["margin"])


def test_the_distance_of_a_reading_by_hand() -> None:
    """Seed 0 is 1 of 2 and 1 of .5 off, seed 1 is 3 and 0: in margins (.5 + 2) / 2 and (1.5 + 0) / 2."""
    line = _distance("r", cells_beside("0=79 1=83", "0=91 1=90"), True)
    assert line["std"] == pytest.approx((1.25 - 0.75) / math.sqrt(2))
    assert line["mean"] == pytest.approx((0.5 + 1) / 2), "81 and 90.5 are half a margin and one off"
    assert (line["near"], line["of"], line["column"], line["row"]) == (2, 2, "r", "distance")
    assert math.isnan(_distance("r", cells_beside("0=79", "0=91 1=90"), True)["std"]), (
        "one seed is in all cells"
    )
    relative = _distance("r", cells_beside("0=79 1=83", "0=91 1=90"), False)
    assert math.isnan(relative["std"]), "runs' numbers are not those of the cells"
    nothing = cells_beside("0=79", "0=91").assign(published_mean=np.nan, away=np.nan)
    none = _distance("r", nothing, True)
    assert (none["near"], none["of"]) == (0, 0)
    assert math.isnan(none["mean"])
    assert math.isnan(none["std"])


def test_the_deviation_of_a_reading_is_over_seeds_that_all_cells_have() -> None:
    """Cells are 20 margins off at seed 1 and none at seed 2."""
    cells = cells_beside("a/1=70 a/2=50", "b/0=50 b/1=70 b/2=50", margin=(1.0, 1.0))
    line = _distance("r", cells.assign(published_mean=50.0), True)
    assert line["std"] == pytest.approx(20 / math.sqrt(2))


def told_of(**means: float) -> pd.DataFrame:
    """Return the numbers of a report: readings with their distances, two shares, two claims and two cells."""
    lines: list[dict[str, Any]] = [
        {
            "row": "distance",
            "column": name,
            "mean": mean,
            "std": 0.25,
            "near": 1,
            "of": 2,
            "first_step": name,
            "b": 0,
        }
        for name, mean in means.items()
    ]
    lines += [
        {"row": "share", "column": key, "mean": mean} for key, mean in (("first_step", 0.5), ("b", 0.25))
    ]
    lines += [
        {"row": "claim", "column": "holds", "mean": 2 / 3, "says": "some", "of": 3, "in": "far_off near"},
        {"row": "claim", "column": "fails", "mean": 0.0, "says": "none", "of": 2, "out": "near one"},
    ]
    lines += [
        {"row": "m", "column": f"d@{name}", "away": mean, "n": 2, "seeds": 2} for name, mean in means.items()
    ]
    return pd.DataFrame(lines)


@pytest.mark.parametrize("text", ["", "<<<<<<< HEAD\n"])
def test_a_damaged_report_of_readings_is_one_line(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").symlink_to(HOME / "params.yaml")
    (tmp_path / "reports/fedomw").mkdir(parents=True)
    (tmp_path / "reports/fedomw/table2_readings.csv").write_text(text)
    called = CliRunner().invoke(app, ["readings", "fedomw/table2", "--again", "2", "--dry-run"])
    assert isinstance(called.exception, DataError)
    assert str(called.exception).startswith("reports/fedomw/table2_readings.csv: no ")


def test_sentences_of_three_readings() -> None:
    assert sentences(told_of(far_off=3.0, near=0.5, one=1.0)) == [
        "3 readings.",
        "Nearest to the paper: near, 0.5 ± 0.2 margins away on average, 1 of 2 cells near; "
        "next: one, 1.0 ± 0.2 margins away on average, 1 of 2 cells near.",
        "Of the variance of the distance points explain first_step 50%, b 25%; combinations the rest "
        "(3 readings, 3 parameters).",
    ]
    assert held(told_of(far_off=3.0, near=0.5, one=1.0)) == [
        "Claims hold in a share of the readings: holds in some (67%), fails in none of the 2 that decide it "
        "(0%)."
    ]
    nothing = told_of(one=math.nan)
    assert sentences(nothing[nothing["row"] == "distance"].assign(away=np.nan)) == ["1 readings."]


def test_the_look_of_the_figure_of_readings() -> None:
    """Three panels on one axis, of heights that follow what they list; the margin is a dashed line at 1."""
    same: Any = {"changes": {}}
    unused: Any = None
    known = {"first_step": point("near", "one", far_off=same, near=same, one=same)}
    space = Space("p", "t", unused, unused, known, ReadingsParams(points=("first_step",)))
    figure = figure_of(space, told_of(far_off=3.0, near=0.5, one=1.0))
    above, choices, held = figure.axes
    assert figure.get_figheight() == pytest.approx(ROOM * (10 + 3.5 + 2.5) + 0.4)
    figure.draw_without_rendering()
    heights = [panel.get_position().height for panel in figure.axes]
    assert heights == pytest.approx([heights[0] * part for part in (1, 0.35, 0.25)], rel=1e-3)
    assert above.get_shared_x_axes().joined(above, held)
    assert above.get_ylabel() == "distance in margins"
    (line,) = (stroke for stroke in above.lines if stroke.get_linestyle() == "--")
    assert [*cast(Any, line.get_ydata())] == [1, 1]
    bars = next(collection for collection in above.collections if isinstance(collection, LineCollection))
    assert [bar[:, 1].tolist() for bar in bars.get_segments()] == [[0.25, 0.75], [0.75, 1.25], [2.75, 3.25]]
    assert [stroke for stroke in above.lines if stroke is not line and stroke.get_linestyle() != "None"] == []
    (dots,) = (collection for collection in above.collections if isinstance(collection, PathCollection))
    assert [to_hex(colour).upper() for colour in colours(dots)] == [WITHIN, WITHIN, BEYOND]
    assert dots.get_zorder() > max(artist.get_zorder() for artist in (line, bars)), "dots lie on top"
    assert {text.get_text(): cast(Annotation, text).xy for text in above.texts} == {
        "paper": (0, 0.5),
        "code": (1, 1.0),
    }
    for text in above.texts:
        note = cast(Annotation, text)
        rise = {"paper": -4, "code": 4}[text.get_text()]
        assert (note.get_position(), note.anncoords) == ((rise / 2, rise), "offset points"), "neighbours"
    labels = [label.get_text() for label in choices.get_yticklabels()]
    assert labels == ["first_step (50%): near", "first_step: far off", "first_step: one"]
    assert {to_hex(colour).upper() for part in choices.collections for colour in colours(part)} == {TAKEN}
    assert choices.get_ylim() == (2.5, -0.5)
    assert [label.get_text() for label in held.get_yticklabels()] == ["holds: in some", "fails: in none of 2"]
    offsets = [np.asarray(marks.get_offsets()).tolist() for marks in held.collections]
    assert offsets == [[[0, 0], [2, 0]], [], [], [[0, 1], [1, 1]]]
    assert {to_hex(colour).upper() for colour in colours(held.collections[0])} == {WITHIN}
    edges: Any = held.collections[3].get_edgecolor()
    assert {to_hex(colour).upper() for colour in edges} == {BEYOND}
    letters = {label.get_fontsize() for axes in (choices, held) for label in axes.get_yticklabels()}
    assert letters | {text.get_fontsize() for text in above.texts} == {7}


@pytest.mark.parametrize("rise", [1.001, 1.6, *(pytest.param(r, marks=pytest.mark.slow) for r in (1.0, 1.1))])
@pytest.mark.parametrize("marked", [(0, 0), (0, 1), (5, 6), (6, 5), (13, 2), (14, 15), (15, 15)])
def test_the_words_at_two_readings_lie_on_no_point_and_not_on_each_other(
    marked: tuple[int, int], rise: float
) -> None:
    same: Any = {"changes": {}}
    unused: Any = None
    names = [f"r{at}" for at in range(16)]
    paper, code = (names[at] for at in marked)
    known = {"first_step": point(paper, code, **dict.fromkeys(names, same))}
    space = Space("p", "t", unused, unused, known, ReadingsParams(points=("first_step",)))
    figure = figure_of(space, told_of(**{name: 2 * rise**at for at, name in enumerate(names)}))
    figure.draw_without_rendering()
    above = figure.axes[0]
    (dots,) = (collection for collection in above.collections if isinstance(collection, PathCollection))
    places = above.transData.transform(np.asarray(dots.get_offsets()))
    boxes = [text.get_window_extent() for text in above.texts]
    assert len(boxes) == len({*marked})
    assert not [at for box in boxes for at, place in enumerate(places) if box.contains(*place)]
    assert not boxes[0].overlaps(boxes[-1]) or len(boxes) == 1
    assert all(above.bbox.y0 < box.y0 < box.y1 < above.bbox.y1 for box in boxes)
    for box, at in zip(boxes, marked, strict=False):
        assert box.x0 - 3 < places[at][0] < box.x1 + 3, "a word begins or ends at its point"


@pytest.mark.parametrize(("released", "mark"), [("near", "paper, code"), (None, "paper")])
def test_a_reading_of_text_and_code_has_one_mark_and_no_code_has_none(
    released: str | None, mark: str
) -> None:
    same: Any = {"changes": {}}
    unused: Any = None
    known = {"first_step": point("near", released, near=same, one=same)}
    space = Space("p", "t", unused, unused, known, ReadingsParams(points=("first_step",)))
    above, *_ = figure_of(space, told_of(near=0.5, one=1.0)).axes
    assert [text.get_text() for text in above.texts] == [mark]


def test_a_reading_that_lacks_a_run_is_marked_where_it_stands() -> None:
    same: Any = {"changes": {}}
    unused: Any = None
    known = {"first_step": point("near", None, far_off=same, near=same, one=same)}
    space = Space("p", "t", unused, unused, known, ReadingsParams(points=("first_step",)))
    numbers = told_of(far_off=3.0, near=0.5, one=1.0)
    numbers.loc[numbers["column"] == "d@one", "n"] = 1
    (sign,) = (text for text in figure_of(space, numbers).axes[0].texts if text.get_text() == "‡")
    assert (sign.get_position(), sign.get_verticalalignment()) == ((1, 0.98), "top"), (
        "the dashed line is at the bottom"
    )


def colours(drawn: Any) -> Any:
    return drawn.get_facecolors()


def test_a_figure_of_one_point_that_lists_no_claim_hides_their_panel() -> None:
    numbers = told_of(near=0.5, far_off=3.0)
    unused: Any = None
    same: Any = {"changes": {}}
    known = {"first_step": point("near", None, near=same, far_off=same)}
    space = Space("p", "t", unused, unused, known, ReadingsParams(points=("first_step",)))
    axes = figure_of(space, numbers[numbers["row"] != "claim"]).axes
    assert [panel.get_visible() for panel in axes] == [True, True, False]
    assert axes[2].get_ylim() == (0.5, -0.5)


def test_readings_of_which_every_run_diverged_are_counted_and_drawn(
    picture_of: Callable[..., Picture], monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed(monkeypatch)
    drawn = picture_of({(reading, column): 0.0 for reading in (OURS, CODES) for column in SETS})
    assert drawn.sentences == [SHOWN, "2 readings."]
    assert {*drawn.numbers["row"]}.isdisjoint({"share", "claim"})
    lines = drawn.numbers[drawn.numbers["row"] == "distance"]
    assert lines[["near", "of"]].to_numpy().tolist() == [[0, 3], [0, 3]]


def train(runs: Iterable[PlannedRun]) -> None:
    """Execute runs, each once, which make their own partitions."""
    once = {run.folder: run.order() for run in runs}.values()
    items = [{key: value for key, value in order.items() if key != "partition"} for order in once]
    assert execute(items, Settings(), quiet=True) == 0


def test_claims_are_counted_by_the_readings_in_which_they_hold(tmp_path: Path) -> None:
    (tmp_path / "fedomw").mkdir()
    for name in ("table2", "table2_released", "table3"):  # what is kept of these tables
        shutil.copy(HOME / f"reports/reference/fedomw/{name}.csv", tmp_path / "fedomw")
    frame = claims_by_reading(tmp_path)
    assert {*frame["paper"]} == {*papers()}
    ids = {claim.id for claim in ledger("fedomw")}
    claims = frame[frame["paper"] == "fedomw"].set_index("claim")
    assert {*claims.index} == ids
    assert [*claims.loc["dl-opt-margins", ["readings", "share", "kind"]]] == [2, 1.0, "all"]
    assert [*claims.loc["dl-opt-significant", ["readings", "share", "kind"]]] == [2, 0.0, "none"]
    assert [*claims.loc["dl-opt-most-on-letter", ["readings", "share", "kind"]]] == [2, 0.5, "some"]
    assert [*claims.loc["fedomw-best", ["readings", "share", "kind"]]] == [1, 1.0, "holds"]
    assert [*claims.loc["fedomw-significant", ["readings", "share", "kind"]]] == [1, 0.0, "fails"]
    kinds = {key: claims.loc[key, "kind"] for key in ("non-is-the-baseline", "theorem2", "small-norm-wanted")}
    assert kinds == {"non-is-the-baseline": "test", "theorem2": "waits", "small-norm-wanted": "untested"}
    # A report of combinations counts in place of the two named readings, whose own tables have more seeds.
    text, code = "labels_skewed-start_parallel", "labels_iid-start_chain"
    taken = [{"labels": "skewed", "start": "parallel"}, {"labels": "iid", "start": "chain"}]
    margins = {"row": "claim", "column": "dl-opt-margins", "in": "a", "out": f"b {text} {code}"}
    lines = [*({"row": "distance"} | choice for choice in taken), margins]
    pd.DataFrame(lines).to_csv(tmp_path / "fedomw" / "table2_readings.csv", index=False)
    claims = claims_by_reading(tmp_path).set_index(["paper", "claim"])
    assert [*claims.loc[("fedomw", "dl-opt-margins"), ["readings", "share", "kind"]]] == [4, 0.75, "some"]
    assert claims.loc[("fedomw", "dl-opt-significant"), "kind"] == "none"


@pytest.mark.slow
def test_shorter_runs_speak_where_those_at_the_papers_scale_say_nothing(tmp_path: Path) -> None:
    (shorter := tmp_path / "quick" / "fedomw").mkdir(parents=True)
    kept = pd.read_csv(HOME / "reports/reference/fedomw/table3.csv").assign(scale="quick")
    kept.to_csv(shorter / "table3.csv", index=False)
    claims = claims_by_reading(tmp_path).query("paper == 'fedomw'").set_index("claim")
    assert [*claims.loc["fedomw-best", ["readings", "kind"]]] == [0, "holds so far"]
    assert claims.loc["fedomw-letter", "kind"] == "fails so far"
    assert claims.loc["dl-opt-margins", "kind"] == "waits"
    proofs = pd.read_csv(HOME / "reports/reference/fedomw/theorem1.csv")  # claims that any scale decides
    proofs.assign(scale="quick").to_csv(shorter / "theorem1.csv", index=False)
    claims = claims_by_reading(tmp_path).query("paper == 'fedomw'").set_index("claim")
    assert [*claims.loc["excess-risk-bound", ["readings", "kind"]]] == [0, "holds so far"]
    (full_scale := tmp_path / "fedomw").mkdir()
    kept[kept["row"] == "fedavg"].assign(scale="paper").to_csv(full_scale / "table3.csv", index=False)
    claims = claims_by_reading(tmp_path).query("paper == 'fedomw'").set_index("claim")
    assert claims.loc["fedomw-best", "kind"] == "holds so far"
    turned = kept.assign(scale="paper", mean=-kept["mean"], n=1)
    turned.to_csv(full_scale / "table3.csv", index=False)  # begun at the papers' scale, and otherwise there
    proofs.to_csv(full_scale / "theorem1.csv", index=False)
    claims = claims_by_reading(tmp_path).query("paper == 'fedomw'").set_index("claim")
    assert claims.loc["fedomw-best", "kind"] == "fails so far"
    assert [*claims.loc["excess-risk-bound", ["readings", "kind"]]] == [1, "holds"], (
        "shorter runs are no reading"
    )


def test_the_figure_of_claims_has_a_bar_a_paper_and_counts_every_claim() -> None:
    lines = [
        ("fedomw", "a", 2, 1.0, "all"),
        ("fedomw", "b", 2, 1.0, "all"),
        ("radfed", "c", 0, np.nan, "waits"),
    ]
    frame = pd.DataFrame(lines, columns=["paper", "claim", "readings", "share", "kind"])
    axes = figure_of_claims(frame).axes[0]
    bars = [cast(Rectangle, patch) for patch in axes.patches]
    drawn = {(patch.get_width(), patch.get_facecolor()) for patch in bars if patch.get_width()}
    assert drawn == {(2.0, to_rgba(KINDS["all"][1])), (1.0, to_rgba(KINDS["waits"][1]))}
    assert [label.get_text() for label in axes.get_yticklabels()] == ["fedomw", "radfed"]
    assert [text.get_text() for text in axes.texts if text.get_text()] == ["2", "1"]


# The first words of a line of the answer, and the kind of the claims that it may name.
ANSWERS = {
    "However it is read": "all",
    "Only under some readings": "some",
    "Under no reading": "none",
    "In the one reading measured it holds": "holds",
    "In the one reading measured it fails": "fails",
    "With fewer seeds, rounds or rows it holds": "holds so far",
    "With fewer seeds, rounds or rows it fails": "fails so far",
    "Waiting for runs": "waits",
    "Held by a test of the code": "test",
    "Not testable": "untested",
}


def test_the_answer_in_words_says_what_the_verdicts_say() -> None:
    """Each line names claims of its own kind and counts them; no kind of a paper is passed over."""
    frame = claims_by_reading(HOME / "reports" / "reference")
    kept = pd.read_csv(HOME / "reports" / "reference" / "claims_by_reading.csv")
    pd.testing.assert_frame_equal(frame, kept, check_dtype=False)
    counts = {}
    for paper, judged in frame.groupby("paper"):
        page = (HOME / "docs" / "evidence" / f"{paper}.md").read_text(encoding="utf-8")
        answer = page.partition("## The answer")[2].partition("\n## ")[0]
        kinds = judged.set_index("claim")["kind"]
        lines = re.findall(
            r"^- \*\*(.*?)\*\* \((\d+) claims?\): (.*?)(?=^- |\Z)", answer, re.MULTILINE | re.DOTALL
        )
        counts[paper] = {ANSWERS[words]: int(count) for words, count, _ in lines}
        for words, _, text in lines:
            cited = re.findall(r"`([a-z0-9-]+)`", text)
            assert {name: kinds[name] for name in cited} == dict.fromkeys(cited, ANSWERS[words]), paper
    kinds_of = frame.groupby("paper")["kind"]
    assert counts == {paper: kind.value_counts().to_dict() for paper, kind in kinds_of}
