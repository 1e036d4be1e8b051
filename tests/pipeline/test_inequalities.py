"""Theorems as inequalities: the frame on cases by hand, and each paper's sides on tiny populations."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection
from pretended import catalogue

from fedcore.execution.runner import Settings
from fedcore.execution.runner import run as train
from pipeline.catalogue.targets import PlannedRun
from pipeline.papers.fedavgr import theory as fedavgr
from pipeline.papers.fedomw import theory as fedomw
from pipeline.papers.rfedavg.theory import (
    CONSTANTS,
    COPIES,
    METHODS,
    Sizes,
    condition,
    constants,
    follow,
    objectives,
    path_of,
    rate,
    theory,
)
from pipeline.reports.drawings import Inputs
from pipeline.reports.inequalities import Sides, lines, picture, slope
from pipeline.reports.populations import CLASSES, DRAWS, RADIUS, ROWS, Population, population, signs
from pipeline.reports.results import RunFacts, read

ALONG = (100, 200, 400, 800)
RNG = np.random.default_rng(0)


def frame(*places: Sides, laws: tuple[str, ...] = ()) -> pd.DataFrame:
    return pd.DataFrame(lines("c", ALONG[: len(places)], [[sides] for sides in places], laws))


def test_both_sides_by_hand() -> None:
    """Ratios 1/4, 2/4 at the first place, 3/5 and 6/5 at the second: three of four draws hold."""
    table = frame({"r": ([1.0, 2.0], 4.0)}, {"r": ([3.0, 6.0], 5.0)})
    overall, first, second = table.to_dict("records")
    assert (overall["mean"], overall["low"], overall["holds"], overall["n"]) == (1.2, 0.25, 0.75, 2)
    assert (first["round"], first["left"], first["right"], first["mean"]) == (100, 1.5, 4.0, 0.375)
    assert (first["low"], first["high"], first["holds"]) == (0.25, 0.5, 1.0)
    assert (second["mean"], second["high"], second["holds"]) == (pytest.approx(0.9), 1.2, 0.5)


def test_draws_of_groups_stand_side_by_side_and_a_number_counts_once() -> None:
    groups: list[Sides] = [{"r": ([1.0, 2.0], 4.0), "e": (1.0, 2.0)}, {"r": ([3.0], [6.0]), "e": (3.0, 2.0)}]
    table = pd.DataFrame(lines("c", [7], [groups]))
    assert table[table["row"] == "r"]["n"].tolist() == [3, 3]
    assert table[table["row"] == "r"]["high"].tolist() == [0.5, 0.5]
    assert table[table["row"] == "e"]["holds"].tolist() == [0.5, 0.5]


def test_a_planted_violation_is_found_and_told() -> None:
    table = frame({"good": ([1.0], 1e5), "bad": ([1.0, 1.0, 1.1, 1.0], 1.0)})
    text = " ".join(picture(table, {"c": "a setting"}, "About.").sentences)
    assert "1 of 2 hold in all draws; not so: bad: a setting (75%)." in text
    assert "Vacuous, the right side being over 1,000 times the left: good (at most 1e-05)." in text
    good = picture(table[table["row"] == "good"], {"c": "a setting"})
    assert "hold in all draws." in " ".join(good.sentences)
    assert good.figure.axes[0].get_title() == "a setting"


def test_a_row_is_called_in_print_what_its_label_says() -> None:
    table = frame({"good": ([1.0], 1e5), "bad": ([1.0, 1.0, 1.1, 1.0], 1.0)})
    drawn = picture(table, {"c": "a setting"}, labels={"bad": "L ≤ R"})
    assert [text.get_text() for text in drawn.figure.axes[0].get_yticklabels()] == ["good", "L ≤ R"]
    assert "not so: L ≤ R: a setting (75%)." in " ".join(drawn.sentences)
    assert {*drawn.numbers["row"]} == {"good", "bad"}, "programs find it by its name"


def test_each_place_has_its_level_whatever_the_ratio_and_what_fails_has_a_mark_of_its_own() -> None:
    table = frame({"r": (1.0, 2.0)}, {"r": (-1.0, 2.0)}, {"r": (3.0, 2.0)})
    axes = picture(table, {"c": "a setting"}).figure.axes[0]
    marks: list[Any] = [part for part in axes.collections if isinstance(part, PathCollection)]
    dots = [part for part in marks if len(part.get_offsets())]
    (above, below), (failing,) = ([*map(tuple, np.asarray(part.get_offsets()))] for part in dots)
    assert (above, below, failing) == ((0.5, -0.3), (axes.get_xlim()[0], 0.0), (1.5, 0.3))
    assert [len(part.get_facecolors()) for part in dots] == [2, 1]
    assert [*dots[0].get_facecolors()[:, 3]] == [1, 0], "open"
    assert len(dots[0].get_paths()[0].vertices) != len(dots[1].get_paths()[0].vertices)


def test_the_last_panel_of_each_column_names_its_axis() -> None:
    titles = dict(zip("abc", ("first", "second", "third"), strict=True))
    table = pd.concat(frame({"r": ([1.0], 2.0)}).assign(column=name) for name in titles)
    axes = picture(table, titles).figure.axes
    assert [panel.get_xlabel() for panel in axes[:3]] == ["", *["left side / right side"] * 2]


def test_nothing_is_at_most_nothing_and_something_is_not() -> None:
    table = frame(
        {"zero": (0.0, 0.0), "more": (1e-3, 0.0), "less": (-1.0, 0.0), "rounding": (1 + 1e-12, 1.0)}
    )
    by_row = table[table["round"].isna()].set_index("row")
    assert by_row["holds"].to_dict() == {"zero": 1.0, "more": 0.0, "less": 1.0, "rounding": 1.0}
    assert by_row["mean"].to_dict() == {
        "zero": 0.0,
        "more": np.inf,
        "less": 0.0,
        "rounding": pytest.approx(1),
    }


@pytest.mark.parametrize("power", [-1.0, -0.5, 0.5])
def test_slopes_of_planted_power_laws(power: float) -> None:
    noise = np.exp(0.05 * RNG.normal(size=(len(ALONG), 200)))
    places = [{"law": (3 * n**power * draws, 2 * n**-0.5)} for n, draws in zip(ALONG, noise, strict=True)]
    row = frame(*places, laws=("law",)).iloc[0]
    assert row["column"] == "c_slope"
    assert row["low"] < power < row["high"]
    assert row["high"] - row["low"] < 0.05
    assert (row["mean"], row["right"]) == (pytest.approx(power, abs=0.02), pytest.approx(-0.5))
    assert row["holds"] == (power <= -0.5)
    assert slope(ALONG, 5 * np.array(ALONG) ** power) == pytest.approx(power)


def test_one_repetition_says_nothing_of_a_slope() -> None:
    row = frame({"law": (4.0, 1.0)}, {"law": (2.0, 0.5)}, laws=("law",)).iloc[0]
    assert [row["mean"], row["right"]] == pytest.approx([-1, -1])
    assert np.isnan([row["low"], row["high"], row["holds"]]).all()


def test_a_law_has_a_constant_but_no_verdict_of_its_own() -> None:
    table = frame({"law": ([1.0, 3.0], 4.0)}, {"law": ([2.0, 0.0], 2.0)}, laws=("law",))
    rows = table[table["column"] == "c"]
    assert rows["mean"].tolist() == [0.5, 0.5, 0.5]
    assert rows["holds"].isna().all()
    assert np.isnan(slope([1, 2], np.array([1.0, 0.0])))


def brute(own: Population, counts: np.ndarray, weights: np.ndarray, draw: int) -> np.ndarray:
    """Each model's weighted empirical loss, row by row."""
    total = np.zeros(len(own.losses))
    for row, (k, _) in enumerate(product(range(own.clients), range(ROWS))):
        size = counts[k * ROWS : (k + 1) * ROWS, draw].sum()
        total += weights[k] / size * counts[row, draw] * own.losses[:, row]
    return total


def test_populations_are_what_they_say() -> None:
    pop, same = population(3, 0.5, 1), population(3, 0.0, 1)
    assert pop.kappa <= 1
    assert np.linalg.norm(pop.models, axis=1).max() == pytest.approx(RADIUS)
    h = np.sqrt(2) * pop.models @ pop.features.T
    steep = np.abs(h).max(axis=0)
    plus = np.isclose(pop.losses, np.logaddexp(0, -h))[np.abs(h).argmax(axis=0), np.arange(len(steep))]
    assert 0 < plus.mean() < 1, "rows of both labels"
    np.testing.assert_allclose(pop.losses, np.logaddexp(0, np.where(plus, -h, h)), atol=1e-9)
    np.testing.assert_allclose(pop.risks[:, 1], pop.losses[:, ROWS : 2 * ROWS].mean(axis=1))
    assert np.ptp(same.risks, axis=1).max() == 0
    assert np.ptp(pop.risks, axis=1).max() > 0.1
    np.testing.assert_array_equal(population(2, 0.5, 1).losses, pop.losses[:, : 2 * ROWS])
    counts = pop.sample(np.array([5, 0, 70]), np.random.default_rng(0))
    assert counts.reshape(3, ROWS, DRAWS).sum(axis=1).tolist() == [[5] * DRAWS, [0] * DRAWS, [70] * DRAWS]
    drawn = signs(counts, np.random.default_rng(0))
    assert (np.abs(drawn) <= counts).all()
    assert ((drawn - counts) % 2 == 0).all()


def test_the_loss_is_as_steep_as_it_is_said_to_be() -> None:
    pop = population(2, 0.5, 0)
    h = -np.log(np.expm1(pop.losses))  # y h
    steepest = (1 / (1 + np.exp(h))).max()
    assert pop.steepness == pytest.approx(steepest)


def test_bernsteins_constant_by_hand() -> None:
    assert fedomw.bernstein(np.array([1.0, 1.5, 3.0]), np.array([0.0, 2.0, 6.0])) == 4.0


@pytest.mark.parametrize("free", [False, True])
def test_fedomws_sides_by_brute_force(free: bool) -> None:
    pop, n = population(2, 0.5, 3), 40
    sides = fedomw.sides(pop, n, free)
    rng = np.random.default_rng([3, 2, n, free])
    counts = pop.sample(np.array([20, 20]), rng)
    drawn = signs(np.repeat(counts[:, : fedomw.SAMPLES, None], fedomw.SIGNS, axis=2), rng)
    risks = np.stack([pop.losses[:, :ROWS].mean(axis=1), pop.losses[:, ROWS:].mean(axis=1)])
    complexity = np.zeros(fedomw.SAMPLES)
    for draw in range(DRAWS):
        if free:
            losses = np.stack([brute(pop, counts, unit, draw) for unit in np.eye(2)])
            client, model = np.unravel_index(losses.argmin(), losses.shape)
            expected, weights = risks[client, model] - risks.min(), np.eye(2)[client]
        else:
            mixed, weights = risks.mean(axis=0), np.array([0.5, 0.5])
            expected = mixed[brute(pop, counts, weights, draw).argmin()] - mixed.min()
        assert np.asarray(sides["risk, eq. (4)"][0])[draw] == pytest.approx(expected)
        if draw < fedomw.SAMPLES:
            weighted = np.repeat(weights / 20, ROWS)[:, None] * drawn[:, draw]
            sums = np.linalg.norm(weighted.T @ pop.features, axis=1)
            complexity[draw] = np.sqrt(2) * RADIUS * sums.mean()
    log_term = np.log(1 / 0.05) / n
    assert sides["self-bounding"][0] == pytest.approx(complexity.mean())
    assert sides["self-bounding"][1] == pytest.approx(complexity + np.sqrt(2 * complexity.mean() * log_term))
    tau = 1.0 if free else 0.5
    star = pop.steepness * tau * np.sqrt(2 * 2 * 2 * np.log(np.e * n / 2)) / n
    assert sides["eq. (3), all models"][1] == pytest.approx(star)
    radius = np.sqrt(star) / pop.steepness / pop.kappa / np.sqrt(2)  # of w
    shrunk = np.asarray(sides["eq. (3), all models"][0]) * radius / RADIUS
    assert sides["eq. (3), ‖w‖² = r*/(λκ)²"][0] == pytest.approx(shrunk)
    assert sides["risk, √K/n"][1] == pytest.approx(np.sqrt(2) / n)
    best = np.unravel_index(risks.argmin(), risks.shape)[1] if free else risks.mean(axis=0).argmin()
    squares = np.square(pop.losses - pop.losses[best]).reshape(-1, 2, ROWS).mean(axis=2).T
    above = risks if free else risks.mean(axis=0)
    b = fedomw.bernstein(above, squares if free else squares.mean(axis=0))
    bound = 705 / b * star + (11 * pop.losses.max() + 27 * b) * log_term
    assert sides["risk, eq. (4)"][1] == pytest.approx(bound)
    again = fedomw.sides(pop, n, free)
    assert all(np.array_equal(sides[row][0], again[row][0]) for row in sides)


def test_complexity_of_one_row_is_its_norm() -> None:
    """With one row drawn, sup over the disc of e h(x) is sqrt(2) B ||phi(x)|| for both signs."""
    pop = population(1, 0.5, 2)
    sides = fedomw.sides(pop, 1)
    counts = pop.sample(np.array([1]), np.random.default_rng([2, 1, 1, False]))[:, : fedomw.SAMPLES]
    norms = np.linalg.norm(pop.features[counts.argmax(axis=0)], axis=1)
    assert sides["self-bounding"][0] == pytest.approx(np.sqrt(2) * RADIUS * norms.mean())


def test_fedavgrs_sides_by_brute_force() -> None:
    pop, n = population(2, 0.5, 4), 60
    sides = {row: tuple(map(np.asarray, pair)) for row, pair in fedavgr.sides(pop, n, guess=True).items()}
    sizes, p = np.array([40, 20]), np.array([0.5, 0.5])
    guess = np.sqrt(sizes) / np.sqrt(sizes).sum()
    counts = pop.sample(sizes, np.random.default_rng([4, 40, 20]))
    risks, tilde = pop.risks @ p, pop.risks @ guess
    disc = np.abs(risks - tilde).max()
    skewness = n * (guess**2 / sizes).sum()
    assert skewness > 1.01
    assert disc > 0.001
    lam, most = np.sqrt(2) * pop.steepness, pop.losses.max()
    discs = np.abs(pop.risks - risks[:, None]).max(axis=0)
    for draw in range(DRAWS):
        local, true, pooled = (brute(pop, counts, weights, draw) for weights in (guess, p, sizes / n))
        tilde_fl, fl, cl = local.argmin(), true.argmin(), pooled.argmin()
        assert sides["A1"][0][draw] == pytest.approx(risks[tilde_fl] - risks[fl])
        assert sides["A2"][0][draw] == pytest.approx(risks[fl] - risks[cl])
        assert sides["A3"][0][draw] == pytest.approx(risks[cl] - risks.min())
        assert sides["A12 ≤ 0"][0][draw] == pytest.approx(local[tilde_fl])
        assert sides["Φ"][0][draw] == pytest.approx((tilde - local).max())
        squares = np.square(pop.features).sum(axis=1) * counts[:, draw]
        norms = np.sqrt([squares[:ROWS].sum(), squares[ROWS:].sum()])
        rademacher = RADIUS * (guess / sizes * np.sqrt(CLASSES) * norms).sum()
        bound = 2 * disc + 4 * np.sqrt(2) * lam * rademacher
        bound += 6 * most * np.sqrt(skewness * np.log(2 / 0.05) / (2 * n))
        assert sides["A1"][1][draw] == pytest.approx(bound)
        even = RADIUS * (p / sizes * np.sqrt(CLASSES) * norms).sum()
        pooled_norm = RADIUS * np.sqrt(CLASSES) * np.sqrt(squares.sum()) / n
        factor, log_term = 4 * np.sqrt(2) * lam, np.log(2 / 0.05) / 2
        a2 = (p * (discs + 6 * most * np.sqrt(log_term / sizes))).sum() + factor * even
        assert sides["A2"][1][draw] == pytest.approx(a2)
        a3 = factor * pooled_norm + 3 * most * np.sqrt(log_term / n)
        assert sides["A3"][1][draw] == pytest.approx(a3)
        law = disc + rademacher + np.sqrt(skewness / n) + pooled_norm + np.sqrt(1 / n)
        law += (p * (discs + 1 / np.sqrt(sizes))).sum() + even
        assert sides[fedavgr.ORDER][1][draw] == pytest.approx(law)
        phi = 2 * sides["R(L) ≤ √2λ R(H)"][0]
        assert sides["Φ"][1] == pytest.approx(phi + 3 * most * np.sqrt(skewness * log_term / n))
        assert (sides["A24 ≤ disc"][0][draw] - sides["A24 ≤ disc"][1][draw]) == pytest.approx(
            max(pop.risks[cl, k] - risks[cl] - discs[k] for k in range(2))
        )
    assert (sides["one row moves Φ"][0] <= sides["one row moves Φ"][1]).all()
    scaled, plain = sides["the same, 100 times the loss"], sides["R(L) ≤ √(2λ) R(H)"]
    assert scaled[0] / scaled[1] == pytest.approx(10 * plain[0] / plain[1])


def test_clients_that_are_alike_have_neither_discrepancy_nor_agnostic_error() -> None:
    pop = population(4, 0.0, 0)
    sides = fedavgr.sides(pop, 80, even=True)
    assert np.abs(sides["A1"][0]).max() == 0
    assert np.abs(np.asarray(sides["A2"][0])).max() == 0  # n_k/n are the true weights
    assert sides["disc(ρ~, ρ) ≤ Σ p_k disc(ρ_k, ρ)"] == (0, 0)
    assert sides["risk, κB√(KC/n)"][1] == pytest.approx(pop.kappa * RADIUS * np.sqrt(4 * 2 / 80))
    sizes = np.array([38, 19, 13, 10])  # in proportion to 1/k
    law = (pop.kappa * RADIUS * np.sqrt(2) + 1) * (0.25 / np.sqrt(sizes)).sum()
    assert fedavgr.sides(pop, 80)["risk, (κB√C + 1) Σ p_k/√n_k"][1] == pytest.approx(law)


def test_skewed_clients_differ_from_their_mixture() -> None:
    for seed in range(3):
        risks = population(4, 0.5, seed).risks
        discs = np.abs(risks - risks.mean(axis=1, keepdims=True)).max(axis=0)
        assert discs.min() > 0.05


def constant(draws: np.ndarray) -> Sizes:
    return Sizes(int(draws[0]), int(draws[1]), *map(float, draws[2:]))


@pytest.mark.parametrize("seed", range(20))
def test_constants_of_the_proofs(seed: int) -> None:
    """The last lines of the proofs of Lemma 3 and Theorem 2, term by term, with eta = 1 and eta^4 apart."""
    rng = np.random.default_rng(seed)
    s = constant(np.r_[rng.integers(2, 9, 2), rng.uniform(0.1, 3, 5)])
    steps, m, lam, g, delayed, h, tau = (s.steps, s.m, s.weight, s.g, s.delayed, s.h, s.tau)
    both = 2 * steps**2 * (g + delayed + 2 * np.sqrt(g * delayed))
    first = both + 4 * (4 * g + 8 * m**2 * h * tau)
    c2 = 4 * m**2 * steps**2 * (4 * lam**2 * delayed * h**2 + 4 * lam**2 * h**2 * g + 8 * h * g * h)
    c3 = (
        4
        * m**2
        * steps**2
        * (
            80 * lam**2 * delayed * h**2
            + 16 * lam**2 * h**2 * (4 * g + delayed)
            + 8 * h * 4 * h * (4 * g + delayed)
        )
    )
    assert s.c1 == pytest.approx(first)
    derived, printed = s.later(printed=False), s.later()
    assert derived["c2"] == pytest.approx(c2)
    assert derived["c3"] == pytest.approx(c3)
    assert replace(s, weight=1.0).later(printed=False)["c2"] == pytest.approx(printed["c2"])
    lost = 64 * m**2 * steps**2 * h**2 * (4 * g + delayed)
    assert derived["c3"] - printed["c3"] == pytest.approx(lost)
    assert printed["c2"] < printed["c3"]
    pairs = constants(s)
    assert pairs["C2 ≤ C3"] == (printed["c2"], printed["c3"])
    assert pairs["C3 of the proof ≤ printed"] == (derived["c3"], printed["c3"])


def convex(method: str, **training: object) -> PlannedRun:
    run = catalogue("rfedavg").cells("rfedavg", "theory")[method, "convex"][0]
    return replace(run, spec={**run.spec, "training": {**run.spec["training"], **training}})


@pytest.mark.parametrize("method", ["fedavg", "rfedavg", "rfedavg_plus"])
def test_the_trainings_are_those_of_the_library(method: str, tmp_path: Path) -> None:
    run = convex(method, rounds=3, batch_size=100, local_steps=4, lr=0.1)
    run.spec["evaluation"]["observe"]["path"]["every"] = 1
    train(dict(run.spec), tmp_path / run.folder, Settings(device="cpu"))
    recorded = path_of(RunFacts(run, tmp_path))
    assert recorded is not None
    _, _, path = follow(run, recorded[1][:1])
    np.testing.assert_allclose(path[:, 0], recorded[1], atol=1e-10)


def test_left_sides_of_lemmas_2_and_3_after_one_step() -> None:
    """With one step of all rows: eta^2 |gradient|^2, and that of both objectives' difference."""
    run = convex("rfedavg_plus", rounds=1, batch_size=100, local_steps=1, lr=0.1)
    start = RNG.normal(size=(1, run.spec["data"]["classes"], run.spec["data"]["dimension"] + 1))
    seen, sizes, path = follow(run, start)
    descended, eq3 = objectives(run).values()
    apart = descended.gradient(start[0]) - eq3.gradient(start[0])
    assert seen["drift"].shape == (1,)
    assert seen["deviation"][0] == seen["along"][0] == pytest.approx(0.01 * np.square(apart).sum())
    assert seen["drift"][0] == pytest.approx(0.01 * sizes.g)
    assert seen["delayed"][0] == pytest.approx(0.01 * sizes.delayed)
    np.testing.assert_allclose(path[1, 0], start[0] - 0.1 * descended.gradient(start[0]), atol=1e-12)
    assert rate(run, 160) == pytest.approx(0.05)


def test_rfedavgs_bounds_of_short_runs(tmp_path: Path) -> None:
    cells = {(method, "convex"): (convex(method, rounds=20),) for method in METHODS}
    for (run,) in cells.values():
        train(dict(run.spec), tmp_path / run.folder, Settings(device="cpu"))
    params = catalogue("rfedavg").params.papers["rfedavg"]
    drawn = theory.draw(Inputs(params, read(cells, tmp_path)))
    overall = drawn.numbers[drawn.numbers["round"].isna()].set_index(["row", "column"])
    shares, ratios = (overall[name].astype(float).to_dict() for name in ("holds", "mean"))
    slopes = {f"{method}_slope" for method in METHODS}
    assert set(overall.index.get_level_values("column")) == {*METHODS, *slopes, CONSTANTS}
    assert shares["Lemma 2", "rfedavg"] == 1
    assert 0.1 < ratios["Lemma 2", "rfedavg"] < 1
    assert 0 < ratios["theorem", "rfedavg"] < 1e-3
    assert 0 < ratios["Lemma 1", "fedavg"] <= 1
    assert shares["C3 of the proof ≤ printed", CONSTANTS] == 0
    assert ratios["C2 of the proof ≤ printed", CONSTANTS] < 1
    assert np.isfinite(ratios["error, eq. (3)", "rfedavg_slope"])
    assert "rFedAvg+: v' is" in " ".join(drawn.sentences)
    at = drawn.numbers.set_index(["column", "row", "round"])["right"]
    for method, later in {"rfedavg": "c3", "rfedavg_plus": "c2"}.items():
        (run,) = cells[method, "convex"]
        recorded = path_of(RunFacts(run, tmp_path))
        assert recorded is not None
        start, steps = recorded[1][:1], run.spec["training"]["local_steps"]
        mu, gamma = run.spec["training"]["weight_decay"], run.spec["training"]["lr_schedule"]["offset"]
        _, sizes, _ = follow(run, np.repeat(start, COPIES, axis=0))
        c = sizes.later()[later]
        first = np.square(start - objectives(run)["eq. (3)"].minimum()).sum()
        v = max(32 * (steps - 1) ** 2 * sizes.g / mu**2, (gamma + 1) * first)
        v_prime = 2 * v + 8 * sizes.c1 / mu**2 + 32 * c / mu**4
        place = gamma - steps  # t + gamma - E before the first step
        eta = 2 / (mu * gamma)
        theorem = condition(run) * mu / 2 * v_prime / place
        assert at[method, "theorem", place] == pytest.approx(theorem)
        lemma = eta**2 * sizes.c1 + eta**4 * c
        assert at[method, "Lemma 3, along training", place] == pytest.approx(lemma)
        assert at[method, "Lemma 3, in a round", place] == pytest.approx(lemma)
        assert at[method, "Lemma 2, delayed", place] == pytest.approx((steps * eta) ** 2 * sizes.delayed)


def test_equal_deltas_make_both_methods_step_alike(tmp_path: Path) -> None:
    """In the first round deltas are those of w_0 for all."""
    ends = []
    for method in METHODS[1:]:
        run = convex(method, rounds=1)
        ends.append(train(dict(run.spec), tmp_path / method, Settings(device="cpu")).parameters)
    for name, array in ends[0].items():
        np.testing.assert_allclose(array, ends[1][name], atol=1e-12)
