"""SCAFFOLD: control variates against client drift."""

from __future__ import annotations

from typing import Literal

from pydantic import PositiveFloat

from fedcore.algorithms import AlgorithmOptions, recipe
from fedcore.base.options import omit_default
from fedcore.base.registry import Plugin
from fedcore.parts import Recipe
from fedcore.parts.aggregate import PlainMean, averaging
from fedcore.parts.server import ServerSgd
from fedcore.parts.update import Averaging, Divisor, controls, model_weights
from fedcore.spec import Spec


class ScaffoldOptions(AlgorithmOptions):
    """``option``: how c_k is renewed (1 or 2); ``server_lr``: eta_g.

    ``averaging``: ``uniform`` takes plain means of models and controls (the SCAFFOLD paper), ``nk``
    weighs both by sample counts (ComFed), ``mixed`` weighs models only. ``divisor``: option 2 divides a
    client's change by eta times its number of ``steps``, or by eta times the ``norm`` ||a_k||_1 that its
    local momentum gives them.
    """

    option: Literal[1, 2] = 1
    server_lr: PositiveFloat = 1.0
    averaging: Averaging = "uniform"
    divisor: Divisor = omit_default("steps")


def build(options: ScaffoldOptions, spec: Spec) -> Recipe:
    """FedAvg with corrected local steps."""
    if spec.variant == "released":
        return recipe(aggregate=PlainMean())
    return recipe(
        update=controls(options.option, options.averaging, options.divisor, spec.training.optimizer),
        aggregate=averaging(model_weights(options.averaging)),
        server=ServerSgd(options.server_lr),
    )


PLUGIN = Plugin(
    "scaffold",
    ScaffoldOptions,
    build,
    "control variates correct every local step",
    "Karimireddy et al., Algorithm 1; rFedAvg, Section VI-A; ComFed, Section III-C",
    released="in rFedAvg's code the correction cancels, which leaves the plain mean of FedAvg's local models",
    label="SCAFFOLD",
    colour="#56B4E9",
    marker="^",
)
