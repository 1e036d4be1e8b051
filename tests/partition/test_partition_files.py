"""Partition files: equal bytes for equal input, read back as written, refused when damaged or foreign."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from partition_toys import covers_once, equal, split_data, toy_data
from wording import one_line

from fedcore.base.errors import DataError, SpecError
from fedcore.base.files import sha256_file
from fedcore.base.registry import Plugin, find
from fedcore.data import Partition
from fedcore.partitions import PartitionOptions
from fedcore.partitions.build import check, make
from fedcore.partitions.file import identity, load, refuse_other, save

DATA = toy_data(np.arange(100) % 4)
ORIGIN = {"partition": {"name": "iid"}, "data": {"name": "toy"}, "seed": 1, "data_sha256": DATA.sha256()}


@pytest.mark.parametrize(
    "options", [{}, {"validation": 0.3}, {"fold": {"index": 2}}], ids=["plain", "held", "fold"]
)
def test_read_back_as_written(options: dict[str, Any], tmp_path: Path) -> None:
    split = split_data(DATA, "shards", clients=120 if not options else 20, **options)
    save(split, tmp_path / "a.npz", ORIGIN)
    loaded, origin = load(tmp_path / "a.npz")
    equal(loaded, split)
    assert origin == ORIGIN
    assert (loaded.test is None) == (split.test is None)


def test_dropped_and_test_rows_are_read_back_as_row_numbers(tmp_path: Path) -> None:
    data = toy_data(np.zeros(30, int), groups=np.repeat(np.arange(7), [1, 2, 3, 4, 5, 7, 8]))
    split = split_data(data, "natural", min_rows=3, fold={"index": 0, "of": 3})
    save(split, tmp_path / "a.npz", ORIGIN)
    loaded, _ = load(tmp_path / "a.npz")
    covers_once(loaded, 30)
    equal(loaded, split)
    assert len(loaded.dropped) == 3
    assert {rows.dtype for rows in loaded.held_out} == {np.dtype(np.int64)}
    with np.load(tmp_path / "a.npz") as archive:
        texts = {"note", "identity"}
        assert {archive[name].dtype.str for name in set(archive.files) - texts} == {"<i8"}
        assert {archive[name].dtype.str for name in texts} == {"|u1"}


def test_equal_input_gives_equal_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save(split_data(DATA, "iid", clients=9), tmp_path / f"{name}.npz", dict(reversed(ORIGIN.items())))
    save(split_data(DATA, "iid", clients=9), tmp_path / "c.npz", ORIGIN)
    assert len({(tmp_path / f"{name}.npz").read_bytes() for name in "abc"}) == 1
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_plain_numpy_reads_it(tmp_path: Path) -> None:
    save(split_data(DATA, "iid", clients=9), tmp_path / "a.npz", ORIGIN)
    with np.load(tmp_path / "a.npz") as archive:
        assert archive["sizes"].sum() == len(archive["rows"]) == 100
        assert json.loads(archive["identity"].tobytes()) == ORIGIN


def damaged(kind: str, path: Path) -> None:
    save(split_data(DATA, "iid", clients=9), path, ORIGIN)
    content = path.read_bytes()
    if kind == "missing":
        path.unlink()
    elif kind == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif kind == "flipped":
        path.write_bytes(content.replace(b"IID", b"XID"))
    elif kind == "text":
        path.write_text("no partition")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "pickle":
        np.savez(path, rows=np.array([{}], dtype=object))
    elif kind == "array":
        buffer = io.BytesIO()
        np.save(buffer, np.arange(3))
        path.write_bytes(buffer.getvalue())
    else:
        rewrite(kind, path)


def rewrite(kind: str, path: Path) -> None:
    with np.load(path) as archive:
        arrays = dict(archive)
    if kind == "other npz":
        arrays.pop("sizes")
    elif kind == "newer format":
        arrays["format"] = np.array(99)
    elif kind == "rows cut":
        arrays["rows"] = arrays["rows"][:-3]
    np.savez(path, **arrays)


@pytest.mark.parametrize(
    "kind",
    [
        "missing",
        "truncated",
        "flipped",
        "text",
        "empty",
        "pickle",
        "array",
        "other npz",
        "newer format",
        "rows cut",
    ],
)
def test_damaged_files_are_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    damaged(kind, path)
    with pytest.raises(DataError) as caught:
        load(path)
    assert str(path) in str(caught.value)
    one_line(caught.value)


def test_identity_says_what_a_partition_was_made_of(tmp_path: Path) -> None:
    section = {"name": "iid", "clients": 3, "seed": None}
    origin = identity(section, {"name": "toy"}, 4, "ab")
    refuse_other(tmp_path / "p.npz", origin, identity(section, {"name": "toy"}, 4, "ab"))
    cases: list[tuple[tuple[Any, Any, int, str], str]] = [
        (({**section, "clients": 4}, {"name": "toy"}, 4, "ab"), "partition.clients is 3, expected 4"),
        ((section, {"name": "mnist"}, 4, "ab"), "data.name is 'toy', expected 'mnist'"),
        ((section, {"name": "toy"}, 5, "ab"), "seed is 4, expected 5"),
        (
            ({**section, "fold": {"of": 5}}, {"name": "toy"}, 4, "ab"),
            r"partition.fold is None, expected {'of': 5}",
        ),
        ((section, {"name": "toy"}, 4, "cd"), "data_sha256 is 'ab', expected 'cd'"),
    ]
    for change, key in cases:
        with pytest.raises(SpecError, match=rf"p.npz: made for another specification: {key}"):
            refuse_other(tmp_path / "p.npz", origin, identity(*change))


def test_a_fixed_seed_is_shared_by_runs_of_any_seed() -> None:
    section = {"name": "iid", "clients": 3, "seed": 7}
    assert identity(section, {}, 1, "") == identity(section, {}, 2, "")


def test_a_split_by_client_keeps_the_rows_of_every_client(tmp_path: Path) -> None:
    split = split_data(DATA, "shards", clients=10)
    fold = split_data(DATA, "shards", clients=10, fold={"index": 1})
    together = {tuple(rows) for rows in (*fold.clients, *fold.held_out)}
    assert together == {tuple(rows) for rows in split.clients}
    assert len(fold.held_out) == 4
    assert fold.test is not None
    held = np.sort(np.concatenate([fold.validation, fold.test]))
    assert np.array_equal(np.sort(np.concatenate(fold.held_out)), held)
    save(fold, tmp_path / "fold.npz", ORIGIN)
    equal(load(tmp_path / "fold.npz")[0], fold)


@pytest.mark.parametrize(
    ("clients", "message"),
    [
        (([0, 1], [1, 2]), "row 1 is held more than once, by client 0 and client 1"),
        (([0, 1], [2, 3]), "client 1: row 3 is out of range, the data have 3 rows"),
    ],
)
def test_a_file_that_does_not_fit_the_data_is_named(
    clients: tuple[list[int], ...], message: str, tmp_path: Path
) -> None:
    path, plugin = tmp_path / "mine.npz", find("partition", "file")
    save(Partition(tuple(np.array(rows) for rows in clients)), path, {})
    options = plugin.options.model_validate({"path": str(path), "sha256": sha256_file(path)})
    with pytest.raises(SpecError) as refused:
        make(plugin, options, toy_data([0, 0, 0]), 0)  # type: ignore[arg-type]
    assert str(refused.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize(
    ("clients", "message"),
    [
        (([0, 1], [1, 2]), "row 1 is held more than once"),
        (([0], [2]), "row 1 is neither held nor dropped"),
        (([0, 1], [3]), "row 3 is out of range, the data have 3 rows"),
        (([0, 1], [-1]), "out of range"),
    ],
)
def test_a_broken_plugin_is_found_out(clients: tuple[list[int], ...], message: str) -> None:
    split = Partition(tuple(np.array(rows) for rows in clients))
    with pytest.raises(SpecError, match=f"partition 'mine': .*{message}"):
        check(split, 3, "partition 'mine'")
    plugin = Plugin("mine", find("partition", "given").options, lambda *_: split, "", "")
    with pytest.raises(SpecError, match=message):
        make(plugin, plugin.options.model_validate({}), toy_data([0, 0, 0]), 0)  # type: ignore[arg-type]


def test_test_and_validation_rows_of_a_plugin_stay_such_under_a_fold() -> None:
    rows = [np.array([row]) for row in range(8)]
    given = Partition(tuple(rows[:4]), validation=rows[4], test=np.array([5, 6]), dropped=rows[7])
    plugin = Plugin("mine", find("partition", "given").options, lambda *_: given, "", "")
    options = plugin.options.model_validate({"fold": {"index": 0, "of": 4}})
    split = make(plugin, options, toy_data(np.zeros(8, int)), 0)  # type: ignore[arg-type]
    covers_once(split, 8)
    assert split.test is not None
    assert {5, 6} < set(split.test)
    assert 4 in split.validation
    assert (len(split.clients), len(split.validation), len(split.test), list(split.dropped)) == (2, 2, 3, [7])


def test_lists_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text("[[0, 2], [1, 3]]")
    data = toy_data([0, 1, 2, 3])
    with pytest.raises(SpecError, match=rf"partition.sha256: got None, but .* has {sha256_file(path)}"):
        split_data(data, "file", path=str(path))
    split = split_data(data, "file", path=str(path), sha256=sha256_file(path))
    assert [rows.tolist() for rows in split.clients] == [[0, 2], [1, 3]]
    for text in ("{", '{"a": 1}', "[[0, 1.5]]", "[[true]]", "[3]", "[]"):
        path.write_text(text)
        with pytest.raises((SpecError, DataError), match=r"rows.json: "):
            split_data(data, "file", path=str(path), sha256=sha256_file(path))


def test_a_partition_file_as_the_partition(tmp_path: Path) -> None:
    split = split_data(DATA, "shards", clients=9)
    save(split, tmp_path / "p.npz", ORIGIN)
    again = split_data(DATA, "file", path=str(tmp_path / "p.npz"), sha256=sha256_file(tmp_path / "p.npz"))
    equal(again, split)
    others = toy_data(np.arange(100) % 5)
    with pytest.raises(SpecError, match=rf"p.npz: made for data of data_sha256 {DATA.sha256()}, expected "):
        split_data(others, "file", path=str(tmp_path / "p.npz"), sha256=sha256_file(tmp_path / "p.npz"))


@pytest.mark.parametrize("more", [{"test": 0.1}, {"selection": 0.1}, {"validation": 0.1}])
def test_rows_of_the_pool_are_refused_where_lists_number_all_rows(more: dict[str, Any]) -> None:
    key = next(iter(more))
    with pytest.raises(SpecError, match=rf"partition: {key}: takes rows of the pool, expected none"):
        split_data(DATA, "file", rows=[[0], [1]], drop_rest=True, validation_from="pool", **more)
    split_data(DATA, "file", rows=[[0], [1]], drop_rest=True, validation=0.5)


def test_rows_that_a_plugin_tests_stay_tested_when_more_are_drawn_from_the_pool() -> None:
    lists = Partition((np.arange(10),), test=np.arange(10, 14), selection=np.arange(14, 16))
    plugin = Plugin("mine", PartitionOptions, lambda *_: replace(lists, dropped=np.arange(16, 18)), "", "")
    split = make(plugin, PartitionOptions(test=0.1), toy_data(np.arange(20) % 4), 0)
    assert split.test is not None
    assert sorted(np.concatenate([*split.clients, *split.sets().values()]).tolist()) == list(range(20))
    assert (len(split.test), len(split.selection)) == (2 + 4, 2)
