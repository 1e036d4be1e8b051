"""Local training written as a loop of plain PyTorch, for what no recipe of terms and directions says."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from fedcore.base.errors import BrokenContract
from fedcore.base.lazy import Module, Tensor, torch
from fedcore.engines import Batches, Job, Loop
from fedcore.engines.forward import arithmetic
from fedcore.parts import Run, State, UpdateRule
from fedcore.parts.steps import learning_rates


@dataclass(frozen=True)
class Client:
    """What a loop knows of the client that it trains.

    Attributes:
        id: which client.
        rates: the learning rate of each gradient step, as many as there are batches.
        memory: its tensors by name, which it finds again in later rounds, but for those that it deletes; a
            checkpoint saves them.
        sent: what else it uploads by name: ``Upload.extras``. The part's ``messages`` count it.
        run: the run; only to be read.
        state: all that changes in it, such as ``state.server``; only to be read.
    """

    id: int
    rates: list[float]
    memory: dict[str, Tensor]
    sent: dict[str, Tensor]
    run: Run
    state: State


class LocalTraining(UpdateRule, ABC):
    """A local update that is a loop of its own, in place of the optimizer's steps.

    It takes the specification's batches; optimizer and objective are its own. What PyTorch draws follows from
    the run's seed.
    """

    label = "own loop"
    takes_terms = False

    @abstractmethod
    def train(self, client: Client, model: Module, batches: Batches) -> Module:
        """Return the client's model after training.

        Args:
            client: whose training it is.
            model: the model received. ``model(x)`` gives scores [batch, classes], ``model.features(x)`` what
                feeds the output layer; its parameters are in the order of the flat vectors of ``state``.
            batches: rows x [batch, ...] and labels y [batch] of each step.
        """

    def loop(self, run: Run, state: State, job: Job) -> Loop:
        """Return the function that trains one client in one round."""

        def trained(batches: Batches) -> tuple[Tensor, dict[str, Tensor]]:
            w = job.received
            seeds = run.streams.get(f"loop/{job.stage}", state.round, job.client)
            memory = {name: store[job.client] for name, store in state.clients.items() if job.client in store}
            found = {*memory}
            client = Client(job.client, learning_rates(run, state, job.client), memory, {}, run, state)
            devices = [w.device] if w.is_cuda else []
            with torch.random.fork_rng(devices), torch.enable_grad(), arithmetic(w, run.spec.precision):
                torch.manual_seed(int(seeds.integers(2**63)))
                model = self.train(client, _module(run, state, w), batches)
            _refuse_others(run, client, model, len(w))
            for name in found - memory.keys():
                del state.clients[name][client.id]
            for name, value in memory.items():
                state.clients[name][client.id] = _kept(value)
            sent = {name: _kept(value) for name, value in client.sent.items()}
            return torch.nn.utils.parameters_to_vector(model.parameters()).detach(), sent

        return trained


def _kept(value: Tensor) -> Tensor:
    """Return a tensor without its history; bfloat16, which no checkpoint can hold, as float32."""
    return value.detach().float() if value.dtype == torch.bfloat16 else value.detach()


def _refuse_others(run: Run, client: Client, model: object, size: int) -> None:
    """Refuse what ``train`` leaves or returns if it is not of the type that it must be."""
    algorithm = f"algorithm '{run.spec.algorithm.name}'"
    for place, values in (("memory", client.memory), ("sent", client.sent)):
        for name, value in values.items():
            if not torch.is_tensor(value):
                found = f"client.{place}[{name!r}] is of type {type(value).__name__}"
                raise BrokenContract(f"{algorithm}: {found}, expected a tensor")
    if not isinstance(model, torch.nn.Module):
        raise BrokenContract(f"{algorithm}: train returned {type(model).__name__}, expected the model")
    if (found := sum(parameter.numel() for parameter in model.parameters())) != size:
        raise BrokenContract(
            f"{algorithm}: train returned a module of {found} parameters, expected the model of {size}"
        )


def _module(run: Run, state: State, w: Tensor) -> Module:
    """Return the run's model as a module with parameters of its own, which begin at ``w`` [d]. Rows that pass
    it count as rows of gradients where gradients are recorded, if the specification asks for counts.
    """
    model = run.problem.model

    class Network(torch.nn.Module):
        def named(self) -> dict[str, Tensor]:
            return run.problem.buffers | dict(zip(model.trainable.shapes, self.parameters(), strict=True))

        def features(self, x: Tensor) -> Tensor:
            if run.spec.evaluation.count_rows:
                state.rows_gradient += len(x) * torch.is_grad_enabled()
                state.rows_forward += len(x) * (not torch.is_grad_enabled())
            return model.features(self.named(), x)

        def forward(self, x: Tensor) -> Tensor:
            return model.scores(self.named(), self.features(x))

    network = Network()
    network.weights = torch.nn.ParameterList(view.clone() for view in model.trainable.views(w).values())
    return network
