"""What is kept of benchmarks: their budgets, and what the page says of rows that data sets repeat."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from functools import cache, partial
from itertools import chain

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
OWN_ROWS = {"mime", "radfed_i", "fedasync", "centralised", "oneshot", "dl_u", "dl_opt", "dealt"}
OWN_COHORTS = {"radfed", "radfed_a", "radfed_m", "radfed_p", "fl_hc", "twin", "half"}
OWN_ROUNDS = {"fedasync", "radfed", "radfed_a", "radfed_i", "radfed_m", "radfed_p"}
MORE_ROWS = {"mime", "radfed_i", "dealt"}
KEPT = HOME / "reports/reference"
PAGE, PROTOCOL = (
    (HOME / f"docs/{name}.md").read_text(encoding="utf-8") for name in ("benchmark", "benchmark-protocol")
)


@cache
def plan_of(name: str) -> Plan:
    text = (HOME / f"studies/benchmark/{name}.yaml").read_text(encoding="utf-8")
    params = validate(StudyParams, yaml.safe_load(text), "")
    assert params.benchmark
    labels = dict.fromkeys([*params.algorithms, *params.report.controls], "")
    return Plan(name, params, params.benchmark, settings(params), labels)


@cache
def stages(name: str) -> pd.DataFrame:
    """Return the lines of a kept benchmark's trials, of the best of them again, and of its final runs."""
    names = ("trials", "again", "matrix")
    frames = [pd.read_csv(KEPT / name / f"{stage}.csv").assign(stage=stage) for stage in names]
    lines = pd.concat(frames, ignore_index=True)
    return lines.assign(method=lines["row"].str.partition("-")[0])


@pytest.mark.parametrize("name", ["benchmark", "benchmark_small", "benchmark_wide"])
def test_a_kept_board_is_of_the_frozen_protocol_and_a_sound_budget(name: str) -> None:
    """Each finished cell has its trials, the best of them again, and final runs: all of the same work."""
    plan, lines = plan_of(name), stages(name)
    assert f"Protocol {plan.protocol}." in (KEPT / name / "board.md").read_text(encoding="utf-8")
    finals = lines[lines["stage"] == "matrix"]
    cells = {*zip(finals["method"], finals["column"], strict=True)}
    assert cells <= {*plan.cells}
    finished = lines[[cell in cells for cell in zip(lines["method"], lines["column"], strict=True)]]
    one, more, count = plan.benchmark.seed, plan.benchmark.seeds, plan.params.tune.trials
    parts = finished.assign(spec=finished["specs"].str.split(), value=finished["values"].str.split())
    parts = parts.explode(["spec", "value"])
    parts["seed"] = parts["value"].str.extract(r"/seed(\d+)=", expand=False).astype(int)
    budget = {("trials", one): count} | {("again", seed): plan.benchmark.best for seed in (one, *more)}
    budget |= {("matrix", seed): 1 for seed in plan.params.seeds}
    counts = parts.groupby(["method", "column", "stage", "seed"]).size().unstack(["stage", "seed"])
    assert len(counts) == len(cells)
    assert {*counts} == {*budget}
    assert (counts[[*budget]] == [*budget.values()]).all(axis=None)
    order = finished.sort_values(["diverged", "mean", "row"], ascending=[True, False, True])
    order = order.set_index(["column", "row"])
    best = order[order["stage"] == "trials"].groupby(["method", "column"]).head(plan.benchmark.best)
    assert {*best.index} == {*order.index[order["stage"] == "again"]}

    runs = pd.read_parquet(KEPT / name / "runs.parquet")
    runs["spec"] = runs["spec_sha256"].str[:12]
    assert {*runs["spec"]} == {spec for specs in lines["specs"] for spec in specs.split()}
    kept = parts.merge(runs, on="spec", validate="many_to_one").drop_duplicates(["spec", "method"])
    assert (kept["run"].str.extract(r"/seed(\d+)$", expand=False).astype(int) == kept["seed"]).all()
    assert (kept.groupby("column")["data_sha256"].nunique() == 1).all()
    shared = kept.groupby(["column", "seed", kept["method"] == "dealt"])["partition_sha256"].nunique()
    assert (shared == 1).all()

    base = kept[kept["method"] == plan.benchmark.base].drop_duplicates(["column", "seed"])
    sizes = ["rounds", "rows_gradient"]
    work = kept[kept["status"] == "completed"].join(
        base.set_index(["column", "seed"])[sizes].add_suffix("_base"), on=["column", "seed"], validate="m:1"
    )
    rows = work["rows_gradient"] / work["rows_gradient_base"]
    rounds = work["rounds"] / work["rounds_base"]
    datasets = work["column"].map(lambda setting: plan.settings[setting].dataset)
    some = datasets.map(lambda dataset: plan.params.datasets[dataset].fraction is not None)
    half = work["method"] == "half"
    differ = work["method"].isin(OWN_ROWS) | (some & work["method"].isin(OWN_COHORTS))
    assert (rows == 1 - half / 2)[~differ].all()
    equal = rows[~work["method"].isin(MORE_ROWS) & ~half].groupby(work["method"]).mean()
    assert equal.between(0.9, 1.1).all(), "equal trainings, in other cohorts"
    short = [name for name, method in plan.params.algorithms.items() if method.once]
    assert (work["rounds"] == 1)[work["method"].isin(short)].all()
    assert (rounds == 1 - half / 2)[~work["method"].isin([*short, *OWN_ROUNDS])].all()


def listed() -> dict[str, list[str]]:
    """Return the page's table by workload: rows, and those of them that other sets have."""
    lines = re.findall(r"^\| `(w\d\d_\w+)` \| (.+) \|$", PROTOCOL, re.MULTILINE)
    return {workload: cells.replace(",", "").split(" | ") for workload, cells in lines}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not MIRROR, reason="needs the full data: set FEDCORE_MIRROR to their folder")
def test_the_page_lists_the_rows_that_the_sets_of_a_workload_share() -> None:
    """At seed 0; the others share none. Data of which a test set shares 2% are left out together."""
    plan, source = plan_of("benchmark"), Source(HOME / "data", MIRROR)
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


@cache
def scores() -> pd.DataFrame:
    """Return the kept final scores of the whole benchmark."""
    plan = plan_of("benchmark")
    matrix = stages("benchmark").query("stage == 'matrix'")
    lines = [
        (line["row"], plan.dataset(line["column"]), line["column"], run.rpartition("/")[2], score)
        for line in matrix.to_dict("records")
        for run, score in parse_samples(line["values"]).items()
    ]
    return pd.DataFrame(lines, columns=["method", *effects.RUN, "score"])


def test_the_page_says_what_leads_are_left_without_data_that_repeat_rows() -> None:
    plan, kept = plan_of("benchmark"), scores()
    base, families, margin = plan.benchmark.base, plan.benchmark.families, plan.benchmark.margin
    board = pd.read_csv(HOME / "reports/reference/benchmark/board.csv", index_col="row")
    rest = kept[~kept["dataset"].isin(plan.params.report.without[LEFT_OUT])]
    rivals = [*chain(*families.values())]
    leaders = [name for name in rivals if board["verdict"].get(name) == "better"]
    found = {}
    for name in rivals:
        with pytest.MonkeyPatch.context() as patch:
            if name not in leaders:
                patch.setattr(effects, "bootstrap", partial(effects.bootstrap, draws=10_000))
            if effect := effects.effect(rest, name, base):
                found[name] = effect
    assert len(found) == 34
    (text,) = re.findall(r"^- \*\*Without the five data sets .*?(?=^- )", PAGE, re.MULTILINE | re.DOTALL)
    text = " ".join(text.split())
    said = re.findall(r"(\w+)(?: leads)?(?: by)? (\d\.\d\d)(?: points)? \((\S+) to (\S+)\)", text)
    assert {line[0].lower(): [*map(float, line[1:])] for line in said} == {
        name.replace("_", ""): pytest.approx(
            [found[name].mean, found[name].low, found[name].high], abs=0.0051
        )
        for name in leaders
    }
    assert all(found[name].low > 0 and found[name].sets == 7 for name in leaders)
    better = {name for name in found if found[name].verdict(margin) == "better"}
    assert better == {"fedadc", "nova_adagrad", "fedadagrad", "prox_adagrad", "fedavgm"}
    assert min(effects.corrected(found, families).values()) > 0.05
    least = {name: replace(effect, p=2 / 2**7) for name, effect in found.items()}
    assert f"below {effects.corrected(least, families)['fedadc']:.2f}".replace("0.", ".") in text
    orders = [effects.ahead(runs, base).mean()[plan.contenders] for runs in (kept, rest)]
    assert f"a tau of {stats.kendalltau(*orders).statistic:.2f}".replace("0.", ".") in text


@pytest.mark.parametrize(
    ("gain", "share", "verdicts"),
    [
        (0, 1, "undecided undecided"),
        (0.5, 1, "undecided undecided"),
        (1, 1, "better undecided"),
        (2, 1, "better better"),
        (-2, 1, "worse worse"),
        (2, 11 / 12, "better better"),
        (2, 1 / 4, "undecided undecided"),
        (6, 1 / 12, "undecided undecided"),
    ],
)
def test_a_gain_planted_on_kept_scores_is_found_where_it_matters(
    gain: float, share: float, verdicts: str
) -> None:
    """FedAvg with other trials and draws gains it against FedAvg, and FedAvg against it; .5 don't matter."""
    pair = scores().query("method in ['fedavg', 'twin']")
    sets = sorted(pair["dataset"].unique())
    for first in range(0, len(sets), 4) if share < 1 else [0]:
        where = pair["dataset"].isin((sets * 2)[first : first + round(share * len(sets))])
        for one, other, verdict in zip(("twin", "fedavg"), ("fedavg", "twin"), verdicts.split(), strict=True):
            planted = pair.assign(score=pair["score"] + gain * (where & (pair["method"] == one)))
            effect = effects.effect(planted, one, other)
            assert effect
            assert effect.verdict(plan_of("benchmark").benchmark.margin) == verdict
