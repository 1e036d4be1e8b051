"""The federated problem of one run: every client's rows as resident tensors, the test rows, the model."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError, SpecError
from fedcore.base.lazy import Device, Tensor, torch
from fedcore.data import Dataset, Partition, Rows
from fedcore.models import Model, Parameters
from fedcore.spec import Spec, TestedOn

Pair = tuple[Tensor, Tensor]
Features = Callable[[Parameters, Tensor], Tensor]
LARGEST_BYTES = 1 << 31
ROWS = 128


@dataclass(frozen=True)
class Block:
    """Rows ``x`` [n, ...] and labels ``y`` [n] on the run's device."""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return self.y.shape[0]


@dataclass(frozen=True)
class Problem:
    """The learning problem: model, data and clients, in the order of their ids."""

    model: Model
    buffers: dict[str, Tensor]  # the model's fixed arrays by name
    start: Tensor  # w_0 [d]
    clients: tuple[Block, ...]  # views into ``train``
    train: Block  # all clients' rows
    test: Block  # the rows that models are measured on
    validation: Block | None  # the server's: the partition's, and then the data's own
    classes: int
    names: tuple[str | None, ...] = ()  # which natural client each client is, if they are natural
    rest_of: Model | None = None  # the model whose fixed part the rows went through
    features: Features | None = None  # an engine's own way from rows to the model's features

    def parameters(self, w: Tensor) -> dict[str, Tensor]:
        """Return the model's parameters at ``w`` [d], as views of it, and its fixed arrays, by name."""
        return {**self.model.trainable.views(w), **self.buffers}

    @property
    def whole(self) -> Model:
        """The model as declared, of which ``model`` may be the rest behind a part that is fixed."""
        return self.rest_of or self.model

    @cached_property
    def sizes(self) -> list[int]:
        """Rows of each client, n_k."""
        return [len(block) for block in self.clients]

    @cached_property
    def active(self) -> list[int]:
        """Ids of the clients that hold data."""
        return [client for client, size in enumerate(self.sizes) if size]


def make(
    dataset: Dataset,
    partition: Partition,
    model: Model,
    start: Tensor,
    buffers: dict[str, Tensor],
    device: Device,
    tested_on: TestedOn = "test",
) -> Problem:
    """Order a data set by client, without a copy if it is already in that order.

    Token indices stay integers, other inputs get the model's type. Raises DataError where no client holds any
    row or there are no test rows, SpecError where models are tested on selection rows and there are none.
    """
    order = np.concatenate([*partition.clients, np.empty(0, np.int64)]).astype(np.int64)
    if not len(order):
        raise DataError("partition: no client holds any row")
    dtype = start.dtype if dataset.vocabulary is None else torch.int64

    def block(rows: Rows, index: NDArray[np.int64] | None = None) -> Block:
        in_order = index is None or np.array_equal(index, np.arange(len(rows)))
        x, y = (rows.x, rows.y) if in_order else (rows.x[index], rows.y[index])
        return Block(torch.as_tensor(x, dtype=dtype).to(device), torch.as_tensor(y).long().to(device))

    train = block(dataset.train, order)
    clients = by_client(train, [len(rows) for rows in partition.clients])
    if tested_on == "selection" and not len(partition.selection):
        raise SpecError("evaluation.tested_on: there are no selection rows; give partition.selection")
    tested = partition.selection if tested_on == "selection" else partition.test
    test = block(dataset.test) if tested is None else block(dataset.train, tested)
    if not len(test):
        raise DataError(f"data '{dataset.name}': no test rows")
    held = [block(dataset.train, partition.validation)] if len(partition.validation) else []
    held += [] if dataset.validation is None else [block(dataset.validation)]
    validation = Block(torch.cat([b.x for b in held]), torch.cat([b.y for b in held])) if held else None
    names = dataset.names_of(partition.clients)
    return Problem(model, buffers, start.to(device), clients, train, test, validation, dataset.classes, names)


def by_client(train: Block, sizes: list[int]) -> tuple[Block, ...]:
    """Return the clients' views [n_k, ...] into all rows."""
    return tuple(map(Block, train.x.split(sizes), train.y.split(sizes)))


def precompute_trunk(problem: Problem) -> Problem:
    """Return the problem that remains behind the fixed first part of its model.

    Its rows have gone through that part, and its model is the rest; the parameters stay the same. A model
    without such a part, or whose mapped rows would take more than 2 GiB, is returned as it is.
    """
    if (parts := problem.model.split()) is None:
        return problem
    (trunk, rest), p = parts, problem.parameters(problem.start)
    with torch.no_grad():
        sample = trunk(p, problem.test.x[:1])
        rows = len(problem.train) + len(problem.test) + len(problem.validation or ())
        if rows * sample.numel() * sample.element_size() > LARGEST_BYTES:
            return problem

        def through(block: Block) -> Block:
            x = sample.new_empty(len(block), *sample.shape[1:])
            for part, place in zip(block.x.split(ROWS), x.split(ROWS), strict=True):
                place.copy_(trunk(p, part))
            return Block(x, block.y)

        train, test = through(problem.train), through(problem.test)
        validation = None if problem.validation is None else through(problem.validation)
        clients = by_client(train, problem.sizes)
        behind = replace(problem, model=rest, rest_of=problem.model)
        return replace(behind, clients=clients, train=train, test=test, validation=validation)


def local_steps(spec: Spec, problem: Problem) -> list[int | None]:
    """Return each client's number of gradient steps, None for epochs; SpecError: not one for each client."""
    steps, clients = spec.training.local_steps, len(problem.clients)
    if steps is None or isinstance(steps, int):
        return [steps] * clients
    if len(steps) != clients:
        raise SpecError(
            f"training.local_steps: got a list of {len(steps)} numbers, expected one for each of "
            f"{clients} clients"
        )
    return list(steps)
