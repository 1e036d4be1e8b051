"""The oracle's algorithms once more, in numpy, with the points where implementations part as options.

Softmax regression from zero on a few clients, full-batch local steps in float64. Default options give the
values of `tests/oracle/expected.json`; others tell what an implementation does that gives other values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Client = tuple[Array, NDArray[np.int64]]
INPUTS, CLASSES = 64, 10


@dataclass(frozen=True)
class Reading:
    """How an algorithm is read.

    Attributes:
        uniform: clients count alike in means; otherwise by their rows.
        moments: what the server's m and v start from: zero, v from tau squared, or both from optax's 1e-6.
        beta1: whether the server keeps a first moment.
        bias: bias correction of m and v: none, Kingma and Ba's in round t, or of round t + 1, whose tau is
            not corrected along.
        tau_inside: v + tau stands under the root.
        negated: SCAFFOLD's clients keep the negative of their gradient.
        still: SCAFFOLD's server never hears of the clients' new control variates.
        last_loss: q-FedAvg weighs by the loss at the last local step, not by that of the model received.
    """

    uniform: bool = False
    moments: str = "zero"
    beta1: bool = True
    bias: str = "none"
    tau_inside: bool = False
    negated: bool = False
    still: bool = False
    last_loss: bool = False


WORDS: dict[str, dict[Any, str]] = {
    "uniform": {True: "clients weigh alike", False: "clients weigh by their rows"},
    "moments": {
        "zero": "m and v start at 0",
        "tau2": "v starts at tau^2",
        "optax": "the gradient's m and v start at 1e-6",
    },
    "beta1": {False: "no first moment (beta1 = 0)"},
    "bias": {"t": "bias correction", "t+1": "bias correction as of the next round, tau left out of it"},
    "tau_inside": {True: "tau^2 under the root"},
    "negated": {True: "control variates with the opposite sign"},
    "still": {True: "the server's control variate stays 0"},
    "last_loss": {True: "losses at the last local step"},
}


def clients(folder: Path) -> list[Client]:
    """Read the oracle's clients in order."""
    held = []
    for path in sorted((folder / "clients").glob("*.npz"), key=lambda path: int(path.stem)):
        with np.load(path) as file:
            held.append((file["x"].astype(np.float64), file["y"].astype(np.int64)))
    return held


def loss_and_gradient(w: Array, client: Client) -> tuple[float, Array]:
    """Return the mean cross-entropy of a flat model [W (inputs x classes), b] and its gradient."""
    x, y = client
    scores = x @ w[:-CLASSES].reshape(INPUTS, CLASSES) + w[-CLASSES:]
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores)
    chances /= chances.sum(axis=1, keepdims=True)
    rows = np.arange(len(y))
    with np.errstate(divide="ignore"):  # another reading may diverge
        loss = -float(np.log(chances[rows, y]).mean())
    chances[rows, y] -= 1
    chances /= len(y)
    return loss, np.concatenate([(x.T @ chances).ravel(), chances.sum(axis=0)])


def gradient(w: Array, client: Client) -> Array:
    """Return the gradient alone."""
    return loss_and_gradient(w, client)[1]


def total_loss(w: Array, held: list[Client]) -> float:
    """Return the mean loss over all rows."""
    sizes = [len(y) for _, y in held]
    return sum(
        size * loss_and_gradient(w, client)[0] for size, client in zip(sizes, held, strict=True)
    ) / sum(sizes)


def steps(w: Array, client: Client, count: int, lr: float, more: Callable[[Array], Array]) -> Array:
    """Do local steps along the gradient and ``more``."""
    for _ in range(count):
        w = w - lr * (gradient(w, client) + more(w))
    return w


def _same(term: Array) -> Callable[[Array], Array]:
    return lambda u: term


def _proximal(mu: float, start: Array) -> Callable[[Array], Array]:
    return lambda u: mu * (u - start)


def result(algorithm: str, hyper: Mapping[str, Any], held: list[Client], reading: Reading) -> Array:
    """Return the flat model after all rounds."""
    sizes = np.ones(len(held)) if reading.uniform else np.array([float(len(y)) for _, y in held])
    p = sizes / sizes.sum()
    lr, counts = hyper["lr"], hyper["steps"]
    w = np.zeros((INPUTS + 1) * CLASSES)
    zeros = np.zeros_like(w)
    controls, server_control, momentum = [zeros for _ in held], zeros, zeros
    start = {"zero": (0.0, 0.0), "tau2": (0.0, hyper.get("tau", 0.0) ** 2), "optax": (-1e-6, 1e-6)}
    m, v = (zeros + value for value in start[reading.moments])
    for turn in range(1, hyper["T"] + 1):
        more = [_same(zeros) for _ in held]
        scale = lr
        if algorithm == "fedprox":
            more = [_proximal(hyper["mu"], w) for _ in held]
        elif algorithm == "scaffold":
            more = [_same(server_control - control) for control in controls]
        elif algorithm == "mime":
            beta, scale = hyper["beta"], lr * (1 - hyper["beta"])
            mean = _weighted(p, (gradient(w, client) for client in held))
            pull = beta / (1 - beta) * momentum
            more = [_same(pull + (zeros if hyper["lite"] else mean - gradient(w, client))) for client in held]
            momentum = beta * momentum + (1 - beta) * mean
        ends = [
            steps(w, client, count, scale, term)
            for client, count, term in zip(held, counts, more, strict=True)
        ]
        change = _weighted(p, (end - w for end in ends))
        if algorithm == "fednova":
            normalized = ((end - w) / count for end, count in zip(ends, counts, strict=True))
            change = p @ np.array(counts) * _weighted(p, normalized)
        elif algorithm == "qfedavg":
            change = _fair(w, ends, held, hyper, reading)
        elif algorithm == "scaffold":
            fresh = [
                _renewed(w, end, client, count, control - server_control, hyper, reading)
                for client, end, count, control in zip(held, ends, counts, controls, strict=True)
            ]
            moved = (new - old for new, old in zip(fresh, controls, strict=True))
            server_control = server_control if reading.still else server_control + _weighted(p, moved)
            controls = fresh
        if algorithm == "fedopt" and hyper["server"] == "avgm":
            momentum = hyper["beta"] * momentum + change
            change = momentum
        elif algorithm == "fedopt":
            change, m, v = _adaptive(change, m, v, turn, hyper, reading)
        w = w + change
    return w


def _weighted(p: Array, values: Iterable[Array]) -> Array:
    total: Array = sum(share * value for share, value in zip(p, values, strict=True))
    return total


def _renewed(
    w: Array,
    end: Array,
    client: Client,
    count: int,
    beyond: Array,
    hyper: Mapping[str, Any],
    reading: Reading,
) -> Array:
    """Return a client's next control in SCAFFOLD; ``beyond``: its control less the server's."""
    sign = -1.0 if reading.negated else 1.0
    if hyper["option"] == 1:
        return sign * gradient(w, client)
    renewed: Array = sign * (w - end) / (count * hyper["lr"]) + beyond
    return renewed


def _fair(
    w: Array, ends: list[Array], held: list[Client], hyper: Mapping[str, Any], reading: Reading
) -> Array:
    """Return q-FedAvg's change."""
    q, lr = hyper["q"], hyper["lr"]
    sizes = np.array([1.0 if reading.uniform else float(len(y)) for _, y in held])
    shares = sizes / sizes.mean()
    top, bottom = np.zeros_like(w), 0.0
    for share, client, end, count in zip(shares, held, ends, hyper["steps"], strict=True):
        before = steps(w, client, count - 1, lr, lambda u: 0 * u) if reading.last_loss else w
        loss = loss_and_gradient(before, client)[0]
        step = (w - end) / lr
        top += share * loss**q * step
        bottom += share * (q * loss ** (q - 1) * float(step @ step) + loss**q / lr)
    return -top / bottom


def _adaptive(
    change: Array, m: Array, v: Array, turn: int, hyper: Mapping[str, Any], reading: Reading
) -> tuple[Array, Array, Array]:
    """Return the change of an adaptive server with its new moments."""
    beta1, beta2, tau = hyper["b1"] if reading.beta1 else 0.0, hyper["b2"], hyper["tau"]
    m = beta1 * m + (1 - beta1) * change
    square, kind = change**2, hyper["server"]
    if kind == "adagrad":
        v = v + square
    elif kind == "adam":
        v = beta2 * v + (1 - beta2) * square
    else:
        v = v - (1 - beta2) * square * np.sign(v - square)
    first, second, lr = m, v, hyper["lr_g"]
    if reading.bias == "t":
        first, second = m / (1 - beta1**turn), v / (1 - (0.0 if kind == "adagrad" else beta2**turn))
    elif reading.bias == "t+1":
        lr *= float(np.sqrt(1 - beta2 ** (turn + 1)) / (1 - beta1 ** (turn + 1)))
    scale = np.sqrt(second + tau**2) if reading.tau_inside else np.sqrt(second) + tau
    return lr * first / scale, m, v


def readings(algorithm: str, usual: Reading) -> Iterator[tuple[str, Reading]]:
    """Yield other readings in words, those with the fewest deviations first."""
    fields: dict[str, tuple[Any, ...]] = {"uniform": (False, True)}
    if algorithm == "fedopt":
        fields |= {"moments": ("zero", "tau2", "optax"), "beta1": (True, False), "bias": ("none", "t", "t+1")}
        fields |= {"tau_inside": (False, True)}
    elif algorithm == "scaffold":
        fields |= {"negated": (False, True), "still": (False, True)}
    elif algorithm == "qfedavg":
        fields |= {"last_loss": (False, True)}
    others = []
    for values in product(*fields.values()):
        reading = replace(usual, **dict(zip(fields, values, strict=True)))
        words = [
            WORDS[name][getattr(reading, name)]
            for name in fields
            if getattr(reading, name) != getattr(usual, name)
        ]
        if words:
            others.append((", ".join(words), reading, len(words)))
    for words_, reading, _ in sorted(others, key=lambda entry: entry[2]):
        yield words_, reading
