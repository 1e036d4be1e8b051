"""Features of clients' training rows: under their own last models, or under the global one at some rounds."""

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


class FeaturesOptions(Options):
    """``rows``: how many training rows of a client, drawn without replacement; all where it has fewer."""

    rows: PositiveInt = 100


class MixtureOptions(Options):
    """``rows``: how many training rows of a client, drawn once; all where it has fewer.

    ``rounds``: after which rounds; 0 is the start. Rounds after the last are left out.
    """

    rows: PositiveInt = 50
    rounds: tuple[NonNegativeInt, ...] = (0,)


@dataclass(frozen=True)
class ClientFeatures(Part):
    """Keeps phi(x) of training rows of the last round's clients, each under the model that it sends back."""

    rows: int
    label: str = "client features"

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        if state.round + 1 < run.spec.training.rounds:
            return
        for upload in uploads:
            block = run.problem.clients[upload.client]
            rows = _rows(run, upload.client, self.rows, "client features")
            state.clients["features"][upload.client] = features(run.problem, upload.model, block.x[rows])
            state.clients["labels"][upload.client] = block.y[rows]

    def arrays(self, state: State) -> dict[str, dict[str, NDArray[np.generic]]]:
        """Return ``client`` [n], ``label`` [n] and ``features`` [n, d], clients in the order of their ids.

        Nothing, where the run diverged before its last round, or no client trains.
        """
        phi, labels = state.clients["features"], state.clients["labels"]
        if not phi:
            return {}
        clients = sorted(phi)
        arrays = {
            "client": np.repeat(clients, [len(phi[client]) for client in clients]),
            "label": torch.cat([labels[client] for client in clients]).cpu().numpy(),
            "features": torch.cat([phi[client] for client in clients]).cpu().numpy(),
        }
        return {"features": arrays}


@dataclass(frozen=True)
class MixtureFeatures(Part):
    """Keeps phi(x) of the same training rows of every client at some rounds, all under the global model."""

    rows: int
    rounds: tuple[int, ...]
    label: str = "features of the mixture"

    def start(self, run: Run, state: State) -> None:
        state.values["mixture"] = []
        self._keep(run, state, 0)

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        self._keep(run, state, state.round + 1)

    def arrays(self, state: State) -> dict[str, dict[str, NDArray[np.generic]]]:
        """Return ``round`` [r], ``client`` [n] and ``features`` [r, n, d], clients in order of their ids."""
        if not state.values["mixture"]:
            return {}
        arrays = {
            "round": np.array(state.values["mixture"], dtype=np.int64),
            "client": state.server["mixture_clients"].cpu().numpy(),
            "features": state.server["mixture_features"].cpu().numpy(),
        }
        return {"mixture": arrays}

    def _keep(self, run: Run, state: State, round_number: int) -> None:
        if round_number not in self.rounds:
            return
        problem = run.problem
        rows = {client: _rows(run, client, self.rows, "mixture features") for client in problem.active}
        phi = [features(problem, state.model, problem.clients[k].x[chosen]) for k, chosen in rows.items()]
        kept = torch.cat(phi)[None]
        before = state.server.get("mixture_features")
        state.server["mixture_features"] = kept if before is None else torch.cat([before, kept])
        clients = [client for client, chosen in rows.items() for _ in chosen]
        state.server["mixture_clients"] = torch.tensor(clients)
        state.values["mixture"] = [*state.values["mixture"], round_number]


def _rows(run: Run, client: int, count: int, purpose: str) -> NDArray[np.int64]:
    """Draw so many of a client's rows, in their order; all where it has fewer."""
    order = run.streams.get(purpose, client=client).permutation(len(run.problem.clients[client]))
    return np.sort(order[:count])


PLUGINS = (
    Plugin(
        "features",
        FeaturesOptions,
        lambda options, spec: ClientFeatures(options.rows),
        "last-layer features of training rows under the clients' own last models, in features.npz",
        "rFedAvg, Fig. 1",
    ),
    Plugin(
        "mixture",
        MixtureOptions,
        lambda options, spec: MixtureFeatures(options.rows, options.rounds),
        "last-layer features of all clients' training rows under the global model, in mixture.npz",
        "FedAvgR, the figure on the MMD's impact",
    ),
)
