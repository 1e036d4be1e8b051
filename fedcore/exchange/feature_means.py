"""Mean features delta_k of every client, kept by the server and sent to the clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fedcore.local.engine import features
from fedcore.parts import Cargo, Exchange, Job, Plan, Run, State, Traffic, Upload

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class FeatureMeans(Exchange):
    """delta_k = (1/n_k) sum_i phi(w, x_ki), first from w_0, then renewed by each round's cohort.

    ``when="local"``: from the client's model after its local steps; every client receives all N vectors
    (rFedAvg, Algorithm 1). ``when="global"``: from the new global model in a second synchronisation; a
    client receives one vector, the mean of the others' (rFedAvg+, Algorithm 2).
    ``noise`` is sigma C_0: Gaussian noise of standard deviation noise / L is added to each delta before
    it leaves the client, L the batch size (Section VI-B.8).
    ``at_start`` takes the local delta under the model received instead, as line 10 of Algorithm 1 is
    printed; ``zero`` starts from zero vectors, and nothing is sent before the first round.
    ``one_batch`` takes delta from one batch under the model received, as the released code does.
    ``precision="bf16"`` computes phi in bfloat16; the mean is taken in the model's own type.
    """

    when: Literal["local", "global"]
    noise: float = 0.0
    one_batch: bool = False
    at_start: bool = False
    zero: bool = False
    precision: Literal["fp32", "bf16"] = "fp32"
    label: str = "mean features"

    def start(self, run: Run, state: State) -> None:
        """Let every client with data send delta from w_0, and count that, unless deltas start at zero."""
        width = features(run.problem, state.model, run.problem.test.x[:1]).shape[1]
        delta = state.model.new_zeros(len(run.problem.clients), width)
        state.server["delta"] = delta
        if self.zero:
            return
        for client in run.problem.active:
            delta[client] = self._delta(run, state.model, client, -1)
        active = len(run.problem.active)
        state.bytes_down += active * state.model.numel() * run.problem.bytes_per_number
        state.bytes_up += active * width * run.problem.bytes_per_number
        state.values["holders"] = list(run.problem.active)

    def uploaded(self, run: Run, state: State, job: Job, upload: Upload) -> None:
        """Compute delta_k from the local model (``when="local"``)."""
        if self.when == "local":
            model = job.received if self.one_batch or self.at_start else upload.model
            upload.extras["delta"] = self._delta(run, model, job.client, state.round)

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        """Keep the cohort's new vectors."""
        delta = state.server["delta"].clone()
        for upload in uploads:
            if self.when == "local":
                delta[upload.client] = upload.extras["delta"]
            else:
                model = before[0] if self.one_batch else state.model
                delta[upload.client] = self._delta(run, model, upload.client, state.round)
        state.server["delta"] = delta
        if self.when == "global":
            state.values["next_holders"] = list(plan.cohort)

    def cargo(self) -> Cargo:
        """Mean feature vectors; with ``when="global"`` the new model travels down a second time."""
        if self.when == "local":
            return Cargo(down=("mean features delta_j of all N clients",), up=("mean feature delta_k",))
        down = ("the others' mean feature", "the new model, for the second synchronisation")
        return Cargo(down=down, up=("mean feature delta_k",))

    def traffic(self, run: Run, state: State, plan: Plan) -> Traffic:
        """N vectors (rFedAvg) or one (rFedAvg+) down and one up; rFedAvg+ sends the new model too."""
        clients, width = state.server["delta"].shape
        cohort, size = len(plan.cohort), run.problem.bytes_per_number
        if self.when == "local":
            return Traffic(down=cohort * clients * width * size, up=cohort * width * size)
        return Traffic(down=cohort * (width + state.model.numel()) * size, up=cohort * width * size)

    def columns(self, state: State) -> dict[str, float]:
        """Report the mean distance of a client's delta to the mean of all."""
        delta = state.server["delta"]
        return {"delta_spread": float((delta - delta.mean(dim=0)).norm(dim=1).double().mean())}

    def _delta(self, run: Run, model: Tensor, client: int, round: int) -> Tensor:
        import torch

        x = run.problem.clients[client].x
        given = run.spec.training.batch_size
        size = len(x) if given == "full" else min(given, len(x))
        if self.one_batch and size < len(x):
            rows = run.streams.get("delta batch", round, client).permutation(len(x))[:size]
            x = x[torch.from_numpy(rows).to(x.device)]
        delta = features(run.problem, model, x, self.precision).mean(dim=0)
        if self.noise:
            drawn = run.streams.get("delta noise", round, client).standard_normal(len(delta))
            delta = delta + torch.as_tensor(drawn, dtype=delta.dtype, device=delta.device) * (
                self.noise / size
            )
        return delta
