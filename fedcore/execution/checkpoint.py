"""Checkpoints: the whole state of a run in one .npz file, written atomically, loaded without code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import CheckpointError, DamagedCheckpoint, shown
from fedcore.base.files import atomic
from fedcore.base.lazy import Tensor, torch
from fedcore.base.options import differences
from fedcore.parts import State

FORMAT = 4


def save(path: Path, state: State, identity: dict[str, Any]) -> None:
    """Write ``state``, what it belongs to (specification, data and partition hashes), and a hash of both."""
    header = {
        "format": FORMAT,
        "identity": identity,
        "round": state.round,
        "values": state.values,
        "holders": state.holders,
        "bytes": [state.bytes_down, state.bytes_up],
        "rows": [state.rows_gradient, state.rows_forward],
        "history": [{key: repr(value) for key, value in row.items()} for row in state.history],
    }
    arrays = {"models": state.models}
    arrays |= {
        f"slots/{g}/{n}": tensor for g, own in state.optimizer_state.items() for n, tensor in own.items()
    }
    arrays |= {f"server/{name}": tensor for name, tensor in state.server.items()}
    arrays |= {
        f"clients/{n}/{k}": tensor for n, store in state.clients.items() for k, tensor in store.items()
    }
    stored = {name: tensor.detach().cpu().numpy() for name, tensor in arrays.items()}
    stored["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with atomic(path) as handle:
        np.savez(handle, sha256=_sha256(stored), **stored)  # type: ignore[arg-type]


def made_by(path: Path) -> Any:
    """Return the provenance (such as a code hash) that a checkpoint states; None if it can't be read."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return json.loads(stored["header"].tobytes())["identity"].get("provenance", {})
    except Exception:
        return None


def load(path: Path, identity: dict[str, Any], device: torch.device) -> State:
    """Read a state back.

    Raises:
        DamagedCheckpoint: the file is damaged, of an older format, or not as it was written.
        CheckpointError: it belongs to another specification (the first difference is named).
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
        state = State(
            round=header["round"],
            models=torch.from_numpy(arrays.pop("models")).to(device),
            values=header["values"],
            holders=header["holders"],
            bytes_down=header["bytes"][0],
            bytes_up=header["bytes"][1],
            rows_gradient=header["rows"][0],
            rows_forward=header["rows"][1],
            history=[{key: number(text) for key, text in row.items()} for row in header["history"]],
        )
        belongs = header["identity"]
    except Exception as error:
        what = " ".join(f"{type(error).__name__}: {error}".removeprefix("ValueError: ").split())
        raise DamagedCheckpoint(f"{path}: damaged checkpoint ({what})") from None
    for key, there, here in differences(belongs, identity)[:1]:
        raise CheckpointError(
            f"{path}: checkpoint of another run ({key}: checkpoint has {shown(there)}, the run has "
            f"{shown(here)}); delete it, or pass --no-resume to start anew"
        )
    for name, array in arrays.items():
        _place(state, name.split("/"), torch.from_numpy(array).to(device))
    return state


def _sha256(arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
    """Return the hash of all arrays with their names, types and shapes."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return np.frombuffer(digest.digest(), np.uint8)


def number(text: str) -> float:
    """Return the number that a text is, a whole one as an integer."""
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _place(state: State, path: list[str], tensor: Tensor) -> None:
    kind, *rest = path
    if kind == "slots":
        state.optimizer_state.setdefault(int(rest[0]), {})[rest[1]] = tensor
    elif kind == "server":
        state.server["/".join(rest)] = tensor
    else:
        state.clients["/".join(rest[:-1])][int(rest[-1])] = tensor
