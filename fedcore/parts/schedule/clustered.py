"""Rounds within clusters of clients that a hierarchical clustering of their updates finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedcore.base.lazy import Tensor, scipy, torch
from fedcore.parts import Plan, Run, Schedule, State, Upload

Linkage = Literal["single", "complete", "average", "ward"]
Metric = Literal["euclidean", "manhattan", "cosine"]


@dataclass(frozen=True)
class Clustered(Schedule):
    """Synchronous rounds, then agglomerative clustering of all clients' updates, then rounds in clusters.

    After ``cluster_round`` common rounds every client with data trains once from the global model. Clusters
    are merged by ``linkage`` of the ``metric`` distances between updates w_k - w until the next merge would
    exceed ``threshold``. These updates are the clusters' first: each cluster's model is aggregated from its
    own clients. From then on every client trains its cluster's model. Briggs et al., FL+HC.
    """

    linkage: Linkage
    metric: Metric
    threshold: float
    cluster_round: int
    label: str = "clustered"

    def start(self, run: Run, state: State) -> None:
        """Put all clients into one cluster."""
        state.values["clusters"] = [0] * len(run.problem.clients)

    def plan(self, run: Run, state: State) -> Plan:
        """Plan one stage: the cohort, or everyone in the round that clusters."""
        clustering = state.round == self.cluster_round
        cohort = tuple(run.problem.active) if clustering else run.recipe.select.cohort(run, state)
        groups = tuple(state.values["clusters"][client] for client in cohort)
        return Plan(
            cohort=cohort,
            starts=tuple(state.models[group] for group in groups),
            stages=(tuple(enumerate(cohort)),),
            groups=groups,
        )

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        """In the round that clusters, give each cluster a model of its own."""
        changes = torch.stack([upload.change for upload in uploads])
        if state.round != self.cluster_round or not torch.isfinite(changes).all():
            return
        labels = self._cluster(changes)
        for upload, label in zip(uploads, labels, strict=True):
            state.values["clusters"][upload.client] = label
        members = [
            [u for u, k in zip(uploads, labels, strict=True) if k == c] for c in range(max(labels) + 1)
        ]
        models, slots = [], {}
        for group, own in enumerate(members):
            change = run.recipe.aggregate.change(run, state, before[0], own)
            model, slots[group] = run.recipe.server.step(run, state, before[0], change, {})
            models.append(model)
        state.models, state.slots = torch.stack(models), slots

    def columns(self, state: State) -> dict[str, float]:
        """Report the number of clusters."""
        return {"clusters": len(state.models)}

    def _cluster(self, changes: Tensor) -> list[int]:
        """Return each update's cluster, numbered in the order of first appearance."""
        if len(changes) < 2:
            return [0] * len(changes)
        tree = scipy.cluster.hierarchy.linkage(distances(changes, self.metric), method=self.linkage)
        found = scipy.cluster.hierarchy.fcluster(tree, t=self.threshold, criterion="distance").tolist()
        order = list(dict.fromkeys(found))
        return [order.index(cluster) for cluster in found]


def distances(changes: Tensor, metric: Metric) -> NDArray[np.float64]:
    """Return the distances of all pairs of rows [K, d] in condensed form [K (K - 1) / 2].

    The cosine distance 1 - cos lies in [0, 2]; a zero update counts as orthogonal to all.
    """
    if metric == "cosine":
        unit = torch.nn.functional.normalize(changes, dim=1)
        rows, columns = torch.triu_indices(len(unit), len(unit), offset=1, device=unit.device)
        found = (1 - (unit @ unit.T)[rows, columns]).clamp(min=0)
    else:
        found = torch.pdist(changes, p=1.0 if metric == "manhattan" else 2.0)
    return found.double().cpu().numpy()
