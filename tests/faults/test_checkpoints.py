"""Checkpoints that were changed after they were written: set aside in one line, and the run starts anew."""

from __future__ import annotations

import copy
import errno
import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fedcore.base.errors import BrokenContract, DamagedCheckpoint, user_message
from fedcore.execution import batch, checkpoint
from fedcore.execution.integrity import CHECKPOINT
from fedcore.execution.runner import Settings, run
from fedcore.parts import State

Arrays = dict[str, NDArray[Any]]
FILES = ("spec.yaml", "history.csv", "summary.json")
ALGORITHMS: dict[str, dict[str, Any]] = {
    "fedavg": {"name": "fedavg"},
    "scaffold": {"name": "scaffold", "option": 2},
    "yogi": {"name": "fedyogi", "server_lr": 0.1, "beta1": 0.9, "beta2": 0.99, "tau": 0.01},
    "fedomw": {"name": "fedomw", "gamma": 0.1, "lr_p": 0.1, "steps_p": 1},
    "radfed": {"name": "radfed_i", "redistributions": 2, "gamma": 0.5},
    "maps": {"name": "rfedavg", "lambda": 0.1},
}


class Made:
    """A run that was stopped after three rounds, and the bytes of the whole run."""

    def __init__(self, spec: dict[str, Any], folder: Path) -> None:
        self.spec, self.folder = spec, folder
        self.path = folder / "run" / CHECKPOINT
        run(spec, folder / "whole")
        self.stop()
        self.content = self.path.read_bytes()
        with np.load(self.path, allow_pickle=False) as stored:
            self.arrays: Arrays = {name: stored[name] for name in stored.files}
        self.header = json.loads(self.arrays["header"].tobytes())

    def stop(self) -> None:
        class Stop(Exception):
            pass

        def progress(round_: int, total: int, row: Any) -> None:
            if round_ > 3:
                raise Stop

        with pytest.raises(Stop):
            run(self.spec, self.folder / "run", Settings(checkpoint_seconds=0.0), progress)

    def changed(self) -> Iterator[tuple[str, Arrays]]:
        """Yield the checkpoint with one array or one value of the header changed, by what was changed."""
        for name, array in self.arrays.items():
            for how, other in _others(array):
                if name == "sha256" and "another value" not in how:
                    continue  # the same hash in another form is no change
                yield f"{name} {how}", {**self.arrays, name: other}
            yield f"{name} left out", {key: old for key, old in self.arrays.items() if key != name}
        yield "models renamed", {"model" if key == "models" else key: old for key, old in self.arrays.items()}
        yield "one more", {**self.arrays, "server/more": np.zeros(3)}
        for path, value in _scalars(self.header):
            header = copy.deepcopy(self.header)
            place = header
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = _other(value)
            text = np.frombuffer(json.dumps(header).encode(), np.uint8)
            yield "header " + ".".join(map(str, path)), {**self.arrays, "header": text}

    def write(self, arrays: Arrays) -> None:
        (self.folder / "run").mkdir(exist_ok=True)
        with self.path.open("wb") as handle:
            np.savez(handle, **arrays)  # type: ignore[arg-type]

    def completes(self) -> None:
        for name in FILES:
            assert (self.folder / "run" / name).read_bytes() == (self.folder / "whole" / name).read_bytes()
        assert not self.path.exists()
        shutil.rmtree(self.folder / "run")


def _others(array: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    if array.size:
        flat = array.copy().reshape(-1)
        flat[-1:] += 1
        yield "with another value", flat.reshape(array.shape)
        yield "cut", array.reshape(-1)[:-1]
    yield "of another shape", array.reshape(-1, 1)
    yield "of another type", array.astype(np.int8 if array.dtype.kind == "f" else np.float64)


def _scalars(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the path of every value without others in it."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from _scalars(item, (*at, key))
    if not isinstance(value, dict | list) or not value:
        yield at, value


def _other(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return repr(float(value) + 1)
        except ValueError:
            return value + "x"
    return 1 if not value else False if isinstance(value, bool) else value + 1


@pytest.fixture(scope="module", params=ALGORITHMS)
def made(request: pytest.FixtureRequest, digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    spec = {
        "data": {"name": "npz", "path": str(digits)},
        "model": {"name": "logistic"},
        "algorithm": ALGORITHMS[request.param],
        "training": {"rounds": 6, "local_steps": 2, "batch_size": 8, "lr": 0.1},
        "participation": {"fraction": 0.6},
        "seed": 3,
    }
    return Made(spec, tmp_path_factory.mktemp(request.param))


def test_every_change_is_found(made: Made, record_property: Callable[[str, int], None]) -> None:
    identity, device = made.header["identity"], torch.device("cpu")
    (made.folder / "run").mkdir(exist_ok=True)
    made.path.write_bytes(made.content)
    state = checkpoint.load(made.path, identity, device)
    assert state
    assert state.round == 3
    count = 0
    for what, arrays in made.changed():
        made.write(arrays)
        with pytest.raises(DamagedCheckpoint) as caught:
            pytest.fail(f"{what}: {checkpoint.load(made.path, identity, device)}")
        assert str(caught.value).startswith(f"{made.path}: damaged checkpoint (")
        assert str(caught.value).isprintable()
        count += 1
    record_property("trials", count)
    assert count > 60


def test_a_run_starts_anew(
    made: Made, capfd: pytest.CaptureFixture[str], record_property: Callable[[str, int], None]
) -> None:
    """What was sealed as a result before, and one change of each array."""
    state = ("round", "bytes_up", "history.3.test_accuracy")
    prefixes = (*(f"header state.{key}" for key in state), "header identity.data_sha256")
    changed = list(made.changed())
    tried = [
        arrays
        for what, arrays in changed
        if what.startswith(prefixes) or what.endswith(("with another value", "left out"))
    ][:24]
    record_property("trials", len(tried))
    for place, arrays in enumerate(tried):
        made.write(arrays)
        capfd.readouterr()
        if place % 2:
            run(made.spec, made.folder / "run")
        else:
            order = {"spec": made.spec, "out": str(made.folder / "run")}
            assert batch.execute([order], Settings(device="cpu"), True) == 0
        (line,) = capfd.readouterr().err.splitlines()
        assert line.startswith(f"{made.path}: damaged checkpoint (")
        assert line.endswith("); starting anew")
        made.completes()


def test_a_checkpoint_without_a_hash_is_set_aside(made: Made, capfd: pytest.CaptureFixture[str]) -> None:
    arrays = {name: array for name, array in made.arrays.items() if name != "sha256"}
    text = json.dumps({**made.header, "format": 1}).encode()
    made.write({**arrays, "header": np.frombuffer(text, np.uint8)})
    capfd.readouterr()
    run(made.spec, made.folder / "run")
    assert capfd.readouterr().err == f"{made.path}: damaged checkpoint (an older format); starting anew\n"
    made.completes()


def test_names_with_slashes_come_back(tmp_path: Path) -> None:
    state = State(round=1, models=torch.zeros(1, 3))
    state.optimizer_state = {0: {"m/1": torch.ones(3), "m/2": torch.zeros(3)}}
    state.clients["a/b"][3] = torch.ones(2)
    checkpoint.save(tmp_path / "state.npz", state, {})
    again = checkpoint.load(tmp_path / "state.npz", {}, torch.device("cpu"))
    torch.testing.assert_close(vars(again), vars(state))


@pytest.mark.parametrize("error", [OSError(errno.EIO, "x"), OSError(errno.EACCES, "x"), MemoryError()])
def test_one_that_can_not_be_read_now_is_not_damaged(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(np, "load", fail)
    with pytest.raises(type(error)) as caught:
        checkpoint.load(tmp_path / "state.npz", {}, torch.device("cpu"))
    assert user_message(caught.value)


def test_keys_that_json_would_change_are_not_saved(tmp_path: Path) -> None:
    state = State(round=1, models=torch.zeros(1, 3), values={"counts": [{"a": float("nan")}, {0: 1}]})
    with pytest.raises(
        BrokenContract, match=r"^state\.values: got the key 0, expected text, as JSON has it$"
    ):
        checkpoint.save(tmp_path / "state.npz", state, {})


def test_an_unchanged_one_is_gone_on_from(made: Made, capfd: pytest.CaptureFixture[str]) -> None:
    made.write(made.arrays)
    rounds: list[int] = []
    capfd.readouterr()
    run(made.spec, made.folder / "run", progress=lambda round_, *_: rounds.append(round_))
    assert rounds == [4, 5, 6]
    assert capfd.readouterr().err == ""
    made.completes()


@pytest.mark.parametrize(("seconds", "expected"), [(0.0, 31), (0.001, 1)])
def test_a_checkpoint_that_takes_long_to_write_is_written_rarely(
    seconds: float, expected: int, spec: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    def save(path: Path, state: State, identity: dict[str, Any], _: float) -> None:
        written.append(state.round)
        time.sleep(200 * seconds)

    monkeypatch.setattr(checkpoint, "save", save)
    spec = {**spec, "training": {**spec["training"], "rounds": 30}}
    run(spec, tmp_path / "run", Settings(checkpoint_seconds=seconds), lambda *_: time.sleep(0.002))
    assert len(written) == expected
