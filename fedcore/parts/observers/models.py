"""The global model's trajectory, and the loss on the line through two clients' models."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from fedcore.base.lazy import Tensor, torch
from fedcore.base.options import Options
from fedcore.base.registry import Plugin
from fedcore.engines import Upload
from fedcore.engines.forward import mean_loss
from fedcore.parts import Part, Plan, Run, State


class PathOptions(Options):
    """``every``: rounds between kept models; the first and that of ``training.rounds`` always are."""

    every: PositiveInt = 1


@dataclass(frozen=True)
class ModelPath(Part):
    """Keeps the server's model (the first group's) at regular rounds."""

    every: int
    label: str = "path of the model"

    def start(self, run: Run, state: State) -> None:
        state.server["path"], state.values["path"] = state.models[:1].clone(), [0]

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        if run.due(state.round + 1, self.every):
            state.server["path"] = torch.cat([state.server["path"], state.models[:1]])
            state.values["path"] = [*state.values["path"], state.round + 1]

    def arrays(self, state: State) -> dict[str, dict[str, NDArray[np.generic]]]:
        """Return ``round`` [r] and ``model`` [r, d]."""
        rounds = np.array(state.values["path"], dtype=np.int64)
        return {"path": {"round": rounds, "model": state.server["path"].cpu().numpy()}}


class BetweenOptions(Options):
    """``points``: how many mixtures, evenly from weight -0.2 to weight 1.2 of the first model."""

    points: int = Field(default=57, ge=2)


@dataclass(frozen=True)
class LossBetween(Part):
    """Measures theta w + (1 - theta) w' for the models that the last round's first two clients send back.

    Where only one is sent, w' is what its client received. McMahan et al. 2017, Figure 1.
    """

    weights: tuple[float, ...]
    label: str = "loss between models"

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        if state.round + 1 < run.spec.training.rounds or not uploads:
            return
        first, second = uploads[0].model, (uploads[1].model if len(uploads) > 1 else uploads[0].received)
        mixtures = (second.lerp(first, theta) for theta in self.weights)
        losses = [mean_loss(run.problem, w, run.problem.train) for w in mixtures]
        pairs = zip(self.weights, losses, strict=True)
        state.values["between"] = [{"weight": theta, "train_loss": loss} for theta, loss in pairs]

    def tables(self, state: State) -> dict[str, list[dict[str, float]]]:
        """Return one row per mixture: the weight of the first model and the loss on all training rows."""
        return {"between": state.values.get("between", [])}


PLUGINS = (
    Plugin(
        "between",
        BetweenOptions,
        lambda options, spec: LossBetween(tuple(np.linspace(-0.2, 1.2, options.points).tolist())),
        "training loss of mixtures of two clients' last models, in between.csv",
        "McMahan et al. 2017, Figure 1",
    ),
    Plugin(
        "path",
        PathOptions,
        lambda options, spec: ModelPath(options.every),
        "the global model's parameters over rounds, in path.npz",
        "rFedAvg, Theorems 1 and 2",
    ),
)
