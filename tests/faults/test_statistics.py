"""Seeds are independent, all methods see the same rows, and no test row is trained on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray
from scipy import stats

from fedcore.base.errors import DataError, SpecError
from fedcore.base.files import canonical_json
from fedcore.base.rng import Streams
from fedcore.data import Dataset, Partition, Rows, Source
from fedcore.execution.runner import Settings, load_data
from fedcore.execution.runner import run as execute
from fedcore.partitions import build as partitioning
from fedcore.spec import parse
from pipeline.catalogue import Catalogue
from pipeline.papers import build_catalogue

ROOT = Path(__file__).parents[2]
REPEATED = {"femnist": 2, "letter": 28, "dna": 82, "a1a": 42, "splice": 51}
Record = Callable[[str, int], None]
SCALES = tuple(yaml.safe_load((ROOT / "params.yaml").read_text())["scales"])


@cache
def catalogue(scale: str) -> Catalogue:
    return build_catalogue(yaml.safe_load((ROOT / "params.yaml").read_text()) | {"scale": scale})


def neighbours() -> list[np.random.Generator]:
    """Return streams whose names differ as little as possible."""
    streams = [Streams(seed).get("batches", 3, 1) for seed in range(60)]
    streams += [Streams(0).get("batches", round_, 1) for round_ in range(4, 64)]
    streams += [Streams(0).get("batches", 3, client) for client in range(2, 62)]
    return streams + [Streams(0).get(purpose, 3, 1) for purpose in ("cohort", "model", "noise", "partition")]


def test_streams_of_neighbouring_names_are_uncorrelated(record_property: Record) -> None:
    """All pairs of 184 streams: correlations are as small, and as spread, as those of independent draws."""
    draws = 4000
    numbers = np.array([stream.standard_normal(draws) for stream in neighbours()])
    correlations = np.corrcoef(numbers)[np.triu_indices(len(numbers), 1)]
    record_property("trials", len(correlations))
    assert np.abs(correlations).max() < stats.norm.isf(1e-4 / len(correlations)) / np.sqrt(draws)
    assert correlations.var() * draws == pytest.approx(1.0, abs=0.05)
    assert stats.kstest(correlations * np.sqrt(draws), "norm").pvalue > 1e-3
    lagged = [np.corrcoef(a[:-1], b[1:])[0, 1] for a, b in pairwise(numbers)]
    assert np.abs(lagged).max() < 5 / np.sqrt(draws)


def test_first_draws_over_seeds_are_uniform(record_property: Record) -> None:
    """A bad seeding shows in the first numbers of seeds 0, 1, 2, ..."""
    record_property("trials", 5000)
    firsts = np.array([Streams(seed).get("cohort", 0).random(2) for seed in range(5000)])
    assert stats.kstest(firsts[:, 0], "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(firsts[:-1, 0], firsts[1:, 0])[0, 1]) < 5 / np.sqrt(5000)
    assert abs(np.corrcoef(firsts.T)[0, 1]) < 5 / np.sqrt(5000)


@pytest.mark.parametrize("scale", SCALES)
def test_a_partition_is_one_object_for_all_methods_of_a_setting(scale: str, record_property: Record) -> None:
    plan = catalogue(scale)
    folders: dict[str, set[str]] = {}
    for run in plan.index.values():
        split = run.setting.rsplit("-", 1)[-1]  # another reading of one may divide as the other does
        fields = [run.paper, run.dataset, split, run.spec["data"], run.spec["partition"], run.seed]
        decided = canonical_json(fields)
        folders.setdefault(decided, set()).add(run.partition)
    assert all(len(names) == 1 for names in folders.values()), "equal data, partition and seed: one folder"
    assert len(folders) == len({folder for names in folders.values() for folder in names})
    assert len(plan.partitions) >= len(folders)
    record_property("trials", len(plan.index))
    shared = Counter(run.partition for run in plan.index.values())
    assert max(shared.values()) > 5, "methods do share"


def test_all_methods_of_a_table_s_column_see_the_same_partitions(record_property: Record) -> None:
    plan = catalogue("paper")
    cells = 0
    for paper, target in (
        ("rfedavg", "table1"),
        ("fedomw", "table3"),
        ("radfed", "table3"),
        ("comfed", "table4"),
    ):
        by_column: dict[str, set[tuple[str, ...]]] = {}
        for (_, column), runs in plan.cells(paper, target).items():
            by_column.setdefault(column, set()).add(tuple(run.partition for run in runs))
            cells += 1
        assert all(len(seen) == 1 for seen in by_column.values()), (paper, target)
    record_property("trials", cells)


SECTIONS = sorted({canonical_json(job.spec["data"]) for job in catalogue("demo").partitions.values()})


def label(section: str) -> str:
    values = yaml.safe_load(section)
    return "-".join(str(value) for key, value in sorted(values.items()) if isinstance(value, str | int))[:60]


def keys(rows: Rows) -> list[bytes]:
    """Return a hash of each row with its label."""
    x = np.ascontiguousarray(rows.x.reshape(len(rows), -1))
    return [sha256(x[k].tobytes() + bytes(str(rows.y[k]), "ascii")).digest() for k in range(len(rows))]


def partitions(section: str) -> list[tuple[str, Partition]]:
    dataset = loaded(section)
    pairs = []
    for folder, division in catalogue("demo").partitions.items():
        if canonical_json(division.spec["data"]) == section and folder.endswith("seed0"):
            split = parse(dict(division.spec)).partition
            pairs.append((folder, partitioning.make(split.plugin, split.options, dataset, 0)))
    return pairs


@cache
def loaded(section: str) -> Dataset:
    try:
        return load_data(section, Source(ROOT / "data", offline=True))[0]
    except DataError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("section", SECTIONS, ids=label)
def test_no_test_row_is_trained_on(section: str, record_property: Record) -> None:
    """By index in every partition of the papers, and by natural client where clients are held out whole."""
    dataset = loaded(section)
    pairs = partitions(section)
    record_property("trials", len(pairs))
    for folder, partition in pairs:
        trained = np.concatenate([*partition.clients, np.empty(0, np.int64)])
        tested = np.empty(0, np.int64) if partition.test is None else partition.test
        for others in (partition.validation, tested, partition.dropped):
            assert not np.intersect1d(trained, others).size, folder
        assert not np.intersect1d(partition.validation, tested).size, folder
        assert np.unique(trained).size == trained.size, folder
        groups = dataset.train.groups
        if partition.test is not None and groups is not None and natural(partition, groups):
            assert not np.intersect1d(groups[trained], groups[partition.test]).size, folder


def natural(partition: Partition, groups: NDArray[np.int64]) -> bool:
    """Whether every client is one natural client."""
    return all(np.unique(groups[rows]).size <= 1 for rows in (*partition.clients, *partition.held_out))


@pytest.mark.parametrize("section", SECTIONS, ids=label)
def test_equal_rows_in_train_and_test_are_counted(section: str, record_property: Record) -> None:
    """Test rows that stand in the training set too, with their label: as many as upstream itself repeats."""
    dataset = loaded(section)
    content = keys(dataset.train)
    repeated = []
    for _, partition in partitions(section):
        trained = {content[row] for rows in partition.clients for row in rows}
        if partition.test is not None:
            tested = [content[row] for row in partition.test]
        elif not json.loads(section).get("pool"):
            tested = keys(dataset.test)
        else:
            continue  # no run: a table of partitions only, and a run would be refused
        repeated.append(sum(key in trained for key in tested))
        record_property("trials", len(tested))
    if repeated:
        record_property("repeated", max(repeated))
        assert max(repeated) == REPEATED.get(json.loads(section)["name"], 0)


def test_a_run_on_pooled_rows_needs_test_clients(spec: dict[str, Any]) -> None:
    """Pooled rows hold the test rows too: a run without held-out clients would train on them."""
    pooled = {
        **spec,
        "data": {"name": "mnist", "edition": "demo", "pool": True},
        "partition": {"name": "iid", "clients": 5},
    }
    settings = Settings(source=Source(ROOT / "data", offline=True))
    with pytest.raises(SpecError, match=r"data\.pool: .*; give partition\.fold"):
        execute(pooled, None, settings)
