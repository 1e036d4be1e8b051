"""synthetic(u, v) of Li et al.: clients with linear-softmax models and features of their own.

u moves the clients' models apart, v their features; sizes are log-normal. A client's u_k
moves all classes' outputs alike, so that u alone changes no label.
"""

import math
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

from fedcore.base.options import Clients
from fedcore.base.rng import Streams
from fedcore.data import Dataset, Options, Plugin, Rows, Size, Source


class SyntheticOptions(Options):
    """``u``, ``v``: spread of the clients' models and features. ``iid``: one model, the same features.

    A client has ``smallest`` samples and a log-normal number more, with ``size_mean`` and ``size_sigma`` of
    its logarithm, ``largest`` at most; a fifth of them (``test_share``) are test samples.
    """

    u: NonNegativeFloat = 1.0
    v: NonNegativeFloat = 1.0
    iid: bool = False
    clients: Clients = 30
    dimension: PositiveInt = 60
    classes: Annotated[int, Field(ge=2)] = 10
    smallest: Annotated[int, Field(ge=2)] = 50
    largest: PositiveInt = 5000
    size_mean: float = 4.0
    size_sigma: NonNegativeFloat = 2.0
    test_share: Annotated[float, Field(gt=0, lt=1)] = 0.2
    seed: NonNegativeInt = 0

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.largest < self.smallest:
            raise ValueError(f"largest: got {self.largest}, expected at least smallest ({self.smallest})")
        return self


def sizes(options: SyntheticOptions, streams: Streams) -> NDArray[np.int64]:
    """Draw the clients' numbers of samples [clients]."""
    rng = streams.get("synthetic/sizes")
    more = rng.lognormal(options.size_mean, options.size_sigma, options.clients)
    return np.minimum(options.smallest + more, options.largest).astype(np.int64)


def client(
    options: SyntheticOptions, streams: Streams, index: int, size: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Draw one client's x [size, dimension] and y [size].

    W and b ~ N(u_k, 1) with u_k ~ N(0, u); the mean of x ~ N(B_k, 1) with B_k ~ N(0, v); x ~ N(mean, S)
    with S diagonal, S_jj = j^-1.2; y = argmax(W x + b). (u and v are variances.)
    """
    rng = streams.get("synthetic/client", client=index)
    models = streams.get("synthetic/shared") if options.iid else rng
    mean_model = 0.0 if options.iid else rng.normal(0.0, np.sqrt(options.u))
    mean_x = 0.0 if options.iid else rng.normal(0.0, np.sqrt(options.v))
    weight = models.normal(mean_model, 1.0, (options.dimension, options.classes))
    bias = models.normal(mean_model, 1.0, options.classes)
    centre = np.zeros(options.dimension) if options.iid else rng.normal(mean_x, 1.0, options.dimension)
    spread = np.arange(1, options.dimension + 1) ** -0.6
    x = centre + spread * rng.standard_normal((size, options.dimension))
    return x.astype(np.float32), (x @ weight + bias).argmax(axis=1).astype(np.int64)


def build(options: SyntheticOptions, source: Source) -> Dataset:
    """Make the data: x float32 [n, dimension], one group per client, whose last rows are for testing."""
    streams = Streams(options.seed)
    counts = sizes(options, streams)
    x, y = zip(*(client(options, streams, k, int(size)) for k, size in enumerate(counts)), strict=True)
    rows = Rows(np.concatenate(x), np.concatenate(y), np.repeat(np.arange(len(counts)), counts))
    tested = np.maximum(1, np.floor(counts * options.test_share).astype(np.int64))
    held = np.concatenate([np.arange(size) >= size - cut for size, cut in zip(counts, tested, strict=True)])
    kind = "iid" if options.iid else f"{options.u:g}, {options.v:g}"
    return Dataset(
        "synthetic",
        rows.take(~held),
        rows.take(held),
        options.classes,
        "synthetic",
        f"synthetic({kind}), {options.clients} clients",
        group_names=tuple(str(k) for k in range(options.clients)),
    )


def size(options: SyntheticOptions) -> Size:
    """Return how large the data are likely to be: sizes are drawn from a log-normal distribution."""
    mean = math.exp(min(options.size_mean + options.size_sigma**2 / 2, 20.0))
    rows = min(max(mean, options.smallest), options.largest)
    return Size(int(options.clients * rows), (options.dimension,), options.classes, options.clients)


PLUGIN = Plugin(
    "synthetic",
    SyntheticOptions,
    build,
    "synthetic(u, v): clients of different models and, by v, features (u changes no label), power-law sizes",
    "Li et al. 2020 (FedProx), section 5.1 and appendix C.1",
    size=size,
)
