"""Tuning: candidates out of declared values, one budget for all methods, choices that a file keeps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import floor, log10
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from pretended import finish

from fedcore.base import core_yaml
from fedcore.base.errors import SpecError
from fedcore.base.options import validate
from pipeline.catalogue import Catalogue
from pipeline.catalogue.params import configuration
from pipeline.catalogue.schema import Range, Tried, TuneParams
from pipeline.catalogue.targets import PlannedRun
from pipeline.papers import build_catalogue
from pipeline.reports.results import RunFacts, short_hash
from pipeline.reports.search import (
    candidates,
    chosen,
    chosen_of_today,
    held_out,
    on_held_out,
    seeds,
    with_chosen,
)
from pipeline.reports.tables import Table

HOME = Path(__file__).parents[2]
RATES = Range(low=0.001, high=1.0, log=True)
STUDY = """\
title: Tuned?  # a remark
seeds: [0, 1, 2]
regimes: {all: {clients: 5, training: {rounds: 1, batch_size: 20, lr: 0.5}}}
datasets:
  mnist: {data: {name: mnist, edition: demo}, model: {name: linear}, splits: {iid: {name: iid}}}
grid: {partition.clients: [5, 10]}
algorithms:
  fedavg: {}
  fedprox: {mu: 1.0, tune: {algorithm.mu: [0.1, 1.0]}}
tune: {trials: 6, over: {training.lr: {low: 0.01, high: 1.0, log: true}}}
"""


def made(text: str) -> Catalogue:
    config = {
        **configuration(HOME / "params.yaml"),
        "studies": {"studies/own.yaml": core_yaml.parsed(text, "")},
    }
    return build_catalogue(config)


def ended(final: Mapping[str, float | None] | None) -> RunFacts:
    """Return the facts of a run with these last measurements."""
    facts = RunFacts(cast(PlannedRun, None), Path())
    vars(facts)["summary"] = {"final": final}
    return facts


@pytest.mark.parametrize(
    ("trials", "values", "expected"),
    [
        (4, {"a.x": RATES}, [0.001, 0.01, 0.1, 1.0]),
        (3, {"a.x": Range(low=1, high=2)}, [1.0, 1.5, 2.0]),
        (None, {"a.x": (3, "b")}, [3, "b"]),
    ],
)
def test_a_grid_has_even_points(trials: int | None, values: Tried, expected: list[Any]) -> None:
    assert [candidate["a.x"] for candidate in candidates(TuneParams(trials=trials), values)] == expected


def test_the_budget_of_a_grid_is_shared_by_its_axes() -> None:
    grid = candidates(TuneParams(trials=11), {"a.mu": (1, 2), "a.lr": RATES, "a.q": RATES})
    assert len(grid) == 2 * 2 * 2, "two points of each range: three would make eighteen"
    assert {candidate["a.lr"] for candidate in grid} == {0.001, 1.0}


@pytest.mark.parametrize(("trials", "points"), [(8, 8), (26, 8), (64, 64), (124, 64), (125, 125)])
def test_a_grid_has_as_many_points_of_each_range_as_the_budget_allows(trials: int, points: int) -> None:
    assert len(candidates(TuneParams(trials=trials), dict.fromkeys(("a.x", "a.y", "a.z"), RATES))) == points


def test_values_of_a_range_have_four_digits() -> None:
    grid = candidates(TuneParams(trials=4), {"a.x": Range(low=1, high=2)})
    assert [candidate["a.x"] for candidate in grid] == [1.0, 1.333, 1.667, 2.0]


def test_methods_with_as_many_keys_share_the_draw_and_lists_are_drawn_evenly() -> None:
    for how in ("random", "quasirandom"):
        tune = TuneParams.model_validate({"how": how, "trials": 90})
        first, second = (candidates(tune, {key: ("x", "y", "z")}) for key in ("a.lr", "b.mu"))
        assert [candidate["a.lr"] for candidate in first] == [candidate["b.mu"] for candidate in second]
        counts = [[candidate["a.lr"] for candidate in first].count(value) for value in "xyz"]
        assert all(15 <= count <= 45 for count in counts), "30 each, within three deviations and more"


def test_candidates_are_the_points_of_numpy_and_scipy_at_seed_0() -> None:
    points = np.random.default_rng(0).random((3, 2))
    tune = TuneParams(how="random", trials=3)
    line = Range(low=0, high=1)
    assert [[*candidate.values()] for candidate in candidates(tune, {"a.x": line, "a.y": line})] == [
        [float(f"{share:.4g}") for share in point] for point in points
    ]
    (drawn,) = candidates(TuneParams(how="quasirandom", trials=1), {"a.x": line})
    halton = scipy.stats.qmc.Halton(1, rng=np.random.default_rng(0)).random(1)
    assert drawn["a.x"] == float(f"{halton[0, 0]:.4g}")


@pytest.mark.parametrize(("given", "taken"), [((7,), None), ((7, 8), None), ((7, 8, 9), (7,))])
def test_a_search_runs_with_one_of_three_seeds_or_with_all_of_fewer(
    given: tuple[int, ...], taken: tuple[int, ...] | None
) -> None:
    params = made(STUDY).params.papers["own"].model_copy(update={"seeds": given})
    assert seeds(params) == taken


def test_clients_or_rows_are_held_out() -> None:
    params = made(STUDY).params.papers["own"]
    for share, change in ((0.3, ("partition.validation", 0.3)), ("clients", ("partition.fold.index", 0))):
        tune = params.tune.model_copy(update={"held_out": share})
        changes = held_out(params.model_copy(update={"tune": tune}))
        assert changes == (change, ("evaluation.validation", True))


@pytest.mark.parametrize(
    ("final", "score"),
    [
        ({"validation_f1": 0.5, "validation_accuracy": 0.9}, 50.0),
        ({"validation_f1": None, "test_f1": 0.5}, None),
        (None, None),
    ],
)
def test_a_candidate_is_scored_by_the_metric_on_rows_held_out(
    final: dict[str, float | None] | None, score: float | None
) -> None:
    facts = ended(final)
    assert on_held_out(lambda facts: "f1")(facts, "any") == score
    assert on_held_out(lambda facts: "f1", 1.0)(facts, "any") == (score and score / 100)


def test_rows_of_a_search_are_named_by_their_values() -> None:
    table = made(STUDY).target("own", "tune_fedprox")
    assert isinstance(table, Table)
    rows = table.row_labels(made(STUDY).params.papers["own"])
    assert rows["lr_0.01-mu_0.1"] == "lr = 0.01, mu = 0.1"
    assert (table.heading, table.search, table.test) == ("Candidate", True, "none")
    final = {"validation_accuracy": 0.5, "test_accuracy": 0.9}
    assert table.measure
    assert table.measure(ended(final), "any") == 50.0


def test_choices_for_one_method_and_for_all_stand_side_by_side() -> None:
    entries = [{"at": "mnist", "values": {"training.lr": 0.3}, "source": "x"}]
    entries.append({"of": "fedprox", "at": "mnist", "values": {"algorithm.mu": 0.3}, "source": "y"})
    text = with_chosen(with_chosen(STUDY, entries), [entries[1] | {"source": "z"}])
    assert [entry["source"] for entry in core_yaml.parsed(text, "")["chosen"]] == ["x", "z"]


def test_choices_leave_comments_and_what_stands_below_as_they_are() -> None:
    entries = [{"at": "mnist", "values": {"training.lr": 0.3}, "source": "x"}]
    below = "# my note\nreport: {show: [table]}\n"
    text = with_chosen(f"{with_chosen(STUDY, entries)}\n{below}", entries)
    assert text.startswith(f"{STUDY}\n{below}")
    assert len(core_yaml.parsed(text, "")["chosen"]) == 1
    spread = "chosen: [\n  {at: mnist, values: {training.lr: 0.1}, source: x},\n]\n"
    with pytest.raises(
        SpecError, match=r"^chosen: expected the study's last section, as a list with an entry"
    ):
        with_chosen(STUDY + spread, entries)


@pytest.mark.parametrize("how", ["random", "quasirandom"])
def test_draws_fill_the_budget_within_the_range_and_are_the_same_again(how: Any) -> None:
    tune = TuneParams(how=how, trials=8)
    draws = candidates(tune, {"a.lr": RATES, "a.mu": (1, 2)})
    assert draws == candidates(tune, {"a.lr": RATES, "a.mu": (1, 2)})
    assert len(draws) == 8
    assert all(0.001 <= candidate["a.lr"] <= 1 and candidate["a.mu"] in (1, 2) for candidate in draws)


def test_quasirandom_values_lie_one_in_each_part_of_the_range() -> None:
    """Halton's first coordinate is van der Corput's in base 2: 2^m points fill 2^m equal parts."""
    draws = candidates(TuneParams(how="quasirandom", trials=8), {"a.lr": RATES})
    shares = [(3 + log10(float(candidate["a.lr"]))) / 3 for candidate in draws]
    assert sorted(floor(8 * share) for share in shares) == [*range(8)]


@pytest.mark.parametrize(
    ("tune", "values", "said"),
    [
        ({}, {"a.lr": RATES}, "missing, expected 2 or more with 'how: grid' over a.lr"),
        ({"trials": 3}, {"a.lr": (1, 2, 3, 4)}, "got 3, expected 4 or more with 'how: grid' over a.lr"),
        ({"how": "random"}, {"a.lr": (1, 2)}, "missing, expected 1 or more with 'how: random' over a.lr"),
    ],
)
def test_a_budget_that_is_missing_or_too_small_is_refused(
    tune: dict[str, Any], values: Tried, said: str
) -> None:
    with pytest.raises(SpecError) as refused:
        candidates(TuneParams(**tune), values)
    assert str(refused.value) == f"tune.trials: {said}"


def test_a_range_without_a_width_or_a_logarithm_is_refused() -> None:
    for options in ({"low": 1, "high": 1}, {"low": 0, "high": 1, "log": True}):
        with pytest.raises(SpecError, match=r"low: got .*, expected less than high"):
            validate(Range, options, "tune.over")


def test_candidates_of_a_study_are_scored_on_rows_held_out_at_one_seed() -> None:
    catalogue = made(STUDY)
    cells = {name: catalogue.cells("own", f"tune_{name}") for name in ("fedavg", "fedprox")}
    assert {name: len(grid) for name, grid in cells.items()} == {"fedavg": 6 * 2, "fedprox": 2 * 3 * 2}
    for name, grid in cells.items():
        for (row, column), runs in grid.items():
            (run,) = runs
            spec = run.spec
            assert (spec["partition"]["validation"], spec["evaluation"]["validation"]) == (0.2, True)
            assert f"lr_{spec['training']['lr']:g}" in row
            assert f"clients_{spec['partition']['clients']}" in column
            assert run.algorithm == name


@pytest.mark.parametrize(
    ("entry", "known"),
    [
        ({"of": "fedprox", "values": {"training.lr": 0.1, "algorithm.mu": 1.0}}, True),
        ({"of": "fedprox", "values": {"training.lr": 0.1, "algorithm.mu": 0.5}}, False),
        ({"of": "fedprox", "values": {"training.lr": 0.3, "algorithm.mu": 1.0}}, False),
        ({"of": "fedprox", "values": {"algorithm.mu": 0.1}}, True),
        ({"values": {"training.lr": 1}}, True),
        ({"values": {"training.lr": 0.3}}, False),
    ],
)
def test_captions_name_chosen_values_that_are_no_candidates_any_more(
    entry: dict[str, Any], known: bool, tmp_path: Path
) -> None:
    study = made(with_chosen(STUDY, [{"at": "mnist", "source": "own/tune: 90", **entry}]))
    params = study.params.papers["own"]
    assert chosen_of_today(params, params.chosen[0]) == known
    for runs in study.cells("own", "table").values():
        for run in runs:
            finish(run, tmp_path, 0.5)
    sources = study.sources("own", "table", tmp_path)
    sources.build(sources.target.paths(tmp_path, "table"))
    page = (tmp_path / "table.md").read_text()
    assert "Values were chosen on held-out rows, by own/tune." in page
    named = f"Those of {entry.get('of', 'mnist')} were chosen among other candidates than today's."
    assert (named in page) == (not known)


def test_a_study_s_file_keeps_what_was_chosen_and_its_runs_have_it(tmp_path: Path) -> None:
    before = made(STUDY)
    searched = before.cells("own", "tune_fedprox")
    table = before.target("own", "tune_fedprox")
    assert isinstance(table, Table)
    best = {"mnist-iid-clients_5": "lr_0.1-mu_1", "mnist-iid-clients_10": "lr_1-mu_0.1"}
    lines = [
        {"paper": "own", "target": "tune_fedprox", "scale": "study", "row": row, "column": column}
        | {"mean": 90.0 if best[column] == row else 50.0, "n": 1, "seeds": 1, "diverged": 0}
        | {"specs": " ".join(map(short_hash, runs))}
        for (row, column), runs in searched.items()
    ]
    path = tmp_path / "tune_fedprox.csv"
    pd.DataFrame(lines).to_csv(path, index=False)
    entries = chosen(before, path)["papers"]["own"]["chosen"]
    text = with_chosen(STUDY, [{"at": "mnist", "values": {"training.lr": 0.3}, "source": "by hand"}])
    text = with_chosen(with_chosen(text, entries), entries)
    assert text.startswith(STUDY), "comments and all else stay"
    assert len(core_yaml.parsed(text, "")["chosen"]) == 3
    after = made(text)
    assert after.cells("own", "tune_fedprox") == searched, "candidates stay what they were"
    specs = {cell: runs[0].spec for cell, runs in after.cells("own", "table").items()}
    taken = {cell: (spec["training"]["lr"], spec["algorithm"].get("mu")) for cell, spec in specs.items()}
    assert taken == {
        ("fedavg", "mnist-iid-clients_5"): (0.3, None),
        ("fedavg", "mnist-iid-clients_10"): (0.3, None),
        ("fedprox", "mnist-iid-clients_5"): (0.1, 1.0),
        ("fedprox", "mnist-iid-clients_10"): (1.0, 0.1),
    }


def test_a_key_is_searched_for_or_in_the_grid_but_not_both() -> None:
    with pytest.raises(SpecError, match=r"own.yaml: algorithms.fedavg: 'training.lr' is in tune and grid"):
        made(STUDY.replace("grid: {", "grid: {training.lr: [0.1], "))


@pytest.mark.parametrize("where", ["grid: {", "fedprox: {"])
def test_a_key_is_searched_for_or_in_a_variant_but_not_both(where: str) -> None:
    variants = "variants: {slow: {training.local_steps: 5}}"
    added = f"{where}{variants}, " if where.startswith("fed") else f"{variants}\n{where}"
    text = STUDY.replace(where, added).replace("over: {", "over: {training.local_epochs: [1, 2], ")
    said = "own.yaml: algorithms.fed.*: 'training.local_epochs' is in tune and variants, expected one"
    with pytest.raises(SpecError, match=said):
        made(text)


def test_values_that_are_no_numbers_are_tried_and_chosen(tmp_path: Path) -> None:
    over = "over: {algorithm.half: [null, false], training.local_steps: [[1, 5], [5, 5]]}"
    text = re.sub("over: {.*}}", over + "}", STUDY).replace("trials: 6, ", "").replace("  fedavg: {}\n", "")
    text = text.replace("tune: {algorithm.mu: [0.1, 1.0]}", "norm: squared")
    catalogue = made(text)
    searched = catalogue.cells("own", "tune_fedprox")
    assert {row for row, _ in searched} == {
        f"half_{half}-local_steps_{steps}" for half in ("None", "0") for steps in ("1x5", "5x5")
    }
    lines = [
        {"paper": "own", "target": "tune_fedprox", "scale": "study", "row": row, "column": column}
        | {"mean": 90.0, "n": 1, "seeds": 1, "diverged": 0, "specs": " ".join(map(short_hash, runs))}
        for (row, column), runs in searched.items()
    ]
    pd.DataFrame(lines).to_csv(tmp_path / "s.csv", index=False)
    entries = chosen(catalogue, tmp_path / "s.csv")["papers"]["own"]["chosen"]
    (run, *_) = made(with_chosen(text, entries)).needed("own", "table")
    assert [*run.spec["training"]["local_steps"]] == [1, 5]


def test_candidates_that_their_names_do_not_tell_apart_are_refused() -> None:
    catalogue = made(STUDY.replace("[0.1, 1.0]", "[0.1, 0.1000000001]"))
    with pytest.raises(SpecError, match=r"algorithms\.fedprox: got two candidates 'lr_0.01-mu_0.1' in tune"):
        catalogue.cells("own", "tune_fedprox")
