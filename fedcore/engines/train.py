"""The local steps of one client: the loop that every sequential engine shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedcore.base.lazy import torch
from fedcore.engines import Task, Upload
from fedcore.engines.batches import batches
from fedcore.engines.optimizer import stepper

if TYPE_CHECKING:
    from fedcore.engines import Engine


def train_client(engine: Engine, task: Task) -> Upload:
    """Train one client from the model it received."""
    training, direction = task.training, task.direction
    adders = [term.add_gradient for term in task.terms if term.add_gradient]
    plain = training.optimizer == "sgd" and not adders and not direction.anchored
    drawn = batches(task.block, training.batch_size, training.drop_last, task.rng)
    steps = zip(task.rates, drawn, strict=False)
    w = task.job.received.clone()
    with torch.no_grad():
        if plain and engine.in_place:
            descend = engine.bind(w, w, task.terms)
            for lr, (x, y) in steps:
                descend(x, y, 1 - lr * training.weight_decay, -lr * direction.scale)
                if direction.offset is not None:
                    w.add_(direction.offset, alpha=-lr)
        else:
            g = torch.empty_like(w)
            gradient = engine.bind(w, g, task.terms)
            anchor = engine.bind(task.job.received, g, ()) if direction.anchored else None
            step = stepper(training, w)
            for lr, (x, y) in steps:
                gradient(x, y)
                for add_gradient in adders:
                    add_gradient(g, w)
                if anchor is not None:
                    anchor(x, y, 1.0, -1.0)
                if direction.scale != 1.0:
                    g.mul_(direction.scale)
                if direction.offset is not None:
                    g.add_(direction.offset)
                step(g, lr)
    return task.upload(w)
