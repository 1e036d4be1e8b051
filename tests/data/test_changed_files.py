"""Own data that change while a process lives: the next run reads what is there, and no older rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedcore.base.errors import DataError, SpecError
from fedcore.base.registry import plugins
from fedcore.data import Source
from fedcore.data.datasets import npz_folder as own
from fedcore.data.readers import read_npz, read_numbers, read_table, whole
from fedcore.execution.runner import Settings, run
from fedcore.spec import parse


def write(path: Path, seed: int = 0, rows: int = 6) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, x=np.random.default_rng(seed).normal(size=(rows, 3)), y=np.arange(rows) % 2)


def elsewhere(folder: Path) -> None:
    """Another file of the same size and time, in the place of the old one."""
    before = (folder / "clients" / "0.npz").stat()
    write(folder / "new.npz", 5)
    os.utime(folder / "new.npz", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(folder / "new.npz", folder / "clients" / "0.npz")


def in_place(folder: Path) -> None:
    path = folder / "clients" / "0.npz"
    before = path.stat()
    write(path, 6)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "rewritten": lambda folder: write(folder / "clients" / "0.npz", 3),
    "longer": lambda folder: write(folder / "clients" / "1.npz", 1, 8),
    "replaced": elsewhere,
    "in place": in_place,
    "test rows": lambda folder: write(folder / "test.npz", 4),
    "one more client": lambda folder: write(folder / "clients" / "2.npz", 7),
    "one less": lambda folder: (folder / "clients" / "1.npz").unlink(),
    "validation rows": lambda folder: write(folder / "validation.npz", 8),
}


def spec(path: Path) -> dict[str, Any]:
    return {
        "data": {"name": "npz", "path": str(path)},
        "model": {"name": "logistic"},
        "algorithm": {"name": "fedavg"},
        "training": {"rounds": 1, "batch_size": "full", "lr": 0.1},
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed, name in enumerate(("clients/0", "clients/1", "test")):
        write(tmp_path / "own" / f"{name}.npz", seed)
    return tmp_path / "own"


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_the_next_run_sees_the_change(change: str, linked: bool, folder: Path, tmp_path: Path) -> None:
    if linked:
        (folder / "clients").rename(tmp_path / "elsewhere")
        (folder / "clients").symlink_to(tmp_path / "elsewhere")
        (folder / "round").symlink_to(folder)
    before = run(spec(folder)).summary
    CHANGES[change](folder)
    after = run(spec(folder)).summary
    assert after["data_sha256"] == own.build_npz(own.NpzOptions(path=str(folder)), Source()).sha256()
    assert after["data_sha256"] != before["data_sha256"]


def test_another_folder_of_the_same_name_is_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = []
    for place in ("a", "b"):
        for seed, name in enumerate(("clients/0", "test")):
            write(tmp_path / place / "own" / f"{name}.npz", seed + ord(place))
        monkeypatch.chdir(tmp_path / place)
        hashes.append(run(spec(Path("own"))).summary["data_sha256"])
    assert hashes[0] != hashes[1]


def test_what_has_not_changed_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    def noted(path: Path, *names: str) -> tuple[np.ndarray, ...]:
        read.append(path)
        return read_npz(path, *names)

    monkeypatch.setattr(own, "read_npz", noted)
    for seed in range(3):
        run({**spec(folder), "seed": seed})
    assert len(read) == 3


PLUGIN = """
import numpy as np
from fedcore.data import Dataset, Rows
from fedcore.base.options import Options
from fedcore.data.readers import read_numbers
from fedcore.base.registry import Plugin

class Own(Options):
    file: str

def build(options, source):
    table = read_numbers(source.root / options.file, columns=2)
    rows = Rows(table[:, :1].astype(np.float32), table[:, 1].astype(np.int64))
    return Dataset("own_csv", rows, rows, 2, "real", "own")

PLUGIN = Plugin("own_csv", Own, build, "a csv below the data folder", "this test")
"""


def test_a_plug_ins_file_below_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plugins" / "datasets").mkdir(parents=True)
    (tmp_path / "plugins" / "datasets" / "own_csv.py").write_text(PLUGIN)
    monkeypatch.setenv("FEDCORE_PLUGINS", str(tmp_path / "plugins"))
    plugins.cache_clear()
    try:
        raw_spec = {**spec(tmp_path), "data": {"name": "own_csv", "file": "own.csv"}}
        raw_spec["partition"] = {"name": "iid", "clients": 2}
        hashes = []
        for value in (1, 2):
            (tmp_path / "own.csv").write_text(f"{value},0\n1,1\n0,1\n1,0\n")
            settings = Settings(source=Source(tmp_path))
            hashes.append(run(parse(raw_spec), settings=settings).summary["data_sha256"])
        assert hashes[0] != hashes[1]
    finally:
        monkeypatch.undo()
        plugins.cache_clear()


@pytest.mark.parametrize("key", ["x", "y"])
@pytest.mark.parametrize("value", [2**64 - 1, 2**63])
def test_a_whole_number_beyond_int64_is_refused(key: str, value: int, folder: Path) -> None:
    path = folder / "clients" / "1.npz"
    arrays: dict[str, Any] = {"x": np.ones((3, 3), np.int64), "y": np.zeros(3, np.int64)}
    for name in ("clients/0", "clients/1", "test"):
        np.savez(folder / f"{name}.npz", **arrays)
    assert run(spec(folder)).summary["samples"] == 6
    changed = arrays[key].astype(np.uint64)
    changed[2] = value
    np.savez(path, **{**arrays, key: changed})
    with pytest.raises(DataError) as caught:
        run(spec(folder))
    assert str(caught.value).startswith(f"{path}: ")
    assert f"{value} in row 2, expected" in str(caught.value)


def test_uint64_features_that_fit_are_kept(folder: Path) -> None:
    values = np.array([[2**63 - 1, 0, 1]], np.uint64)
    for name in ("clients/0", "clients/1", "test"):
        np.savez(folder / f"{name}.npz", x=values, y=np.zeros(1, np.int64))
    data = own.build_npz(own.NpzOptions(path=str(folder)), Source())
    assert data.train.x.tolist() == [[2**63 - 1, 0, 1]] * 2


def test_a_feature_beyond_float64_is_refused(folder: Path) -> None:
    if np.finfo(np.longdouble).max == np.finfo(np.float64).max:
        pytest.skip("this machine has no longer floats")
    large = np.full((2, 3), np.longdouble("1e400"))
    np.savez(folder / "clients" / "1.npz", x=large, y=np.zeros(2, np.int64))
    with pytest.raises(DataError, match=r"1\.npz: x has nan or inf \(first in row 0\)"):
        run(spec(folder))


@pytest.mark.parametrize("value", [2**64 - 1, 2**63, 1.5, float("nan"), 1e30])
def test_columns_of_tables_become_whole_numbers_or_are_refused(value: float, tmp_path: Path) -> None:
    for column, wrong in (([0, 7, 1], False), ([0, 7, value], True)):
        pd.DataFrame({"a": column}).to_parquet(tmp_path / "t.parquet")
        read: list[Any] = [read_table(tmp_path / "t.parquet", ["a"])["a"].to_numpy()]
        if value == value:
            pd.DataFrame({"a": column}).to_csv(tmp_path / "t.csv", header=False, index=False)
            read.append(read_numbers(tmp_path / "t.csv", 1)[:, 0])
        for values in read:
            if wrong:
                with pytest.raises(DataError, match=r"^t: \S+ in row 2, expected whole numbers from"):
                    whole(Path("t"), values)
            else:
                assert whole(Path("t"), values).tolist() == [0, 7, 1]


@pytest.mark.parametrize("kind", ["<f8", ">f4", "longdouble", "i8", "U1"])
def test_start_values_of_any_floating_point_type(kind: str, folder: Path, tmp_path: Path) -> None:
    values = {"weight": np.full((2, 3), 1).astype(kind), "bias": np.zeros(2)}
    np.savez(tmp_path / "start.npz", **values)  # type: ignore[arg-type]
    raw_spec = {**spec(folder), "model": {"name": "logistic", "init": str(tmp_path / "start.npz")}}
    if values["weight"].dtype.kind == "f":
        assert run(raw_spec).summary["status"] == "completed"
        np.savez(tmp_path / "start.npz", weight=np.full((2, 3), np.longdouble("1e400")), bias=np.zeros(2))
    with pytest.raises(
        SpecError, match=r"model\.init: 'weight' in .*start\.npz is not finite floating-point"
    ):
        run(raw_spec)
