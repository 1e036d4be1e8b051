"""The oracle's cases by Flower's strategies; clients, which Flower leaves to its users, are numpy here."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvg, FedAvgM, FedProx, FedYogi, QFedAvg
from flwr.supercore.task_identity import TaskIdentity
from oracle_cases import NOTES, Case, NotOffered, Weights, answer
from reference import CLASSES, INPUTS, Client, clients, loss_and_gradient, steps


def strategy(case: Case) -> FedAvg:
    """Return Flower's strategy of a case."""
    hyper = case.hyper
    if case.algorithm == "fedavg":
        return FedAvg()
    if case.algorithm == "fedprox":
        NOTES["fedprox"] = "it sends mu; the term is the user's code, here ours"
        return FedProx(proximal_mu=hyper["mu"])
    if case.algorithm == "qfedavg":
        return QFedAvg(client_learning_rate=case.lr, q=hyper["q"], train_loss_key="loss")
    if case.algorithm != "fedopt":
        raise NotOffered("")
    if hyper["server"] == "avgm":
        return FedAvgM(server_learning_rate=1.0, server_momentum=hyper["beta"])
    adaptive = {"eta": hyper["lr_g"], "tau": hyper["tau"]}
    if hyper["server"] == "adagrad":
        return FedAdagrad(**adaptive)
    kind = {"adam": FedAdam, "yogi": FedYogi}[hyper["server"]]
    return kind(**adaptive, beta_1=hyper["b1"], beta_2=hyper["b2"])


def solve(case: Case) -> Weights:
    """Run a case: the strategy's messages, answered here."""
    server, held = strategy(case), clients(case.folder)
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    grid = SimpleNamespace(get_node_ids=lambda: list(range(1, len(held) + 1)))
    arrays = ArrayRecord({"w": Array(np.zeros((INPUTS + 1) * CLASSES))})
    for turn in range(1, case.rounds + 1):
        replies = [
            _trained(case, held, message)
            for message in server.configure_train(turn, arrays, ConfigRecord(), grid)
        ]
        arrays, _ = server.aggregate_train(
            turn, sorted(replies, key=lambda reply: reply.metadata.src_node_id)
        )
    w = arrays["w"].numpy()
    return w[:-CLASSES].reshape(INPUTS, CLASSES), w[-CLASSES:]


def _trained(case: Case, held: list[Client], message: Message) -> Message:
    k = message.metadata.dst_node_id - 1
    w = message.content["arrays"]["w"].numpy().copy()
    mu = float(message.content["config"].get("proximal-mu", 0.0))
    end = steps(w, held[k], case.steps[k], case.lr, lambda u: mu * (u - w))
    loss = loss_and_gradient(w, held[k])[0]
    numbers = MetricRecord({"num-examples": len(held[k][1]), "loss": loss})
    content = RecordDict({"arrays": ArrayRecord({"w": Array(end)}), "metrics": numbers})
    return Message(content, reply_to=message)


if __name__ == "__main__":
    answer(solve)
