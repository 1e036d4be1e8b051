"""Features of clients' training rows at the end of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from fedcore.base.lazy import Tensor
from fedcore.base.options import Options
from fedcore.base.registry import Plugin
from fedcore.engines import Upload
from fedcore.engines.forward import features
from fedcore.parts import Part, Plan, Run, State
from fedcore.spec import Spec


class FeaturesOptions(Options):
    """``rows``: how many training rows of a client, drawn without replacement; all where it has fewer."""

    rows: PositiveInt = 100


@dataclass(frozen=True)
class ClientFeatures(Part):
    """Keeps phi(x) of training rows of the last round's clients, each under the model that it sends back."""

    rows: int
    label: str = "client features"

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        """Compute the features once the last round's models are there."""
        if state.round + 1 < run.spec.training.rounds:
            return
        state.clients |= {"features": {}, "labels": {}}
        for upload in uploads:
            block = run.problem.clients[upload.client]
            drawn = run.streams.get("client features", client=upload.client).permutation(len(block))
            rows = np.sort(drawn[: self.rows])
            state.clients["features"][upload.client] = features(run.problem, upload.model, block.x[rows])
            state.clients["labels"][upload.client] = block.y[rows]

    def arrays(self, state: State) -> dict[str, dict[str, NDArray[np.generic]]]:
        """Return ``client`` [n], ``label`` [n] and ``features`` [n, d], clients in the order of their ids.

        Nothing, where the run diverged before its last round, or no client trains.
        """
        if not state.clients.get("features"):
            return {}
        kept = {client: rows.cpu().numpy() for client, rows in sorted(state.clients["features"].items())}
        labels = state.clients["labels"]
        found = {
            "client": np.repeat(list(kept), [len(rows) for rows in kept.values()]),
            "label": np.concatenate([labels[client].cpu().numpy() for client in kept]),
            "features": np.concatenate(list(kept.values())),
        }
        return {"features": found}


def build(options: FeaturesOptions, spec: Spec) -> ClientFeatures:
    """Observe the features of a number of rows per client."""
    return ClientFeatures(options.rows)


PLUGIN = Plugin(
    "features",
    FeaturesOptions,
    build,
    "last-layer features of training rows under the clients' own last models, in features.npz",
    "rFedAvg, Fig. 1",
)
