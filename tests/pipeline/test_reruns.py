"""An edit makes exactly that run again which it touches; nothing else."""

from __future__ import annotations

import pytest

from project import Project

TABLE = "reports/rfedavg/table1.csv"
SETTINGS, ALGORITHMS, SEEDS = 8, 6, 2


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose Table I is built."""
    project = Project.copy(tmp_path_factory.mktemp("project"))
    counts = project.jobs(TABLE)
    assert counts == {"partition": SETTINGS * SEEDS, "train": SETTINGS * ALGORITHMS, "table": 1}
    project.make(TABLE)
    assert len(project.executed()) == SETTINGS * ALGORITHMS * SEEDS
    return project


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        pytest.param("params.yaml", "", "", {}, id="nothing"),
        pytest.param("params.yaml", "scale: demo", "scale:   demo # a comment", {}, id="params-comment"),
        pytest.param("params.yaml", "mu: 1.0", "mu: 0.5", {"train": 6, "table": 1}, id="fedprox-mu"),
        pytest.param(
            "params.yaml", "mu: 0.01", "mu: 0.02", {"train": 2, "table": 1}, id="fedprox-mu-sent140"
        ),
        pytest.param("params.yaml", "mu: 1.0", "mu: 1", {}, id="same-number"),
        pytest.param(
            "params.yaml",
            "mnist: {data: {edition: demo}, training: {rounds: 5}}",
            "mnist: {data: {edition: demo}, training: {rounds: 7}}",
            {"train": 18, "table": 1},
            id="rounds-of-mnist",
        ),
        pytest.param(
            "params.yaml",
            "cross_silo: {clients: 10,",
            "cross_silo: {clients: 11,",
            {"partition": 16, "train": 48, "table": 1},
            id="clients",
        ),
        pytest.param("params.yaml", "  quick:", "  # a word\n  quick:", {}, id="other-scale-comment"),
        pytest.param("params.yaml", "seeds: [0]\n", "seeds: [7]\n", {}, id="other-scale"),
        pytest.param(
            "fedcore/objective/proximal.py", '"""', '"""Said otherwise. ', {}, id="docstring-in-fedcore"
        ),
        pytest.param(
            "fedcore/objective/proximal.py",
            "from __future__ import annotations",
            "# a comment\nfrom __future__ import annotations\n\nCHANGED = 1",
            {"train": 8, "table": 1},
            id="code-of-fedprox",
        ),
        pytest.param(
            "fedcore/simulation.py",
            "from __future__ import annotations",
            "from __future__ import annotations\n\nCHANGED = 1",
            {"train": 48, "table": 1},
            id="code-of-all-runs",
        ),
        pytest.param(
            "pipeline/report/grid.py",
            'PARTIAL, DIVERGED = "†"',
            'PARTIAL, DIVERGED = "*"',
            {"table": 1},
            id="layout",
        ),
        pytest.param("pipeline/report/templates/table.md.j2", "| |", "|  |", {"table": 1}, id="template"),
        pytest.param(
            "pipeline/papers/rfedavg/published.csv", "97.07", "97.08", {"table": 1}, id="published-number"
        ),
        pytest.param(
            "pipeline/report/plots.py", "MARKS = 8", "MARKS = 9", {}, id="plots-do-not-touch-tables"
        ),
    ],
)
def test_an_edit_reruns_what_it_touches(
    finished: Project, name: str, old: str, new: str, expected: dict[str, int]
) -> None:
    before = (finished.folder / name).read_text()
    finished.edit(name, old, new)
    try:
        assert finished.jobs(TABLE) == expected
    finally:
        (finished.folder / name).write_text(before)


def test_a_changed_hyperparameter_trains_that_algorithm_and_then_all_is_done(finished: Project) -> None:
    before = (finished.folder / "params.yaml").read_text()
    finished.edit("params.yaml", "mu: 1.0", "mu: 0.25")
    finished.make(TABLE)
    executed = finished.executed()
    assert len(executed) == 6 * SEEDS
    assert all("/fedprox-" in folder for folder in executed)
    assert finished.jobs(TABLE) == {}
    (finished.folder / "params.yaml").write_text(before)
    assert finished.jobs(TABLE) == {"table": 1}


def test_a_deleted_result_is_made_again_alone(finished: Project) -> None:
    (path,) = finished.folder.glob("results/*/*/cross_silo-mnist-sim0/scaffold-*/seed1/summary.json")
    path.unlink()
    counts = finished.jobs(TABLE)
    assert counts["train"] == 1
    finished.make(TABLE)
    assert finished.jobs(TABLE) == {}
