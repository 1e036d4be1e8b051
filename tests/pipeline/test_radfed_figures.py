"""RADFed's figures: smoothed validation curves, the representative fold, divergences, the grid search."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pretended
import pytest
from pretended import one_line
from project import parameters, seal
from snakemake.iocontainers import Wildcards
from test_radfed import catalogue, finish

from fedcore.base.errors import DataError
from pipeline.catalogue import Catalogue
from pipeline.papers import published
from pipeline.papers.radfed.figures import representative, smoothed
from pipeline.papers.radfed.settings import metric_of
from pipeline.papers.radfed.tables import GRIDS
from pipeline.reports.drawings import Curves, Drawing, Inputs
from pipeline.reports.results import RunFacts, read
from pipeline.reports.tables import Table, arrange, tidy
from pipeline.workflow.answers import Workflow


def drawn(made: Catalogue, target: str, root: Path) -> tuple[pd.DataFrame, str]:
    drawing = made.target("radfed", target)
    assert isinstance(drawing, Drawing)
    inputs = Inputs(made.params.papers["radfed"], read(made.cells("radfed", target), root))
    frame, _, sentences = drawing.draw(inputs)
    return frame.set_index(["row", "column"]), " ".join(sentences)


@pytest.fixture(scope="module")
def demo() -> Catalogue:
    return catalogue("demo")


def test_figures_are_made_of_table_3_s_runs(demo: Catalogue) -> None:
    runs = {run.folder for run in demo.needed("radfed", "table3")}
    for target in ("fig2", "fig3", "fig4", "fig5", "table3_ranks"):
        needed = {run.folder for run in demo.needed("radfed", target)}
        assert needed, target
        assert needed <= runs, target
    assert {run.folder for run in demo.needed("radfed", "fig6")}.isdisjoint(runs)
    assert demo.needed("radfed", "fig6") == demo.needed("radfed", "fig7")


def test_all_methods_are_drawn_over_rounds_of_local_training(tmp_path: Path, demo: Catalogue) -> None:
    """FedAvg has 8 rounds, RADFed 2 of 4 inner ones, FedAsync 24 updates, of which 3 count as a round."""
    figure = demo.target("radfed", "fig3")
    assert isinstance(figure, Curves)
    cells = demo.cells("radfed", "fig3")
    for runs in cells.values():
        for run in runs:
            rounds = list(range(run.spec["training"]["rounds"] + 1))
            values = [0.01 * number for number in rounds]
            history = {"round": [float(n) for n in rounds], f"validation_{metric_of(run)}": values}
            finish(run, tmp_path, history, test_accuracy=0.5)
    frame = figure.tidy("radfed", "fig3", read(cells, tmp_path)).set_index(["row", "column", "round"])["mean"]
    curves = frame.xs("covcls_g", level="column")
    assert curves["fedavg"].to_dict() == pytest.approx({number: number for number in range(9)})
    assert curves["radfed"].to_dict() == pytest.approx({0: 0, 4: 1, 8: 2})
    assert curves["fedasync"].to_dict() == pytest.approx({n: 3 * n - 1 if n else 0 for n in range(9)})
    assert ("radfed_p", "covfeat_g", 8) in frame.index
    assert ("radfed_m", "covfeat_g", 8) not in frame.index


def test_curves_are_means_over_even_intervals(tmp_path: Path) -> None:
    """660 rounds on MNIST, intervals of 5: the start stands alone, then 1 to 5, 6 to 10 and so on."""
    run = catalogue("paper").cells("radfed", "fig3")["fedavg", "mnist_1"][0]
    history = {
        "round": list(map(float, range(11))),
        "validation_accuracy": [0.9, *[0.1] * 5, *[0.2] * 4, 0.7],
    }
    finish(run, tmp_path, history)
    assert smoothed(RunFacts(run, tmp_path)).to_dict() == pytest.approx({0: 90, 5: 10, 10: 30})


def test_a_curve_without_its_measurement_is_refused(tmp_path: Path, demo: Catalogue) -> None:
    run = demo.cells("radfed", "fig4")["fedavg", "eicu"][0]
    finish(run, tmp_path, {"round": [0.0], "test_auc": [0.5]})
    with pytest.raises(DataError, match=r"history\.csv: no column 'validation_auc'"):
        smoothed(RunFacts(run, tmp_path))


def by_fold(scores: dict[int, list[float]]) -> pd.Series[float]:
    return pd.Series(scores).explode().astype(float)


def test_the_representative_fold_has_the_mean_gap() -> None:
    base, nothing = by_fold({fold: [50.0, 60.0] for fold in range(3)}), by_fold({1: [math.nan]})
    assert representative(by_fold({0: [56.0, 56.0], 1: [60.0], 2: [65.0]}), base) == 1  # gaps 1, 5, 10
    tied = by_fold({0: [56.0], 1: [math.nan], 2: [66.0]})
    assert representative(tied, base) == 0, "a tie, and a fold without a run"
    assert representative(nothing, nothing) == 1


def test_boxes_show_the_seeds_of_one_fold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.papers.radfed.figures.SHOWN", ("shakespeare",))
    paper = catalogue("paper")
    gaps = [0.0, 0.08, 0.05, 0.01, 0.06]
    for run in paper.needed("radfed", "fig2"):
        gap = gaps[run.spec["partition"]["fold"]["index"]] if run.algorithm == "radfed" else 0.0
        score = 0.5 + gap + 0.01 * run.seed
        finish(run, tmp_path, test_accuracy=score)
    frame, text = drawn(paper, "fig2", tmp_path)
    assert set(frame["fold"]) == {2}, "gaps of 0, 8, 5, 1 and 6 points: 4 on average"
    assert frame.loc[("radfed", "shakespeare"), "mean"] == pytest.approx(56)
    assert frame.loc[("fedprox", "shakespeare"), "scores"] == "50 51 52"
    assert "3 seeds" in text


def test_a_data_set_on_which_all_runs_diverged_has_no_boxes(tmp_path: Path, demo: Catalogue) -> None:
    for run in demo.needed("radfed", "fig2"):
        pretended.finish(run, tmp_path, None)
    frame, _ = drawn(demo, "fig2", tmp_path)
    assert not frame["n"].any()
    assert (frame["seeds"] > 0).all()


def test_heterogeneity_is_told_in_scores(tmp_path: Path, demo: Catalogue) -> None:
    for run in demo.needed("radfed", "fig5"):
        finish(run, tmp_path, test_accuracy=0.8 + 0.1 * run.seed, test_f1=0.6)
    frame, _ = drawn(demo, "fig5", tmp_path)
    assert len(frame) == 6 * 9
    assert one_line(frame[["mean", "n"]], "fedavg", "mnist_01").tolist() == pytest.approx([85, 2])
    assert frame.loc[("radfed_a", "covfeat_l"), "mean"] == pytest.approx(60)


def test_divergences_are_told_by_inner_round(tmp_path: Path, demo: Catalogue) -> None:
    """RADFed has four inner rounds: DC is known at each fourth, DL grows from .1 to .4 and starts again."""
    for run in demo.needed("radfed", "fig6"):
        assert run.spec["evaluation"]["divergence"] is True
        finish(run, tmp_path, test_accuracy=0.5)
        delay = run.spec["algorithm"].get("redistributions", 1)
        rounds = range(1, run.spec["training"]["rounds"] + 1)
        rows = [
            (number, inner, 0.1 * inner, number + run.seed if inner == delay else math.nan)
            for number, inner in product(rounds, range(1, delay + 1))
        ]
        table = pd.DataFrame(rows, columns=["round", "inner", "local", "centralised"])
        table.to_csv(tmp_path / run.folder / "divergence.csv", index=False)
        seal(tmp_path / run.folder, run.spec)
    central, _ = drawn(demo, "fig6", tmp_path)
    curve = central.loc[[("radfed", "covfeat_l")]]
    assert curve[["round", "mean", "n"]].to_numpy().tolist() == [[4, 1.5, 2], [8, 2.5, 2]]
    assert len(central.loc[[("fedavg", "shakespeare")]]) == 8
    local, text = drawn(demo, "fig7", tmp_path)
    assert local["mean"]["radfed", "shakespeare"].tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4] * 2)
    ends = [local.loc[("radfed", f"shakespeare-{when}"), "mean"] for when in ("after", "before")]
    assert ends == pytest.approx([0.1, 0.4])
    assert "over 2 seeds" in text
    diverged, *_ = demo.cells("radfed", "fig7")["radfed", "shakespeare"]
    summary = tmp_path / diverged.folder / "summary.json"
    summary.write_text(json.dumps({**json.loads(summary.read_text()), "final": None}))
    seal(tmp_path / diverged.folder, diverged.spec)
    frame, _ = drawn(demo, "fig7", tmp_path)
    assert one_line(frame[["n", "seeds"]], "radfed", "shakespeare-after").tolist() == [1, 2]
    for run in demo.needed("radfed", "fig7"):
        path = tmp_path / run.folder / "divergence.csv"
        if run.dataset == "shakespeare":  # as where one client trains in a round
            pd.read_csv(path).assign(local=math.nan).to_csv(path, index=False)
            seal(tmp_path / run.folder, run.spec)
    assert not {"shakespeare"} & {*drawn(demo, "fig7", tmp_path)[0].index.get_level_values("column")}


def test_divergence_that_was_not_measured_is_refused(tmp_path: Path, demo: Catalogue) -> None:
    for run in demo.needed("radfed", "fig6"):
        finish(run, tmp_path, test_accuracy=0.5)
    with pytest.raises(DataError, match=r"divergence\.csv: missing, but a report needs it"):
        drawn(demo, "fig6", tmp_path)


@pytest.mark.parametrize("scale", ["demo", "quick", "paper"])
def test_candidates_of_s_fit_in_the_rounds(scale: str) -> None:
    """A round of S redistributions is S trainings: there are as many rounds as fit into what is given."""
    given: dict[str, int] = {}
    runs = [run for cell in catalogue(scale).cells("radfed", "grid_radfed").values() for run in cell]
    for run in runs:
        rounds, s = run.spec["training"]["rounds"], run.spec["algorithm"]["redistributions"]
        given[run.dataset] = max(given.get(run.dataset, 0), rounds * s)
    assert len(given) == 5
    for run in runs:
        rounds, s = run.spec["training"]["rounds"], run.spec["algorithm"]["redistributions"]
        assert rounds == given[run.dataset] // s > 0


def test_the_search_has_the_paper_s_grids() -> None:
    paper = catalogue("paper")
    sizes = {name: len({row for row, _ in paper.cells("radfed", name)}) for name in GRIDS}
    assert sizes == {
        "grid_radfed": 11,
        "grid_radfed_i": 11 * 5,
        "grid_fedprox": 6,
        "grid_fedasync": 6 * 3 * 3,
        "grid_fedadapt": 3 * 4 * 3 * 4,
    }


@pytest.mark.parametrize("scale", ["demo", "paper"])
def test_candidates_differ_in_what_is_searched_and_train_as_much(scale: str) -> None:
    """One of them is the declared one, which has its run in Table III."""
    radfed = catalogue(scale)
    declared = radfed.cells("radfed", "table3")["radfed_i", "mnist_01"][0]
    cells = radfed.cells("radfed", "grid_radfed_i")
    runs = {row: planned[0] for (row, column), planned in cells.items() if column == "mnist_01"}
    total = radfed.cells("radfed", "table3")["fedavg", "mnist_01"][0].spec["training"]["rounds"]
    for run in runs.values():
        delay, rounds = run.spec["algorithm"]["redistributions"], run.spec["training"]["rounds"]
        assert total - delay < rounds * delay <= total
        assert run.spec["partition"] == declared.spec["partition"]
    assert [row for row, run in runs.items() if run.folder == declared.folder] == [
        f"redistributions_{declared.spec['algorithm']['redistributions']}-gamma_0.9"
    ]


def test_the_choice_is_the_best_on_validation_clients(tmp_path: Path, demo: Catalogue) -> None:
    """Scores of test clients say the opposite."""
    table = demo.target("radfed", "grid_radfed")
    assert isinstance(table, Table)
    cells = demo.cells("radfed", "grid_radfed")
    for (row, _), runs in cells.items():
        score = 0.1 * float(row.removeprefix("redistributions_"))
        for run in runs:
            metric = metric_of(run)
            scores: dict[str, Any] = {f"validation_{metric}": score, f"test_{metric}": 1 - score}
            finish(run, tmp_path, **scores)
    frame = tidy("radfed", "grid_radfed", table, read(cells, tmp_path), published("radfed"))
    params = demo.params.papers["radfed"]
    labels = table.rows(params)
    grid = arrange(frame, table, table.columns(params), demo.papers["radfed"], labels)
    assert grid.corner == "Candidate"
    assert "Chosen: S = 8 (COVCLS-G); S = 8 (COVFEAT-G); S = 8 (MNIST-1); " in grid.caption.text
    assert [(label, {cell.best for cell in line}) for label, line in grid.rows] == [
        ("S = 2", {False}),
        ("S = 4", {False}),
        ("S = 8", {True}),
    ]


def test_a_search_with_one_seed_and_one_process_for_all_exclude_each_other() -> None:
    config = parameters("radfed") | {"primary_paper": "radfed"}
    config["scales"]["demo"]["seeds"] = [0, 1, 2]
    search, table = (
        Wildcards(fromdict={"paper": "radfed", "table": name}) for name in ("grid_radfed", "table3")
    )
    with pytest.raises(
        SystemExit, match=r"scales\.demo\.one_process: got true, .* takes the seeds \(0,\) alone"
    ):
        Workflow(config).summaries(search)
    assert Workflow(config).summaries(table), "another report takes all seeds"
