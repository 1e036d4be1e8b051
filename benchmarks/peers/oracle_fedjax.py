"""The oracle's cases by fedjax's own algorithms; optax's optimizers are its servers' side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from numpy.typing import NDArray

jax.config.update("jax_enable_x64", True)
if not hasattr(jax, "tree_map"):
    jax.tree_map = jax.tree_util.tree_map
import fedjax  # noqa: E402
from oracle_cases import Case, NotOffered, Weights, answer  # noqa: E402
from reference import CLASSES, INPUTS, clients  # noqa: E402


def loss(params: Mapping[str, jax.Array], batch: Mapping[str, jax.Array], rng: jax.Array) -> jax.Array:
    """Return each row's cross-entropy."""
    scores = batch["x"] @ params["W"] + params["b"]
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), batch["y"][:, None], axis=1)[:, 0]


def server(case: Case) -> fedjax.optimizers.Optimizer:
    """Return the server's optimizer of a case."""
    make, hyper = fedjax.optimizers, case.hyper
    if case.algorithm != "fedopt":
        return make.sgd(1.0)
    if hyper["server"] == "avgm":
        return make.sgd(1.0, momentum=hyper["beta"])
    if hyper["server"] == "adagrad":
        return make.adagrad(hyper["lr_g"], initial_accumulator_value=0.0, eps=hyper["tau"] ** 2)
    kind = {"adam": make.adam, "yogi": make.yogi}[hyper["server"]]
    return kind(hyper["lr_g"], b1=hyper["b1"], b2=hyper["b2"], eps=hyper["tau"])


def solve(case: Case) -> Weights:
    """Run a case."""
    held = clients(case.folder)
    if case.algorithm not in {"fedavg", "fedprox", "fedopt", "mime"}:
        raise NotOffered("")
    # A batch of all rows of the largest client would repeat rows of a smaller one: one batch size a client.
    if case.algorithm == "mime":
        beta = case.hyper["beta"]
        base = fedjax.optimizers.sgd(case.lr * (1 - beta), momentum=beta or None)
    batches = [_all_rows(len(y), steps) for (_, y), steps in zip(held, case.steps, strict=True)]
    full_batch = fedjax.PaddedBatchHParams(batch_size=max(len(y) for _, y in held))
    plain = fedjax.optimizers.sgd(case.lr)
    if case.algorithm == "fedprox":
        algorithm = fedjax.algorithms.fed_prox.fed_prox(
            loss, plain, server(case), batches[0], proximal_weight=case.hyper["mu"]
        )
    elif case.algorithm == "mime":
        kind = fedjax.algorithms.mime_lite.mime_lite if case.hyper["lite"] else fedjax.algorithms.mime.mime
        algorithm = kind(loss, base, batches[0], full_batch, server_learning_rate=1.0)
    else:
        algorithm = fedjax.algorithms.fed_avg.federated_averaging(
            fedjax.grad(loss), plain, server(case), batches[0]
        )
    state = algorithm.init({"W": jnp.zeros((INPUTS, CLASSES)), "b": jnp.zeros(CLASSES)})
    cohort = [
        (str(k).encode(), AllRows({"x": x, "y": y}, hparams), jax.random.PRNGKey(k))
        for k, ((x, y), hparams) in enumerate(zip(held, batches, strict=True))
    ]
    for _ in range(case.rounds):
        state, _ = algorithm.apply(state, cohort)
    return state.params["W"], state.params["b"]


class AllRows(fedjax.ClientDataset):
    """A client whose batches are all of its rows, whatever size the algorithm asks for."""

    def __init__(self, rows: Mapping[str, NDArray[Any]], hparams: fedjax.ShuffleRepeatBatchHParams) -> None:
        super().__init__(rows)
        self.hparams = hparams

    def shuffle_repeat_batch(self, hparams: object = None, **kwargs: object) -> fedjax.ShuffleRepeatBatchView:
        return super().shuffle_repeat_batch(self.hparams)


def _all_rows(rows: int, steps: int) -> fedjax.ShuffleRepeatBatchHParams:
    return fedjax.ShuffleRepeatBatchHParams(batch_size=rows, num_epochs=steps, skip_shuffle=True)


if __name__ == "__main__":
    answer(solve)
