"""Checkpoints: the whole state of a run in one .npz file, written atomically, loaded without code."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import BrokenContract, CheckpointError, DamagedCheckpoint, fault_message, shown
from fedcore.base.files import atomic
from fedcore.base.lazy import Device, torch
from fedcore.base.options import differences
from fedcore.parts import State

FORMAT = 5
SAVING = 50  # how many times as long as writing a checkpoint took it is until the next
TENSORS = {"models", "server", "optimizer_state", "clients"}  # of a state; all else is plain JSON


def save(path: Path, state: State, identity: dict[str, Any], seconds: float = 0.0) -> None:
    """Write ``state``, what it belongs to (specification, data and partition hashes), and a hash of both.

    ``seconds`` is how long this process and earlier ones have worked on the run.
    """
    for key in _keys(state.values):
        if not isinstance(key, str):
            raise BrokenContract(f"state.values: got the key {shown(key)}, expected text, as JSON has it")
    plain = {key: value for key, value in vars(state).items() if key not in TENSORS} | {"seconds": seconds}
    header = {"format": FORMAT, "identity": identity, "state": plain}
    arrays = {"models": state.models, **{f"server/{name}": tensor for name, tensor in state.server.items()}}
    for kind, stores in (("slots", state.optimizer_state), ("clients", state.clients)):
        arrays |= {f"{kind}/{key}/{sub}": array for key, its in stores.items() for sub, array in its.items()}
    stored = {name: tensor.detach().cpu().numpy() for name, tensor in arrays.items()}
    stored["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with atomic(path) as handle:
        np.savez(handle, sha256=_sha256(stored), **stored)  # type: ignore[arg-type]


def _keys(value: Any) -> Iterator[object]:
    """Yield the keys of a value and of all values in it."""
    if isinstance(value, dict | list | tuple):
        yield from value if isinstance(value, dict) else ()
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _keys(inner)


def regularly(path: Path, identity: dict[str, Any], seconds: float, began: float) -> Callable[[State], None]:
    """Return what saves the states that it is given, if ``seconds`` have passed since the last one.

    Large ones are fewer, so that writing them takes a fiftieth of the time at most; with 0 all are saved. The
    run, or its part in this process, ``began`` at that reading of the clock.
    """
    last, pause = time.perf_counter(), seconds

    def save_if_due(state: State) -> None:
        nonlocal last, pause
        now = time.perf_counter()
        if now - last >= pause:
            save(path, state, identity, state.seconds + now - began)
            last = time.perf_counter()
            pause = max(seconds, SAVING * (last - now)) if seconds else 0.0

    return save_if_due


def load(path: Path, identity: dict[str, Any], device: Device) -> State | None:
    """Read a state back; None where it has other provenance, such as older code.

    Raises DamagedCheckpoint where the file is damaged, older, or not as it was written, and CheckpointError
    where it belongs to another specification (the first difference is named).
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        header = json.loads(arrays["header"].tobytes())
        if header["format"] != FORMAT:
            raise ValueError("an older format")
        if not np.array_equal(arrays.pop("sha256"), _sha256(arrays)):
            raise ValueError("its content is not what was written")
        del arrays["header"]
        state = State(models=torch.from_numpy(arrays.pop("models")).to(device), **header["state"])
        saved_identity = header["identity"]
    except Exception as error:
        if fault_message(error):
            raise
        cause = " ".join(f"{type(error).__name__}: {error}".removeprefix("ValueError: ").split())
        raise DamagedCheckpoint(f"{path}: damaged checkpoint ({cause})") from None
    if saved_identity.get("provenance") != identity.get("provenance"):
        return None
    for key, saved, current in differences(saved_identity, identity)[:1]:
        raise CheckpointError(
            f"{path}: checkpoint of another run ({key}: checkpoint has {shown(saved)}, the run has "
            f"{shown(current)}); delete it, or pass --no-resume to start anew"
        )
    for name, array in arrays.items():
        kind, *place = name.split("/")
        tensor = torch.from_numpy(array).to(device)
        if kind == "slots":
            state.optimizer_state.setdefault(int(place[0]), {})["/".join(place[1:])] = tensor
        elif kind == "server":
            state.server["/".join(place)] = tensor
        else:
            state.clients["/".join(place[:-1])][int(place[-1])] = tensor
    return state


def _sha256(arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return np.frombuffer(digest.digest(), np.uint8)
