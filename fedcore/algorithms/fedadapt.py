"""FedAdapt: RADFed's name for an adaptive server, of the kind that suits the task."""

from __future__ import annotations

from fedcore.algorithms import recipe
from fedcore.algorithms.fedopt import AdaptiveOptions, adaptive, local_update
from fedcore.base.registry import Plugin
from fedcore.parts import Recipe, UpdateRule
from fedcore.parts.server import Kind
from fedcore.spec import Spec


class FedAdaptOptions(AdaptiveOptions):
    """``server``: the kind of optimizer."""

    server: Kind = "adam"


def build(options: FedAdaptOptions, spec: Spec) -> Recipe:
    """FedAvg's mean change enters the chosen optimizer as pseudo-gradient."""
    return recipe(server=adaptive(options.server, options), update=local_update(UpdateRule(), options, spec))


PLUGIN = Plugin(
    "fedadapt",
    FedAdaptOptions,
    build,
    "an adaptive server optimizer of a chosen kind",
    "Reddi et al., Algorithm 2; RADFed, Section IV-E",
    label="FedAdapt",
    colour="#0072B2",
    marker=">",
    line=":",
)
