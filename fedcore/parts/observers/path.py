"""The way of the global model through a run."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from fedcore.base.lazy import Tensor, torch
from fedcore.base.options import Options
from fedcore.base.registry import Plugin
from fedcore.engines import Upload
from fedcore.parts import Part, Plan, Run, State


class PathOptions(Options):
    """``every``: rounds between two models that are kept; the first and the last are kept always."""

    every: PositiveInt = 1


@dataclass(frozen=True)
class ModelPath(Part):
    """Keeps the server's model (the first group's) at regular rounds."""

    every: int
    label: str = "path of the model"

    def start(self, run: Run, state: State) -> None:
        """Keep w_0."""
        state.server["path"], state.values["path"] = state.models[:1].clone(), [0]

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        """Keep the new model, if it is its turn."""
        if run.due(state.round + 1, self.every):
            state.server["path"] = torch.cat([state.server["path"], state.models[:1]])
            state.values["path"] = [*state.values["path"], state.round + 1]

    def arrays(self, state: State) -> dict[str, dict[str, NDArray[np.generic]]]:
        """Return ``round`` [r] and ``model`` [r, d]."""
        rounds = np.array(state.values["path"], dtype=np.int64)
        return {"path": {"round": rounds, "model": state.server["path"].cpu().numpy()}}


PLUGIN = Plugin(
    "path",
    PathOptions,
    lambda options, spec: ModelPath(options.every),
    "the global model's parameters over rounds, in path.npz",
    "rFedAvg, Theorems 1 and 2",
)
