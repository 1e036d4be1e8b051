"""Results in a Python session: frames, pictures, tables for notebooks, folders read back, comparisons."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes

import fedcore
from fedcore.base.errors import DataError, SpecError
from fedcore.execution.compare import Comparison

SPEC: dict[str, Any] = {
    "data": {"name": "synthetic", "clients": 5},
    "partition": {"name": "natural"},
    "model": {"name": "logistic"},
    "training": {"rounds": 3, "batch_size": 10, "lr": 0.05},
    "evaluation": {"clients": True},
}
METHODS = ({"name": "fedavg"}, {"name": "fedprox", "mu": 0.1}, {"name": "fedprox", "mu": 1.0})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of six runs: three methods with two seeds each."""
    folder = tmp_path_factory.mktemp("runs")
    for number, method in enumerate(METHODS):
        for seed in (0, 1):
            settings = fedcore.Settings(save_model=seed == 0)
            fedcore.run(SPEC | {"algorithm": method, "seed": seed}, folder / f"{number}-{seed}", settings)
    return folder


@pytest.fixture
def runs(folder: Path) -> list[fedcore.Result]:
    return [fedcore.load(place) for place in sorted(folder.iterdir())]


@pytest.fixture(autouse=True)
def _closed() -> Any:
    yield
    plt.close("all")


def labels(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend
    return [text.get_text() for text in legend.get_texts()]


def diverged(run: fedcore.Result) -> fedcore.Result:
    return replace(run, summary=run.summary | {"status": "diverged", "final": None, "rounds": 1})


def test_what_is_read_back_is_what_the_run_gave(tmp_path: Path) -> None:
    spec = SPEC | {"algorithm": METHODS[0]}
    gave = fedcore.run(spec, tmp_path, fedcore.Settings(save_model=True))
    read = fedcore.load(tmp_path)
    assert repr(read.rows) == repr(gave.rows)
    assert (read.spec, read.summary, read.timing) == (gave.spec, gave.summary, gave.timing)
    assert (read.clients, read.tables, read.arrays) == (gave.clients, gave.tables, gave.arrays)
    assert {name: array.tolist() for name, array in read.parameters.items()} == {
        name: array.tolist() for name, array in gave.parameters.items()
    }


def test_python_looks_in_the_mirror_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[fedcore.Settings] = []
    monkeypatch.setattr("fedcore.execution.runner.execute", lambda spec, out, how, *rest: used.append(how))
    monkeypatch.setenv("FEDCORE_MIRROR", "elsewhere")
    fedcore.run(SPEC | {"algorithm": METHODS[0]})
    fedcore.run(SPEC | {"algorithm": METHODS[0]}, settings=fedcore.Settings())
    monkeypatch.delenv("FEDCORE_MIRROR")
    fedcore.run(SPEC | {"algorithm": METHODS[0]})
    assert [how.source.mirror for how in used] == ["elsewhere", None, None]


def test_history_is_history_csv_as_a_frame(folder: Path, runs: list[fedcore.Result]) -> None:
    history = runs[0].history
    assert history.to_csv(index=False, lineterminator="\n") == (folder / "0-0/history.csv").read_text()
    assert history["round"].tolist() == [0, 1, 2, 3]
    assert history["round"].dtype.kind == "i"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (None, "", "provenance.json is missing"),
        ("history.csv", "round\n1\n", "history.csv is changed"),
        ("timing.json", "{}", "timing.json is missing, changed or damaged"),
    ],
)
def test_only_a_finished_unchanged_run_is_read(
    name: str | None, content: str, said: str, tmp_path: Path
) -> None:
    if name:
        fedcore.run(SPEC | {"algorithm": METHODS[0]}, tmp_path)
        (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=f"{said}.*expected the folder of a finished run"):
        fedcore.load(tmp_path)


def test_a_plot_shows_the_measured_numbers(runs: list[fedcore.Result]) -> None:
    axes = runs[0].plot("train_loss")
    (line,) = axes.lines
    assert np.asarray(line.get_ydata()).tolist() == [row["train_loss"] for row in runs[0].rows]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("communication round", "train loss")
    _, subplot = plt.subplots()
    assert runs[0].plot(axes=subplot) is subplot
    with pytest.raises(DataError, match=r"plot: got 'acc', expected one of train_loss, .*test_accuracy"):
        runs[0].plot("acc")


def test_the_table_of_a_notebook_escapes_what_others_wrote(runs: list[fedcore.Result]) -> None:
    note = "<script>alert(1)</script>\u202e & more"
    html = replace(runs[0], summary=runs[0].summary | {"data_note": note})._repr_html_()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e &amp; more" in html
    assert f"{100 * runs[0].rows[-1]['test_accuracy']:.2f}%" in html
    assert "<td>completed</td>" in html
    assert "<td>diverged</td>" in diverged(runs[0])._repr_html_()


def test_a_comparison_has_a_row_for_each_method_with_means_over_seeds(folder: Path) -> None:
    compared = fedcore.compare(sorted(folder.iterdir()))
    frame = compared.frame
    assert frame["algorithm.name"].tolist() == ["fedavg", "fedprox", "fedprox"]
    assert frame["algorithm.mu"].tolist()[1:] == [0.1, 1.0]
    assert not {"seed", "training.lr", "data.name"} & set(frame.columns)
    last = [json.loads((folder / f"1-{seed}/summary.json").read_text())["final"] for seed in (0, 1)]
    accuracies = [final["test_accuracy"] for final in last]
    assert frame["test_accuracy"][1] == pytest.approx(statistics.fmean(accuracies))
    assert frame["test_accuracy_std"][1] == pytest.approx(statistics.stdev(accuracies))
    assert frame["runs"].tolist() == [2, 2, 2]
    seconds = [fedcore.load(folder / f"1-{seed}").timing["seconds"] for seed in (0, 1)]
    assert frame["seconds"][1] == pytest.approx(statistics.fmean(seconds))
    assert labels(compared.plot()) == ["fedavg", "fedprox, mu 0.1", "fedprox, mu 1.0"]
    assert "fedprox" in compared._repr_html_()


def test_a_diverged_run_leaves_its_row_without_means_and_without_a_line(runs: list[fedcore.Result]) -> None:
    compared = fedcore.compare([diverged(runs[0]), *runs[1:]])
    first = compared.frame.iloc[0]
    assert (first["runs"], first["diverged"], first["rounds"]) == (2, 1, 3)
    assert math.isnan(first["test_accuracy"])
    axes = compared.plot()
    assert labels(axes)[0] == "fedavg (1 of 2 diverged)"
    assert sum(np.size(line.get_xdata()) > 0 for line in axes.lines) == 2


def test_one_run_is_compared_with_nothing(folder: Path, runs: list[fedcore.Result]) -> None:
    (row,) = fedcore.compare(runs[:1]).frame.to_dict("records")
    assert (row["runs"], row["test_accuracy"]) == (1, runs[0].rows[-1]["test_accuracy"])
    assert math.isnan(row["test_accuracy_std"])
    assert fedcore.compare(str(folder / "0-0")).frame["runs"].tolist() == [1]
    assert "seed" not in fedcore.compare([runs[0], runs[3]]).frame


def test_options_without_content_differ_too(runs: list[fedcore.Result]) -> None:
    other = replace(runs[0], spec=runs[0].spec | {"seed": 0, "notes": {"a": {}}})
    assert fedcore.compare([runs[0], other]).frame["notes.a"].tolist()[1] == {}


def test_what_cannot_be_compared_is_said(folder: Path, runs: list[fedcore.Result]) -> None:
    with pytest.raises(SpecError, match="compare: got no run, expected at least one"):
        fedcore.compare([])
    with pytest.raises(SpecError, match=r"two runs of one specification \(fedavg, seed 0\), expected one"):
        fedcore.compare([runs[0], folder / "0-0"])


def test_a_session_sees_the_public_names() -> None:
    assert {"compare", "load", "run", "Result"} <= set(dir(fedcore))
    assert all(getattr(fedcore, name).__doc__ for name in fedcore.__all__)
    assert Comparison.__doc__
