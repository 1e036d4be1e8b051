"""Runs that diverged: left out, marked and counted by every table and figure of every paper."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from pretended import catalogue, finish
from project import seal

from pipeline.catalogue import Catalogue
from pipeline.catalogue.schema import Layout
from pipeline.catalogue.targets import PlannedRun
from pipeline.papers import papers
from pipeline.reports import figures, style

ROUNDS = [0, 1, 2]
SENT = {name: [0.0, 1e6, 1e6] for name in ("bytes_down", "bytes_up")}
SAID = "‡ Without diverged runs"
CATALOGUES = {paper: catalogue(paper) for paper in papers()}
SHOWN = ("comfed/stability",)  # which runs diverge is what it shows
MADE_OF_RUNS = [
    name
    for plan in CATALOGUES.values()
    for name in plan.names()
    if plan.target(*name.split("/")).needs == "runs" and plan.needed(*name.split("/")) and name not in SHOWN
]
TABLES = [name for name in MADE_OF_RUNS if "table" in name]
# A paper's first table and its first figure; the others take the same ways.
FIRST = {(name.partition("/")[0], name in TABLES): name for name in reversed(MADE_OF_RUNS)}
LONG = {*MADE_OF_RUNS}.difference(FIRST.values())
CASES = [("one seed", name) for name in MADE_OF_RUNS]
CASES += [("all seeds", name) for name in MADE_OF_RUNS if "table" not in name and "search" not in name]


def pretend(run: PlannedRun, root: Path, diverged: bool) -> None:
    """Pretend a run with all that reports read of it; a diverged one has numbers up to its second round."""
    folder, evaluation = root / run.folder, run.spec["evaluation"]
    summary = folder / "summary.json"
    if summary.exists() and diverged == (json.loads(summary.read_text())["final"] is None):
        return
    end = float("nan") if diverged else 0.5
    scores = [f"{of}_{score}" for of in ("test", "validation") for score in ("accuracy", "loss", "f1", "auc")]
    columns = {name: [0.1, 0.3, end] for name in (*scores, "train_loss", "mmd", "delta_spread")}
    finish(run, root, None if diverged else 0.5, **columns, **SENT)
    if not diverged:
        final = {"final": dict.fromkeys((*scores, "train_loss"), 0.5)}
        summary.write_text(json.dumps(json.loads(summary.read_text()) | final))
    for name, table in tables(run, end).items():
        pd.DataFrame(table).to_csv(folder / name, index=False)
    for name, arrays in kept(run).items() if evaluation.get("observe") and not diverged else ():
        np.savez(folder / name, **arrays)
    seal(folder, run.spec, code=run.code)


def tables(run: PlannedRun, end: float) -> dict[str, dict[str, Sequence[float]]]:
    evaluation = run.spec["evaluation"]
    files: dict[str, dict[str, Sequence[float]]] = {}
    if evaluation["clients"]:
        files["clients.csv"] = {"client": list(range(10)), "test_accuracy": [end] * 10}
    if evaluation["divergence"]:
        measured = {key: [0.3, end] for key in ("local", "centralised")}
        files["divergence.csv"] = {"round": [1, 2], "inner": [1, 1], **measured}
    if "risk" in evaluation.get("observe", {}):
        names = (
            "discrepancy",
            "mmd",
            "agnostic_complexity",
            "agnostic_deviation",
            "approximation",
            "federated",
        )
        files["risk.csv"] = {"round": ROUNDS, **{key: [0.5, 0.4, end] for key in names}}
    if "between" in evaluation.get("observe", {}):
        files["between.csv"] = {"weight": [0.0, 0.5, 1.0], "train_loss": [0.5, 0.4, end]}
    if run.algorithm == "dl_opt":
        files["mixture.csv"] = {"pass": ROUNDS, "p_0": [0.5, 0.4, end], "p_1": [0.5, 0.6, end]}
    return files


def kept(run: PlannedRun) -> dict[str, dict[str, Any]]:
    rng = np.random.default_rng(run.seed)
    client, label = np.repeat(np.arange(4), 30), np.tile(np.arange(3), 40)
    features = rng.normal(size=(120, 5)) + label[:, None]
    rounds = run.spec["evaluation"]["observe"].get("mixture", {}).get("rounds", ROUNDS)
    size = int(run.spec["data"].get("classes", 2)) * (int(run.spec["data"].get("dimension", 2)) + 1)
    late = np.arange(10, 60, 10)
    return {
        "features.npz": {"client": client, "label": label, "features": features},
        "mixture.npz": {"round": rounds, "client": client, "features": np.stack([features] * len(rounds))},
        "path.npz": {"round": late, "model": rng.normal(size=(len(late), size)) / late[:, None]},
    }


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pretended")


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Keep figures as they would be saved."""
    drawn: list[Figure] = []
    monkeypatch.setattr(figures, "save", lambda figure, paths: drawn.append(figure))
    return drawn


def build(made: Catalogue, name: str, root: Path, pictures: list[Figure]) -> tuple[str, str]:
    """Build a target; return its caption and all other words in it."""
    paper, target = name.split("/")
    about = made.target(paper, target)
    outputs = about.paths(root, "report")
    made.sources(paper, target, root).build(outputs)
    if about.kind == "table":
        head, table, notes = outputs["md"].read_text().split("\n\n")
        return f"{head} {notes}", table
    (figure,) = pictures
    figure.draw_without_rendering()
    fits_its_page(figure, made.params.layout.columns)
    assert not figure.get_supxlabel(), "a caption has a file of its own"
    words = (text.get_text() for text in figure.findobj(Text))
    return outputs["caption"].read_text(), "\n".join(words)


def fits_its_page(figure: Figure, columns: int) -> None:
    """Assert that nothing is cut off, and that letters have seven points or more in print."""
    width, height = figure.get_size_inches()
    box = figure.get_tightbbox()
    assert width <= style.TEXT[columns]
    assert box.x0 > -0.02
    assert box.y0 > -0.02
    assert box.x1 < width + 0.02
    assert box.y1 < height + 0.02
    assert min(float(text.get_fontsize()) for text in figure.findobj(Text) if text.get_text()) >= 7


@pytest.mark.parametrize(
    ("seeds", "name"),
    [
        pytest.param(*case, marks=pytest.mark.slow) if case[0] == "all seeds" or case[1] in LONG else case
        for case in CASES
    ],
)
def test_every_report_marks_and_counts_runs_that_diverged(
    seeds: str, name: str, root: Path, pictures: list[Figure]
) -> None:
    """The runs of one method, of its last seed or of all."""
    plan = CATALOGUES[name.split("/")[0]]
    runs = plan.needed(*name.split("/"))
    method = runs[-1].algorithm
    last = max(run.seed for run in runs)
    for run in runs:
        pretend(run, root, run.algorithm == method and (seeds == "all seeds" or run.seed == last))
    caption, words = build(plan, name, root, pictures)
    match = re.search(rf"{SAID}[^:]*: (.*?)\. (?=[A-Z])", caption)
    assert match, caption
    assert "‡" not in match[1], "the sentence begins with the sign"
    counted = re.findall(r"\((?:in )?(\d+) of (\d+) (?:runs|cells)\)", match[1])
    assert counted
    if "cells" not in match[1]:
        all_diverged = seeds == "all seeds" or all(run.seed == last for run in runs)
        assert all((gone == of) == all_diverged for gone, of in counted)
    rows = {row for row, _ in plan.cells(*name.split("/"))}
    if len(rows) > 1 and not name.endswith(("_ranks", "fig1")):
        assert "‡" in words, words


def test_nothing_is_said_where_no_run_diverged(root: Path, pictures: list[Figure]) -> None:
    for name in ("rfedavg/fig12", "rfedavg/fig2", "rfedavg/table1"):
        plan = CATALOGUES["rfedavg"]
        for run in plan.needed(*name.split("/")):
            pretend(run, root, False)
        pictures.clear()
        assert "‡" not in "".join(build(plan, name, root, pictures))


@pytest.mark.slow
def test_every_figure_fits_a_page_of_two_columns(root: Path, pictures: list[Figure]) -> None:
    drawn = [name for _, name in CASES if CATALOGUES[name.split("/")[0]].target(*name.split("/")).drawn]
    assert len(drawn) > 30
    for name in dict.fromkeys(drawn):
        plan = catalogue(name.split("/")[0])
        plan.params = dataclasses.replace(plan.params, layout=Layout(columns=2))
        for run in plan.needed(*name.split("/")):
            pretend(run, root, diverged=False)
        build(plan, name, root, pictures)
        wide = pictures.pop().get_figwidth() > style.COLUMN
        text = (root / "report.tex").read_text()
        assert (r"\begin{figure*}" in text) == wide, name
