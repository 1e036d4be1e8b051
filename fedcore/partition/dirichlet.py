"""Dirichlet partitions, each convention by its own name."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from fedcore.base.options import Clients
from fedcore.base.registry import Plugin
from fedcore.data import Dataset, Partition
from fedcore.partitions import Concentration, PartitionOptions
from fedcore.partitions.dirichlet import by_class, by_class_min, by_client, by_client_sizes, by_label, fedomw

Convention = Literal["by_class", "by_class_min", "by_label", "by_client_sizes", "by_client", "fedomw"]

OWN_KEYS = {
    "size_alpha": ("by_client_sizes",),
    "min_rows": ("by_class_min", "fedomw"),
    "capped": ("by_class_min",),
    "shuffled": ("fedomw",),
    "legacy_seed": ("fedomw",),
}


class Options(PartitionOptions):
    """Which convention, for how many clients, how concentrated.

    Attributes:
        clients: how many.
        alpha: the concentration; small is skewed.
        convention: ``by_class``, ``by_class_min``, ``by_label``, ``by_client_sizes``, ``by_client`` or
            ``fedomw``; see the functions of these names in ``fedcore.partitions.dirichlet``.
        size_alpha: ``by_client_sizes``: concentration of the client sizes (default 1).
        min_rows: ``by_class_min``, ``fedomw``: least rows a client may have (default 10).
        capped: ``by_class_min``: a client that holds its even share already gets nothing of the next class.
        shuffled: ``fedomw``: apply the index lists to shuffled data, as the released code does; labels are
            IID then and sizes alone are skewed.
        legacy_seed: ``fedomw``: draw from numpy's legacy generator with this seed (released: 2020).
        retries: how often a draw below ``min_rows`` is repeated.
    """

    clients: Clients
    alpha: Concentration
    convention: Convention
    size_alpha: Concentration | None = None
    min_rows: Annotated[int, Field(ge=0)] | None = None
    capped: bool = False
    shuffled: bool = False
    legacy_seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    retries: PositiveInt = 10_000

    @model_validator(mode="after")
    def _own_keys_only(self) -> Options:
        for key, conventions in OWN_KEYS.items():
            given = getattr(self, key)
            if given is not None and given is not False and self.convention not in conventions:
                raise ValueError(
                    f"{key}: only for convention {' or '.join(conventions)}, not {self.convention}"
                )
        return self


def build(options: Options, dataset: Dataset, rng: np.random.Generator) -> Partition:
    """Split the training rows by the convention asked for."""
    labels, clients, alpha = dataset.train.y, options.clients, options.alpha
    least, retries = 10 if options.min_rows is None else options.min_rows, options.retries
    match options.convention:
        case "by_class":
            drawn = by_class(labels, clients, alpha, rng)
        case "by_class_min":
            drawn = by_class_min(
                labels, clients, alpha, rng, min_rows=least, retries=retries, capped=options.capped
            )
        case "by_label":
            drawn = by_label(labels, clients, alpha, rng)
        case "by_client_sizes":
            drawn = by_client_sizes(labels, clients, alpha, rng, size_alpha=options.size_alpha or 1.0)
        case "by_client":
            drawn = by_client(labels, clients, alpha, rng)
        case "fedomw":
            drawn = fedomw(
                labels,
                clients,
                alpha,
                rng,
                shuffled=options.shuffled,
                legacy_seed=options.legacy_seed,
                min_rows=least,
                retries=retries,
            )
    note = f"Dirichlet({alpha:g}) {options.convention}" + (", labels shuffled" if options.shuffled else "")
    return Partition(clients=tuple(drawn), note=note)


PLUGIN = Plugin(
    name="dirichlet",
    options=Options,
    build=build,
    summary="Dirichlet skew by one of six named conventions.",
    source="Hsu et al. 2019; NIID-Bench; RADFed, section IV-A; ComFed, section V; FedOMW, section 5.1",
    released="fedomw: shuffled with legacy_seed 2020, so that labels are IID and sizes alone are skewed",
)
