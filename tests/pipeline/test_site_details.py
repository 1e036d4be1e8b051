"""Details of the site: rows that nobody asks for any more, units, whole rounds, long paths."""

from __future__ import annotations

import copy
import json
import re
import shlex
from collections.abc import Hashable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pretended import finish
from project import HOME, parameters
from rich.console import Console
from typer.testing import CliRunner
from wording import one_line

from fedcore.base.errors import DataError, FedcoreError
from fedcore.base.registry import plugins
from fedcore.cli.main import app
from fedcore.cli.status import view
from fedcore.execution.status import Status
from pipeline.claims.ledger import ledger
from pipeline.fidelity.board import by_table, compare, printed_cells
from pipeline.fidelity.scoreboard import OUTCOMES, claims_by_reading, scoreboard
from pipeline.papers import build_catalogue, papers, published
from pipeline.reports import style
from pipeline.reports.kept import REFERENCE, read_kept
from pipeline.reports.results import read_history, read_tidy
from pipeline.reports.standings import Board
from pipeline.site import build, charts
from pipeline.site.format import flat
from pipeline.site.pages import _answer, cost_of
from pipeline.site.paper_page import _body, _cells, _standing, _unknown
from pipeline.site.survey import TargetStatus, _built, _kept, _status, survey
from pipeline.site.tables import distance
from pipeline.workflow.estimate import Guesses

CONFIG = parameters() | {"primary_paper": "rfedavg", "scale": "demo"}
ASSETS = HOME / "pipeline" / "site" / "assets"


def changed(**algorithms: Any) -> dict[str, Any]:
    """Return the parameters with some methods more (options) or less (None)."""
    config = copy.deepcopy(CONFIG)
    methods = config["papers"]["rfedavg"]["algorithms"]
    methods |= {name: options for name, options in algorithms.items() if options is not None}
    for name in (name for name, options in algorithms.items() if options is None):
        del methods[name]
    return config


@pytest.mark.parametrize(
    ("then", "now", "named"),
    [
        pytest.param(
            {"fedadam": {}}, {}, "FedAdam", id="a plug-in is no longer named", marks=pytest.mark.slow
        ),
        pytest.param({}, {"qfedavg": None}, "q-FedAvg", id="a method left params.yaml"),
    ],
)
def test_the_site_shows_rows_that_nobody_asks_for_any_more(
    then: dict[str, Any], now: dict[str, Any], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    catalogue = build_catalogue(changed(**then))
    for target in ("table1", "fig2"):
        for run in catalogue.needed("rfedavg", target):
            finish(run, tmp_path, 0.5)
    folder = Path("reports/rfedavg")
    for target in ("table1", "fig2"):
        catalogue.sources("rfedavg", target).build(catalogue.target("rfedavg", target).paths(folder, target))
    build(changed(**now))
    page = (tmp_path / "reports/site/own/rfedavg.html").read_text()
    notice = f"Not asked for by params.yaml or a plug-in any more: {named}. From which runs"
    assert page.count(notice) == 2
    assert f'<th scope="row">{named}</th>' in page


STATISTICS = {
    "clients": 2,
    "sizes": {"min": 1, "max": 2, "mean": 1.5},
    "empty_clients": [],
    "c_score": 0.5,
    "label_counts": [[1], [2]],
}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("history.csv", "round,test_accuracy\n0,high\n", "test_accuracy: expected numbers"),
        ("history.csv", "", "no table: No columns to parse from file"),
        ("stats.json", STATISTICS | {"label_counts": [[1], ["2"]]}, "label_counts.1.0: got '2', expected"),
        *(
            pytest.param(*item, marks=pytest.mark.slow)
            for item in (
                ("history.csv", "round,test_accuracy\nzero,0.5\n", "round: expected numbers"),
                ("history.csv", "round,test_accuracy\n,0.5\n", "round: expected a column of whole numbers"),
                ("history.csv", "test_accuracy\n0.5\n", "round: expected a column of whole numbers"),
                ("stats.json", STATISTICS | {"c_score": "low"}, "c_score: got 'low', expected a number"),
                ("stats.json", STATISTICS | {"sizes": {"min": 1}}, "sizes.max: missing, but required"),
                ("stats.json", STATISTICS | {"label_counts": [[], []]}, "label_counts.0: got [], expected"),
            )
        ),
    ],
)
def test_a_file_of_wrong_types_is_named_in_one_line(
    name: str, text: str | dict[str, object], message: str, tmp_path: Path
) -> None:
    run = build_catalogue(CONFIG).needed("rfedavg", "table1")[0]
    finish(run, tmp_path, 0.5)
    path = tmp_path / (run.folder if name == "history.csv" else run.partition) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    with pytest.raises(FedcoreError) as refused:
        build(CONFIG, tmp_path)
    assert str(refused.value).startswith(f"{path}")
    assert message in str(refused.value)
    one_line(refused.value)


@pytest.mark.parametrize(("target", "column"), [("table1", "seeds"), ("table1", "row"), ("fig2", "round")])
def test_a_report_without_a_column_is_named_in_one_line(target: str, column: str, tmp_path: Path) -> None:
    """As one that older code wrote, or a spreadsheet."""
    kept = HOME / f"reports/reference/rfedavg/{target.replace('fig2', 'fig2_similar')}.csv"
    path = tmp_path / f"reports/rfedavg/{target}.csv"
    path.parent.mkdir(parents=True)
    frame = pd.read_csv(kept, dtype=str).assign(scale="demo")
    frame.to_csv(path, index=False)
    survey(CONFIG, tmp_path)
    frame.drop(columns=column).to_csv(path, index=False)
    with pytest.raises(DataError, match=rf"rfedavg/{target}\.csv: no column '{column}'; build it again$"):
        survey(CONFIG, tmp_path)


def test_the_board_of_a_benchmark_is_shown_as_its_numbers() -> None:
    shared: dict[str, Any] = {"plan": None, "say": None, "heading": "Method", "words": False, "measure": None}
    board = Board(title="Which is best?", published="Board", **shared)
    frame, _ = _built(HOME / "reports/reference/benchmark_small", "board", board)
    shown: Any = SimpleNamespace(target=board, frame=frame, cells={}, labels=({}, {}))
    (heading, first, *_) = _body(shown, (), {})["numbers"]
    assert heading[:2] == ["row", "effect"]
    assert first[0][0] == "fedyogi"
    assert vars(TargetStatus)["lines"].func(shown) == {}


def test_the_command_of_a_cell_makes_its_runs_at_its_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HOME)
    config = parameters("comfed") | {"primary_paper": "comfed", "scale": "quick"}
    shown = _status(build_catalogue(config).sources("comfed", "calibration"), frame=None, files={})
    *_, ((row, _), runs) = shown.cells.items()
    assert " " in row
    command = _cells(shown, {run.folder: 0 for run in shown.runs})[-1]["command"]
    around, inner = command.removesuffix(")").split("$(uv run fedcore ")
    assert "--config scale=quick --" in around
    printed = CliRunner().invoke(app, shlex.split(inner)).stdout
    assert printed.split() == [f"{run.folder}/summary.json" for run in runs]


@pytest.mark.parametrize(
    "final",
    [{"test_accuracy": "high"}, *(pytest.param(value, marks=pytest.mark.slow) for value in ([0.5], "0.5"))],
)
def test_a_summary_of_wrong_types_is_shown_as_damaged(final: object, tmp_path: Path) -> None:
    run = build_catalogue(CONFIG).needed("rfedavg", "table1")[0]
    finish(run, tmp_path, 0.5)
    path = tmp_path / run.folder / "summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"final": final}))
    found = survey(CONFIG, tmp_path).evidence[run.folder]
    assert str(found.facts["status"]).startswith(f"damaged: {path}: final: expected numbers by name, or null")
    assert not found.finished


def test_numbers_of_a_run_have_units() -> None:
    facts = dict(flat({"bytes_down": 266_139_200, "final": {"test_accuracy": 0.103, "test_loss": 2.5}}))
    assert facts == {"bytes down": "266.1 MB", "final test accuracy": "10.30 %", "final test loss": "2.5"}


def test_scores_of_a_run_are_drawn_in_per_cent(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    path.write_text("round,test_accuracy,validation_accuracy,test_f1\n0,0.1,0.103,0.2\n")
    drawn = charts.of_history(read_history(path), "fedavg")
    assert [chart["y"] for chart in drawn] == ["test accuracy (%)", "validation accuracy (%)", "test f1 (%)"]
    assert [chart["traces"][0]["mean"] for chart in drawn] == [[10.0], [10.3], [20.0]]


@pytest.fixture(scope="module")
def measured() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The kept results' scoreboard and claims by reading, of two papers."""
    two = (HOME / REFERENCE, ["rfedavg", "radfed"])
    return scoreboard(*two), claims_by_reading(*two)


def test_hours_on_one_core_are_those_of_runs_without_a_gpu(
    measured: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    known = {
        "a": {"seconds": 7200.0, "device": "cpu"},
        "b": {"seconds": 3600.0},
        "c": {"status": "not run yet"},
        "d": {"seconds": 9999.0, "device": "cuda"},
    }
    runs = [SimpleNamespace(folder=name) for name in known]
    shown: Any = SimpleNamespace(paper="rfedavg", kept=True, runs=runs, target=SimpleNamespace(kind="table"))
    shown.declared, shown.files = None, {}
    evidence = {name: SimpleNamespace(facts=facts) for name, facts in known.items()}
    seen: Any = SimpleNamespace(reference=[shown], evidence=evidence, own={})
    unused: Any = None
    answer = _answer("rfedavg", measured, seen, HOME, unused)
    assert (answer["runs"], answer["took"]) == (3, "3.0 hours on one core; 1 more used a GPU")
    del evidence["d"], runs[3]
    assert _answer("rfedavg", measured, seen, HOME, unused)["took"] == "3.0 hours on one core"


def test_a_watched_run_keeps_its_whole_name_on_a_narrow_terminal() -> None:
    folder = Path("results/rfedavg/demo/cross_silo-cifar10-sim100/rfedavg_plus-0123abcd/seed0")
    console = Console(width=60, record=True)
    console.print(view([Status(folder, "running", 3, 100)]))
    shown = "".join(line.partition("   ")[0].strip() for line in console.export_text().splitlines())
    assert "rfedavg_plus-0123abcd/seed0" in shown


def test_a_plug_in_s_label_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDCORE_PLUGINS", str(HOME / "examples/new_algorithm"))
    plugins.cache_clear()
    try:
        assert style.label("fedmedian") == style.look("fedmedian").label == "FedMedian"
    finally:
        monkeypatch.undo()
        plugins.cache_clear()
    assert style.label("fedmedian") == "fedmedian"


@pytest.mark.parametrize(
    ("paper", "target", "said"), [("mcmahan2017", "rates_2nn", "at most "), ("rfedavg", "table3", "about ")]
)
def test_runs_that_end_at_a_target_take_at_most_their_guess(paper: str, target: str, said: str) -> None:
    config = parameters(paper) | {"primary_paper": paper, "scale": "paper"}
    sources = build_catalogue(config).sources(paper, target)
    cost = cost_of([TargetStatus(**vars(sources), frame=None, files={})], Guesses())
    assert cost["needed"] > 1
    assert str(cost["time"]).startswith(said)


def test_the_claims_that_a_page_counts_are_those_of_the_paper(
    measured: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    shown: Any = SimpleNamespace(paper="radfed", kept=True, runs=[], target=SimpleNamespace(kind="table"))
    shown.declared, shown.files = None, {}
    seen: Any = SimpleNamespace(reference=[shown], evidence={}, own={})
    unused: Any = None
    answer = _answer("radfed", measured, seen, HOME, unused)
    assert sum(answer["counts"].values()) == len(ledger("radfed")) > 0
    kinds = pd.read_csv(HOME / "reports/reference/claims_by_reading.csv").query("paper == 'radfed'")["kind"]
    assert answer["counts"] == kinds.map(OUTCOMES).value_counts().to_dict(), "those of the answers' table"
    assert answer["verdict"] == "too little measured", "15 cells of partitions, of 146"


def test_the_rows_of_a_figure_are_no_methods() -> None:
    config = parameters("fedomw") | {"primary_paper": "fedomw", "scale": "paper"}
    target = build_catalogue(config).sources("fedomw", "fig2").target
    shown: Any = SimpleNamespace(frame=pd.DataFrame({"row": ["p_33"]}), cells={("fedomw", "p_33"): ()})
    shown.target = target
    assert _unknown(shown) == ""


def test_a_kept_run_is_told_from_another_one_of_its_specification() -> None:
    runs = read_kept(HOME / "reports/reference/comfed/runs.parquet")
    twice = runs[runs["spec_sha256"].duplicated(keep=False)].set_index("run")["history_sha256"]
    assert twice.nunique() > 1
    config = parameters("comfed") | {"primary_paper": "comfed", "scale": "paper"}
    _, evidence = _kept(config, HOME)
    shown = {folder: evidence[folder].facts["history_sha256"] for folder in twice.index if folder in evidence}
    assert shown == twice[[*shown]].to_dict() != {}


def test_a_standing_counts_cells_as_the_board_does() -> None:
    reports = {
        ("rfedavg", name): read_tidy(HOME / f"reports/reference/rfedavg/{name}.csv")
        for name in ("table1", "table2", "table2_cohort")
    }
    tables = by_table(compare(printed_cells("rfedavg", published("rfedavg")), reports, "paper"))
    for (_, name), frame in reports.items():
        shown: Any = SimpleNamespace(paper="rfedavg", name=name, reference=True, frame=frame, numbers="n")
        line = tables[tables["target"].eq(name)].iloc[0]
        assert line["compared"] > line["judged"] > line["near"] > 0, "some cells have too few seeds"
        assert _standing(shown).startswith(f"{line['near']} of {line['judged']} near; "), "others not judged"


def test_a_standing_tells_readings_apart() -> None:
    shown: Any = SimpleNamespace(paper="radfed", name="table1", reference=True, numbers="")
    shown.frame, _ = _built(HOME / "reports/reference/radfed", "table1", papers()["radfed"].targets["table1"])
    assert re.fullmatch(r"1 of 5 near; \d+ not judged; authors' code: 13 of 15 near(; .*)?", _standing(shown))


@pytest.mark.parametrize(("n", "diverged", "counted"), [(3, 0, "1 of 1"), (2, 1, "0 of 1"), (0, 3, "0 of 1")])
def test_a_cell_with_a_diverged_run_is_judged_and_not_near(n: int, diverged: int, counted: str) -> None:
    printed = printed_cells("fedavgr", published("fedavgr")).query("target == 'table2'").iloc[0]
    mean = printed["published_mean"] if n else np.nan
    frame = pd.DataFrame([{**printed, "mean": mean, "std": 0.0, "n": n, "seeds": 3, "diverged": diverged}])
    frame = frame.assign(verdict="agrees" if n else "", published_unit=printed["unit"])
    shown: Any = SimpleNamespace(paper="fedavgr", name="table2", reference=True, frame=frame, numbers="")
    assert _standing(shown) == f"{counted} near"


def test_a_cell_on_a_part_of_the_data_has_no_level() -> None:
    line: dict[Any, Any] = {
        "mean": 70.0,
        "published_mean": 95.0,
        "published_std": 1.0,
        "verdict": "on a part of the data",
    }
    apart = distance(line, "percent")
    assert apart is not None
    assert (apart.kind, apart.text) == ("not-judged", "−25.00")


@pytest.mark.parametrize(
    ("n", "diverged", "failed", "kind"),
    [
        (3, 0, "", "near"),
        (2, 0, "", "not-judged"),
        (2, 1, "", "below"),
        (2, 0, "1 not reached", "below"),
        (1, 0, "1 not reached", "not-judged"),
    ],
)
def test_a_cell_has_the_colour_of_its_verdict(n: int, diverged: int, failed: str, kind: str) -> None:
    line: dict[Hashable, Any] = {
        "mean": 50.0,
        "published_mean": 50.0,
        "published_std": np.nan,
        "failed": failed,
    }
    apart = distance(line | {"n": n, "diverged": diverged, "seeds": 3, "verdict": "agrees"}, "percent")
    assert apart is not None
    assert apart.kind == kind


def test_a_run_that_never_reached_its_target_is_judged_and_not_near() -> None:
    printed = printed_cells("mcmahan2017", published("mcmahan2017")).query("target == 'table1_2nn'").iloc[0]
    ours = {"mean": np.nan, "std": np.nan, "n": 0, "seeds": 1, "diverged": 0, "failed": "1 not reached"}
    frame = pd.DataFrame([{**printed, **ours, "verdict": "", "published_unit": printed["unit"]}])
    shown: Any = SimpleNamespace(
        paper="mcmahan2017", name="table1_2nn", reference=True, frame=frame, numbers=""
    )
    assert _standing(shown) == "0 of 1 near"
