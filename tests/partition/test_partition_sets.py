"""Four sets of rows: clients', the server's, to choose by and to test on; and noise on clients' rows."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from partition_toys import equal, split_data, toy_data

from fedcore.base.errors import SpecError
from fedcore.engines import problem
from fedcore.execution.runner import Settings, prepare, run
from fedcore.partitions.file import load, save
from fedcore.spec import parse

ROWS = 200
DATA = toy_data(np.arange(ROWS) % 4, groups=np.arange(ROWS) % 10)
SETS = {"validation": 0.05, "validation_from": "pool", "selection": 0.1, "test": 0.25}
PARTITIONS: list[tuple[str, dict[str, Any]]] = [
    ("iid", {"clients": 8}),
    ("natural", {}),
    ("similarity", {"clients": 8, "similarity": 0.0}),
    ("dirichlet", {"clients": 8, "convention": "by_class", "alpha": 0.3}),
    ("shards", {"clients": 8}),
    ("power_law", {"clients": 8}),
]


@pytest.mark.parametrize(("name", "options"), PARTITIONS)
def test_four_disjoint_sets_of_the_asked_sizes(name: str, options: dict[str, Any]) -> None:
    split = split_data(DATA, name, 3, **options, **SETS)
    assert split.test is not None
    sets = [np.concatenate(split.clients), split.validation, split.selection, split.test, split.dropped]
    assert [len(rows) for rows in sets[1:4]] == [10, 20, 50]
    assert sorted(np.concatenate(sets).tolist()) == list(range(ROWS))
    for share, kind in ((5, "validation"), (10, "selection"), (25, "test")):
        assert f"; {share}% of all rows held out for {kind}" in split.note
    again = split_data(DATA, name, 4, **options, **SETS)
    assert split.selection.tolist() != again.selection.tolist()


def test_what_is_held_out_for_validation_alone_stays_as_it_was() -> None:
    alone = split_data(DATA, "iid", clients=8, validation=0.05, validation_from="pool")
    with_sets = split_data(DATA, "iid", clients=8, **SETS)
    assert alone.validation.tolist() == with_sets.validation.tolist()
    assert alone.note.endswith("; 5% of all rows held out for validation")
    fine = split_data(DATA, "similarity", clients=8, similarity=0.004, validation=0.016)
    assert fine.note == "similarity 0.4%, equal sizes; 1.6% of each client's rows held out for validation"


def test_rows_of_each_client_may_be_held_out_beside_the_pools() -> None:
    split = split_data(DATA, "natural", validation=0.2, selection=0.1)
    assert len(split.selection) == 20
    plain = split_data(DATA, "natural", selection=0.1)
    assert [len(rows) - int(0.2 * len(rows)) for rows in plain.clients] == list(map(len, split.clients))


def test_a_file_keeps_them(tmp_path: Path) -> None:
    split = split_data(DATA, "iid", clients=8, **SETS)
    save(split, tmp_path / "sets.npz", {})
    read, _ = load(tmp_path / "sets.npz")
    equal(split, read)
    assert read.selection.tolist() == split.selection.tolist()
    save(split_data(DATA, "iid", clients=8), tmp_path / "plain.npz", {})
    assert "selection" not in np.load(tmp_path / "plain.npz").files


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"selection": 0.5, "test": 0.5}, "got 1 of all rows held out, expected less than 1"),
        ({"selection": 0.1, "fold": {"index": 0}}, "selection and test take rows, fold takes whole clients"),
        ({"selection": 1.0}, "selection: .*less than 1"),
        ({"test": 0.004}, "partition.test: got 0.004, which is no row of 200"),
        ({"noise": -1.0}, "noise: .*greater than or equal to 0"),
    ],
)
def test_sets_that_cannot_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        split_data(DATA, "iid", clients=8, **options)


@pytest.fixture
def asked(spec: dict[str, Any]) -> dict[str, Any]:
    """A short run that chooses by selection rows of its own."""
    return {
        **spec,
        "partition": {"name": "iid", "clients": 5, **SETS},
        "evaluation": {"tested_on": "selection"},
        "training": {**spec["training"], "rounds": 2},
    }


def contents(block: Any) -> set[str]:
    return {hashlib.sha256(row.numpy().tobytes()).hexdigest() for row in block.x}


def test_sets_share_no_row_by_content(asked: dict[str, Any]) -> None:
    chosen = prepare(parse(asked), Settings())[0].problem
    final = prepare(parse({**asked, "evaluation": {}}), Settings())[0].problem
    assert final.validation is not None
    sets = [contents(block) for block in (final.train, final.validation, chosen.test, final.test)]
    assert all(not hashes & other for at, hashes in enumerate(sets) for other in sets[:at])
    assert (chosen.train.x == final.train.x).all()


def test_a_run_to_choose_by_never_sees_a_test_row(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = run(asked).rows
    final = run({**asked, "evaluation": {}}).rows
    assert [row["train_loss"] for row in plain] == [row["train_loss"] for row in final]
    assert [row["test_loss"] for row in plain] != [row["test_loss"] for row in final]
    make = problem.make

    def with_noise(dataset: Any, partition: Any, *rest: Any) -> Any:
        dataset.train.y[partition.test] = 0
        dataset.test.y[:] = 0
        return make(dataset, partition, *rest)

    monkeypatch.setattr(problem, "make", with_noise)
    assert run(asked).rows == plain
    assert run({**asked, "evaluation": {}}).rows != final


def test_learned_mixtures_train_on_the_servers_rows_alone(asked: dict[str, Any]) -> None:
    learned = {**asked, "algorithm": {"name": "fedomw"}}
    prepared = prepare(parse(learned), Settings())[0].problem
    assert prepared.validation is not None
    assert not contents(prepared.validation) & contents(prepared.test)
    plain = {**learned, "partition": {"name": "iid", "clients": 5}, "evaluation": {}}
    own = prepare(parse(plain), Settings())[0].problem
    assert own.validation is not None
    assert contents(own.validation) < contents(prepared.validation)
    assert run(learned).summary["status"] == "completed"


def test_selection_without_such_rows_is_refused(spec: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=r"evaluation\.tested_on: there are no selection rows"):
        run({**spec, "evaluation": {"tested_on": "selection"}})


def test_noise_grows_with_the_clients_number(spec: dict[str, Any]) -> None:
    section = {"name": "iid", "clients": 5, "selection": 0.2}
    plain, noisy, again = (
        prepare(parse({**spec, "partition": {**section, **extra}}), Settings())[0].problem
        for extra in ({}, {"noise": 0.5}, {"noise": 0.5})
    )
    for number, (before, after) in enumerate(zip(plain.clients, noisy.clients, strict=True), 1):
        drawn = (after.x - before.x).double()
        assert float(drawn.var()) == pytest.approx(0.5 * number / 5, rel=0.1)
        assert abs(float(drawn.mean())) < 0.05
    assert (noisy.test.x == plain.test.x).all()
    assert (noisy.train.x == again.train.x).all()


def test_repetitions_that_share_a_partition_share_its_noise(spec: dict[str, Any]) -> None:
    section = {"name": "iid", "clients": 5, "noise": 0.5, "seed": 7}
    first, second = (
        prepare(parse({**spec, "partition": section, "seed": seed}), Settings())[0].problem for seed in (0, 1)
    )
    assert (first.train.x == second.train.x).all()


def test_noise_on_tokens_is_refused() -> None:
    tokens = {"name": "shakespeare", "edition": "demo"}
    spec = {
        "data": tokens,
        "partition": {"name": "natural", "noise": 0.1},
        "model": {"name": "lstm", "hidden": 4},
        "algorithm": {"name": "fedavg"},
        "training": {"rounds": 1, "batch_size": 10, "lr": 0.1},
    }
    with pytest.raises(SpecError, match=r"partition\.noise: inputs are int\d+, expected real numbers"):
        run(spec)


def test_libsvm_sets_can_be_split_anew() -> None:
    base = {
        "data": {"name": "svmguide1", "edition": "demo", "scaling": "minmax", "pool": True},
        "partition": {"name": "iid", "clients": 4, "selection": 0.1, "test": 0.25},
        "model": {"name": "linear"},
        "algorithm": {"name": "fedavg"},
        "training": {"rounds": 1, "batch_size": 32, "lr": 0.1},
    }
    summary = run(base).summary
    upstream = {"name": "svmguide1", "edition": "demo"}
    shipped = run({**base, "data": upstream, "partition": {"name": "iid", "clients": 4}}).summary
    total = shipped["samples"] + shipped["test_samples"]
    assert summary["test_samples"] == total // 4
    assert summary["samples"] == total - total // 4 - total // 10
    with pytest.raises(SpecError, match=r"pool: true makes test rows training rows; give partition\.fold or"):
        run({**base, "partition": {"name": "iid", "clients": 4}})
