"""The client of a federation in Flower; a module of its own, so that Ray's workers keep what they read."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor, nn
from torch_models import module, train
from workloads import BY_NAME, load

app = ClientApp()


@cache
def tensors(folder: str, workload: str, client: int) -> tuple[Tensor, Tensor]:
    """Read a client's rows once a worker."""
    x, y = load(Path(folder), BY_NAME[workload], client)
    return torch.from_numpy(x), torch.from_numpy(y)


@cache
def model(workload: str) -> nn.Module:
    """Make the model once a worker."""
    torch.set_num_threads(1)
    return module(BY_NAME[workload])


@app.train()
def train_client(message: Message, context: Context) -> Message:
    """Train from the weights received, and send the new ones."""
    config = message.content["config"]
    work, client = BY_NAME[config["workload"]], int(context.node_config["partition-id"])
    x, y = tensors(config["folder"], work.name, client)
    net = model(work.name)
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    rng = np.random.default_rng([client, int(config["server-round"])])
    optional = {key: float(config[key]) for key in ("mu", "momentum", "weight_decay") if key in config}
    train(net, x, y, int(config["batch"]), work.epochs, rng, lr=work.lr, **optional)
    content = {"arrays": ArrayRecord(net.state_dict()), "metrics": MetricRecord({"num-examples": len(y)})}
    return Message(content=RecordDict(content), reply_to=message)
