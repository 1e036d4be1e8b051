"""What a benchmark decides in words, on boards with planted differences, and papers' headlines beside it."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from project import HOME

from fedcore.base.options import validate
from pipeline.catalogue.grids import settings
from pipeline.catalogue.params import overlay
from pipeline.catalogue.schema import StudyParams
from pipeline.catalogue.targets import Column
from pipeline.reports import effects, kept
from pipeline.reports.captions import Caption
from pipeline.reports.decisions import COLUMNS, _groups, _left_out, decisions
from pipeline.reports.grid import Grid
from pipeline.reports.render import html, markdown
from pipeline.reports.standings import Board, BoardContent
from pipeline.reports.trials import Plan


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects, "bootstrap", partial(effects.bootstrap, draws=10_000))


OWN = ("a1a", "svmguide1", "splice", "vehicle", "dna")
OTHERS = ("pendigits", "satimage", "usps", "mnist", "letter")
STUDY: dict[str, Any] = {
    "title": "Which method?",
    "seeds": [0, 1, 2],
    "regimes": {"b": {"clients": 4, "training": {"rounds": 10, "batch_size": 10, "lr": 0.1}}},
    "datasets": {
        name: {
            "data": {"name": name},
            "model": {"name": "linear"},
            "splits": {"s": {"name": "iid"}},
            **({"fraction": 0.5} if name in OWN[:2] else {}),
        }
        for name in OWN + OTHERS
    },
    "algorithms": {"fedavg": {}, "fedprox": {}, "fedadam": {}, "scaffold": {}, "oneshot": {}},
    "benchmark": {
        "base": "fedavg",
        "families": {"main": ["fedprox", "fedadam", "scaffold"]},
        "kinds": {"label_and_size": [*OWN], "size": [*OTHERS]},
    },
    "report": {
        "headlines": {"paper": {"method": "fedprox", "above": ["fedavg", "fedadam"], "ground": [*OWN]}},
        "contrasts": {"paper": {"scaffold": ["oneshot"], "fedprox": ["scaffold"]}},
    },
}
NAMES = {
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "fedadam": "FedAdam",
    "scaffold": "SCAFFOLD",
    "oneshot": "One",
}
UNDECIDED = "undecided: no whole interval is 0.5 points ahead of FedAvg"
Gains = dict[str, float | tuple[float, float]]


def planned(changes: dict[str, Any] | None = None) -> Plan:
    params = validate(StudyParams, overlay(STUDY, changes or {}), "")
    assert params.benchmark
    labels = {name: NAMES.get(name, name) for name in params.algorithms}
    return Plan("bench", params, params.benchmark, settings(params), labels)


def planted(plan: Plan, gains: Gains, where: tuple[str, ...] = OWN + OTHERS) -> pd.DataFrame:
    """Return scores whose differences to FedAvg have these means, or these on own and others' ground."""
    rng, lines = np.random.default_rng(0), []
    for setting in plan.settings:
        name = plan.dataset(setting)
        for method, gain in {"fedavg": 0.0, **gains}.items():
            difference = gain[name in OTHERS] if isinstance(gain, tuple) else gain
            for seed in plan.params.seeds if name in where else ():
                score = 70 + difference + rng.normal(0, 0.1)
                lines.append((method, setting, name, seed, score, method == "scaffold"))
    return pd.DataFrame(lines, columns=["method", "workload", "dataset", "seed", "score", "keeps"])


def content_of(report: str, plan: Plan, runs: pd.DataFrame) -> BoardContent:
    target = decisions(plan, {})[report]
    assert isinstance(target, Board)
    return target.say(plan, runs)


def said(
    report: str, gains: Gains, where: tuple[str, ...] = OWN + OTHERS
) -> tuple[BoardContent, dict[str, list[str]]]:
    """Return what a report says, and its printed texts by row."""
    plan = planned()
    content = content_of(report, plan, planted(plan, gains, where))
    rows = {label: [cell.mean for cell in cells] for label, cells in content.rows}
    assert {len(texts) for texts in rows.values()} == {len(content.columns)}
    return content, rows


def test_settings_of_a_grid_stand_under_their_own_share_of_the_clients() -> None:
    params = validate(StudyParams, {**STUDY, "grid": {"participation.fraction": [0.2, 1.0]}}, "")
    assert params.benchmark
    plan = Plan("bench", params, params.benchmark, settings(params), NAMES)
    groups = _groups(plan, planted(plan, {}))
    places = {case: groups[f"{case} clients in each round"][0] for case in ("all", "some")}
    ends = {case: {setting.rpartition("_")[2] for setting in names} for case, names in places.items()}
    assert ends == {"all": {"1.0"}, "some": {"0.2"}}


def test_data_sets_without_a_run_of_the_base_say_nothing_about_leaders() -> None:
    plan = planned()
    runs = planted(plan, {"fedadam": 2.0, "fedprox": 0.0, "scaffold": 0.0})
    lacking = runs[(runs["method"] != "fedavg") | (runs["dataset"] != "a1a")]
    assert _left_out(plan, lacking) == _left_out(plan, runs[runs["dataset"] != "a1a"])
    few = runs[(runs["method"] != "fedavg") | runs["dataset"].isin(OWN[1:])]
    assert _left_out(plan, few) == _left_out(plan, runs[runs["method"] != "fedavg"]) == ("–", "")


def test_a_regimes_share_of_the_clients_counts_where_a_data_set_has_none() -> None:
    plan = planned({"regimes": {"b": {"fraction": 0.5}}})
    groups = _groups(plan, planted(plan, {}))
    assert "all clients in each round" not in groups
    assert len(groups["some clients in each round"][0]) == len(OWN + OTHERS)


def test_tables_of_ones_own_are_data_sets_by_their_paths() -> None:
    paths = {"first": "x.csv", "again": "x.csv", "other": "y.csv"}
    sets = {
        name: {**STUDY["datasets"]["mnist"], "data": {"name": "table", "path": path}}
        for name, path in paths.items()
    }
    params = validate(StudyParams, {**STUDY, "datasets": sets}, "")
    assert params.benchmark
    plan = Plan("bench", params, params.benchmark, settings(params), NAMES)
    assert [plan.dataset(setting) for setting in plan.settings] == [
        "table x.csv",
        "table x.csv",
        "table y.csv",
    ]


def test_methods_stand_under_their_verdict_in_each_case() -> None:
    gains: Gains = {"fedprox": (2.0, 0.0), "fedadam": 0.5, "scaffold": -2.0, "oneshot": 9.0}
    content, rows = said("decisions", gains)
    general, label = rows["in general"], rows["skew: label and size"]
    assert [text.split(" ")[0] for text in label[2:6]] == ["FedProx", "–", "SCAFFOLD", "FedAdam"]
    assert label[0] == "take FedProx"
    assert label[4].endswith("), keeps state")
    assert rows["skew: size"][0] == "undecided: no whole interval is 0.5 points ahead of FedAvg"
    assert rows["skew: size"][2] == "–"
    assert rows["skew: size"][3].startswith("FedProx ")
    assert general[0] == "undecided: no whole interval is 0.5 points ahead of FedAvg", (
        "it is ahead on half of them"
    )
    assert rows["some clients in each round"][:2] == ["undecided: 2 of at least 5 data sets", "–"]
    assert "FedProx +2" in rows["some clients in each round"][5], "of two data sets nothing is decided"
    assert rows["all clients in each round"][6] == "8"
    assert "SCAFFOLD" in general[4]
    stateless = [texts for case, texts in rows.items() if "clients keep no state" in case]
    assert len(stateless) == 4, "alone, with each kind of skew, and with all clients"
    assert not any("SCAFFOLD" in text for texts in stateless for text in texts)
    assert not any("One" in text for texts in rows.values() for text in texts), "is in no family"
    assert [*content.frame] == COLUMNS
    lines = content.frame.set_index(["row", "column"])
    assert lines.loc[("skew: label and size", "fedprox"), "verdict"] == "better"
    assert content.frame["verdict"].isin(["better", "equivalent", "worse", "undecided"]).all()


def test_conditions_are_joined_where_data_sets_are_enough_and_some_methods_keep_state() -> None:
    """Two of the first five data sets have some clients in a round."""
    both = [case for case in said("decisions", {"scaffold": 1.0})[1] if ", " in case]
    assert both == [
        "skew: label and size, clients keep no state",
        "skew: size, clients keep no state",
        "all clients in each round, clients keep no state",
    ]
    both = [case for case in said("decisions", {"scaffold": 1.0}, OTHERS[:4])[1] if ", " in case]
    assert both == []
    both = [case for case in said("decisions", {"fedprox": 1.0})[1] if ", " in case]
    assert both == []


def test_conditions_are_joined_where_each_leaves_workloads_out() -> None:
    """All clients take part on eight data sets: all five of one kind, and seven of nine of the other."""
    plan = planned({"benchmark": {"kinds": {"label_and_size": [*OWN, *OTHERS[:4]], "size": [*OTHERS]}}})
    groups = _groups(plan, planted(plan, {"fedprox": 1.0}))
    assert [case for case in groups if ", " in case] == ["skew: label and size, all clients in each round"]
    runs = planted(plan, {"fedprox": 1.0})
    whole = groups["all clients in each round"][0]
    groups = _groups(plan, runs[runs["workload"].isin(whole)])
    assert not [case for case in groups if ", " in case], "where some take part, nothing is finished"
    groups = _groups(plan, planted(plan, {"scaffold": 1.0}))
    assert [case for case in groups if ", " in case] == [
        "skew: label and size, all clients in each round",
        "skew: label and size, clients keep no state",
        "skew: size, clients keep no state",
        "all clients in each round, clients keep no state",
        "skew: label and size, all clients in each round, clients keep no state",
    ]


@pytest.mark.parametrize(
    ("gains", "advice", "left_out"),
    [
        ({"fedprox": 2.0, "fedadam": 3.0}, "take FedAdam", "+3.0"),
        ({"fedprox": 2.9, "fedadam": 3.0}, "take FedAdam; not shown worse: FedProx", "+3.0"),
        ({"fedprox": -0.2, "scaffold": -2.0}, "take FedAvg: none is 0.5 points ahead of it", "+0.00"),
        ({"fedprox": 0.5}, UNDECIDED, "+0.49"),
        ({"fedprox": (-2.0, 1.9), "fedadam": (1.9, -2.0)}, UNDECIDED, "-2."),
    ],
)
def test_the_advice_follows_and_says_what_it_is_worth(gains: Gains, advice: str, left_out: str) -> None:
    content, rows = said("decisions", gains)
    assert rows["in general"][0] == advice
    assert rows["in general"][1].startswith(left_out)
    assert content.note.endswith("only where that is above 0.")


def in_general(content: BoardContent) -> list[str]:
    return [str(cell.mean) for cell in dict(content.rows)["in general"]]


def test_advice_must_beat_a_method_that_is_always_taken_in_each_case() -> None:
    """Each of two leads on a half of the data sets, so it leads where one of the other half is left out."""
    gains: Gains = {"fedprox": (0.6, 2.9), "fedadam": (2.9, 0.6), "scaffold": 1.4}
    plan = planned({"report": {"always": "scaffold"}})
    content = content_of("decisions", plan, planted(plan, gains))
    rows = {case: [str(cell.mean) for cell in cells] for case, cells in content.rows}
    advice, left_out, *_ = rows["in general"]
    assert re.fullmatch(r"no advice that beats SCAFFOLD always; Fed\w+ leads; not shown worse: .*", advice)
    assert re.fullmatch(r"\+0\.[56]\d; SCAFFOLD always \+1\.[34]\d", left_out)
    assert rows["skew: size"][0] == "take FedProx"
    assert re.fullmatch(r"\+2\.[89]\d; SCAFFOLD always \+1\.[34]\d", rows["skew: size"][1])
    assert "always" not in rows["skew: size, clients keep no state"][1], "SCAFFOLD can't be taken there"
    assert content.note.endswith("only where that is above 0 and above SCAFFOLD always.")
    advice, *_ = in_general(content_of("decisions", plan, planted(plan, {"scaffold": 2.0})))
    assert advice == "take SCAFFOLD", "what is always taken may lead itself"


def test_a_shortlist_and_a_verdicts_list_are_short() -> None:
    names = [f"near{number}" for number in range(6)]
    entries = {"algorithms": {name: {"name": "fedprox"} for name in names}}
    plan = planned({**entries, "benchmark": {"families": {"main": [*names, "scaffold"]}}})
    runs = planted(plan, {**dict.fromkeys(names, 2.0), "scaffold": 1.0})
    advice, _, better, *_ = in_general(content_of("decisions", plan, runs))
    assert re.fullmatch(r"take near\d; not shown worse: (near\d, ){4}1 more", advice)
    assert re.fullmatch(r"(near\d \+[^;]+; ){6}1 more", better)


def test_a_method_of_few_data_sets_is_not_named_beside_the_one_to_take() -> None:
    plan = planned()
    runs = planted(plan, {"fedprox": 3.0, "fedadam": 2.9})
    runs = runs[(runs["method"] != "fedadam") | runs["dataset"].isin(OWN[:4])]
    assert in_general(content_of("decisions", plan, runs))[0] == "take FedProx"


def test_settings_that_lack_a_seed_decide_nothing() -> None:
    plan = planned()
    runs = planted(plan, {"fedprox": 2.0})
    lacking = (runs["method"] == "fedprox") & (runs["seed"] == 2) & (runs["dataset"] != "mnist")
    for report, row in (("decisions", "in general"), ("headlines", "paper-fedprox-fedavg")):
        frame = content_of(report, plan, runs[~lacking]).frame
        assert frame.loc[frame["row"] == row, "n"].max() == 1


def test_only_methods_of_families_lead_where_a_data_set_is_left_out() -> None:
    left_out = in_general(said("decisions", {"fedprox": 2.0, "oneshot": 9.0})[0])[1]
    assert re.fullmatch(r"\+(1\.9|2\.0)\d", left_out)
    assert in_general(said("decisions", {"fedprox": 2.0}, OWN[:4])[0])[1] == "–"


def test_nothing_is_said_of_what_was_not_run() -> None:
    content, rows = said("decisions", {"fedprox": 2.0}, where=())
    assert {texts[0] for texts in rows.values()} == {"no workload yet"}
    assert {texts[-1] for texts in rows.values()} == {"–"}, "no evidence"
    assert {*content.frame["verdict"]} == {"no workload yet"}
    assert {texts[1] for texts in rows.values()} == {"–"}
    _, rows = said("decisions", {"fedprox": 2.0}, where=OWN)
    assert rows["in general"][0] == "take FedProx"
    assert rows["skew: size"][0] == "no workload yet"


def test_a_headline_is_tested_on_its_own_ground_and_on_that_of_others() -> None:
    first, second = "paper: FedProx ahead of FedAvg", "paper: FedProx ahead of FedAdam"
    content, rows = said("headlines", {"fedprox": (2.0, -2.0), "fedadam": (2.0, -4.0)})
    assert [text.partition(":")[0] for text in rows[first]] == ["holds", "fails", "undecided"]
    assert [text.partition(":")[0] for text in rows[second]] == [
        "fails, no difference that matters",
        "holds",
        "undecided",
    ]
    assert rows[first][0].endswith(", 5 data sets")
    assert rows[second][2].endswith(", 10 data sets")
    verdicts = ["better", "worse", "undecided", "equivalent", "better", "undecided"]
    assert content.frame["verdict"].tolist()[:6] == verdicts
    _, rows = said("headlines", {"fedprox": 0.5}, where=OWN)
    assert rows[first][0].startswith("undecided: +0.")
    assert [rows[first][1], *rows[second]] == ["no workload yet"] * 4
    _, rows = said("headlines", {"fedprox": 2.0}, where=OWN[:1])
    assert rows[first][0].startswith("undecided: +1.98"), "a verdict takes five data sets"
    assert rows[first][0].endswith(", 1 data set")


def test_further_contrasts_stand_below_the_headlines_on_the_same_ground() -> None:
    content, rows = said("headlines", {"fedprox": 1.0, "scaffold": (2.0, 0.0), "oneshot": 1.0})
    further = {label: texts for label, texts in rows.items() if label.startswith("paper, further: ")}
    assert [*rows][2:] == [*further], "a method in no family may be in one"
    assert {label.partition(": ")[2]: [text.split(":")[0] for text in t] for label, t in further.items()} == {
        "SCAFFOLD ahead of One": ["holds", "fails", "undecided"],
        "FedProx ahead of SCAFFOLD": ["fails", "holds", "undecided"],
    }
    assert content.frame["row"].tolist()[-1] == "paper-fedprox-scaffold"


def test_a_headline_fails_where_no_gain_that_matters_is_left() -> None:
    """FedProx loses nothing to 1.6 points on its own ground: some of it doesn't matter, none is a gain."""
    plan = planned()
    runs = planted(plan, {"fedprox": 0.0})
    losses = runs["dataset"].map({name: 0.4 * number for number, name in enumerate(OWN)}).fillna(0)
    runs["score"] -= losses * (runs["method"] == "fedprox")
    rows = dict(content_of("headlines", plan, runs).rows)
    assert str(rows["paper: FedProx ahead of FedAvg"][0].mean).startswith("fails: -0.8")


def test_evidence_is_linked_in_both_forms() -> None:
    content, _ = said("decisions", {"fedprox": 2.0})
    columns = tuple(Column(key, label) for key, label in content.columns.items())
    grid = Grid("x", columns, tuple(content.rows), Caption("", ("A.",)), words=True)
    assert "| [board](board.md) |" in markdown(grid)
    assert '<a href="board.html">board</a>' in html(grid)
    assert "[kinds](kinds.svg)" in markdown(grid)


def test_headlines_are_those_of_the_papers_here_on_their_data_sets() -> None:
    study = yaml.safe_load((HOME / "studies/benchmark/benchmark.yaml").read_text())
    papers = yaml.safe_load((HOME / "params.yaml").read_text())["papers"]
    headlines = study["report"]["headlines"]
    assert [*headlines] == ["rfedavg", "fedavgr", "comfed", "fedomw", "radfed"]
    for paper, claim in headlines.items():
        assert {*claim["ground"]} == {about["data"]["name"] for about in papers[paper]["datasets"].values()}
        assert claim["method"] in study["benchmark"]["families"]["primary"]


def test_one_data_set_has_no_interval_over_data_sets() -> None:
    line = {"mean": 1.5, "low": 1.0, "high": 2.25}
    assert effects.with_interval({**line, "n": 2}) == "+1.50 (+1.00 to +2.25)"
    assert effects.with_interval({**line, "n": 1}) == "+1.50"


def test_kept_words_are_those_of_the_kept_boards() -> None:
    folder = HOME / kept.REFERENCE / "benchmark_small"
    board = pd.read_csv(folder / "board.csv", index_col="row")
    lines = pd.read_csv(folder / "decisions.csv").set_index(["row", "column"])
    for name, line in lines.loc["in general"].iterrows():
        assert line["mean"] == board.loc[str(name), "effect"]
        assert line["verdict"] == board.loc[str(name), "verdict"]
    text = (folder / "decisions.md").read_text()
    heads, *rows = (line.split(" | ") for line in text.splitlines() if line.startswith("| "))
    printed = {row[0].removeprefix("| "): dict(zip(heads, row, strict=True)) for row in rows}
    for case, line in lines.droplevel("column").iterrows():
        effect = {str(key): value for key, value in line.items()}
        assert effects.with_interval(effect) in printed[str(case)][line["verdict"].capitalize()]
