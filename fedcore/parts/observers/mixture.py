"""Features of all clients' training rows under the global model, at some rounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt, PositiveInt

from fedcore.base.lazy import Tensor, torch
from fedcore.base.options import Options
from fedcore.base.registry import Plugin
from fedcore.engines import Upload
from fedcore.engines.forward import features
from fedcore.parts import Part, Plan, Run, State
from fedcore.spec import Spec


class MixtureOptions(Options):
    """``rows``: how many training rows of a client, drawn once; all where it has fewer.

    ``rounds``: after which rounds; 0 is the start. Rounds after the last are left out.
    """

    rows: PositiveInt = 50
    rounds: tuple[NonNegativeInt, ...] = (0,)


@dataclass(frozen=True)
class MixtureFeatures(Part):
    """Keeps phi(x) of the same training rows of every client at some rounds, all under the global model."""

    rows: int
    rounds: tuple[int, ...]
    label: str = "features of the mixture"

    def start(self, run: Run, state: State) -> None:
        """Keep the features under w_0, if asked for."""
        state.values["mixture"] = []
        self._keep(run, state, 0)

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        """Keep the features under the new model, if it is its turn."""
        self._keep(run, state, state.round + 1)

    def arrays(self, state: State) -> dict[str, dict[str, NDArray[np.generic]]]:
        """Return ``round`` [r], ``client`` [n] and ``features`` [r, n, d], clients in order of their ids."""
        if not state.values["mixture"]:
            return {}
        found = {
            "round": np.array(state.values["mixture"], dtype=np.int64),
            "client": state.server["mixture_clients"].cpu().numpy(),
            "features": state.server["mixture_features"].cpu().numpy(),
        }
        return {"mixture": found}

    def _keep(self, run: Run, state: State, done: int) -> None:
        if done not in self.rounds:
            return
        problem = run.problem
        rows = {k: self._drawn(run, k) for k in problem.active}
        parts = [features(problem, state.model, problem.clients[k].x[own]) for k, own in rows.items()]
        kept = torch.cat(parts)[None]
        before = state.server.get("mixture_features")
        state.server["mixture_features"] = kept if before is None else torch.cat([before, kept])
        clients = [k for k, own in rows.items() for _ in own]
        state.server["mixture_clients"] = torch.tensor(clients)
        state.values["mixture"] = [*state.values["mixture"], done]

    def _drawn(self, run: Run, client: int) -> NDArray[np.int64]:
        stream = run.streams.get("mixture features", client=client)
        return np.sort(stream.permutation(len(run.problem.clients[client]))[: self.rows])


def build(options: MixtureOptions, spec: Spec) -> MixtureFeatures:
    """Observe the features at the rounds asked for."""
    return MixtureFeatures(options.rows, options.rounds)


PLUGIN = Plugin(
    "mixture",
    MixtureOptions,
    build,
    "last-layer features of all clients' training rows under the global model, in mixture.npz",
    "FedAvgR, the figure on the MMD's impact",
)
