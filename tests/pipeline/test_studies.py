"""A study is a paper that nobody has printed: one file becomes runs, tables, curves, costs, ranks, a page."""

from __future__ import annotations

import copy
import json
import os
import shutil
import sys
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from pretended import finish
from project import HOME, Project, parameters
from wording import one_line

from fedcore.base import core_yaml
from fedcore.base.errors import SpecError
from fedcore.base.registry import plugins
from fedcore.spec import parse
from pipeline.catalogue import Catalogue
from pipeline.catalogue.params import StudyError, overlay, with_studies
from pipeline.cli.cost import bill, text
from pipeline.cli.new import new_study
from pipeline.fidelity.package import COLUMNS
from pipeline.papers import build_catalogue, catalogue_of
from pipeline.reports import kept, style
from pipeline.reports.ranks import DEPENDENT, ranking
from pipeline.workflow.dvc import dvc_yaml
from pipeline.workflow.reports import ReportFiles, path_of

FILE = "studies/own.yaml"
STUDY: Mapping[str, Any] = {
    "title": "Does FedProx help?",
    "seeds": [0, 1],
    "regimes": {"silo": {"clients": 4, "training": {"rounds": 2, "batch_size": 10, "lr": 0.1}}},
    "datasets": {
        "mnist": {
            "data": {"name": "mnist", "edition": "demo"},
            "model": {"name": "mlp", "hidden": [8]},
            "splits": {"sim": {"name": "similarity", "similarity": 0.0}},
        }
    },
    "algorithms": {"fedavg": {}, "fedprox": {"grid": {"algorithm.mu": [0.01, 0.1]}}},
}


def made(changes: Mapping[str, Any] | None = None, **more: Any) -> Catalogue:
    study = overlay(STUDY, changes or {})
    return build_catalogue(overlay(parameters(), more) | {"studies": {FILE: study}})


def asked(catalogue: Catalogue, *keys: str) -> dict[tuple[str, str], Any]:
    """Return what the runs of each cell of the table are told under a key of their specification."""

    def value(spec: Any) -> Any:
        for key in keys:
            spec = spec.get(key)
        return spec

    return {cell: value(runs[0].spec) for cell, runs in catalogue.cells("own", "table").items()}


def test_what_repeats_a_paper_s_setting_has_the_same_runs() -> None:
    config = parameters()
    paper = build_catalogue({**config, "scale": "paper"})
    shared = {key: config["papers"]["rfedavg"][key] for key in ("regimes", "algorithms")}
    mnist = copy.deepcopy(config["papers"]["rfedavg"]["datasets"]["mnist"])
    shared["regimes"] = {"cross_silo": shared["regimes"]["cross_silo"]}
    shared["algorithms"] = {name: shared["algorithms"][name] for name in ("fedavg", "fedprox", "rfedavg")}
    for options in shared["algorithms"].values():
        options["per"] = {}
    mnist["splits"] = {"any": {**mnist["splits"]["sim0"], "similarity": 1.0}}
    study = {
        **shared,
        "title": "Table I again",
        "seeds": [0, 1, 2],
        "datasets": {"mnist": mnist},
        "common": config["common"],
        "grid": {"partition.similarity": [0.0, 0.1]},
    }
    again = build_catalogue({**config, "studies": {FILE: study}})
    for row in shared["algorithms"]:
        for column, known in (("any-similarity_0.0", "sim0"), ("any-similarity_0.1", "sim10")):
            mine = again.cells("own", "table")[row, f"mnist-{column}"]
            theirs = paper.cells("rfedavg", "table1")[row, f"mnist-{known}"]
            assert [(run.spec, run.code, run.seed) for run in mine] == [
                (run.spec, run.code, run.seed) for run in theirs
            ]
            assert [again.partitions[run.partition].spec for run in mine] == [
                paper.partitions[run.partition].spec for run in theirs
            ]
            assert mine[0].folder.startswith("results/own/study/cross_silo-mnist-any/")


def test_scale_and_common_values_of_the_papers_change_no_study() -> None:
    runs = [run for run in made().index if run.startswith("results/own/")]
    assert len(runs) == 3 * 2
    for changes in ({"scale": "paper"}, {"scale": "quick"}, {"common": {"dtype": "float64"}}):
        assert [run for run in made(**changes).index if run.startswith("results/own/")] == runs
    assert made().sources("own", "table").plan == made(scale="paper").sources("own", "table").plan
    titled = made({"title": "Another"})
    assert titled.sources("own", "table").plan != made().sources("own", "table").plan
    assert [run for run in titled.index if run.startswith("results/own/")] == runs


def test_reports_are_built_again_once_methods_change_places() -> None:
    swapped = {**STUDY, "algorithms": dict(reversed(STUDY["algorithms"].items()))}
    first, second = made(), build_catalogue(parameters() | {"studies": {FILE: swapped}})
    for name in ("table", "curves", "cost", "ranks"):
        assert first.sources("own", name).plan != second.sources("own", name).plan


def test_natural_clients_are_all_that_the_data_name_or_as_many_as_the_split_says() -> None:
    splits = {"all": {"name": "natural"}, "some": {"name": "natural", "clients": 3}}
    splits["grouped"] = {"name": "natural", "users": 9}
    catalogue = made({"datasets": {"mnist": {"splits": splits}}, "algorithms": {"fedprox": {"grid": {}}}})
    clients = asked(catalogue, "partition", "clients")
    assert {column: clients["fedavg", column] for _, column in clients} == {
        "mnist-all": None,
        "mnist-grouped": 4,
        "mnist-some": 3,
        "mnist-sim": 4,
    }


@pytest.mark.parametrize(
    ("changes", "keys", "expected"),
    [
        pytest.param(
            {},
            ("algorithm", "mu"),
            {"fedavg": None, "fedprox-mu_0.01": 0.01, "fedprox-mu_0.1": 0.1},
            id="of-a-method",
        ),
        pytest.param(
            {"grid": {"algorithm.mu": [1.0, 2.0], "training.lr": [0.3]}},
            ("algorithm", "mu"),
            {"fedavg-lr_0.3": None, "fedprox-mu_0.01-lr_0.3": 0.01, "fedprox-mu_0.1-lr_0.3": 0.1},
            id="the-method-s-own-values-win",
        ),
        pytest.param(
            {
                "algorithms": {"fedavg": {}, "fedprox": {}, "moon": {}},
                "grid": {"algorithm.mu": [1.0]},
            },
            ("algorithm", "mu"),
            {"fedavg": None, "fedprox-mu_1.0": 1.0, "moon-mu_1.0": 1.0},
            id="of-the-methods-that-have-the-key",
        ),
        pytest.param(
            {"variants": {"slow": {"training.lr": 0.01}, "long": {"training.local_steps": 7}}},
            ("training", "local_steps"),
            {
                f"{row}-{name}": steps
                for row in ("fedavg", "fedprox-mu_0.01", "fedprox-mu_0.1")
                for name, steps in (("slow", None), ("long", 7))
            },
            id="named-rows",
        ),
        pytest.param(
            {"algorithms": {"fedavg": {"grid": {"precision": ["fp32", "bf16"]}}, "fedprox": {}}},
            ("precision",),
            {"fedavg-precision_fp32": "fp32", "fedavg-precision_bf16": "bf16", "fedprox": "fp32"},
            id="a-method-s-own-precision",
        ),
    ],
)
def test_keys_of_methods_give_rows(
    changes: dict[str, Any], keys: tuple[str, ...], expected: dict[str, Any]
) -> None:
    catalogue = build_catalogue(parameters() | {"studies": {FILE: {**STUDY, **changes}}})
    assert asked(catalogue, *keys) == {(row, "mnist-sim"): value for row, value in expected.items()}


def test_a_variant_may_name_its_model_before_or_after_the_model_s_keys() -> None:
    values = {"model.name": "mlp", "model.hidden": [7, 7]}
    linear = {"mnist": {"model": {"name": "linear"}}}
    for keys in (values, reversed(values)):
        catalogue = made({"datasets": linear, "variants": {"other": {key: values[key] for key in keys}}})
        assert {tuple(hidden) for hidden in asked(catalogue, "model", "hidden").values()} == {(7, 7)}


def test_models_on_one_data_set_count_as_no_data_sets_of_a_test(tmp_path: Path) -> None:
    five = {f"m{width}": {"model": {"name": "mlp", "hidden": [width]}} for width in range(1, 6)}
    datasets = {name: {**STUDY["datasets"]["mnist"], **model} for name, model in five.items()}
    catalogue = build_catalogue(parameters() | {"studies": {FILE: {**STUDY, "datasets": datasets}}})
    for (row, _), runs in catalogue.cells("own", "table").items():
        for run in runs:
            finish(run, tmp_path, 0.8 + 0.05 * row.startswith("fedprox"))
    outputs = catalogue.target("own", "ranks").paths(tmp_path, "ranks")
    catalogue.sources("own", "ranks", tmp_path).build(outputs)
    text = outputs["tex"].read_text()
    assert "1 data set with all runs of all methods, fewer than five" in text


def test_keys_of_data_give_columns_and_a_regime_is_named_where_there_are_several() -> None:
    catalogue = made(
        {
            "regimes": {"device": {"clients": 8, "training": {"rounds": 1, "batch_size": 5, "lr": 0.1}}},
            "grid": {"partition.similarity": [0.0, 0.5], "participation.fraction": [0.5]},
            "variants": {"wide": {"model.hidden": [16, 8]}, "flat": {"model.name": "linear"}},
        }
    )
    columns = {column for _, column in catalogue.cells("own", "table")}
    assert columns == {
        f"{regime}-mnist-sim-similarity_{share}-fraction_0.5-{model}"
        for regime in ("silo", "device")
        for share in ("0.0", "0.5")
        for model in ("wide", "flat")
    }
    runs = catalogue.cells("own", "table")["fedavg", "device-mnist-sim-similarity_0.5-fraction_0.5-flat"]
    assert {run.setting for run in runs} == {"device-mnist-sim"}
    spec = runs[0].spec
    assert spec["model"]["name"] == "linear"
    assert (spec["partition"]["similarity"], spec["partition"]["clients"]) == (0.5, 8)
    assert spec["participation"]["fraction"] == 0.5
    wide = catalogue.cells("own", "table")["fedavg", "device-mnist-sim-similarity_0.5-fraction_0.5-wide"]
    assert wide[0].spec["model"]["hidden"] == [16, 8]
    assert wide[0].partition == runs[0].partition


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"titel": "x"}, f"{FILE}: titel: unknown key (did you mean 'title'?)"),
        ({"seeds": []}, f"{FILE}: seeds: got [], expected 1 or more values"),
        ({"grid": {"partition.alfa": [1]}}, f"{FILE}: grid.partition.alfa: no such key; known: "),
        (
            {"grid": {"algorithm.nu": [1]}},
            f"{FILE}: grid.algorithm.nu: no such key; known: averaging, chained, ",
        ),
        ({"grid": {"evaluation.every": [1]}}, f"{FILE}: grid.evaluation.every: expected a key of a specif"),
        (
            {"grid": {"data.name": ["cifar10"]}},
            f"{FILE}: grid.data.name: another data is an entry of its own",
        ),
        (
            {"grid": {"partition.similarity": [4.0]}},
            f"{FILE}: partition.similarity: got 4.0, expected a number less than or equal to 1 (in grid, ",
        ),
        ({"grid": {"training.lr": []}}, f"{FILE}: grid.training.lr: got [], expected 1 or more values"),
        (
            {"variants": {"both": {"training.lr": 1.0, "partition.similarity": 0.0}}},
            f"{FILE}: variants.both: got training.lr, partition.similarity, expected keys of rows",
        ),
        ({"variants": {"none": {}}}, f"{FILE}: variants.none: got no key, expected keys of rows"),
        (
            {"algorithms": {"fedprox": {"grid": {"partition.similarity": [0.0]}}}},
            f"{FILE}: algorithms.fedprox.grid.partition.similarity: expected a key of a specification in "
            "algorithm, training, dtype, precision",
        ),
        (
            {"variants": {"x": {"training.lr_schedule": {"name": "constant"}}}},
            f"{FILE}: training.lr_schedule: got {{'name': 'constant'}}, expected a value",
        ),
        (
            {"algorithms": {"moon": {"mu": 0.1, "per": {"mnist": {"mu": -1.0}}}}},
            f"{FILE}: algorithms.moon.per.mnist.mu: got -1.0, expected a number greater than or equal",
        ),
        ({"algorithms": {"fedporx": {}}}, f"{FILE}: algorithms.fedporx.name: no algorithm named 'fedporx'"),
        (
            {"datasets": {"mnist": {"model": {"name": "mpl"}}}},
            f"{FILE}: datasets.mnist.model.name: no model named 'mpl'",
        ),
        ({"report": {"metric": "acc"}}, f"{FILE}: report.metric: got 'acc', expected 'accuracy'"),
        (
            {"tune": {"trials": 1, "over": {"training.lr": [0.1, 0.2]}}},
            f"{FILE}: tune.trials: got 1, expected 2 or more with 'how: grid' over training.lr",
        ),
        (
            {"tune": {"trials": 5, "how": "random"}},
            f"{FILE}: tune: given, but there are no values to try",
        ),
        (
            {"grid": {"partition.similarity": [0.1, "0.1"]}},
            f"{FILE}: grid: got two combinations called 'mnist-sim-similarity_0.1', expected values",
        ),
        (
            {"grid": {"training.lr": [0.1, "0.1"]}},
            f"{FILE}: grid: got two combinations called 'fedavg-lr_0.1', expected values that differ",
        ),
        ({"title": ""}, f"{FILE}: title: got '', expected"),
        ({"seeds": [0, 1, 0]}, f"{FILE}: seeds: got [0, 1, 0], expected each seed once"),
        ({"report": {"show": []}}, f"{FILE}: report.show: got [], expected 1 or more values"),
        (
            {"report": {"labels": {"mnst": "MNIST"}}},
            f"{FILE}: report.labels: got 'mnst', which is not defined (did you mean 'mnist'?)",
        ),
        (
            {"report": {"labels": {"mnist": "$n_1$"}}},
            f"{FILE}: report.labels.mnist: got '$n_1$', expected text of the form ^[^$]*$",
        ),
        ({"report": {"target": 80}}, f"{FILE}: report: target: got 80, expected a share of 1 at most"),
        (
            {"report": {"controls": {"twin": {}}}},
            f"{FILE}: report.controls: given, but the study is no benchmark",
        ),
        (
            {"datasets": {"mnist": {"tune": {"training.lr": [0.1, 0.5]}}}},
            f"{FILE}: datasets.mnist.tune: given, but the study is no benchmark",
        ),
        (
            {"tune": {"held_out": "selection", "over": {"training.lr": [0.1, 0.5]}}},
            f"{FILE}: datasets.mnist.splits.sim.selection: missing, but tune.held_out is 'selection'",
        ),
        (
            {"chosen": [{"at": "mnist-sorted", "values": {}, "source": "x"}]},
            f"{FILE}: chosen.0.at: got 'mnist-sorted', which is not defined",
        ),
        (
            {"chosen": [{"at": "mnist-sim", "of": "fedporx", "values": {}, "source": "x"}]},
            f"{FILE}: chosen.0.of: got 'fedporx', which is not defined",
        ),
        (
            {"chosen": [{"at": "mnist-sim", "values": {"training": 5}, "source": "x"}]},
            f"{FILE}: training: got 5, expected keys and values",
        ),
        (
            {"chosen": [{"at": "mnist-sim", "values": {"evaluation": 4}, "source": "x"}], "measurements": 3},
            f"{FILE}: evaluation: got 4, expected keys and values",
        ),
        (
            {"grid": {"participation.fraction": [None]}, "algorithms": {"fedavg": {"once": True}}},
            f"{FILE}: participation.fraction: got None, expected a number",
        ),
        (
            {"grid": {"training.rounds": [0]}, "algorithms": {"fedavg": {"once": True}}},
            f"{FILE}: training.rounds: got 0, expected a number greater than 0",
        ),
        (
            {"grid": {"participation.fraction": [0]}, "algorithms": {"fedavg": {"once": True}}},
            f"{FILE}: participation.fraction: got 0, expected a number greater than 0",
        ),
        (
            {"algorithms": {"fedprox": {"grid": {"algorithm.mu": [[[3, 4]]]}}}},
            f"{FILE}: algorithm.mu: got ((3, 4),), expected a number",
        ),
        (
            {"grid": {"training.rounds": ["3"]}, "measurements": 2},
            f"{FILE}: training.rounds: got '3', expected a number",
        ),
        (
            {"grid": {"training.lr": [0.1]}, "variants": {"slow": {"training.lr": 0.01}}},
            f"{FILE}: 'training.lr' is in grid and in variants, expected one of them",
        ),
        (
            {"grid": {"training.local_steps": [1, 2]}, "variants": {"one": {"training.local_epochs": 1}}},
            f"{FILE}: 'training.local_steps' is in grid and in variants, expected one of them",
        ),
    ],
)
def test_a_wrong_study_is_one_line_with_file_and_key(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(SpecError) as error:
        _ = made(changes).index
    assert str(error.value).startswith(expected), str(error.value)
    one_line(error.value)


def test_two_methods_of_one_plug_in_have_names_of_their_own() -> None:
    methods = {"weak": {"name": "fedprox", "mu": 0.01}, "strong": {"name": "fedprox"}}
    catalogue = made({"algorithms": methods, "report": {"labels": {"strong": "Strong"}}})
    labels, _ = style.labels(catalogue.sources("own", "table"))
    assert [labels[row] for row in ("fedavg", "weak", "strong")] == ["FedAvg", "weak", "Strong"]


def test_studies_are_read_from_their_folder_and_from_files_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "one.yaml").write_text(yaml.safe_dump(dict(STUDY)))
    (tmp_path / "two.yaml").write_text(yaml.safe_dump(dict(STUDY)))
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(parameters()))
    assert list(catalogue_of(tmp_path / "params.yaml").papers) == ["rfedavg", "one"]
    catalogue = catalogue_of(tmp_path / "params.yaml", studies=[tmp_path / "two.yaml"])
    assert list(catalogue.papers) == ["rfedavg", "one", "two"]
    assert path_of(catalogue, str(tmp_path / "two.yaml")) == path_of(catalogue, "two") == "reports/two"
    assert path_of(catalogue, "studies/one") == path_of(catalogue, "studies/one.yaml") == "reports/one"
    assert path_of(catalogue, "one/cost.tex") == "reports/one/cost.tex"
    once = with_studies({"studies": str(tmp_path / "studies" / "one.yaml")}, tmp_path)["studies"]
    assert len(once) == 1
    assert with_studies({"studies": once}, tmp_path)["studies"] == once
    assert not any("/one/" in path for path in ReportFiles(catalogue).numbers())
    assert "reports/one/table.csv" in ReportFiles(catalogue).all()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rfedavg", "a paper has this name"),
        ("site", "got 'site', expected a name"),
        ("evaluation", "got 'evaluation', expected a name"),
        ("results", "got 'results', expected a name"),
        ("My", "got 'My', expected a name"),
    ],
)
def test_a_name_that_is_taken_is_refused(name: str, expected: str) -> None:
    with pytest.raises(SpecError, match=rf"^studies/{name}.yaml: {expected}"):
        build_catalogue(parameters() | {"studies": {f"studies/{name}.yaml": dict(STUDY)}})


def test_two_files_of_one_name_and_a_file_that_is_no_yaml_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"^b/own.yaml: a/own.yaml has this name, expected another"):
        build_catalogue(parameters() | {"studies": {"a/own.yaml": STUDY, "b/own.yaml": STUDY}})
    (tmp_path / "bad.yaml").write_text("title: [\n")
    with pytest.raises(StudyError, match=r"bad.yaml: line 2: not valid YAML"):
        with_studies({"studies": str(tmp_path / "bad.yaml")}, tmp_path)


FORMS = ("csv", "md", "html", "tex", "standalone")


def costs(catalogue: Catalogue, root: Path) -> dict[tuple[str, str], dict[str, Any]]:
    outputs = {form: root / f"cost.{form}" for form in FORMS}
    catalogue.sources("own", "cost", root).build(outputs)
    lines: Any = pd.read_csv(outputs["csv"]).to_dict("records")
    return {(line["row"], line["column"]): line for line in lines}


def pretend(catalogue: Catalogue, root: Path, unit: float = 1e6) -> None:
    """FedAvg ends with .8 and .6 in its second round; one FedProx has .7 in its first, the other diverges."""
    sent = {"bytes_down": [0.0, 3 * unit, 5 * unit], "bytes_up": [0.0, unit, unit]}
    for (row, _), runs in catalogue.cells("own", "table").items():
        for run in runs:
            ends = {"fedavg": (0.8, 0.6)[run.seed], "fedprox-mu_0.01": 0.7, "fedprox-mu_0.1": None}[row]
            early = {"test_accuracy": [0.1, 0.7, 0.7]} if row == "fedprox-mu_0.01" else {}
            finish(run, root, ends, **{**sent, **early})


def test_the_cost_counts_rounds_and_bytes_until_fedavg_s_last_accuracy_at_the_same_seed(
    tmp_path: Path,
) -> None:
    catalogue = made()
    pretend(catalogue, tmp_path)
    lines = costs(catalogue, tmp_path)
    rounds, traffic = "rounds-mnist-sim", "traffic-mnist-sim"
    assert [lines["fedavg", rounds][key] for key in ("mean", "n", "level")] == [2, 2, 0.7]
    assert lines["fedavg", traffic]["mean"] == 3 + 1 + 5 + 1
    # FedProx never has the .8 of seed 0; it has the .6 of seed 1 in round 1, after 3 + 1 MB.
    once = lines["fedprox-mu_0.01", rounds]
    assert [once[key] for key in ("mean", "n", "seeds", "diverged")] == [1, 1, 2, 0]
    assert once["failed"] == "1 not reached"
    assert lines["fedprox-mu_0.01", traffic]["mean"] == 4
    assert [lines["fedprox-mu_0.1", rounds][key] for key in ("n", "diverged")] == [0, 2]
    page = (tmp_path / "cost.md").read_text()
    assert "To be reached: mnist sim 70.00%." in page
    assert "not reached in 2 cells" in page


def test_megabytes_have_two_digits_or_more(tmp_path: Path) -> None:
    catalogue = made()
    for unit, printed in ((1e6, "10.00"), (1e3, "0.0100")):
        pretend(catalogue, tmp_path, unit)
        costs(catalogue, tmp_path)
        assert f"{printed} ±" in (tmp_path / "cost.md").read_text().replace("**", "")


def test_costs_of_kept_runs_without_histories_are_not_measured(tmp_path: Path) -> None:
    catalogue = made()
    line: Any = {"status": "completed", "rounds": 2, "test_accuracy": 0.7, "data_state": "synthetic"}
    line |= {"data_sha256": "d", "partition_sha256": "p"}
    runs = [{"run": run.folder, "spec_sha256": run.spec_sha256} for run in catalogue.needed("own", "cost")]
    kept.add_runs(pd.DataFrame(runs).assign(**line), tmp_path / kept.REFERENCE / "own" / kept.RUNS)
    assert {line["n"] for line in costs(catalogue, tmp_path).values()} == {0}
    assert "To be reached: mnist sim 70.00%." in (tmp_path / "cost.md").read_text()


def test_a_level_of_loss_has_the_digits_of_its_table(tmp_path: Path) -> None:
    catalogue = made({"report": {"metric": "loss", "target": 0.7803}})
    for run in catalogue.needed("own", "cost"):
        finish(run, tmp_path, 0.5, test_loss=[2.0, 1.0, 0.5], bytes_down=[0, 0, 0], bytes_up=[0, 0, 0])
    costs(catalogue, tmp_path)
    assert "To be reached: mnist sim 0.7803." in (tmp_path / "cost.md").read_text()


def test_metrics_have_their_capitals_in_captions() -> None:
    targets = made({"report": {"metric": "f1"}}).papers["own"].targets
    assert targets["curves"].title == "Test F1 over rounds"
    assert targets["table"].title == "Does FedProx help? Test F1"


def test_a_target_that_no_run_reaches_says_so(tmp_path: Path) -> None:
    catalogue = made({"report": {"target": 0.75}})
    pretend(catalogue, tmp_path)
    counts = {row: line["n"] for (row, _), line in costs(catalogue, tmp_path).items()}
    assert counts == {"fedavg": 1, "fedprox-mu_0.01": 0, "fedprox-mu_0.1": 0}
    lines = [line for line in (tmp_path / "cost.md").read_text().splitlines() if "mu = 0.01" in line]
    assert lines == ["| FedProx, mu = 0.01 | not reached | not reached |"]


def test_runs_of_an_earlier_sitting_that_missed_the_target_are_not_called_diverged(tmp_path: Path) -> None:
    catalogue = made({"report": {"target": 0.75}})
    pretend(catalogue, tmp_path)
    first = costs(catalogue, tmp_path)
    earlier, outputs = tmp_path / "cost.csv", {form: tmp_path / f"again.{form}" for form in FORMS}
    for run in catalogue.cells("own", "table")["fedprox-mu_0.01", "mnist-sim"]:
        shutil.rmtree(tmp_path / run.folder)
    catalogue.sources("own", "cost", tmp_path, earlier).build(outputs)
    again = pd.read_csv(outputs["csv"]).set_index(["row", "column"])
    for cell, line in first.items():
        assert [again.loc[cell, key] for key in ("n", "diverged")] == [line["n"], line["diverged"]], cell
        assert str(again.loc[cell, "failed"]) == str(line["failed"])


def test_settings_of_one_data_set_count_as_no_data_sets_of_a_test() -> None:
    scores = pd.DataFrame({f"d{k}": [3.0, 2.0, 1.0 + (k == 0) * 1.5] for k in range(5)}, index=list("abc"))
    datasets = {str(name): str(name) for name in scores}
    tested = ranking(scores, dataset=datasets)
    # q(.05; 3, inf) = 3.3145 (studentised range): CD = 3.3145 / sqrt(2) sqrt(3 * 4 / (6 * 5)).
    assert tested.difference == pytest.approx(3.3145 / 2**0.5 * (12 / 30) ** 0.5, abs=1e-4)
    assert tested.means.to_dict() == {"a": 1.0, "b": 2.2, "c": 2.8}
    few = ranking(scores, dataset={**datasets, "d4": "d3"})
    assert few.why == "4 data sets with all runs of all methods, fewer than five"
    more = ranking(scores.assign(e=scores["d4"]), dataset={**datasets, "e": "d4"})
    assert more.why == DEPENDENT


def test_dvc_has_a_stage_for_each_study(tmp_path: Path) -> None:
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "one.yaml").write_text(yaml.safe_dump(dict(STUDY)))
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(parameters()))
    stages = yaml.safe_load(dvc_yaml(tmp_path / "params.yaml"))["stages"]
    assert stages["one"]["cmd"] == "snakemake reports/one"
    assert stages["one"]["params"] == ["layout"]
    assert stages["one"]["deps"][-1].endswith("studies/one.yaml")
    assert stages["one"]["deps"][-2] == "reports/reference"
    assert {"reports/one", "README.md", "data/editions.yaml"} <= {*stages["site"]["deps"]}


def test_a_stage_of_dvc_depends_on_the_user_s_own_files_and_plug_ins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "project"
    for folder in ("studies", "rows", "plugins/algorithms", "../elsewhere/algorithms"):
        (root / folder).mkdir(parents=True)
    data = {"name": "folder", "path": "rows", "test": "missing"}
    study = overlay(STUDY, {"datasets": {"mnist": {"data": data}}})
    (root / "studies" / "one.yaml").write_text(yaml.safe_dump(study))
    (root / "params.yaml").write_text(yaml.safe_dump(parameters()))
    monkeypatch.setenv("FEDCORE_PLUGINS", f"{root / 'plugins'}{os.pathsep}{tmp_path / 'elsewhere'}")
    stages = yaml.safe_load(dvc_yaml(root / "params.yaml"))["stages"]
    assert stages["one"]["deps"][-2:] == ["rows", "plugins"]
    assert stages["rfedavg"]["deps"][-1] == "plugins"
    assert stages["rfedavg"]["deps"][-2] == "data/fetched"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    copied = Project.copy(tmp_path_factory.mktemp("project"))
    (copied.folder / "studies").mkdir()
    text_like_a_number = {"report": {"labels": {"sim": "1e-3"}}}
    (copied.folder / FILE).write_text(core_yaml.to_yaml(overlay(dict(STUDY), text_like_a_number)))
    copied.make("reports/own")
    return copied


def test_a_study_is_built_by_its_name_from_its_runs_alone(project: Project) -> None:
    runs = project.executed()
    assert len(runs) == 3 * 2
    assert all(run.startswith("results/own/study/silo-mnist-sim/") for run in runs)
    names = {path.name for path in (project.folder / "reports" / "own").iterdir()}
    assert {"table.tex", "curves.svg", "ranks.png", "cost.html", "partitions.pdf", "metrics.json"} <= names
    page = (project.folder / "reports" / "own" / "table.md").read_text()
    assert page.startswith("Does FedProx help? Test accuracy (%), after the last round.")
    assert "Table of studies/own.yaml." in page
    assert "scale" not in page.lower()
    assert "| FedProx, mu = 0.01 |" in page
    explained = {*chain(*core_yaml.read(COLUMNS, "columns").values())}
    assert "1e-3" in page
    for name in ("table", "cost", "curves", "ranks", "partitions"):
        text = (project.folder / "reports" / "own" / f"{name}.csv").read_text()
        assert {*text.partition("\n")[0].split(",")} <= explained
    assert project.jobs("reports/own", "--config", "scale=quick") == {}


def test_its_page_stands_beside_the_papers(project: Project) -> None:
    project.run(sys.executable, "-m", "pipeline", "site")
    site = project.folder / "reports" / "site"
    assert 'href="own.html"' in (site / "own" / "index.html").read_text()
    page = (site / "own" / "own.html").read_text()
    assert "Demo scale" not in page
    assert "FedProx, mu = 0.01" in page
    assert page.count("partly") == 0


@pytest.mark.slow
def test_a_value_that_is_added_trains_its_runs_alone_and_a_file_elsewhere_builds(project: Project) -> None:
    wider = overlay(STUDY, {"algorithms": {"fedprox": {"grid": {"algorithm.mu": [0.01, 0.1, 1.0]}}}})
    (project.folder / FILE).write_text(yaml.safe_dump(wider))
    jobs = project.jobs("reports/own/table.csv")
    assert jobs == {"train_study": 2, "table": 1}
    (project.folder / FILE).write_text(yaml.safe_dump(dict(STUDY)))
    (project.folder / "elsewhere.yaml").write_text(yaml.safe_dump({**STUDY, "seeds": [3]}))
    planned = project.run(sys.executable, "-m", "pipeline", "build", "elsewhere.yaml", "--dry-run")
    assert "--config 'studies=[\"elsewhere.yaml\"]' -- reports/elsewhere" in planned
    assert "train_study" in planned
    cell = ("elsewhere/table", "--row", "fedavg", "--column", "mnist-sim", "--study", "elsewhere.yaml")
    explained = project.run(sys.executable, "-m", "pipeline", "explain", *cell)
    assert "results/elsewhere/study/silo-mnist-sim/" in explained
    (project.folder / FILE).write_text(yaml.safe_dump({**STUDY, "title": 1}))
    failed = project.snakemake("reports/own/table.csv")
    assert failed.returncode
    assert "studies/own.yaml: title: got 1, expected text" in failed.stderr.splitlines()
    (project.folder / FILE).write_text(yaml.safe_dump(dict(STUDY)))


def test_the_example_of_a_parameter_study_is_planned_for_a_cluster(project: Project) -> None:
    example = str(HOME / "examples" / "slurm_study.yaml")
    options = ("--profile", "profiles/slurm", "--config", f"studies={example}")
    jobs = project.jobs("reports/slurm_study", *options)
    assert {name: jobs[name] for name in ("train_study", "partition", "table")} == {
        "train_study": 4 * 3 * 3,
        "partition": 3,
        "table": 2,
    }


@pytest.mark.slow
def test_runs_on_a_user_s_file_follow_its_content(project: Project) -> None:
    """Their names don't: the file's name is in the specification, its rows are not."""
    rows = [f"{i % 7},{i % 5},{i % 2}" for i in range(60)]
    table = project.folder / "mine.csv"
    table.write_text("\n".join(["a,b,y", *rows]))
    mine = {**STUDY["datasets"]["mnist"], "data": {"name": "table", "path": "mine.csv", "target": "y"}}
    short = {"datasets": {"mine": mine}, "algorithms": {"fedavg": {}}, "seeds": [0]}
    (project.folder / "studies/mine.yaml").write_text(yaml.safe_dump({**STUDY, **short}))
    project.make("reports/mine/table.csv")
    assert project.jobs("reports/mine/table.csv") == {}
    table.write_text("\n".join(["a,b,y", *reversed(rows)]))
    command = str(Path(sys.executable).with_name("fedcore"))
    assert "made by other code or data files (" in project.call(command, "verify", "results/mine").stdout
    assert project.jobs("reports/mine/table.csv") == {"partition": 1, "train_study": 1, "table": 1}


def test_new_studies_are_valid_and_say_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(HOME / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    data = "mnist,cifar10,femnist,shakespeare,covertype,usps"
    new_study(
        "first", data, "fedavg,moon,scaffold,fedadam", "dirichlet:0.1,iid,shards:2,power_law", 3, 5, 7, "demo"
    )
    catalogue = catalogue_of(Path("params.yaml"))
    runs = catalogue.needed("first", "table")
    assert len(runs) == 4 * 6 * 4 * 3
    assert {run.spec["model"]["name"] for run in runs} == {"cnn", "lstm", "mlp"}
    assert {run.spec["data"]["edition"] for run in runs} == {"demo"}
    small = {run.spec["model"]["hidden"] for run in runs if run.spec["model"]["name"] != "mlp"}
    assert small == {64}, "demo data have small networks"
    assert text(bill(catalogue, "first/table", root=tmp_path))[0].startswith(
        "first/table: 288 runs to make, 0 al"
    )
    assert {run.spec["training"]["rounds"] for run in runs} == {7}
    (alpha,) = {
        run.spec["partition"]["alpha"] for run in runs if run.spec["partition"]["name"] == "dirichlet"
    }
    assert alpha == 0.1
    for arguments, message in (
        (("first", "mnist", "fedavg", "iid"), "studies/first.yaml: is there already"),
        (("other", "mnst", "fedavg", "iid"), "--data: no data named 'mnst' (did you mean 'mnist'?)"),
        (
            ("other", "mnist", "fedvag", "iid"),
            "--methods: no algorithm named 'fedvag' (did you mean 'fedavg'?)",
        ),
        (("other", "mnist", "fedavg", "dirichlte:1"), "--partition: no partition named 'dirichlte'"),
        (
            ("other", "mnist", "fedavg", "dirichlet:0.1,dirichlet:0_1"),
            "--partition: got 'dirichlet:0.1,diric",
        ),
        (("other", "mnist", "fedavg", "iid:1"), "--partition: got 'iid:1', expected iid without a value"),
        (("Other", "mnist", "fedavg", "iid"), "NAME: got 'Other', expected a name of the form"),
        (("../other", "mnist", "fedavg", "iid"), "NAME: got '../other', expected a name of the form"),
        (("other", "mnist", ",", "iid"), "--methods: got ',', expected a name or more"),
        (
            ("other", "mnist", "fedavg", "similarity:2"),
            "studies/other.yaml: datasets.mnist.splits.similarity_2.",
        ),
    ):
        with pytest.raises(SpecError) as error:
            new_study(*arguments, 5, 10, 20, "demo")
        assert str(error.value).startswith(message), str(error.value)
    assert [path.name for path in Path("studies").iterdir()] == ["first.yaml"]


def test_a_new_study_takes_its_settings_from_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(HOME / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    run = {
        "data": {"name": "table", "path": "a.csv", "target": "y", "client": "c"},
        "partition": {"name": "natural", "min_rows": 3},
        "model": {"name": "mlp", "hidden": [4, 2]},
        "algorithm": {"name": "fedprox", "mu": 0.25},
        "training": {"rounds": 3, "local_steps": 2, "batch_size": "full", "lr": 0.3, "momentum": 0.5},
        "participation": {"fraction": 0.5},
        "dtype": "float64",
    }
    Path("run.yaml").write_text(yaml.safe_dump(run))
    new_study("own", methods="fedprox,fedavg", seeds=2, like=Path("run.yaml"))
    fedprox, _, fedavg, _ = catalogue_of(Path("params.yaml")).needed("own", "table")
    expected = parse({**run, "evaluation": {"train_every": 0}}).resolved()
    assert fedprox.spec == expected
    assert fedavg.spec == parse({**expected, "algorithm": {"name": "fedavg"}}).resolved()
    with pytest.raises(SpecError, match=r"^--data: 'table' needs path, target; use .* --like RUN\.yaml"):
        new_study("other", "table")


def test_the_example_has_three_methods_and_five_seeds() -> None:
    catalogue = catalogue_of(HOME / "params.yaml")
    params = catalogue.params.papers["label_skew"]
    assert len(params.seeds) == 5
    assert {*params.algorithms} == {"fedavg", "fedprox", "scaffold"} <= {*plugins("algorithm")}


@pytest.mark.slow
def test_a_new_study_trains_and_reports_for_real(tmp_path: Path) -> None:
    copied = Project.copy(tmp_path)
    shutil.rmtree(copied.folder / "bin")
    os.symlink(HOME / "data", copied.folder / "data")
    options = (
        "--data",
        "usps",
        "--edition",
        "demo",
        "--methods",
        "fedavg,fedprox",
        "--seeds",
        "2",
        "--rounds",
        "3",
    )
    copied.run("fedcore", "study", "new", "tiny", *options)
    output = copied.run("fedcore", "build", "tiny", "--cores", "2")
    assert "reports/tiny/table.csv" in output
    means = json.loads((copied.folder / "reports" / "tiny" / "metrics.json").read_text())["table"]
    assert all(30 < row["usps-dirichlet_0_1"] < 100 for row in means.values())
    assert len(means) == 2
    cost = pd.read_csv(copied.folder / "reports" / "tiny" / "cost.csv")
    assert (cost[cost["row"] == "fedavg"]["n"] == 2).all()
    holds = pd.read_csv(copied.folder / "reports" / "tiny" / "partitions.csv")
    assert holds["client"].nunique() == 10
    assert "Data: usps: " in (copied.folder / "reports" / "tiny" / "table.md").read_text()


def test_a_diverged_run_counts_as_the_untrained_model_where_that_is_asked(tmp_path: Path) -> None:
    for counted, mean, n in (("left_out", 80.0, 1), ("untrained", 45.0, 2)):
        catalogue = made({"report": {"diverged": counted}})
        root = tmp_path / counted
        for (row, _), runs in catalogue.cells("own", "table").items():
            for run in runs:
                finish(run, root, None if run.seed and row == "fedavg" else 0.8)
        outputs = catalogue.target("own", "table").paths(tmp_path, counted)
        catalogue.sources("own", "table", root).build(outputs)
        frame = pd.read_csv(outputs["csv"]).set_index("row")
        assert [frame.loc["fedavg", key] for key in ("mean", "n", "diverged")] == [mean, n, 1]
        assert [frame.loc["fedprox-mu_0.1", key] for key in ("mean", "n", "diverged")] == [80.0, 2, 0]
        caption = outputs["md"].read_text()
        assert ("count as the untrained model: FedAvg" in caption) == (counted == "untrained")


def test_a_margin_names_the_methods_that_are_surely_no_further_from_fedavg(tmp_path: Path) -> None:
    """At mu .01 the seeds differ by .1 and .2 points: t = 15.65 at the margin, twice 9.6e-6 after Holm."""
    scores = {"fedavg": [80.0, 80.0], "fedprox-mu_0.01": [80.1, 80.2], "fedprox-mu_0.1": [80.2, 80.6]}
    for margin, named in ((0.5, "FedProx, mu = 0.01 on mnist sim (+0.15, p = 1.9e-05)"), (0.05, "none")):
        catalogue = made({"seeds": [0, 1, 2, 3, 4, 5], "report": {"margin": margin}})
        root = tmp_path / f"{margin}"
        for (row, _), runs in catalogue.cells("own", "table").items():
            for run in runs:
                finish(run, root, scores[row][run.seed % 2] / 100)
        outputs = catalogue.target("own", "table").paths(tmp_path, f"{margin}")
        catalogue.sources("own", "table", root).build(outputs)
        assert (
            f"Less than {margin} points from FedAvg (two one-sided paired t-tests, p below 0.05 after Holm's "
            f"correction over the methods of a column): {named}."
        ) in outputs["md"].read_text()


def test_a_difference_of_losses_has_the_digits_of_its_table(tmp_path: Path) -> None:
    catalogue = made({"seeds": [*range(6)], "report": {"metric": "loss", "margin": 0.1}})
    for run in catalogue.needed("own", "table"):
        finish(run, tmp_path, 0.5)
    table = catalogue.target("own", "table").paths(tmp_path, "table")
    catalogue.sources("own", "table", tmp_path).build(table)
    assert "mnist sim (+0.0000, p = 0)" in table["md"].read_text()


def test_a_margin_of_few_seeds_is_said_not_to_be_tested(tmp_path: Path) -> None:
    catalogue = made({"report": {"margin": 0.5}})
    for runs in catalogue.cells("own", "table").values():
        for run in runs:
            finish(run, tmp_path, 0.8)
    outputs = catalogue.target("own", "table").paths(tmp_path, "table")
    catalogue.sources("own", "table", tmp_path).build(outputs)
    assert "methods of a column): not tested: fewer than five pairs of runs." in outputs["md"].read_text()


def test_candidates_may_be_scored_on_selection_rows() -> None:
    tuned = {"tune": {"held_out": "selection", "over": {"training.lr": [0.1, 1.0]}}}
    split = {"datasets": {"mnist": {"splits": {"sim": {"selection": 0.1}}}}}
    catalogue = made({**tuned, **split})
    for run in catalogue.needed("own", "tune_fedavg"):
        assert run.spec["evaluation"]["tested_on"] == "selection"
        assert run.spec["partition"]["validation"] == 0.0
    for run in catalogue.needed("own", "table"):
        assert "tested_on" not in run.spec["evaluation"]
        assert run.spec["partition"]["selection"] == 0.1


def test_tried_rounds_are_as_many_trainings_for_all() -> None:
    radfed = {"radfed": {"redistributions": 2}}
    study = {"equal_trainings": True, "grid": {"training.rounds": [4, 8]}, "algorithms": radfed}
    rounds = asked(made(study), "training", "rounds")
    column = next(column for _, column in rounds)
    assert {row: number for (row, at), number in rounds.items() if at == column and "fedprox" not in row} == {
        "fedavg-rounds_4": 4,
        "fedavg-rounds_8": 8,
        "radfed-rounds_4": 2,
        "radfed-rounds_8": 4,
    }


def test_one_round_is_as_long_as_all_for_each_client() -> None:
    steps = {"local_steps": [1, 2, 3, 4], "local_epochs": None}
    catalogue = made({"regimes": {"silo": {"training": steps}}, "algorithms": {"fedavg": {"once": True}}})
    once = next(run for run in catalogue.needed("own", "table") if run.algorithm == "fedavg")
    rounds = next(run for run in catalogue.needed("own", "table") if run.algorithm != "fedavg")
    times = rounds.spec["training"]["rounds"] * rounds.spec["participation"]["fraction"]
    assert once.spec["training"]["local_steps"] == [round(n * times) for n in (1, 2, 3, 4)]


def test_a_table_that_no_run_reached_does_not_say_that_none_is_finished(tmp_path: Path) -> None:
    catalogue = made({"report": {"target": 1.0}})
    pretend(catalogue, tmp_path)
    costs(catalogue, tmp_path)
    assert "No run is finished" not in (tmp_path / "cost.md").read_text()
