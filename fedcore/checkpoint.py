"""Checkpoints: the whole state of a run in one .npz file, written atomically, loaded without code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcore.errors import CheckpointError
from fedcore.files import atomic
from fedcore.parts import State

if TYPE_CHECKING:
    import torch
    from torch import Tensor

FORMAT = 1


def save(path: Path, state: State, identity: dict[str, Any]) -> None:
    """Write ``state`` and what it belongs to (specification, data and partition hashes)."""
    header = {
        "format": FORMAT,
        "identity": identity,
        "round": state.round,
        "values": state.values,
        "stores": list(state.clients),
        "bytes": [state.bytes_down, state.bytes_up],
        "history": [{key: repr(value) for key, value in row.items()} for row in state.history],
    }
    arrays = {"models": state.models}
    arrays |= {f"slots/{g}/{n}": tensor for g, slots in state.slots.items() for n, tensor in slots.items()}
    arrays |= {f"server/{name}": tensor for name, tensor in state.server.items()}
    arrays |= {
        f"clients/{n}/{k}": tensor for n, store in state.clients.items() for k, tensor in store.items()
    }
    stored = {name: tensor.detach().cpu().numpy() for name, tensor in arrays.items()}
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with atomic(path) as handle:
        np.savez(handle, header=text, **stored)  # type: ignore[arg-type]


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
        CheckpointError: the file is damaged, or belongs to another specification (the first
            difference is named).
    """
    import torch

    try:
        with np.load(path, allow_pickle=False) as stored:
            header = json.loads(stored["header"].tobytes())
            arrays = {name: stored[name] for name in stored.files if name != "header"}
        state = State(
            round=header["round"],
            models=torch.from_numpy(arrays.pop("models")).to(device),
            values=header["values"],
            clients={name: {} for name in header["stores"]},
            bytes_down=header["bytes"][0],
            bytes_up=header["bytes"][1],
            history=[{key: _number(text) for key, text in row.items()} for row in header["history"]],
        )
        found = header["identity"]
    except Exception as error:
        raise CheckpointError(
            f"{path}: damaged checkpoint ({type(error).__name__}: {error}); delete it to start the run anew"
        ) from None
    difference = first_difference(found, identity)
    if header["format"] != FORMAT or difference:
        raise CheckpointError(
            f"{path}: checkpoint of another run ({difference or 'older format'}); "
            "delete it, or pass --no-resume to start anew"
        )
    for name, array in arrays.items():
        _place(state, name.split("/"), torch.from_numpy(array).to(device))
    return state


def first_difference(found: Any, expected: Any, path: str = "") -> str:
    """Name the first key at which two nested values differ, or return the empty string."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in sorted({*found, *expected}):
            where = f"{path}.{key}".strip(".")
            if key not in found or key not in expected:
                return f"{where}: {'missing' if key not in found else 'only'} in the checkpoint"
            difference = first_difference(found[key], expected[key], where)
            if difference:
                return difference
        return ""
    return "" if found == expected else f"{path}: checkpoint has {found!r}, the run has {expected!r}"


def _number(text: str) -> float:
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _place(state: State, path: list[str], tensor: Tensor) -> None:
    kind, *rest = path
    if kind == "slots":
        state.slots.setdefault(int(rest[0]), {})[rest[1]] = tensor
    elif kind == "server":
        state.server["/".join(rest)] = tensor
    else:
        state.clients["/".join(rest[:-1])][int(rest[-1])] = tensor
