"""Selection: which clients take part in a round."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import SpecError
from fedcore.base.lazy import Tensor
from fedcore.engines import Job, Upload
from fedcore.engines.sample_gradients import batch_norms, squared_norms
from fedcore.parts import Message, Run, Selection, State, Work

FLOOR = 1e-12


def cohort_size(run: Run) -> int:
    """Return S, the clients of a synchronous round."""
    return run.spec.participation.cohort_size(len(run.problem.clients), len(run.problem.active))


def check_clients(run: Run, clients: tuple[int, ...], key: str, with_data: bool = False) -> None:
    """Refuse ids that no client has, one given twice, or (``with_data``) one of a client without rows."""
    count = len(run.problem.clients)
    if wrong := [client for client in clients if client >= count]:
        raise SpecError(f"participation.{key}: no client {wrong[0]}, expected ids from 0 to {count - 1}")
    if len(set(clients)) < len(clients):
        raise SpecError(f"participation.{key}: a client is given twice in {list(clients)}")
    if with_data and (empty := set(clients) - set(run.problem.active)):
        raise SpecError(f"participation.{key}: client {min(empty)} holds no rows")


@dataclass(frozen=True)
class Uniform(Selection):
    """S clients drawn uniformly without replacement, in client-id order; those without data are left out."""

    label: str = "uniform"

    def start(self, run: Run, state: State) -> None:
        """Check cohorts that are given; who trains which model is no business of this sampling."""
        if run.spec.participation.assignments is not None:
            name = run.spec.algorithm.name
            raise SpecError(f"participation.assignments: '{name}' redistributes no models; give cohorts")
        for cohort in run.spec.participation.cohorts or ():
            check_clients(run, cohort, "cohorts")
            if not {*cohort} & {*run.problem.active}:
                raise SpecError(f"participation.cohorts: no client of {list(cohort)} holds rows")

    def cohort(self, run: Run, state: State) -> tuple[int, ...]:
        active = run.problem.active
        if (cohorts := run.spec.participation.cohorts) is not None:
            chosen = set(cohorts[state.round % len(cohorts)])
            return tuple(client for client in active if client in chosen)
        rng = run.streams.get("cohort", state.round)
        return tuple(sorted(rng.choice(active, cohort_size(run), replace=False).tolist()))


@dataclass(frozen=True, kw_only=True)
class Assignments(Selection):
    """m different clients in each of S inner rounds, the i-th for model i: drawn uniformly, or as given.

    ``participation.assignments`` (or else ``cohorts``) lists the clients of each inner round, cycled; m is
    then its length, else the cohort's size. RADFed, Algorithm 1.
    """

    redistributions: int = 1
    label: str = "uniform"

    def start(self, run: Run, state: State) -> None:
        """Check assignments that are given, which must be of one length."""
        key = "cohorts" if run.spec.participation.assignments is None else "assignments"
        for clients in (given := _given(run)):
            check_clients(run, clients, key, with_data=True)
            if len(clients) != len(given[0]):
                raise SpecError(
                    f"participation.{key}: got {len(given[0])} and {len(clients)} clients, "
                    "expected as many in each inner round"
                )

    def cohort(self, run: Run, state: State) -> tuple[int, ...]:
        """Return the clients of the coming round's first inner round."""
        return self.draw(run, state, 0)

    def draw(self, run: Run, state: State, inner: int) -> tuple[int, ...]:
        """Return the clients of one of the coming round's inner rounds, model by model."""
        index = state.round * self.redistributions + inner
        if assignments := _given(run):
            return assignments[index % len(assignments)]
        rng = run.streams.get("assignment", index)
        p = self.probabilities(run, state)
        return tuple(rng.choice(run.problem.active, cohort_size(run), replace=False, p=p).tolist())

    def probabilities(self, run: Run, state: State) -> NDArray[np.float64] | None:
        """Return the selection probabilities of the clients with data, or None for uniform ones."""
        return None


def _given(run: Run) -> tuple[tuple[int, ...], ...]:
    return run.spec.participation.assignments or run.spec.participation.cohorts or ()


@dataclass(frozen=True, kw_only=True)
class Importance(Assignments):
    """Clients drawn without replacement with probabilities proportional to p_k, which starts at 1.

    After client k's local training, p_k <- (1 - gamma) p_k + gamma s, where s is the mean over the client's
    samples of ||grad l_d(w*)||^2 at the model w* that the client returns. RADFed, Algorithm 2.
    ``score="batch"`` takes the mean over mini-batches of the squared norm of a batch's gradient (Section
    III-B), and ``scored_start`` lets every client score w_1 before the first round; both as in the released
    code.
    """

    gamma: float = 0.9
    score: Literal["sample", "batch"] = "sample"
    scored_start: bool = False
    label: str = "importance"

    def work(self, validation: float) -> Work:
        """A gradient for each of a client's rows."""
        return Work(gradients=1, first_gradients=1 if self.scored_start else 0)

    def start(self, run: Run, state: State) -> None:
        """Set the first scores; count the traffic of clients that score the first model."""
        super().start(run, state)
        problem = run.problem
        scores = state.model.new_zeros(len(problem.clients)).double()
        scores[problem.active] = 1.0
        if self.scored_start:
            for client in problem.active:
                scores[client] = self._score(run, state.model, client, "score batches", -1)
            state.count(down=len(problem.active) * state.model.numel(), up=len(problem.active))
        state.server["importance"] = scores

    def uploaded(self, run: Run, state: State, job: Job, upload: Upload) -> None:
        """Blend the client's new score in; the next inner round draws with it."""
        new = self._score(run, upload.model, job.client, f"score batches/{job.stage}", state.round)
        scores = state.server["importance"].clone()
        scores[job.client] = (1 - self.gamma) * scores[job.client] + self.gamma * new
        state.server["importance"] = scores

    def probabilities(self, run: Run, state: State) -> NDArray[np.float64] | None:
        """Return p_k in proportion; a vanishing score keeps a small chance, an infinite one counts as the
        largest finite one.
        """
        scores = state.server["importance"].cpu().numpy()[run.problem.active]
        finite = np.isfinite(scores)
        top = scores[finite].max() if finite.any() else 0.0
        if top <= 0:
            return None
        raised = np.maximum(np.where(finite, scores, top) / top, FLOOR)
        return raised / raised.sum()  # type: ignore[no-any-return]

    def messages(self) -> tuple[Message, ...]:
        """One number up with each of the S models that a slot's clients send."""
        return (Message("up", "importance score", lambda run, state: self.redistributions),)

    def columns(self, state: State) -> dict[str, float]:
        scores = state.server["importance"]
        return {"importance_max": float(scores.max()), "importance_share": float(scores.max() / scores.sum())}

    def _score(self, run: Run, model: Tensor, client: int, purpose: str, round: int) -> Tensor:
        block = run.problem.clients[client]
        if self.score == "sample":
            return squared_norms(run.problem, model, block).double().mean()
        rng = run.streams.get(purpose, round, client)
        return batch_norms(run.engine, model, block, run.spec.training.batch_size, rng).double().mean()
