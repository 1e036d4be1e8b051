"""Readers return what is there, and turn whatever else a file may hold into one clear line."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import struct
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedcore.base.errors import DataError
from fedcore.data.readers import (
    read_cifar,
    read_house_numbers,
    read_idx,
    read_leaf,
    read_libsvm,
    read_moby,
    read_npz,
    read_numbers,
    read_picture,
    read_role_files,
    read_table,
)

FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def idx(array: np.ndarray) -> bytes:
    return (
        b"\x00\x00\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    )


def batch(rows: int = 2, labels: Any = None) -> bytes:
    pixels = np.arange(rows * 3072, dtype=np.int64).astype(np.uint8).reshape(rows, 3072)
    return pickle.dumps({b"data": pixels, b"labels": list(range(rows)) if labels is None else labels}, 2)


def npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def leaf() -> bytes:
    user = {"x": [[0.5] * 4, [1] * 4], "y": [0, 1]}
    return json.dumps({"users": ["a"], "num_samples": [9], "user_data": {"a": user}}).encode()


def tarred() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("roles/PLAY_ROLE.txt")
        info.size = 5
        tar.addfile(info, io.BytesIO(b"Hello"))
    return out.getvalue()


def parquet() -> bytes:
    out = io.BytesIO()
    pd.DataFrame({"a": [1, 2], "b": [0.5, None]}).to_parquet(out)
    return out.getvalue()


BYTES = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
PIXELS = np.arange(2 * 3072, dtype=np.int64).astype(np.uint8).reshape(2, 3, 32, 32)
READERS: dict[str, tuple[Callable[[Path], Any], bytes, Any]] = {
    "idx": (read_idx, idx(BYTES), BYTES),
    "cifar": (read_cifar, batch(), (PIXELS, np.arange(2))),
    "npz": (
        lambda path: read_npz(path, "x", "y"),
        npz(x=np.ones((3, 2)), y=np.arange(3)),
        (np.ones((3, 2)), np.arange(3)),
    ),
    "libsvm": (
        lambda path: read_libsvm(path, 4),
        b"1 1:0.5 3:-2\n-1 4:1e3\n",
        (np.array([[0.5, 0, -2, 0], [0, 0, 0, 1000]]), np.array([1, -1])),
    ),
    "leaf": (lambda path: read_leaf([path]), leaf(), {"a": ([[0.5] * 4, [1] * 4], [0, 1])}),
    "csv": (
        lambda path: read_numbers(path, 3),
        b"1,2,3\n4,5,6.5\n",
        np.array([[1, 2, 3], [4, 5, 6.5]]),
    ),
    "table": (
        lambda path: read_table(path, ("a",)).to_dict("list"),
        b"a,b\n1,x\n2,y\n",
        {"a": [1, 2]},
    ),
    "parquet": (lambda path: read_table(path, ("a",)).to_dict("list"), parquet(), {"a": [1, 2]}),
    "tar": (read_role_files, tarred(), {"PLAY_ROLE": "Hello"}),
    "moby": (
        lambda path: read_moby([path]),
        b"\tA PLAY\n\n\tDRAMATIS PERSONAE\n\nACT I\nTOM\tHello,\n\tyou.\n",
        {"A PLAY: TOM": "Hello,\nyou."},
    ),
}


def same_kind(value: Any, expected: Any) -> bool:
    """Say whether a value is like the expected one but for the rows it has, their number and names."""
    if type(value) is not type(expected):
        return False
    if isinstance(value, dict):
        like = next(iter(expected.values()))
        return all(isinstance(name, str) and same_kind(each, like) for name, each in value.items())
    if isinstance(value, tuple):
        return len({*map(len, value)}) == 1 and all(map(same_kind, value, expected))
    if isinstance(value, np.ndarray):
        return (value.dtype, value.shape[1:]) == (expected.dtype, expected.shape[1:])
    return True


@pytest.mark.parametrize("kind", READERS)
def test_each_reader_reads_its_format(kind: str, tmp_path: Path) -> None:
    read, content, expected = READERS[kind]
    path = tmp_path / "file"
    path.write_bytes(content)
    np.testing.assert_equal(read(path), expected)
    assert same_kind(read(path), expected)


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (lambda path: read_numbers(path, 3), b"1,2\n4,5\n", "2 columns, expected 3"),
        (lambda path: read_numbers(path, 3), b"1,2,3,4\n", "4 columns, expected 3"),
        (
            lambda path: read_leaf([path]),
            leaf().replace(b"[0, 1]", b"[0]"),
            "user 'a' has no lists x and y of one length",
        ),
    ],
)
def test_rows_of_another_size_are_refused(
    read: Callable[[Path], Any], content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read(tmp_path / "file")


@pytest.mark.parametrize("count", [60, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", READERS)
@pytest.mark.timeout(1800)
def test_no_bytes_make_a_reader_raise_anything_but_a_data_error(
    kind: str,
    count: int,
    tmp_path: Path,
    record_property: Callable[[str, int], None],
) -> None:
    record_property("trials", count)
    read, content, expected = READERS[kind]
    path = tmp_path / "file"

    @settings(FUZZ, max_examples=count, database=None)
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        how = data.draw(st.sampled_from(["random", "truncated", "changed", "inserted", "flipped"]))
        if how == "random":
            path.write_bytes(data.draw(st.binary(max_size=300)))
        else:
            at = data.draw(st.integers(0, len(content) - 1))
            some = data.draw(st.binary(min_size=1, max_size=4))
            rest = {
                "truncated": b"",
                "changed": some + content[at + len(some) :],
                "inserted": some + content[at:],
                "flipped": bytes([content[at] ^ 1 << some[0] % 8]) + content[at + 1 :],
            }
            path.write_bytes(content[:at] + rest[how])
        try:
            value = read(path)
        except DataError as error:
            text = str(error)
        else:
            assert same_kind(value, expected)
            return
        assert "\n" not in text
        assert str(path) in text

    check()


@FUZZ
@given(array=hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5)))
def test_idx_gives_back_what_was_written(array: np.ndarray, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(idx(array))
    np.testing.assert_array_equal(read_idx(tmp_path / "a"), array)


@FUZZ
@given(
    x=hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.just(5)), elements=st.floats(-1e6, 1e6)),
    label=st.integers(-5, 9),
)
def test_libsvm_gives_back_what_was_written(x: np.ndarray, label: int, tmp_path: Path) -> None:
    lines = [" ".join([str(label), *(f"{i}:{v!r}" for i, v in enumerate(row.tolist(), 1) if v)]) for row in x]
    (tmp_path / "a").write_text("\r\n".join([*lines, "", "  "]))
    features, labels = read_libsvm(tmp_path / "a", 5)
    np.testing.assert_array_equal(features, x)
    assert labels.tolist() == [label] * len(x)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 5:1\n", "line 1"),
        ("1 0:1\n", "must start at 1"),
        ("1 1:1\n1 2:1 1:1\n", "line 2: indices must start at 1 and increase"),
        ("1 1:nan\n", "nan or inf"),
        ("1.5 1:1\n", "label 1.5 is no integer"),
        ("1 1:1:1\n", "line 1"),
        ("\n \n", "no rows"),
        ("1 1:\xe9\n", "not LIBSVM text"),
    ],
)
def test_malformed_libsvm_lines_are_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_libsvm(tmp_path / "a", 4)


def test_a_batch_can_only_build_arrays(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "made"),)

    (tmp_path / "a").write_bytes(pickle.dumps({b"data": Evil(), b"labels": []}))
    with pytest.raises(DataError, match="not allowed"):
        read_cifar(tmp_path / "a")
    assert not (tmp_path / "made").exists()


def test_a_batch_holds_integers_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(pickle.dumps({b"data": np.zeros((1, 3072), object), b"labels": [0]}, 2))
    with pytest.raises(DataError, match="arrays of object, expected integers"):
        read_cifar(tmp_path / "a")


@pytest.mark.parametrize("kind", ["<i8", ">i4", "uint8"])
def test_a_batch_may_have_its_labels_in_an_array(kind: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(batch(3, labels=np.array([7, 0, 9], kind)))
    assert read_cifar(tmp_path / "a")[1].tolist() == [7, 0, 9]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\x80\x02}r\x00\x00\x00\x01.", id="a dictionary as number 2^24 of what is kept"),
        pytest.param(b"\x80\x02\x96\x00\x00\x00\x40\x00\x00\x00\x00.", id="an array of 2^30 bytes"),
    ],
)
def test_a_damaged_batch_takes_no_memory_that_it_lacks(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(content)
    tracemalloc.start()
    with pytest.raises(DataError, match="not a CIFAR python batch"):
        read_cifar(tmp_path / "a")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "it ends after 0 bytes, too early"),
        (batch(3)[:-1], f"it ends after {len(batch(3)) - 1:,} bytes, too early"),
        (b"<!DOCTYPE html>", "no pickle: it begins with b'<!DOCTYP'"),
        (b"version https://", "no pickle: it begins with b'version '"),
        (batch(3, np.array([0.0, 1.0, 2.0])), "arrays of float64, expected integers"),
    ],
)
def test_a_file_that_is_no_batch_is_named_with_what_it_is(
    content: bytes, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(DataError, match=re.escape(expected)):
        read_cifar(tmp_path / "a")


@pytest.mark.parametrize(
    "read",
    [
        read_idx,
        read_cifar,
        read_house_numbers,
        read_role_files,
        lambda path: read_npz(path, "x"),
        lambda path: read_numbers(path, 1),
        lambda path: read_table(path, ["a"]),
        lambda path: read_libsvm(path, 1),
        lambda path: read_leaf([path]),
        lambda path: read_moby([path]),
        lambda path: read_picture(path, None, None),
    ],
)
def test_a_file_that_is_missing_is_named(read: Callable[[Path], Any], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"lost\.file: no such file"):
        read(tmp_path / "lost.file")


def test_a_batch_is_images_and_labels(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(batch(3))
    x, y = read_cifar(tmp_path / "a")
    assert (x.shape, str(x.dtype), y.tolist()) == ((3, 3, 32, 32), "uint8", [0, 1, 2])
    assert x[0, 1, 0, 5] == (1024 + 5) % 256
    for labels in ([0, 10, 1], [0, -1, 1], [0.5, 1, 2], [0, 1]):
        (tmp_path / "a").write_bytes(batch(3, labels))
        with pytest.raises(DataError):
            read_cifar(tmp_path / "a")


def test_npz_refuses_objects_and_names_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(npz(x=np.array([{"a": 1}], object), y=np.ones(1)))
    with pytest.raises(DataError, match="not a readable npz archive"):
        read_npz(tmp_path / "a.npz", "x", "y")
    (tmp_path / "a.npz").write_bytes(npz(x=np.ones(1)))
    with pytest.raises(DataError, match="array 'y' is missing; found: x"):
        read_npz(tmp_path / "a.npz", "x", "y")
    np.save(tmp_path / "b.npy", np.ones(3))
    with pytest.raises(DataError, match="found one bare array"):
        read_npz(tmp_path / "b.npy", "x")
    with pytest.raises(DataError, match="no such file"):
        read_npz(tmp_path / "c.npz", "x")


def test_a_leaf_user_in_two_files_gets_both_parts(tmp_path: Path) -> None:
    for name, values in (("a", [1, 2]), ("b", [3])):
        content = {"users": ["u"], "user_data": {"u": {"x": values, "y": values}}}
        (tmp_path / name).write_text(json.dumps(content))
    assert read_leaf([tmp_path / "a", tmp_path / "b"]) == {"u": ([1, 2, 3], [1, 2, 3])}


def test_moby_speeches_go_to_their_roles_without_directions(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(
        "\n\tA PLAY\n\n\tDRAMATIS PERSONAE\n\nTOM\ta man.\n\n\tA PLAY\n\nACT I\n\nSCENE I\tA room.\n\n"
        "\t[Enter TOM and First Man]\n\nTOM\tHello, [Aside]  you\n\tthere.\n\nFirst Man\tAy.\n\n\t[Exit]\n\n"
        "ACT II\n\n\tNobody says this.\n\nTOM\tGone.\n"
    )
    assert read_moby([tmp_path / "a"]) == {
        "A PLAY: First Man": "Ay.",
        "A PLAY: TOM": "Hello,   you\nthere.\nGone.",
    }
