"""A user's own folder: client order, kept precision, and one line for each mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wording import one_line

from fedcore.base.errors import DataError
from fedcore.data import Dataset, Source
from fedcore.data.datasets.npz_folder import NpzOptions
from fedcore.data.datasets.npz_folder import build_npz as build


def write(folder: Path, name: str, x: Any, y: Any) -> None:
    (folder / "clients").mkdir(parents=True, exist_ok=True)
    np.savez(folder / f"{name}.npz", x=np.asarray(x), y=np.asarray(y))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name, size in (("clients/2", 3), ("clients/10", 2), ("clients/1", 4), ("test", 5)):
        write(tmp_path, name, rng.normal(size=(size, 3)), np.arange(size) % 2)
    return tmp_path


def load(folder: Path, **options: Any) -> Dataset:
    return build(NpzOptions(path=str(folder), **options), Source())


def test_clients_come_in_numeric_order_and_precision_is_kept(folder: Path) -> None:
    data = load(folder)
    assert data.group_names == ("1", "2", "10")
    assert data.train.groups is not None
    assert data.train.groups.tolist() == [0] * 4 + [1] * 3 + [2] * 2
    assert data.train.x.dtype == np.float64
    np.testing.assert_array_equal(data.train.x[7:], np.load(folder / "clients" / "10.npz")["x"])
    assert (data.classes, data.validation, len(data.test)) == (2, None, 5)


def test_other_ids_come_in_text_order_and_validation_is_optional(folder: Path) -> None:
    write(folder, "clients/b", np.ones((1, 3)), [3])
    write(folder, "validation", np.ones((2, 3)), [0, 4])
    data = load(folder)
    assert data.group_names == ("1", "10", "2", "b")
    assert data.validation is not None
    assert data.classes == 5


@pytest.mark.parametrize(
    ("given", "kept"), [("float32", "float32"), ("float16", "float32"), ("uint8", "int64")]
)
def test_number_types(tmp_path: Path, given: str, kept: str) -> None:
    for name in ("clients/0", "test"):
        write(tmp_path, name, np.ones((2, 2), given), np.array([0.0, 1.0]))
    assert load(tmp_path).train.x.dtype == kept


def test_an_empty_client_stays_a_client(folder: Path) -> None:
    write(folder, "clients/3", np.empty((0, 3)), np.empty(0, int))
    data = load(folder)
    assert data.group_names == ("1", "2", "3", "10")
    assert data.train.groups is not None
    assert set(data.train.groups.tolist()) == {0, 1, 3}


@pytest.mark.parametrize(
    ("name", "x", "y", "message"),
    [
        (
            "clients/2",
            np.full((2, 3), np.nan),
            [0, 1],
            r"clients/2\.npz: x has nan or inf \(first in row 0\)",
        ),
        (
            "clients/2",
            [[0, 0, 0], [0, np.inf, 0]],
            [0, 1],
            r"clients/2\.npz: x has nan or inf \(first in row 1\)",
        ),
        ("test", np.ones((2, 3)), [0, -1], r"test\.npz: label -1 in row 1"),
        ("clients/2", np.ones((2, 3)), [0, 10**9], r"clients/2\.npz: label 1000000000 in row 1"),
        ("clients/2", np.ones((2, 3)), [0, 0.5], r"clients/2\.npz: y is float64, expected integer labels"),
        ("clients/2", np.ones((2, 3)), [0, np.nan], r"clients/2\.npz: y is float64, expected integer labels"),
        ("clients/2", np.ones((2, 3)), ["a", "b"], r"clients/2\.npz: y is <U1, expected integer labels"),
        ("clients/2", np.ones((2, 3)), [0, 1, 1], r"clients/2\.npz: expected x \[n, \.\.\.\] and y \[n\]"),
        ("clients/2", np.ones(3), [0, 1, 1], r"clients/2\.npz: expected x \[n, \.\.\.\] and y \[n\]"),
        (
            "clients/2",
            np.ones((2, 4)),
            [0, 1],
            r"clients/2\.npz: samples of shape \[4\], but 1\.npz has \[3\]",
        ),
        ("test", np.ones((2, 4)), [0, 1], r"test\.npz: samples of shape \[4\]"),
        (
            "clients/2",
            np.ones((2, 3), "float32"),
            [0, 1],
            r"clients/2\.npz: x is float32, but 1\.npz has float64",
        ),
        ("clients/2", np.ones((2, 3), complex), [0, 1], r"clients/2\.npz: x is complex128, expected numbers"),
        ("test", np.empty((0, 3)), np.empty(0, int), r"test\.npz: has no rows"),
    ],
)
def test_a_mistake_is_named_with_its_file(folder: Path, name: str, x: Any, y: Any, message: str) -> None:
    write(folder, name, x, y)
    with pytest.raises(DataError, match=message) as raised:
        load(folder)
    one_line(raised.value)


def test_a_test_file_that_is_a_client_s_too_is_refused(folder: Path) -> None:
    (folder / "test.npz").unlink()
    (folder / "test.npz").hardlink_to(folder / "clients" / "2.npz")
    with pytest.raises(DataError, match=r"test\.npz: is the file clients/2\.npz too, expected other rows"):
        load(folder)


def test_what_is_missing_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.path: no folder"):
        load(tmp_path / "gone")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no client files"):
        load(tmp_path / "empty")
    (folder / "test.npz").unlink()
    with pytest.raises(DataError, match=r"test\.npz: no such file"):
        load(folder)
    np.savez(folder / "clients" / "1.npz", x=np.ones((2, 3)))
    with pytest.raises(DataError, match="array 'y' is missing"):
        load(folder)
    (folder / "clients" / "1.npz").write_bytes(b"PK nonsense")
    with pytest.raises(DataError, match="not a readable npz archive"):
        load(folder)


def test_objects_are_never_unpickled(folder: Path) -> None:
    np.savez(folder / "clients" / "1.npz", x=np.array([[{}]], object), y=np.array([0]))
    with pytest.raises(DataError, match="not a readable npz archive"):
        load(folder)


def test_tokens_are_checked_against_the_vocabulary(tmp_path: Path) -> None:
    for name in ("clients/0", "test"):
        write(tmp_path, name, [[0, 4], [1, 2]], [0, 1])
    assert load(tmp_path, vocabulary=5).vocabulary == 5
    write(tmp_path, "clients/0", [[0, 3], [1, 2]], [0, 1])
    with pytest.raises(DataError, match=r"test\.npz: token 4, expected 0 to 3"):
        load(tmp_path, vocabulary=4)
