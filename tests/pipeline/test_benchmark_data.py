"""What a benchmark's page says of the rows that its data sets repeat, and of its board without them."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from functools import cache

import pandas as pd
import pytest
import yaml
from project import HOME
from scipy import stats

from fedcore.base.options import validate
from fedcore.data import Source
from fedcore.execution.runner import load_data
from fedcore.partitions.build import make
from fedcore.partitions.stats import repeated
from fedcore.spec import parse
from pipeline.catalogue.grids import settings
from pipeline.catalogue.schema import StudyParams
from pipeline.catalogue.specification import specification
from pipeline.reports import effects
from pipeline.reports.significance import parse_samples
from pipeline.reports.trials import Plan

MIRROR = os.environ.get("FEDCORE_MIRROR", "")
LEFT_OUT = "data_with_repeated_rows"
PAGE = (HOME / "docs/benchmark.md").read_text(encoding="utf-8")


@cache
def whole() -> Plan:
    text = (HOME / "studies/benchmark/benchmark.yaml").read_text(encoding="utf-8")
    params = validate(StudyParams, yaml.safe_load(text), "")
    assert params.benchmark
    return Plan("benchmark", params, params.benchmark, settings(params), dict.fromkeys(params.algorithms, ""))


def listed() -> dict[str, list[str]]:
    """Return the page's table by workload: rows, and those of them that other sets have."""
    lines = re.findall(r"^\| `(w\d\d_\w+)` \| (.+) \|$", PAGE, re.MULTILINE)
    return {workload: cells.replace(",", "").split(" | ") for workload, cells in lines}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not MIRROR, reason="needs the full data: set FEDCORE_MIRROR to their folder")
def test_the_page_lists_the_rows_that_the_sets_of_a_workload_share() -> None:
    """At seed 0; the others share none. Data of which a test set shares 2% are left out together."""
    plan, source = whole(), Source(HOME / "data", MIRROR)
    found, many = {}, set()
    for setting, declared in plan.settings.items():
        spec = specification(plan.params, plan.query("fedavg", setting, 0, (0,)))
        choice = parse(spec).partition
        data, _ = load_data(json.dumps(spec["data"], sort_keys=True), source)
        split = make(choice.plugin, choice.options, data, 0)
        if counts := repeated(data, split):
            rows = len(data.test) if split.test is None else len(split.test)
            clients, labelled = counts["test_in_clients"]
            chosen = counts["test_in_selection"][0], len(split.selection), counts["selection_in_clients"][0]
            shown = (rows, f"{clients} ({clients / rows:.1%})", labelled, *chosen)
            found[declared.dataset] = [*map(str, shown)]
            if clients > 0.02 * rows:
                many.add(plan.dataset(setting))
    assert listed() == found
    assert {*plan.params.report.without[LEFT_OUT]} == many


def scores() -> pd.DataFrame:
    """Return the kept final scores of the base and of the families' methods."""
    plan = whole()
    matrix = pd.read_csv(HOME / "reports/reference/benchmark/matrix.csv")
    lines = [
        (line["row"], plan.dataset(line["column"]), line["column"], run.rpartition("/")[2], score)
        for line in matrix.to_dict("records")
        for run, score in parse_samples(line["values"]).items()
    ]
    return pd.DataFrame(lines, columns=["method", *effects.RUN, "score"])


def test_the_page_says_what_leads_are_left_without_data_that_repeat_rows() -> None:
    plan, kept = whole(), scores()
    base, families, margin = plan.benchmark.base, plan.benchmark.families, plan.benchmark.margin
    board = pd.read_csv(HOME / "reports/reference/benchmark/board.csv", index_col="row")
    rest = kept[~kept["dataset"].isin(plan.params.report.without[LEFT_OUT])]
    gains = {name: effects.effect(rest, name, base) for family in families.values() for name in family}
    found = {name: effect for name, effect in gains.items() if effect}
    assert len(found) == 34
    (text,) = re.findall(r"^- \*\*Without the five data sets .*?(?=^- )", PAGE, re.MULTILINE | re.DOTALL)
    said = re.findall(r"(\w+)(?: leads)?(?: by)? (\d\.\d\d)(?: points)? \((\S+) to (\S+)\)", text)
    leaders = [name for name in found if board.loc[name, "verdict"] == "better"]
    assert {line[0].lower(): [*map(float, line[1:])] for line in said} == {
        name.replace("_", ""): pytest.approx(
            [found[name].mean, found[name].low, found[name].high], abs=0.0051
        )
        for name in leaders
    }
    assert all(found[name].low > 0 and found[name].sets == 7 for name in leaders)
    better = {name for name in found if found[name].verdict(margin) == "better"}
    assert better == {"fedadc", "fedavgm"}
    assert min(effects.corrected(found, families).values()) > 0.05
    least = {name: replace(effect, p=2 / 2**7) for name, effect in found.items()}
    assert f"below {effects.corrected(least, families)['fedadc']:.2f}".replace("0.", ".") in text
    orders = [effects.ahead(runs, base).mean()[plan.contenders] for runs in (kept, rest)]
    assert f"a tau of {stats.kendalltau(*orders).statistic:.2f}".replace("0.", ".") in text
