"""A model's parameters as one flat vector with named views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import SpecError
from fedcore.base.lazy import Tensor, torch


@dataclass(frozen=True)
class Layout:
    """Names and shapes of parameters, in the order in which they lie in the flat vector."""

    shapes: Mapping[str, tuple[int, ...]]

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Where each parameter lies in the flat vector."""
        found, offset = {}, 0
        for name, shape in self.shapes.items():
            found[name] = slice(offset, offset + prod(shape))
            offset += prod(shape)
        return found

    @cached_property
    def size(self) -> int:
        """Length d of the flat vector."""
        return sum(prod(shape) for shape in self.shapes.values())

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """Return named views into ``flat`` [..., d]; writing to one writes to the vector."""
        lead = flat.shape[:-1]
        parts = flat.split([where.stop - where.start for where in self.slices.values()], dim=-1)
        return {
            name: part.view(*lead, *shape)
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }

    def flatten(self, arrays: Mapping[str, NDArray[np.floating]], dtype: torch.dtype) -> Tensor:
        """Copy named arrays into a new flat vector.

        Raises:
            SpecError: a parameter is missing or has another shape.
        """
        flat = torch.empty(self.size, dtype=dtype)
        for name, shape in self.shapes.items():
            if name not in arrays:
                raise SpecError(
                    f"model.init: parameter '{name}' is missing; found {', '.join(arrays) or 'none'}"
                )
            if arrays[name].shape != tuple(shape):
                raise SpecError(
                    f"model.init: parameter '{name}' has shape {arrays[name].shape}, expected {tuple(shape)}"
                )
            flat[self.slices[name]] = torch.as_tensor(np.asarray(arrays[name]), dtype=dtype).reshape(-1)
        return flat

    def arrays(self, flat: Tensor) -> dict[str, NDArray[np.floating]]:
        """Copy a flat vector out into named arrays."""
        return {name: view.detach().cpu().numpy().copy() for name, view in self.views(flat).items()}
