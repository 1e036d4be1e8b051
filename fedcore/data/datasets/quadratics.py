"""Scalar quadratics f_k(w) = curvature_k / 2 * (w - centre_k)^2, one per client: the optimum is known."""

from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from fedcore.data import Dataset, Options, Plugin, Rows, Size, Source


class QuadraticsOptions(Options):
    """``curvatures`` and ``centres``: one number per client."""

    curvatures: tuple[Annotated[float, Field(gt=0)], ...] = (1.0, 10.0)
    centres: tuple[float, ...] = (0.0, 1.0)

    @model_validator(mode="after")
    def _same_length(self) -> Self:
        if not self.curvatures or len(self.curvatures) != len(self.centres):
            raise ValueError(
                f"{len(self.curvatures)} curvatures and {len(self.centres)} centres, expected one of each"
                " a client"
            )
        return self


def build(options: QuadraticsOptions, source: Source) -> Dataset:
    """Make one row per client: x = [curvature, centre] in float64, y = 0; test rows are the same rows."""
    x = np.array([options.curvatures, options.centres], dtype=np.float64).T.copy()
    clients = np.arange(len(x))
    rows = Rows(x, np.zeros(len(x), np.int64), clients)
    names = tuple(map(str, clients))
    note = f"{len(x)} scalar quadratics"
    return Dataset("quadratics", rows, rows.take(clients), 1, "synthetic", note, group_names=names)


PLUGIN = Plugin(
    "quadratics",
    QuadraticsOptions,
    build,
    "one quadratic function of one parameter per client, for exact checks of algorithms",
    "Li et al. 2020 (FedProx), Wang et al. 2020 (FedNova): quadratic examples of objective inconsistency",
    size=lambda options: Size(2 * (clients := len(options.centres)), (2,), 1, clients, test=clients),
)
