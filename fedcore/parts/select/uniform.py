"""Uniform sampling of clients without replacement, or the cohorts that are given."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

from fedcore.base.errors import SpecError
from fedcore.parts import Run, Selection, State


def cohort_size(run: Run) -> int:
    """Return S: the participating fraction of all clients, at least one, at most those with data."""
    share = run.spec.participation.fraction * len(run.problem.clients)
    return max(1, min(floor(share + 0.5), len(run.problem.active)))


def check_clients(run: Run, clients: tuple[int, ...], key: str, with_data: bool = False) -> None:
    """Check given client ids.

    Raises:
        SpecError: an id that no client has, one given twice, or (``with_data``) one of a client without rows.
    """
    known = len(run.problem.clients)
    wrong = [client for client in clients if client >= known]
    if wrong:
        raise SpecError(f"participation.{key}: no client {wrong[0]}, expected ids from 0 to {known - 1}")
    if len(set(clients)) < len(clients):
        raise SpecError(f"participation.{key}: a client is given twice in {list(clients)}")
    empty = set(clients) - set(run.problem.active)
    if with_data and empty:
        raise SpecError(f"participation.{key}: client {min(empty)} holds no rows")


@dataclass(frozen=True)
class Uniform(Selection):
    """S clients drawn uniformly without replacement, in client-id order; those without data are left out."""

    label: str = "uniform"

    def start(self, run: Run, state: State) -> None:
        """Check cohorts that are given; who trains which model is no business of this sampling."""
        if run.spec.participation.assignments is not None:
            name = run.spec.algorithm["name"]
            raise SpecError(f"participation.assignments: '{name}' redistributes no models; give cohorts")
        for given in run.spec.participation.cohorts or ():
            check_clients(run, given, "cohorts")

    def cohort(self, run: Run, state: State) -> tuple[int, ...]:
        """Return the coming round's clients, sorted."""
        active = run.problem.active
        given = run.spec.participation.cohorts
        if given is not None:
            chosen = set(given[state.round % len(given)])
            return tuple(client for client in active if client in chosen)
        size = cohort_size(run)
        if size == len(active):
            return tuple(active)
        rng = run.streams.get("cohort", state.round)
        return tuple(sorted(int(client) for client in rng.choice(active, size, replace=False)))
