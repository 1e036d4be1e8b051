"""Client sampling in proportion to running scores of squared gradient norms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedcore.base.lazy import Tensor
from fedcore.engines.sample_gradients import batch_norms, squared_norms
from fedcore.parts import Cargo, Job, Plan, Run, State, Traffic, Upload
from fedcore.parts.select.assignments import Assignments

FLOOR = 1e-12


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

    def start(self, run: Run, state: State) -> None:
        """Set the first scores; count the traffic of clients that score the first model."""
        super().start(run, state)
        problem = run.problem
        scores = state.model.new_ones(len(problem.clients)).double()
        if self.scored_start:
            for client in problem.active:
                scores[client] = self._score(run, state.model, client, "score batches", -1)
            state.bytes_down += len(problem.active) * state.model.numel() * problem.bytes_per_number
            state.bytes_up += len(problem.active) * problem.bytes_per_number
        state.server["importance"] = scores

    def uploaded(self, run: Run, state: State, job: Job, upload: Upload) -> None:
        """Blend the client's new score in; the next inner round draws with it."""
        new = self._score(run, upload.model, job.client, f"score batches/{job.stage}", state.round)
        scores = state.server["importance"].clone()
        scores[job.client] = (1 - self.gamma) * scores[job.client] + self.gamma * new
        state.server["importance"] = scores

    def probabilities(self, run: Run, state: State) -> NDArray[np.float64] | None:
        """Return p_k in proportion; a vanishing score keeps a small chance, an infinite one counts as the
        largest finite one."""
        scores = state.server["importance"].cpu().numpy()[run.problem.active]
        known = np.isfinite(scores)
        top = scores[known].max() if known.any() else 0.0
        if top <= 0:
            return None
        raised = np.maximum(np.where(known, scores, top) / top, FLOOR)
        return raised / raised.sum()

    def traffic(self, run: Run, state: State, plan: Plan) -> Traffic:
        """One number up with each model; the models themselves are counted with the jobs."""
        return Traffic(up=len(plan.starts) * self.redistributions * run.problem.bytes_per_number)

    def cargo(self) -> Cargo:
        """Name what travels besides models."""
        return Cargo(up=("importance score",))

    def columns(self, state: State) -> dict[str, float]:
        """Report the largest score and the share of all scores that it has."""
        scores = state.server["importance"]
        return {"importance_max": float(scores.max()), "importance_share": float(scores.max() / scores.sum())}

    def _score(self, run: Run, model: Tensor, client: int, purpose: str, round: int) -> Tensor:
        block = run.problem.clients[client]
        if self.score == "sample":
            return squared_norms(run.problem, model, block).double().mean()
        rng = run.streams.get(purpose, round, client)
        return batch_norms(run.engine, model, block, run.spec.training.batch_size, rng).double().mean()
