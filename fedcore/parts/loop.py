"""Local training written as a loop of plain PyTorch, for what no recipe of terms and directions says."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedcore.base.errors import SpecError
from fedcore.base.lazy import Tensor, torch
from fedcore.engines import Batches, Job, Loop
from fedcore.engines.forward import arithmetic
from fedcore.engines.problem import Block
from fedcore.parts import Run, State, UpdateRule
from fedcore.parts.steps import learning_rates


@dataclass(frozen=True)
class Client:
    """What a loop knows of the client that it trains.

    Attributes:
        id, round: which client, and how many rounds are done.
        rows: all its rows.
        rates: the learning rate of each gradient step, as many as there are batches.
        memory: its tensors by name, which it finds again in later rounds; a checkpoint saves them.
        sent: what else it uploads by name: ``Upload.extras``. The part's ``messages`` count it.
        run, state: the run, and all that changes in it, such as ``state.server``; only to be read.
    """

    id: int
    round: int
    rows: Block
    rates: list[float]
    run: Run
    state: State
    memory: dict[str, Tensor]
    sent: dict[str, Tensor] = field(default_factory=dict)


class LocalTraining(UpdateRule):
    """A local update that is a loop of its own, in place of the optimizer's steps.

    It takes the specification's batches; optimizer and objective are its own. What PyTorch draws follows
    from the run's seed.
    """

    label = "own loop"

    def train(self, client: Client, model: torch.nn.Module, batches: Batches) -> torch.nn.Module:
        """Return the client's model after training.

        Args:
            client: whose training it is.
            model: the model received. ``model(x)`` gives scores [batch, classes], ``model.features(x)`` what
                feeds the output layer; parameters have their names in model.npz.
            batches: rows x [batch, ...] and labels y [batch] of each step.
        """
        raise TypeError(f"{type(self).__name__} does not say how it trains")

    def loop(self, run: Run, state: State, job: Job) -> Loop:
        """Return the function that trains one client in one round."""
        if run.recipe.objective:
            found = run.recipe.objective[0].label or type(run.recipe.objective[0]).__name__
            raise SpecError(f"algorithm: a loop of its own has its own objective, found the term '{found}'")

        def trained(batches: Batches) -> tuple[Tensor, dict[str, Tensor]]:
            w, seeds = job.received, run.streams.get(f"loop/{job.stage}", state.round, job.client)
            memory = {name: own[job.client] for name, own in state.clients.items() if job.client in own}
            rates, rows = learning_rates(run, state, job.client), run.problem.clients[job.client]
            client = Client(job.client, state.round, rows, rates, run, state, memory)
            with torch.random.fork_rng([w.device] if w.is_cuda else []), torch.enable_grad():
                torch.manual_seed(int(seeds.integers(2**63)))
                named = dict(self.train(client, _module(run, w), batches).named_parameters())
            model = torch.empty_like(w)
            for name, view in run.problem.model.trainable.views(model).items():
                view.copy_(named[name].detach())
            for name, own in client.memory.items():
                state.clients[name][client.id] = own.detach()
            return model, {name: own.detach() for name, own in client.sent.items()}

        return trained


def _module(run: Run, w: Tensor) -> torch.nn.Module:
    """Return the run's model as a module with parameters of its own, which begin at ``w`` [d]."""
    model, buffers = run.problem.model, run.problem.buffers

    class Network(torch.nn.Module):
        def features(self, x: Tensor) -> Tensor:
            with arithmetic(w, run.spec.precision):
                return model.features({**dict(self.named_parameters()), **buffers}, x)

        def forward(self, x: Tensor) -> Tensor:
            phi = self.features(x)
            with arithmetic(w, run.spec.precision):
                return model.scores({**dict(self.named_parameters()), **buffers}, phi)

    network = Network()
    for name, view in model.trainable.views(w).items():
        *path, last = name.split(".")
        place: torch.nn.Module = network
        for part in path:
            if part not in dict(place.named_children()):
                place.add_module(part, torch.nn.Module())
            place = place.get_submodule(part)
        place.register_parameter(last, torch.nn.Parameter(view.clone()))
    return network
