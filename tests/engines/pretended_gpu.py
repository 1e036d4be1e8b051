"""A GPU that isn't there: tensors that say they are on another device, and hold their numbers here.

What a GPU would refuse is refused: an operation on tensors of two devices, and a look at numbers that
were not copied to the CPU. As on a GPU, tensors without dimensions and indices may come from the CPU.
Numbers are the CPU's, to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from fedcore.execution import runner

DEVICE = torch.device("lazy", 0)  # a kind of device that torch knows and that needs no driver
aten = torch.ops.aten
CROSSING = {aten.copy_.default, aten._to_copy.default}
INDEXING = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}


class Far(torch.Tensor):
    """A tensor on the device that isn't there; ``here`` holds its numbers."""

    here: torch.Tensor

    @staticmethod
    def __new__(cls, here: torch.Tensor) -> Far:
        form: dict[str, Any] = {"strides": here.stride(), "storage_offset": here.storage_offset()}
        form["dtype"] = here.dtype
        tensor: Far = torch.Tensor._make_wrapper_subclass(cls, here.size(), device=DEVICE, **form)
        tensor.here = here
        return tensor

    def tolist(self) -> Any:
        return self.here.tolist()

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return calculate(operation, args, kwargs or {})


class Mode(TorchDispatchMode):
    """Sees all operations, those without any tensor too."""

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return calculate(operation, args, kwargs or {})


def calculate(operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Calculate here, and return the result on the device where it belongs."""
    refuse_mixtures(operation, args, kwargs)
    device = kwargs.get("device")
    local_kwargs = tree_map_only(Far, lambda tensor: tensor.here, kwargs)
    result = operation(
        *tree_map_only(Far, lambda tensor: tensor.here, args),
        **(local_kwargs if device is None else local_kwargs | {"device": torch.device("cpu")}),
    )
    if torch.Tag.inplace_view in operation.tags:
        with no_dispatch():
            args[0].data = Far(result)  # the shape that the tensor tells
    if operation._schema.is_mutable:
        written = kwargs.get("out", args[0] if args else None)
        if isinstance(written, torch.Tensor):
            return written
    if device is not None:
        far = torch.device(device).type == DEVICE.type
    else:
        far = any(isinstance(leaf, Far) for leaf in tree_leaves((args, kwargs)))
    return tree_map_only(torch.Tensor, Far, result) if far else result


def refuse_mixtures(operation: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """Refuse tensors of two devices, but for copies from one to the other."""
    compared = (args[0], *args[2:]) if operation in INDEXING else args
    tensors = [leaf for leaf in tree_leaves((compared, kwargs)) if isinstance(leaf, torch.Tensor)]
    far = [isinstance(tensor, Far) for tensor in tensors if isinstance(tensor, Far) or tensor.dim()]
    if operation not in CROSSING and any(far) and not all(far):
        raise RuntimeError(f"{operation}: expected all tensors on the same device")


@contextmanager
def pretended(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let runs that ask for a GPU have this one."""
    with monkeypatch.context() as patch:
        patch.setattr(runner, "usable_device", lambda name: DEVICE if name == "cuda" else torch.device("cpu"))
        torch._C._set_only_lift_cpu_tensors(True)
        try:
            with Mode():  # type: ignore[no-untyped-call]
                yield
        finally:
            torch._C._set_only_lift_cpu_tensors(False)
