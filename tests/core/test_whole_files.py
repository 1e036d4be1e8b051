"""Files, hashes and seals: what equal content gives, and what a changed one is found by."""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedcore.base.errors import DataError
from fedcore.base.files import (
    PART,
    canonical_json,
    exclusive,
    make_folder,
    read_json,
    read_object,
    sha256_file,
    sha256_text,
    stamps,
    write_json,
    write_text,
)
from fedcore.execution import integrity
from fedcore.execution.integrity import changed, check, code_of, finished, read_sealed, sealed

SAID = {"spec_sha256": "", "code": "a" * 16}


def test_the_canonical_text_has_sorted_keys_and_no_spaces() -> None:
    value = {"b": [1, 2.5, None], "a": {"d": "é", "c": True}}
    assert canonical_json(value) == '{"a":{"c":true,"d":"\\u00e9"},"b":[1,2.5,null]}'
    assert canonical_json(dict(reversed(value.items()))) == canonical_json(value)
    for number in (math.nan, math.inf):
        with pytest.raises(ValueError, match="Out of range float"):
            canonical_json([number])


def test_hashes_are_the_standards_own(tmp_path: Path) -> None:
    """The example of FIPS 180-4: "abc"."""
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_text("abc") == known
    (tmp_path / "abc").write_bytes(b"abc")
    assert sha256_file(tmp_path / "abc") == known
    text = "é" * 70_000
    (tmp_path / "long").write_text(text, encoding="utf-8")
    assert sha256_file(tmp_path / "long") == sha256_text(text) == hashlib.sha256(text.encode()).hexdigest()


def test_equal_values_are_equal_bytes_that_end_a_line(tmp_path: Path) -> None:
    for name, value in (("a", {"b": 1, "a": [1]}), ("b", {"a": [1], "b": 1})):
        write_json(tmp_path / name, value)
        assert (tmp_path / name).read_bytes() == b'{\n  "a": [\n    1\n  ],\n  "b": 1\n}\n'
    with pytest.raises(ValueError, match="Out of range float"):
        write_json(tmp_path / "a", {"a": math.nan})
    assert json.loads((tmp_path / "a").read_text()) == {"a": [1], "b": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1, "b": {"c": 2, "c": 2}}', "the key 'c' is given twice"),
        ('{"a": NaN}', "NaN is no JSON"),
        ("[Infinity]", "Infinity is no JSON"),
        ("[" * 100_000, "nested too deep"),
        ("{", "Expecting property name"),
        ("\xff", "can't decode byte"),
    ],
)
def test_what_is_no_json_is_not_read(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(text.encode("latin-1"))
    for read in (read_json, read_object):
        with pytest.raises(ValueError, match=said):
            read(tmp_path / "a.json")


def test_json_is_read_as_written(tmp_path: Path) -> None:
    value = {"b": [1, 2.5, None], "é": {"c": True}}
    (tmp_path / "a.json").write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    assert read_json(tmp_path / "a.json") == read_object(tmp_path / "a.json") == value
    for text, kind in (("[1]", "list"), ("1", "int"), ("null", "NoneType")):
        (tmp_path / "a.json").write_text(text)
        assert read_json(tmp_path / "a.json") == json.loads(text)
        with pytest.raises(ValueError, match=f"expected an object, got {kind}"):
            read_object(tmp_path / "a.json")
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "b.json")


def test_stamps_change_with_what_is_below(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    make_folder(folder)
    make_folder(folder)
    seen = [stamps(tmp_path)]
    (folder / "file").write_text("1")
    seen.append(stamps(tmp_path))
    (folder / "file").write_text("22")
    seen.append(stamps(tmp_path))
    os.utime(folder / "file", (1, 1))
    seen.append(stamps(tmp_path))
    assert len(set(seen)) == 4
    assert stamps(tmp_path) == seen[-1]
    assert len(seen[-1]) == 4, "three folders and a file"
    (folder / "loop").symlink_to(tmp_path)
    assert len(stamps(tmp_path)) == 4
    assert len(stamps(folder / "file")) == 1
    assert stamps(tmp_path / "none") == ()


def test_what_cannot_be_a_folder_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "b", tmp_path / ("x" * 300), tmp_path / "a\0b"):
        with pytest.raises(DataError, match=r": cannot be a folder \(.") as refused:
            make_folder(path)
        assert str(refused.value).startswith(str(path)[:-2])


def test_a_file_has_the_rights_that_the_user_gives_new_files(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "text", "é\n")
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert (tmp_path / "text").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "text").read_bytes() == "é\n".encode()


def test_a_folder_is_held_by_one_at_a_time(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "folder"
    entered = threading.Event()

    def second() -> None:
        with exclusive(folder):
            entered.set()

    thread = threading.Thread(target=second)
    with exclusive(folder):
        left = folder / f".history.csv.x{PART}"
        left.touch()
        thread.start()
        assert not entered.wait(0.3)
    thread.join(10)
    assert entered.is_set()
    assert not left.exists()
    out, err = capfd.readouterr()
    assert err == f"{folder}: another process works here; waiting for its end\n"
    assert not out


def test_where_folders_cannot_be_locked_nobody_is_kept_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refused(handle: int, operation: int) -> None:
        raise OSError

    monkeypatch.setattr(fcntl, "flock", refused)
    left = tmp_path / f".history.csv.x{PART}"
    left.touch()
    with exclusive(tmp_path), exclusive(tmp_path):
        assert left.exists(), "it may be another process's"
    assert capfd.readouterr() == ("", "")


def finish(folder: Path, **provenance: Any) -> Path:
    """Write a small finished run."""
    folder.mkdir(parents=True)
    write_json(folder / "summary.json", {"final": 0.5})
    (folder / "spec.yaml").write_text(
        yaml.safe_dump({"seed": 1, "city": "Köln"}, allow_unicode=True), "utf-8"
    )
    write_json(folder / "timing.json", sealed({"seconds": 1}))
    stated = {**SAID, "spec_sha256": sha256_text(canonical_json({"seed": 1, "city": "Köln"})), **provenance}
    hashes = {name: sha256_file(folder / name) for name in ("spec.yaml", "summary.json")}
    write_json(folder / "provenance.json", sealed({**stated, "files": hashes}))
    return folder


def stated(folder: Path) -> dict[str, Any]:
    content = read_sealed(folder / "provenance.json")
    return {key: value for key, value in content.items() if key != "files"}


def test_a_seal_is_broken_by_any_other_content(tmp_path: Path) -> None:
    value = {"a": 1, "sha256": "of something else"}
    intact, path = sealed({"b": [2], "a": 1}), tmp_path / "sealed.json"
    for same in (intact, dict(reversed(intact.items()))):
        path.write_text(json.dumps(same))
        assert read_sealed(path) == {"b": [2], "a": 1}
    for broken in (value, {"a": 1}, {}, intact | {"a": 2}, intact | {"c": None}):
        path.write_text(json.dumps(broken))
        with pytest.raises(ValueError, match="its content is not what was written"):
            read_sealed(path)


def test_finished_is_what_has_the_same_provenance_and_unchanged_files(tmp_path: Path) -> None:
    folder = finish(tmp_path / "run")
    expected = stated(folder)
    assert finished(folder, expected)
    assert not finished(folder, expected | {"code": "b" * 16})
    assert not finished(folder, {})
    assert not finished(tmp_path, expected)
    timing = (folder / "timing.json").read_bytes()
    for path in (folder / "timing.json", folder / "summary.json"):
        path.write_text("{}")
        assert not finished(folder, expected)
        (folder / "timing.json").write_bytes(timing)
    (folder / "summary.json").unlink()
    assert not finished(folder, expected)


@pytest.mark.parametrize("text", ["", "[]", "{}", "1", '{"sha256": "0"}', None])
def test_what_is_no_provenance_is_not_finished_and_states_no_code(tmp_path: Path, text: str | None) -> None:
    folder = finish(tmp_path / "run")
    expected = stated(folder)
    assert code_of(folder) == "a" * 16
    if text is None:
        write_json(folder / "provenance.json", sealed({"code": "b"}))
        assert not finished(folder, {"code": "b"})
        assert code_of(folder) == "b"
        assert changed(folder) == "provenance.json is changed or damaged ('files')"
        return
    (folder / "provenance.json").write_text(text)
    assert not finished(folder, expected)
    assert code_of(folder) == ""
    assert changed(folder).startswith("provenance.json is changed or damaged (")
    assert "\n" not in changed(folder)


def test_code_that_is_not_stated_is_none(tmp_path: Path) -> None:
    folder = finish(tmp_path / "run")
    write_json(folder / "provenance.json", sealed({"files": {}}))
    assert code_of(folder) == ""
    assert code_of(tmp_path / "nothing") == ""


def test_every_problem_of_a_run_is_said(tmp_path: Path) -> None:
    folder = finish(tmp_path / "tree" / "run")
    assert changed(folder) == ""
    for name in (".hidden", "checkpoint.npz"):
        (folder / name).touch()
    assert check(tmp_path).problems == ()
    (folder / "more.csv").touch()
    (folder / "summary.json").unlink()
    (folder / "timing.json").write_text("{}")
    (folder / "spec.yaml").write_text("seed: 2\n")
    assert [(problem.folder, problem.what) for problem in check(tmp_path).problems] == [
        (folder, "spec.yaml is changed (its SHA-256 is not the one in provenance.json)"),
        (folder, "summary.json is missing"),
        (folder, "spec.yaml is not the specification that provenance.json states"),
        (folder, "timing.json is missing, changed or damaged"),
        (folder, "more.csv is not listed in provenance.json"),
    ]
    assert str(check(tmp_path).problems[0]).startswith(f"{folder}: spec.yaml is changed")
    (folder / "spec.yaml").write_text("{")
    (folder / "timing.json").unlink()
    problems = [problem.what for problem in check(tmp_path).problems]
    assert problems[2:4] == ["spec.yaml is missing or damaged", "timing.json is missing, changed or damaged"]


def test_a_specification_that_the_provenance_does_not_state(tmp_path: Path) -> None:
    for name, sha256 in (("other", "0" * 64), ("none", None)):
        folder = finish(tmp_path / name, spec_sha256=sha256)
        assert changed(folder) == "spec.yaml is not the specification that provenance.json states"


def test_partitions_and_what_is_wrong_with_them(tmp_path: Path) -> None:
    def written(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "partition.npz").write_bytes(b"rows")
        hashed = sha256_file(folder / "partition.npz")
        write_json(folder / "stats.json", sealed({"partition.npz_sha256": hashed}))
        return folder

    sound, other, lost, unsaid, broken = (written(name) for name in ("a", "b", "c", "d", "e"))
    (other / "partition.npz").write_bytes(b"other rows")
    (lost / "partition.npz").unlink()
    write_json(unsaid / "stats.json", sealed({}))
    (broken / "stats.json").unlink()
    assert changed(sound) == ""
    assert changed(other) == "partition.npz is changed (its SHA-256 is not the one in stats.json)"
    assert changed(lost) == "partition.npz is missing"
    assert changed(unsaid) == "stats.json is missing, changed or damaged ('partition.npz_sha256')"
    assert changed(broken).startswith("stats.json is missing, changed or damaged ([Errno 2]")
    report = check(tmp_path)
    assert report.partitions == (sound, other, lost, unsaid, broken)
    assert (report.runs, report.unfinished) == ((), ())
    assert [problem.folder for problem in report.problems] == [other, lost, unsaid, broken]
    assert [problem.what for problem in report.problems] == [
        changed(folder) for folder in (other, lost, unsaid, broken)
    ]


def test_runs_are_found_by_any_of_their_marks(tmp_path: Path) -> None:
    complete = finish(tmp_path / "a" / "whole")
    bare, begun = tmp_path / "b" / "bare", tmp_path / "c" / "begun"
    stated = tmp_path / "b" / "stated"
    marks = ((bare, "summary.json"), (stated, "provenance.json"), (begun, "checkpoint.npz"))
    for folder, mark in (*marks, (tmp_path / "d", "history.csv")):
        folder.mkdir(parents=True)
        (folder / mark).touch()
    report = check(tmp_path)
    assert (report.runs, report.unfinished, report.partitions) == ((complete, bare, stated), (begun,), ())
    missing, damaged = map(str, report.problems)
    assert missing == f"{bare}: provenance.json is missing"
    assert damaged.startswith(f"{stated}: provenance.json is changed or damaged (")


def test_an_error_without_words_is_said_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = finish(tmp_path / "run")

    def refused(path: Path) -> str:
        raise PermissionError

    monkeypatch.setattr(integrity, "sha256_file", refused)
    assert changed(folder) == "spec.yaml can't be read (PermissionError)"


def test_only_runs_beside_each_other_are_compared_by_code(tmp_path: Path) -> None:
    for name, code in (
        ("x/0", "a" * 16),
        ("x/1", "a" * 16),
        ("y/0", "b" * 16),
        ("z/0", ""),
        ("z/1", "c" * 16),
    ):
        finish(tmp_path / name, code=code)
    assert check(tmp_path).problems == ()
    finish(tmp_path / "x/2", code="d" * 16)
    (problem,) = check(tmp_path).problems
    assert problem.folder == tmp_path / "x"
    assert problem.what == f"mixed versions of the code: 0, 1 by {'a' * 12}; 2 by {'d' * 12}"
