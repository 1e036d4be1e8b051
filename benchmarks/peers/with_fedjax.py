"""The workload in fedjax: its federated averaging, with the models as functions of named arrays.

fedjax calls `jax.tree_map`, which jax 0.6 took away; the name is put back, since newer jax is faster.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

if not hasattr(jax, "tree_map"):
    jax.tree_map = jax.tree_util.tree_map
import fedjax
from protocol import Clock, answer, request
from workloads import CLIENTS, Arrays, Workload, load, weights

Params = dict[str, jax.Array]


def mlp(p: Params, x: jax.Array) -> jax.Array:
    """Fully connected layers."""
    last = len(p) // 2 - 1
    for i in range(last):
        x = jax.nn.relu(x @ p[f"layers.{i}.weight"] + p[f"layers.{i}.bias"])
    return x @ p[f"layers.{last}.weight"] + p[f"layers.{last}.bias"]


def cnn(p: Params, x: jax.Array) -> jax.Array:
    """Two convolutions and two dense layers, channels last."""
    for layer in ("conv1", "conv2"):
        x = jax.lax.conv_general_dilated(
            x, p[f"{layer}.weight"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x + p[f"{layer}.bias"])
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = jax.nn.relu(x.reshape(len(x), -1) @ p["fc1.weight"] + p["fc1.bias"])
    return x @ p["fc2.weight"] + p["fc2.bias"]


def linear(p: Params, x: jax.Array) -> jax.Array:
    """A linear head on given features."""
    return x @ p["weight"]


def lstm(p: Params, x: jax.Array) -> jax.Array:
    """Embedding, LSTM layers, linear head on the last output."""
    steps = p["embedding.weight"][x.T]
    for depth in range(sum(name.startswith("lstm.weight_ih") for name in p)):
        recurrent = p[f"lstm.weight_hh_l{depth}"]
        bias = p[f"lstm.bias_ih_l{depth}"] + p[f"lstm.bias_hh_l{depth}"]
        given = steps @ p[f"lstm.weight_ih_l{depth}"] + bias

        def step(
            state: tuple[jax.Array, jax.Array], inputs: jax.Array, recurrent: jax.Array = recurrent
        ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
            hidden, cell = state
            i, f, g, o = jnp.split(inputs + hidden @ recurrent, 4, axis=-1)
            cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
            return (hidden, cell), hidden

        zeros = jnp.zeros((x.shape[0], recurrent.shape[0]), steps.dtype)
        _, steps = jax.lax.scan(step, (zeros, zeros), given)
    return steps[-1] @ p["fc.weight"] + p["fc.bias"]


MODELS = {"mlp": mlp, "cnn": cnn, "rff_linear": linear, "lstm": lstm}
PLAIN = {"embedding.weight"}


def to_jax(work: Workload, start: Arrays) -> Arrays:
    """Turn PyTorch's layout, outputs first, into inputs first and channels last."""
    return {name: _turned(work, name, array) for name, array in start.items()}


def from_jax(work: Workload, params: Params) -> Arrays:
    """Turn the layout back."""
    return {name: _turned(work, name, np.asarray(array), back=True) for name, array in params.items()}


def _turned(work: Workload, name: str, array: np.ndarray, back: bool = False) -> np.ndarray:
    if array.ndim == 4:
        return array.transpose(3, 2, 0, 1) if back else array.transpose(2, 3, 1, 0)
    if name == "fc1.weight":
        height, width = work.inputs[1] // 4, work.inputs[2] // 4
        if back:
            return array.reshape(height, width, 64, -1).transpose(3, 2, 0, 1).reshape(array.shape[1], -1)
        return array.reshape(-1, 64, height, width).transpose(2, 3, 1, 0).reshape(-1, len(array))
    return array if array.ndim < 2 or name in PLAIN else array.T


def rows(work: Workload, x: np.ndarray) -> np.ndarray:
    """Return images channels last, other rows as they are."""
    return x.transpose(0, 2, 3, 1) if x.ndim == 4 else x.astype(np.int32) if work.vocabulary else x


def main() -> None:
    """Do what was asked."""
    measurement, clock = request(), Clock()
    work = measurement.work
    apply = MODELS[work.model["name"]]

    def loss(params: Params, batch: dict[str, Any], rng: jax.Array) -> jax.Array:
        scores = apply(params, batch["x"])
        return -jnp.take_along_axis(jax.nn.log_softmax(scores), batch["y"][:, None], axis=1)[:, 0]

    read = [load(measurement.path, work, client) for client in range(CLIENTS)]
    clients = [fedjax.ClientDataset({"x": rows(work, x), "y": y.astype(np.int32)}) for x, y in read]
    hparams = fedjax.ShuffleRepeatBatchHParams(batch_size=measurement.batch, num_epochs=work.epochs, seed=0)
    algorithm = fedjax.algorithms.fed_avg.federated_averaging(
        fedjax.grad(loss), fedjax.optimizers.sgd(work.lr), fedjax.optimizers.sgd(1.0), hparams
    )
    state = algorithm.init(jax.tree_util.tree_map(jnp.asarray, to_jax(work, weights(measurement.start))))
    key = jax.random.PRNGKey(0)
    clock.mark()
    for _ in range(measurement.rounds):
        key, *keys = jax.random.split(key, CLIENTS + 1)
        cohort = [(str(k).encode(), rows_, keys[k]) for k, rows_ in enumerate(clients)]
        state, _ = algorithm.apply(state, cohort)
        jax.block_until_ready(state.params)
        clock.mark()
    answer(measurement, clock, from_jax(work, state.params), version("fedjax"))


if __name__ == "__main__":
    main()
