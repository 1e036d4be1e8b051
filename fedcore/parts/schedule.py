"""Schedules: who trains which slot, in which order, and when slots are merged."""

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedcore.base.lazy import Tensor, scipy, torch
from fedcore.engines import Upload
from fedcore.models import initialise
from fedcore.parts import Plan, Run, Schedule, State, Work
from fedcore.parts.select import Assignments, check_clients
from fedcore.parts.steps import refuse_rates_by_step, server_step

Linkage = Literal["single", "complete", "average", "ward"]
Metric = Literal["euclidean", "manhattan", "cosine"]


@dataclass(frozen=True)
class Synchronous(Schedule):
    """One slot per client of the cohort; each starts from the global model. FedAvg."""

    label: str = "synchronous"

    def plan(self, run: Run, state: State) -> Plan:
        cohort = run.recipe.select.cohort(run, state)
        return _one_stage(state, cohort, (0,) * len(cohort))


@dataclass(frozen=True)
class OwnStarts(Synchronous):
    """One slot per client of the cohort; each starts from a draw of its own if ``model.init`` draws."""

    label: str = "synchronous, own starts"

    def plan(self, run: Run, state: State) -> Plan:
        plan, init = super().plan(run, state), run.spec.model.options.init
        streams = (run.streams.get("model", client=client) for client in plan.cohort)
        drawn = (initialise(run.problem.whole, init, rng, state.models.dtype)[0] for rng in streams)
        return replace(plan, starts=tuple(model.to(state.models.device) for model in drawn))


def _one_stage(state: State, cohort: tuple[int, ...], groups: tuple[int, ...]) -> Plan:
    starts = tuple(state.models[group] for group in groups)
    return Plan(cohort, starts, stages=(tuple(enumerate(cohort)),), groups=groups)


@dataclass(frozen=True)
class Chained(Schedule):
    """One slot that visits the cohort in client-id order; every client's result is merged.

    What the released code of DL-opt and FedOMW does, for its baselines too: one model object is trained by
    all clients in turn, and a copy is kept after each.
    """

    label: str = "chained"

    def start(self, run: Run, state: State) -> None:
        """Refuse rates by step, which count a client's steps and not the model's."""
        super().start(run, state)
        refuse_rates_by_step(run.spec, "clients in turn")

    def plan(self, run: Run, state: State) -> Plan:
        cohort = run.recipe.select.cohort(run, state)
        stages = tuple(((0, client),) for client in cohort)
        return Plan(cohort, (state.model,), stages, groups=(0,), every_stage=True)


@dataclass(frozen=True)
class Redistribution(Schedule):
    """m models start at w; in each of S inner rounds m clients are drawn and the i-th trains model i.

    Only the last models are merged. A round is an outer round, S inner ones. RADFed, Algorithm 1.
    """

    select: Assignments = field(default_factory=Assignments)
    label: str = "redistribution"

    @property
    def in_turn(self) -> int:
        return self.select.redistributions

    def start(self, run: Run, state: State) -> None:
        """Refuse rates by step, which count a client's steps and not a model's."""
        super().start(run, state)
        if self.in_turn > 1:
            refuse_rates_by_step(run.spec, f"{self.in_turn} redistributions")

    def plan(self, run: Run, state: State) -> Plan:
        """Plan S stages; each is drawn when the one before it is done, so that scores can steer it."""
        first = self.select.draw(run, state, 0)
        stages = (tuple(enumerate(self.select.draw(run, state, inner))) for inner in range(self.in_turn))
        return Plan(first, (state.model,) * len(first), stages, groups=(0,) * len(first))

    def columns(self, state: State) -> dict[str, float]:
        """Report the inner rounds done, which other algorithms' rounds compare with."""
        return {"inner_rounds": state.round * self.in_turn}


@dataclass(frozen=True)
class Centralised(Schedule):
    """No client trains and nothing travels."""

    label: str = "centralised"
    federated = False

    def plan(self, run: Run, state: State) -> Plan:
        return Plan(cohort=(), starts=(), stages=(), groups=(0,))


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
        super().start(run, state)
        state.values["clusters"] = [0] * len(run.problem.clients)

    def plan(self, run: Run, state: State) -> Plan:
        clustering = state.round == self.cluster_round
        cohort = tuple(run.problem.active) if clustering else run.recipe.select.cohort(run, state)
        return _one_stage(state, cohort, tuple(state.values["clusters"][client] for client in cohort))

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        """In the round that clusters, give each cluster a model of its own."""
        if state.round != self.cluster_round:
            return
        labels = self._cluster(torch.stack([upload.change for upload in uploads]))
        for upload, label in zip(uploads, labels, strict=True):
            state.values["clusters"][upload.client] = label
        models, states = [], {}
        for group in range(max(labels) + 1):
            members = [upload for upload, label in zip(uploads, labels, strict=True) if label == group]
            model, states[group] = server_step(run, state, before[0], members, {})
            models.append(model)
        state.models, state.optimizer_state = torch.stack(models), states

    def columns(self, state: State) -> dict[str, float]:
        return {"clusters": len(state.models)}

    def arrays(self, state: State) -> dict[str, dict[str, NDArray[np.generic]]]:
        """Return each cluster's model [clusters, d], and the cluster of each client."""
        clusters = np.array(state.values["clusters"])
        return {"clusters": {"models": state.models.cpu().numpy(), "clusters": clusters}}

    def _cluster(self, changes: Tensor) -> list[int]:
        """Return each update's cluster, in the order of first appearance; one if a distance is not finite."""
        pairs = distances(changes, self.metric)
        if not len(pairs) or not np.isfinite(pairs).all():
            return [0] * len(changes)
        tree = scipy.cluster.hierarchy.linkage(pairs, method=self.linkage)
        clusters = scipy.cluster.hierarchy.fcluster(tree, t=self.threshold, criterion="distance").tolist()
        number: dict[int, int] = {}
        return [number.setdefault(cluster, len(number)) for cluster in clusters]


def distances(changes: Tensor, metric: Metric) -> NDArray[np.float64]:
    """Return the distances of all pairs of rows [K, d] in condensed form [K (K - 1) / 2].

    The cosine distance 1 - cos lies in [0, 2]; a zero update counts as orthogonal to all.
    """
    if metric == "cosine":
        unit = torch.nn.functional.normalize(changes, dim=1)
        rows, columns = torch.triu_indices(len(unit), len(unit), offset=1, device=unit.device)
        pairs = (1 - (unit @ unit.T)[rows, columns]).clamp(min=0)
    else:
        p = 1.0 if metric == "manhattan" else 2.0
        pairs = torch.pdist(changes, p)
        if not torch.isfinite(pairs).all():  # beyond float32's range
            pairs = torch.pdist(changes.double(), p)
    return pairs.double().cpu().numpy()


@dataclass(frozen=True)
class Asynchronous(Schedule):
    """A round is one server update: one client, trained on the version ``staleness`` updates ago.

    Client and staleness are drawn, the staleness uniformly from 1 to ``max_staleness`` (0: always the newest
    version), or given by ``participation.events`` (cycled). Staleness beyond the first version is cut to it.
    FedAsync, Algorithm 1; RADFed, Section IV-E.
    """

    max_staleness: int
    label: str = "asynchronous"

    def work(self, validation: float) -> Work:
        """Old versions of the model."""
        return Work(versions=self.max_staleness + 1)

    def trainings(self, cohort: int) -> int:
        return 1

    def start(self, run: Run, state: State) -> None:
        """Check events that are given; keep the first version."""
        events = run.spec.participation.events or ()
        for client, _ in events:
            check_clients(run, (client,), "events", with_data=True)
        oldest = max((staleness for _, staleness in events), default=self.max_staleness)
        kept = 1 + min(oldest, run.spec.training.rounds)
        state.server["versions"] = state.model.new_zeros(kept, state.model.numel())
        state.server["versions"][0] = state.model
        state.values["staleness"] = 0

    def plan(self, run: Run, state: State) -> Plan:
        """Plan one job from the event's version of the model; its staleness decides its weight."""
        client, staleness = self.event(run, state)
        state.values["staleness"] = staleness
        versions = state.server["versions"]
        start = versions[(state.round - staleness) % len(versions)].clone()
        return Plan(cohort=(client,), starts=(start,), stages=(((0, client),),), groups=(0,))

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        """Keep the new version in the place of the oldest."""
        versions = state.server["versions"]
        versions[(state.round + 1) % len(versions)] = state.model

    def columns(self, state: State) -> dict[str, float]:
        return {"staleness": state.values["staleness"]}

    def event(self, run: Run, state: State) -> tuple[int, int]:
        """Return the coming update's client and staleness."""
        if (events := run.spec.participation.events) is not None:
            client, staleness = events[state.round % len(events)]
        else:
            rng = run.streams.get("event", state.round)
            client = int(rng.choice(run.problem.active))
            staleness = int(rng.integers(1, self.max_staleness, endpoint=True)) if self.max_staleness else 0
        return client, min(staleness, state.round)
