"""Wrong types and extremes in every file that is read: one line or the right values, never a traceback.

The quick suite tries hundreds of mutations; ``-m slow`` thousands.
"""

from __future__ import annotations

import copy
import io
import json
import os
import shutil
import socket
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner, Result

from fedcore.base import errors
from fedcore.base.errors import DataError, FedcoreError, SpecError
from fedcore.base.files import canonical_json, read_or_empty, sha256_file, sha256_text
from fedcore.cli import main, status
from fedcore.cli.main import app
from fedcore.cli.status import lines, view
from fedcore.data import Partition, Source
from fedcore.data.download.fetch import demo_file
from fedcore.execution import batch, integrity, runner
from fedcore.execution.integrity import changed, check, finished, sealed
from fedcore.execution.runner import Settings, run
from fedcore.execution.status import survey
from fedcore.partitions.file import load as load_partition
from fedcore.partitions.file import save as save_partition
from fedcore.spec import parse
from pipeline.catalogue.params import configuration
from pipeline.papers import catalogue_of
from pipeline.reports.results import facts

CLI = CliRunner()
JUNK: tuple[Any, ...] = (
    None, True, "", "x", "\x00", -1, 0, 2.5, 1e300, -1e300, 10**30, 10**300, [], [1], [[]], {}, {"x": 1},
    {"final": []}, "2026", "\ud800", "/dev/zero", "../..", [None] * 3, {"": {}},
)  # fmt: skip
EXTREMES = (
    1e39, 3.4e38, 1e30, 1e-30, 1e-45, 1e-320, 5e-324, 0.0, -0.0, 1e300, 1e308, -1e308, 10**30, 2**63, 2**62,
    2**40, 2**31, 2**31 - 1, -(2**63), 10**400,
)  # fmt: skip


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value inside a nested one, and of the whole."""
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*at, key))


def changed_at(value: Any, path: tuple[Any, ...], junk: Any) -> Any:
    """Return a copy with another value at a path."""
    if not path:
        return junk
    mutated = copy.deepcopy(value)
    place = mutated
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = junk
    return mutated


def mutations(value: Any, share: int) -> Iterator[Any]:
    """Yield the value with junk at each place; of all such, one in ``share``."""
    pairs = ((path, junk) for path in places(value) for junk in JUNK)
    for number, (path, junk) in enumerate(pairs):
        if number % share == 0:
            yield changed_at(value, path, junk)


SHARES = [61, pytest.param(1, marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def short(digits: Path) -> dict[str, Any]:
    return {
        "data": {"name": "npz", "path": str(digits)},
        "partition": {"name": "given"},
        "model": {"name": "logistic"},
        "algorithm": {"name": "fedavg"},
        "training": {"rounds": 1, "local_epochs": 1, "batch_size": 16, "lr": 0.1},
        "seed": 3,
    }


@pytest.fixture(scope="module")
def made(short: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    folder = tmp_path_factory.mktemp("made") / "run"
    run(short, folder, Settings(device="cpu", provenance={"code": "c0de"}))
    return folder


@pytest.fixture(autouse=True, scope="module")
def one_plan() -> Iterator[None]:
    """Plan what params.yaml asks for once, not at each look."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(status, "_planned", cache(status._planned))
        patch.setattr("pipeline.workflow.expected.catalogue_of", cache(catalogue_of))
        patch.setattr("pipeline.workflow.expected.configuration", cache(configuration))
        yield


def looked_at(root: Path) -> None:
    """Look at results in every way that reads them."""
    runs = survey(root)
    text = "\n".join(lines(runs))
    assert "\x00" not in text
    view(runs)
    for folder in {entry.folder for entry in runs}:
        finished(folder, {"code": "c0de"})
        changed(folder)
        for name in ("summary.json", "provenance.json", "timing.json", "stats.json"):
            read_or_empty(folder / name)
    check(root)
    for arguments in (["status", str(root)], ["verify", str(root)]):
        result = CLI.invoke(app, arguments)
        assert isinstance(result.exception, SystemExit | type(None)), result.exception


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize(
    "name", ["summary.json", "timing.json", "provenance.json", "provenance.json, sealed"]
)
@pytest.mark.timeout(1800)
def test_wrong_types_in_a_run_s_files_are_no_traceback(
    name: str, share: int, made: Path, tmp_path: Path, record_property: Callable[[str, int], None]
) -> None:
    shutil.copytree(made, tmp_path / "results" / "run")
    name, _, seal = name.partition(", ")
    path = tmp_path / "results" / "run" / name
    value = json.loads(path.read_text())
    tried = 0
    for mutated in mutations(value, share):
        if seal and isinstance(mutated, dict):
            mutated = sealed({key: field for key, field in mutated.items() if key != "sha256"})
        path.write_text(json.dumps(mutated))
        looked_at(tmp_path / "results")
        tried += 1
    record_property("trials", tried)
    assert tried > 3


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.timeout(1800)
def test_wrong_types_in_a_record_of_progress_are_no_traceback(
    share: int, tmp_path: Path, record_property: Callable[[str, int], None]
) -> None:
    (tmp_path / "run").mkdir()
    tried = 0
    for state in ("running", "failed"):
        record = {"state": state, "round": 2, "rounds": 8, "accuracy": 0.2, "began": 1e9, "updated": 1e9 + 5}
        record |= {
            "process": os.getpid(),
            "machine": socket.gethostname(),
            "log": "x.log",
            "command": "again",
        }
        for mutated in mutations(record | {"error": "no"}, share):
            (tmp_path / "run" / ".progress.json").write_text(json.dumps(mutated))
            looked_at(tmp_path)
            tried += 1
    record_property("trials", tried)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 50_000, "1" * 5000, "\xff", "NaN", '{"final": NaN}']
)
@pytest.mark.parametrize(
    "name", ["summary.json", "timing.json", "provenance.json", ".progress.json", "stats.json"]
)
def test_what_is_no_sensible_json_is_no_traceback(name: str, text: str, made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "run")
    (tmp_path / "run" / name).write_bytes(text.encode("latin-1"))
    looked_at(tmp_path)


def test_a_log_that_is_no_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for number, log in enumerate(("/dev/zero", str(tmp_path / "pipe"), str(tmp_path), "a\x00b")):
        folder = tmp_path / str(number)
        folder.mkdir()
        record = {"state": "failed", "round": 2, "rounds": 8, "began": 1.0, "updated": 2.0, "process": 1}
        record |= {"machine": "m", "log": log, "error": "no", "accuracy": None}
        (folder / ".progress.json").write_text(json.dumps(record))
    assert "\n".join(lines(survey(tmp_path))).count("failed") == 4 + 1


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.timeout(1800)
def test_a_wrong_order_of_a_batch_is_one_line_and_the_others_are_done(
    share: int,
    short: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    record_property: Callable[[str, int], None],
) -> None:
    order = {"spec": short, "out": str(tmp_path / "wrong"), "partition": None, "provenance": {"code": "1"}}
    wrong = [order_ for order_ in mutations(order, 3 * share) if isinstance(order_, dict)]
    outs: tuple[object, ...] = (3, None, [], {}, True, "a\x00b", "x" * 5000, "/dev/null/x")
    wrong += [{**order, "out": out} for out in outs]
    for number, wrong_ in enumerate(wrong):
        if wrong_.get("out") == order["out"]:
            wrong_["out"] += str(number)
    good = {"spec": short, "out": str(tmp_path / "good")}
    (tmp_path / "orders.json").write_text(json.dumps([*wrong, good]))
    monkeypatch.chdir(tmp_path)
    batch.execute(batch.orders(tmp_path / "orders.json"), Settings(device="cpu"), True)
    printed = capfd.readouterr().err
    assert "Traceback" not in printed, printed
    assert (tmp_path / "good" / "summary.json").exists()
    record_property("trials", len(wrong))
    assert len(printed.splitlines()) <= len(wrong) + 3


def outcome(spec: dict[str, Any]) -> str:
    """Do a run; say how it went. Anything but an error of one line, or too little memory, is raised."""
    try:
        return str(run(spec, settings=Settings(device="cpu")).summary["status"])
    except FedcoreError as error:
        return "unknown" if "unknown key" in str(error) else "refused"
    except (MemoryError, RuntimeError) as error:
        if not errors.out_of_memory(error):
            raise
        return "memory"


ALGORITHMS: tuple[dict[str, Any], ...] = (
    {"name": "fedprox", "mu": 0.1},
    {"name": "qfedavg", "q": 1.0},
    {"name": "fednova", "mu": 0.1},
    {"name": "scaffold"},
    {"name": "rfedavg", "lambda": 0.1},
    {"name": "fedyogi", "server_lr": 0.1, "tau": 0.01},
    {"name": "fedavgm", "server_lr": 1.0},
)


@pytest.mark.parametrize("share", [13, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.timeout(1800)
def test_numbers_at_the_ends_of_ranges_are_refused_or_computed(
    share: int, short: dict[str, Any], record_property: Callable[[str, int], None]
) -> None:
    """A number that a run can't hold is refused; one that makes it diverge is told as such."""
    numbers: list[tuple[Mapping[str, object], tuple[str, ...]]] = [
        (algorithm, ("algorithm", key)) for algorithm in ALGORITHMS for key in algorithm if key != "name"
    ]
    numbers += [(algorithm, ("training", "lr")) for algorithm in ALGORITHMS]
    extra = [("training", "weight_decay"), ("training", "momentum"), ("participation", "fraction"), ("seed",)]
    extra += [("model", "sigma"), ("evaluation", "every"), ("evaluation", "train_every")]
    numbers += [(ALGORITHMS[0], path) for path in extra]
    tried = 0
    for algorithm, path in numbers:
        for extreme in EXTREMES[tried % share :: share]:
            spec = {
                **copy.deepcopy(short),
                **({"model": {"name": "rff_linear", "features": 8}} if path[0] == "model" else {}),
                "algorithm": dict(algorithm),
                "participation": {},
                "evaluation": {},
            }
            assert outcome(changed_at(spec, path, extreme)) in {"completed", "diverged", "refused"}
            tried += 1
    record_property("trials", tried)


BEYOND = (
    r"expected (a number below 3.4e\+38, a whole one below 2\*\*31|a number less than or equal to 1000000)"
)
SIZES = [
    (("training", "rounds"), 10**30),
    (("training", "batch_size"), 10**30),
    (("training", "lr"), 1e39),
    (("training", "lr_schedule"), {"name": "milestones", "milestones": {1: 1e39}}),
    (("training", "lr_schedule"), {"name": "milestones", "milestones": {10**30: 0.1}}),
    (("algorithm",), {"name": "fedprox", "mu": 1e39}),
    (("algorithm",), {"name": "qfedavg", "q": 1e300}),
    (("model",), {"name": "mlp", "hidden": [10**30]}),
    (("partition",), {"name": "iid", "clients": 10**30}),
    (("partition",), {"name": "shards", "clients": 2**62}),
    (("data",), {"name": "synthetic", "clients": 10**30}),
]


@pytest.mark.parametrize(("path", "value"), SIZES, ids=str)
def test_numbers_beyond_use_are_refused_where_the_key_is_named(
    path: tuple[str, ...], value: Any, short: dict[str, Any]
) -> None:
    with pytest.raises(SpecError, match=BEYOND) as caught:
        parse(changed_at(short, path, value))
    assert str(caught.value).startswith(".".join(path))


@pytest.mark.parametrize("path", [("seed",), ("partition",), ("data",)], ids=str)
def test_seeds_are_of_any_size_that_a_file_can_hold(path: tuple[str, ...], short: dict[str, Any]) -> None:
    sections: dict[str, Callable[[int], object]] = {
        "partition": lambda seed: {"name": "iid", "clients": 3, "seed": seed},
        "data": lambda seed: {"name": "synthetic", "seed": seed},
    }
    make: Callable[[int], object] = sections.get(path[0], lambda seed: seed)
    for seed in (2**128, 10**300 - 1):
        parse(changed_at(short, path, make(seed)))
    with pytest.raises(SpecError, match="seed: got an integer of some 5000 digits, expected at most 300"):
        parse(changed_at(short, path, make(10**5000)))


@pytest.mark.parametrize("count", [1_000_001, 10**9, 2**31 - 1, 10**12])
@pytest.mark.parametrize("name", ["iid", "shards", "dirichlet", "power_law", "similarity", "qp", "synthetic"])
def test_more_clients_than_fit_are_refused_before_anything_is_made(
    name: str, count: int, short: dict[str, Any], tmp_path: Path
) -> None:
    section = "data" if name == "synthetic" else "partition"
    needed = {"dirichlet": {"alpha": 1.0}, "similarity": {"similarity": 0.5}}
    spec = {**short, section: {"name": name, "clients": count, **needed.get(name, {})}}
    with pytest.raises(SpecError, match=rf"{section}.clients: got {count}, expected .*(1000000|2\*\*31)"):
        run(spec, tmp_path / "out", Settings(device="cpu"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("path", ["x" * 300, "/".join(["y" * 200] * 30)], ids=len)
@pytest.mark.parametrize("key", ["data.path", "model.init", "partition.path"])
def test_a_path_too_long_for_the_system_is_one_line(
    key: str, path: str, short: dict[str, Any], tmp_path: Path
) -> None:
    sections: dict[str, Any] = {
        "data.path": {"name": "npz", "path": path},
        "model.init": {"name": "logistic", "init": path},
        "partition.path": {"name": "file", "path": path},
    }
    with pytest.raises(FedcoreError) as caught:
        run({**short, key.partition(".")[0]: sections[key]}, tmp_path / "out", Settings(device="cpu"))
    assert str(caught.value).startswith(f"{key}: no ")
    assert len(str(caught.value)) < 400
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("setting", "value"),
    [*(("threads", count) for count in (0, -1, 2**40, 10**30, 2.0)), ("stall_seconds", -1)],
)
def test_a_setting_beyond_use_is_one_line(
    setting: str, value: Any, short: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match=f"^{setting}: got "):
        run(short, tmp_path / "out", Settings(**{"device": "cpu", setting: value}))
    assert not (tmp_path / "out").exists()


def test_q_fedavg_with_losses_beyond_floats_diverges(short: dict[str, Any]) -> None:
    spec = {**short, "algorithm": {"name": "qfedavg", "q": 1e30}}
    assert outcome(spec) == "diverged"


@pytest.mark.parametrize("shape", [(6, 0), (6, 2, 0), (0, 0), (6,), ()])
@pytest.mark.parametrize("file", ["clients/0", "test"])
def test_arrays_without_features_are_refused(
    file: str, shape: tuple[int, ...], short: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "clients").mkdir()
    for name in ("clients/0", "test"):
        np.savez(tmp_path / f"{name}.npz", x=np.zeros((6, 2)), y=np.array([0, 1] * 3))
    np.savez(tmp_path / f"{file}.npz", x=np.zeros(shape), y=np.array([0, 1] * 3)[: shape[0] if shape else 6])
    with pytest.raises(FedcoreError, match=r"expected x \[n, ") as caught:
        run({**short, "data": {"name": "npz", "path": str(tmp_path)}})
    assert f"{file}.npz" in str(caught.value)


@pytest.mark.parametrize("count", [60, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.timeout(1800)
def test_mutated_arrays_of_a_data_set_are_refused_or_read(
    count: int, short: dict[str, Any], tmp_path: Path, record_property: Callable[[str, int], None]
) -> None:
    """Any type and shape, and bytes of the file changed."""
    record_property("trials", count)
    outcomes = []
    rng = np.random.default_rng(0)
    (tmp_path / "clients").mkdir()
    np.savez(tmp_path / "clients/0.npz", x=np.zeros((6, 2)), y=np.array([0, 1] * 3))
    np.savez(tmp_path / "test.npz", x=np.zeros((6, 2)), y=np.array([0, 1] * 3))
    for _ in range(count):
        arrays: dict[str, Any] = {}
        for name in ("x", "y"):
            shape = tuple(int(size) for size in rng.choice([0, 1, 2, 6], rng.integers(0, 4)))
            kind = rng.choice(
                ["<f4", "<f8", "<f2", "<i8", "<u8", "<i1", "|b1", "<c8", "<U3", "|S2", "<M8[s]"]
            )
            arrays[name] = np.ones(shape if rng.random() < 0.7 else (6, 2)[: 2 - (name == "y")], kind)
        content = io.BytesIO()
        np.savez(content, **arrays)
        data = bytearray(content.getvalue())
        if rng.random() < 0.4:
            for _ in range(3):
                data[rng.integers(len(data))] = rng.integers(256)
        (tmp_path / "clients/0.npz").write_bytes(data)
        outcomes.append(outcome({**short, "data": {"name": "npz", "path": str(tmp_path)}}))
    assert "memory" not in outcomes
    assert count // 2 < outcomes.count("refused") < count


FILE = "mnist/rows.gz"
OUTS = ["a file", "below a file", "a dangling link", "a link to itself", "too long", "a path too long"]


def blocked(how: str, folder: Path) -> Path:
    """Return an output folder that can't be made."""
    (folder / "file").write_text("mine")
    (folder / "dangling").symlink_to(folder / "nowhere")
    (folder / "loop").symlink_to(folder / "loop")
    names = ["file", "file/x", "dangling", "loop", "x" * 300, "/".join(["x" * 200] * 30)]
    return folder / dict(zip(OUTS, names, strict=True))[how]


@pytest.mark.parametrize("how", OUTS)
@pytest.mark.parametrize("command", ["run", "partition", "run-batch"])
def test_an_output_folder_that_can_not_be_made_is_one_line(
    command: str, how: str, short: dict[str, Any], tmp_path: Path
) -> None:
    out = blocked(how, tmp_path)
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump({**short, "partition": {"name": "iid", "clients": 3}}))
    (tmp_path / "batch.json").write_text(json.dumps([{"spec": short, "out": str(out)}]))
    arguments = ["--out", str(out), *([] if command == "partition" else ["--device", "cpu"])]
    arguments = [str(tmp_path / "spec.yaml"), *arguments]
    if command == "run-batch":
        arguments = [str(tmp_path / "batch.json"), "--device", "cpu"]
    line = one_line(command, arguments)
    assert out.name[:50] in line
    assert (tmp_path / "file").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def one_line(command: str, arguments: list[str]) -> str:
    """Call a command as the program does; return the one line that it says."""
    saved = io.StringIO()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.argv", ["fedcore", command, *arguments])
        patched.setattr("sys.stderr", saved)
        with pytest.raises(SystemExit) as ended:
            main.main()
    assert ended.value.code == 2
    text = saved.getvalue()
    expected = 2 if command == "run-batch" else 1  # which then says how to repeat it
    assert text.count("\n") == expected, text
    return text


def test_from_python_an_output_folder_is_tried_before_the_work(short: dict[str, Any], tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(runner, "simulate", lambda *_: pytest.fail("the work began"))
        with pytest.raises(FedcoreError, match="cannot be a folder"):
            run(short, blocked("a file", tmp_path), Settings(device="cpu"))


def call(spec: dict[str, Any], folder: Path, *options: str) -> Result:
    """Call ``fedcore run``."""
    path = folder / "spec.yaml"
    path.write_text(yaml.safe_dump(spec))
    arguments = ["run", str(path), "--out", str(folder / "out"), "--device", "cpu", "--quiet"]
    return CLI.invoke(app, [*arguments, *options])


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "timing.json"}


def test_the_result_of_another_specification_is_not_replaced_without_a_word(
    short: dict[str, Any], tmp_path: Path
) -> None:
    assert call(short, tmp_path).exit_code == 0
    before = files(tmp_path / "out")
    other = changed_at(short, ("training", "lr"), 0.2)
    result = call({**other, "seed": 4}, tmp_path)
    assert isinstance(result.exception, SpecError)
    assert "training.lr is 0.1 there, 0.2 here (and 1 more)" in str(result.exception)
    assert "--force" in str(result.exception)
    assert files(tmp_path / "out") == before
    assert call(short, tmp_path).exit_code == 0, "the same specification is done again"
    assert files(tmp_path / "out") == before
    assert call(other, tmp_path, "--force").exit_code == 0
    assert changed(tmp_path / "out") == ""
    assert json.loads((tmp_path / "out/summary.json").read_text())["spec_sha256"] == parse(other).sha256()


@pytest.mark.parametrize("damage", ["provenance.json", "spec.yaml", "both"])
def test_a_damaged_result_is_replaced_only_if_it_is_of_the_same_specification(
    damage: str, short: dict[str, Any], tmp_path: Path
) -> None:
    assert call(short, tmp_path).exit_code == 0
    for name in ("provenance.json", "spec.yaml"):
        if damage in (name, "both"):
            (tmp_path / "out" / name).write_bytes(b"\xff{")
    same, other = call(short, tmp_path), call({**short, "seed": 9}, tmp_path)
    assert (same.exit_code == 0) == (damage == "spec.yaml")
    for result in (other,) if damage == "spec.yaml" else (same, other):
        assert isinstance(result.exception, SpecError)
        assert "--force" in str(result.exception)
    assert call({**short, "seed": 9}, tmp_path, "--force").exit_code == 0


def test_a_batch_replaces_what_is_in_its_folders(short: dict[str, Any], tmp_path: Path) -> None:
    for seed in (1, 2):
        item = {"spec": {**short, "seed": seed}, "out": str(tmp_path / "out")}
        assert batch.execute([item], Settings(device="cpu"), True) == 0
        assert changed(tmp_path / "out") == ""


def test_a_folder_holds_what_its_specification_makes_and_the_users_own(
    short: dict[str, Any], tmp_path: Path
) -> None:
    rich = {**short, "evaluation": {"clients": True, "observe": {"path": {}}}}
    assert call(rich, tmp_path, "--save-model").exit_code == 0
    out = tmp_path / "out"
    names = set(files(out))
    assert {"clients.csv", "model.npz"} < names
    (out / "mine.csv").write_text("a,b\n")
    assert call(rich, tmp_path).exit_code == 0
    assert set(files(out)) == names - {"model.npz"} | {"mine.csv"}
    assert call(short, tmp_path, "--force").exit_code == 0
    assert set(files(out)) == {"spec.yaml", "history.csv", "summary.json", "provenance.json", "mine.csv"}


def test_a_folder_of_other_files_is_refused_before_training(short: dict[str, Any], tmp_path: Path) -> None:
    (out := tmp_path / "out").mkdir()
    (out / ".hidden").touch()
    (out / "notes.txt").write_text("mine\n")
    result = call(short, tmp_path)
    assert str(result.exception) == f"{out}: holds 'notes.txt', expected an empty folder or that of a run"
    assert {*files(out)} == {".hidden", "notes.txt"}
    (out / "notes.txt").unlink()
    assert call(short, tmp_path).exit_code == 0


def test_a_model_that_a_former_result_lists_is_not_deleted_by_the_run_that_reads_it(
    short: dict[str, Any], tmp_path: Path
) -> None:
    assert call(short, tmp_path, "--save-model").exit_code == 0
    model = tmp_path / "out" / "model.npz"
    again = {**short, "model": {**short["model"], "init": str(model)}}
    result = call(again, tmp_path, "--force")
    assert str(result.exception).startswith(f"{model}: is read, and would be replaced"), result
    assert model.is_file()


def test_names_that_a_result_lists_can_not_delete_files_elsewhere(
    short: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert call(short, tmp_path).exit_code == 0
    for path in (tmp_path / "other.csv", out / "text.txt", out / "deep" / "x.csv"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    listed = ["../other.csv", str(tmp_path / "other.csv"), "text.txt", "deep/x.csv", "..", ".", "deep", ""]
    provenance = {"spec_sha256": parse(short).sha256(), "files": dict.fromkeys(listed, "0")}
    (out / "provenance.json").write_text(json.dumps(sealed(provenance)))
    assert call(short, tmp_path).exit_code == 0
    for path in (tmp_path / "other.csv", out / "text.txt", out / "deep" / "x.csv"):
        assert path.read_text() == "mine"


@pytest.mark.parametrize(
    "name", ["../other", "deep/../../other", "/dev/zero", "deep/x.csv", "x" * 5000, "a\0b"]
)
def test_names_that_a_result_lists_are_not_followed_elsewhere(
    name: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(made, tmp_path / "run")
    (tmp_path / "run/deep").mkdir()
    for other in (tmp_path / "other", tmp_path / "run/deep/x.csv"):
        other.write_text("mine")
    path = tmp_path / "run/provenance.json"
    provenance = json.loads(path.read_text())
    del provenance["sha256"]
    provenance["files"][name] = sha256_text("mine")
    path.write_text(json.dumps(sealed(provenance)))
    monkeypatch.setattr(integrity, "sha256_file", lambda file: read_inside(tmp_path / "run", file))
    assert not finished(tmp_path / "run", {k: value for k, value in provenance.items() if k != "files"})
    assert "\n" not in changed(tmp_path / "run")
    assert changed(tmp_path / "run")


def read_inside(folder: Path, path: Path) -> str:
    assert path.resolve().parent == folder.resolve()
    return sha256_file(path)


MANIFESTS: list[Any] = [
    [],
    "x",
    {},
    {"files": 3},
    {"files": ["mnist"]},
    {"files": {FILE: None}},
    {"files": {FILE: {}}},
]
MANIFESTS += [{"files": {FILE: {"sha256": wrong}}} for wrong in (None, 3, ["a"], "x")]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=str)
def test_a_manifest_of_other_types_is_one_line(manifest: Any, tmp_path: Path) -> None:
    path = tmp_path / "demo" / FILE
    path.parent.mkdir(parents=True)
    path.write_text("rows")
    (tmp_path / "demo/MANIFEST.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=r"MANIFEST\.json.*restore it from the repository"):
        demo_file(Source(tmp_path), FILE)


def test_timing_states_the_number_of_threads_and_the_same_number_gives_the_same_bytes(
    short: dict[str, Any], tmp_path: Path
) -> None:
    for name in ("one", "two"):
        run(short, tmp_path / name, Settings(device="cpu", threads=2))
        assert json.loads((tmp_path / name / "timing.json").read_text())["threads"] == 2
    assert files(tmp_path / "one") == files(tmp_path / "two")


@pytest.mark.parametrize("value", [[], "x", 3, None, {"final": 3}, {"final": {"accuracy": "high"}}])
def test_facts_of_a_run_with_a_wrong_summary_are_one_line(value: Any, tmp_path: Path) -> None:
    class One:
        scale, folder, seed, spec, code, partition, spec_sha256 = "paper", "run", 1, {"a": 1}, "c", "p", "s"

    (tmp_path / "run").mkdir()
    for name in ("summary.json", "timing.json"):
        (tmp_path / "run" / name).write_text(canonical_json(value))
    with pytest.raises(FedcoreError, match=r"run/summary\.json"):
        facts(One(), tmp_path)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [60, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.timeout(1800)
def test_mutated_partition_files_are_refused_in_one_line_or_read(
    count: int, short: dict[str, Any], tmp_path: Path, record_property: Callable[[str, int], None]
) -> None:
    """Other types, shapes and values of its arrays, notes that are no text, identities that are no JSON."""
    record_property("trials", count)
    spec = {**short, "partition": {"name": "iid", "clients": 3, "validation": 0.1}}
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(spec))
    arguments = ["partition", str(tmp_path / "spec.yaml"), "--out", str(tmp_path / "split"), "--no-figure"]
    assert CLI.invoke(app, arguments).exit_code == 0
    with np.load(tmp_path / "split/partition.npz", allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    rng = np.random.default_rng(0)
    kinds = ["<f8", "<i8", "<u8", "<i1", "|b1", "<c8", "<U3", "|S2", "|u1"]
    path = tmp_path / "mutated.npz"
    refused: list[str] = []
    for _ in range(count):
        name = str(rng.choice(sorted(arrays)))
        shape = tuple(int(size) for size in rng.choice([0, 1, 2, 6], rng.integers(0, 3)))
        wrong = np.asarray(rng.integers(-3, 300, shape)).astype(str(rng.choice(kinds)))
        if rng.random() < 0.2:
            wrong = arrays[name].astype("<f8") + 0.5
        np.savez(path, **{**arrays, name: wrong})
        try:
            partition, origin = load_partition(path)
        except FedcoreError as error:
            refused.append(str(error))
        else:
            save_partition(partition, tmp_path / "read.npz", origin)
            with np.load(tmp_path / "read.npz") as read:
                held = {**arrays, name: wrong}
                assert read["note"].tobytes() == held.pop("note").tobytes()
                assert all(np.array_equal(read[key], array) for key, array in held.items()), name
    assert count // 2 < len(refused) < count
    assert all(message.startswith(f"{path}: ") for message in refused)


def text(value: str) -> np.ndarray:
    return np.frombuffer(value.encode("latin-1"), np.uint8)


PARTITIONS: dict[str, tuple[dict[str, Any], str]] = {
    "a format of another type": ({"format": np.array("x" * 9999)}, "partition format 'xxx"),
    "a list as a format": ({"format": np.arange(9999)}, r"partition format \[0, 1"),
    "rows beyond 64 bits": (
        {"dropped": np.array([2**64 - 3], "<u8")},
        r"dropped: got 18446744073709551613, expected whole numbers below 2\*\*63$",
    ),
    "sizes of text": ({"sizes": np.array(["a"])}, "sizes: got"),
    "sizes beyond sums": (
        {"sizes": np.full(4, 2**62), "rows": np.zeros(0, np.int64)},
        "expected 184467440737",
    ),
    "sizes in a square": ({"sizes": np.zeros((2, 2), np.int64)}, "sizes: got"),
    "rows of fractions": ({"rows": np.full(3, 0.5)}, "got 0.5"),
    "one number as validation": ({"validation": np.array(3)}, "validation: got"),
    "a note that is no text": ({"note": text("\xff")}, "'note' or 'identity' is no text"),
    "a deep identity": ({"identity": text("[" * 100_000)}, "'note' or 'identity' is no text"),
    "an identity that is a list": ({"identity": text("[" * 90 + "]" * 90)}, r"'identity' is \[\[\["),
    "objects": ({"rows": np.array([None, {}], object)}, "not a partition file, or damaged"),
}


@pytest.mark.parametrize("what", PARTITIONS)
def test_wrong_types_in_a_partition_file_are_one_line(what: str, tmp_path: Path) -> None:
    partition = Partition((np.arange(3), np.arange(3, 5)), np.zeros(0, np.int64), note="two")
    save_partition(partition, tmp_path / "sound.npz", {"partition": {"name": "iid"}})
    with np.load(tmp_path / "sound.npz") as stored:
        arrays = dict(stored)
    wrong, pattern = PARTITIONS[what]
    np.savez(tmp_path / "wrong.npz", allow_pickle=True, **{**arrays, **wrong})
    with pytest.raises(DataError, match=pattern) as caught:
        load_partition(tmp_path / "wrong.npz")
    assert "wrong.npz" in str(caught.value)
    assert len(str(caught.value)) < 200 + 400


def test_an_array_larger_than_memory_in_a_partition_file_is_one_line(tmp_path: Path) -> None:
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "<i8", "fortran_order": False, "shape": (2**50,)})
    with zipfile.ZipFile(tmp_path / "p.npz", "w") as archive:
        archive.writestr("rows.npy", content.getvalue())
    with pytest.raises(DataError, match="not a partition file, or damaged"):
        load_partition(tmp_path / "p.npz")
