"""Partition files that are no partitions of the data are refused in one line; empty clients are counted."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from partition_toys import split_data, toy_data
from wording import one_line

from fedcore.base.errors import FedcoreError, SpecError
from fedcore.base.registry import Plugin
from fedcore.cli.main import main
from fedcore.data import Partition, Source
from fedcore.engines.problem import Problem
from fedcore.execution.runner import load_data
from fedcore.partitions import PartitionOptions
from fedcore.partitions.build import check, make
from fedcore.partitions.figure import draw, write
from fedcore.partitions.file import load, save

HOME = Path(__file__).parents[2]
CLIENTS, ROWS = 9, 100
DATA = toy_data(np.arange(ROWS) % 4)
SPEC = {
    "data": {"name": "mnist", "edition": "demo"},
    "partition": {"name": "iid", "clients": CLIENTS},
    "model": {"name": "linear"},
    "algorithm": {"name": "fedavg"},
    "training": {"rounds": 1, "batch_size": 10, "lr": 0.1},
}
FOUND = {
    "doubled": r"row \d+ is held more than once, by client 2 and client 3, expected each row once",
    "twice": r"row \d+ is held more than once, by client 2 and client 2",
    "negative": r"client 2: row -1 is out of range, the data have 2000 rows",
    "beyond": r"client 2: row 2000 is out of range, the data have 2000 rows",
    "fractional": r"client 2: got 0\.5 in a list of float64, expected whole numbers",
    "negative size": r"client 2: size -\d+, expected 0 or more",
    "lost": r"row \d+ is neither held nor dropped, expected each of 2000 once",
    "words": r"client 0: got <U1 of shape \(2000,\) in a list of <U1, expected whole numbers",
    "note": r"damaged \('note' or 'identity' is no text\)",
}


def mutated(kind: str, arrays: dict[str, Any]) -> None:
    """Change what a partition file holds, in client 2."""
    rows, sizes = arrays["rows"], arrays["sizes"]
    first, after = int(sizes[:2].sum()), int(sizes[:3].sum())
    if kind == "doubled":
        rows[after] = rows[first]
    elif kind == "twice":
        rows[first + 1] = rows[first]
    elif kind in {"negative", "beyond"}:
        rows[first] = -1 if kind == "negative" else len(rows)
    elif kind == "fractional":
        arrays["rows"] = rows.astype(float)
        arrays["rows"][first] = 0.5
    elif kind == "negative size":
        sizes[2], sizes[3] = -sizes[2], sizes[3] + 2 * sizes[2]
    elif kind == "lost":
        arrays["rows"] = np.delete(rows, first)
        sizes[2] -= 1
    elif kind == "words":
        arrays["rows"] = np.full(len(rows), "a")
    else:
        arrays["note"] = np.array([255, 254], np.uint8)


def call(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["fedcore", *arguments, "--root", str(HOME / "data")])
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


@pytest.fixture(scope="module")
def partition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("partition")
    (folder / "spec.yaml").write_text(yaml.safe_dump(SPEC))
    with pytest.MonkeyPatch.context() as patch:
        command = ("partition", str(folder / "spec.yaml"), "--out", str(folder), "--no-figure")
        assert call(*command, monkeypatch=patch) == 0
    return folder


@pytest.mark.parametrize("name", ["letter", "mnist"])
def test_rows_that_several_sets_have_are_in_the_statistics(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, section = tmp_path / "spec.yaml", {"name": name, "edition": "demo"}
    path.write_text(yaml.safe_dump(SPEC | {"data": section}))
    assert call("partition", str(path), "--out", str(tmp_path), "--no-figure", monkeypatch=monkeypatch) == 0
    data, _ = load_data(json.dumps(section), Source(HOME / "data"))
    trained, tested = (
        [(*row.flat, label) for row, label in zip(part.x, part.y, strict=True)]
        for part in (data.train, data.test)
    )
    count = sum(map({*trained}.__contains__, tested))
    assert (count > 0) == (name == "letter")
    counts = json.loads((tmp_path / "stats.json").read_text())
    assert counts.get("repeated_rows") == ({"test_in_clients": [count, count]} if count else None)


@pytest.mark.parametrize("kind", FOUND)
def test_a_run_refuses_it_and_says_who_holds_what(
    kind: str,
    partition: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with np.load(partition / "partition.npz") as archive:
        arrays = {name: archive[name].copy() for name in archive.files}
    mutated(kind, arrays)
    path = tmp_path / "changed.npz"
    np.savez(path, **arrays)
    out = tmp_path / "out"
    command = ("run", str(partition / "spec.yaml"), "--out", str(out), "--partition", str(path))
    assert call(*command, monkeypatch=monkeypatch) == 2
    message = capfd.readouterr().err.strip().splitlines()[-1]
    assert message.startswith(f"error: {path}: ")
    assert re.search(FOUND[kind], message), message
    assert not (out / "summary.json").exists()


def refusal(path: Path) -> str | None:
    """Return what is said of a partition file of ROWS rows, None if it is taken."""
    try:
        check(load(path)[0], ROWS, str(path))
    except FedcoreError as error:
        return str(error)
    return None


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(
        ["rows", "sizes", "validation", "test", "dropped", "held_out_rows", "held_out_sizes"]
    ),
    place=st.integers(0, 40),
    value=st.one_of(st.integers(-3, ROWS + 3), st.floats(-2, ROWS + 2), st.just(2**62), st.just("x")),
    fold=st.booleans(),
)
def test_any_number_that_is_changed_is_noticed(
    name: str, place: int, value: float | str, fold: bool, tmp_path: Path
) -> None:
    path = tmp_path / "p.npz"
    split = split_data(
        DATA, "iid", clients=CLIENTS, **({"fold": {"index": 1}} if fold else {"validation": 0.2})
    )
    save(split, path, {})
    with np.load(path) as archive:
        arrays = {key: archive[key].copy() for key in archive.files}
    if name not in arrays or place >= len(arrays[name]):
        return
    before = arrays[name].copy()
    arrays[name] = np.array([*before[:place], value, *before[place + 1 :]])
    np.savez(path, **arrays)
    message = refusal(path)
    if message is None:
        assert arrays[name].dtype.kind == "i"
        assert arrays[name].tolist() == before.tolist()
    else:
        assert message.startswith(f"{path}: ")
        one_line(message)


@pytest.mark.parametrize("command", ["partition", "run"])
def test_clients_without_rows_are_counted_in_one_line(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    spec = SPEC | {"partition": {"name": "iid", "clients": 3000}, "participation": {"fraction": 0.01}}
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(spec))
    plain = ("--no-figure",) if command == "partition" else ()
    out = ("--out", str(tmp_path / "out"))
    assert call(command, str(tmp_path / "spec.yaml"), *out, *plain, monkeypatch=monkeypatch) == 0
    lines = capfd.readouterr().err.splitlines()
    warnings = [line for line in lines if line.startswith("warning")]
    assert warnings == ["warning: 1,000 of 3,000 clients hold no row and never train"]


class Counted(tuple[Any, ...]):
    """Clients' blocks that count how often someone goes through them all."""

    passes = 0

    def __iter__(self) -> Any:
        Counted.passes += 1
        return super().__iter__()


def test_sizes_and_active_clients_are_found_in_one_pass() -> None:
    """A loop over clients that asks for them costs as much as the clients, not as their square."""
    block = range(3)
    problem = Problem(None, {}, None, Counted([block, range(0)] * 500), block, block, None, 2)  # type: ignore[arg-type]
    Counted.passes = 0
    total = sum(problem.sizes[client] for client in problem.active for _ in range(2))
    assert total == 2 * 3 * 500
    assert problem.active == list(range(0, 1000, 2))
    assert Counted.passes == 1


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([[0, 1, 2, 3], []], None),
        ([np.arange(4), np.array([])], None),
        ([[0, 1, 2, 3.5], []], "client 0: float64 of shape [4], expected a list of row numbers"),
        ([[[0, 1], [2, 3]]], "client 0: int64 of shape [2, 2], expected a list of row numbers"),
        (None, "returned NoneType, expected a Partition"),
    ],
)
def test_an_own_partition_s_rows_are_checked(parts: Any, said: str | None) -> None:
    built = None if parts is None else Partition(clients=tuple(parts), note="")
    plugin = Plugin("own", PartitionOptions, lambda options, dataset, rng: built, "", "")
    data = toy_data(np.arange(4) % 2)
    if said is None:
        assert [len(rows) for rows in make(plugin, PartitionOptions(), data, 0).clients] == [4, 0]
        return
    with pytest.raises(SpecError, match=re.escape(f"partition 'own': {said}")):
        make(plugin, PartitionOptions(), data, 0)


def test_weights_beyond_the_range_of_numbers_are_refused() -> None:
    with pytest.raises(SpecError, match="partition: shares are beyond the range of numbers, expected less"):
        split_data(toy_data(np.arange(1000) % 10), "power_law", clients=100, exponent=1.001)


def test_a_name_with_dollars_is_drawn_as_it_is(tmp_path: Path) -> None:
    title, note = "of t/price$1^_$x.csv", "note $^$"
    figure = draw(np.ones((2, 2), np.int64), title, note)
    write(figure, tmp_path / "x")
    assert {title, note} <= set(re.findall("<!-- (.*) -->", (tmp_path / "x.svg").read_text()))
