"""RADFed and RADFed+: redistribution before aggregation, and its combinations with other methods."""

from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, PositiveInt

from fedcore.algorithms import AlgorithmOptions, Pen, Plugin, Recipe, Spec, given, omit_default, recipe
from fedcore.algorithms.fedopt import AdaptiveOptions, adaptive
from fedcore.parts.aggregate import PlainMean
from fedcore.parts.objective import Proximal
from fedcore.parts.schedule import Redistribution
from fedcore.parts.select import Assignments, Importance
from fedcore.parts.server import Kind, ServerSgd


class RadFedOptions(AlgorithmOptions):
    """``redistributions``: S, the inner rounds between two aggregations."""

    redistributions: PositiveInt = 15


class RadFedPOptions(RadFedOptions):
    """The keys of RADFed, and ``mu``: weight of the proximal term to the model received last."""

    mu: NonNegativeFloat = 0.01


class RadFedMOptions(RadFedOptions):
    """The keys of RADFed, and ``alpha``: share of the new mean in the model, the rest is the old one's."""

    alpha: Annotated[float, Field(gt=0, le=1)] = 0.6


class RadFedAOptions(RadFedOptions, AdaptiveOptions):
    """The keys of RADFed and of the adaptive servers, ``server``: which of them, and ``root``: divide by
    sqrt(v) + tau, or by v + tau as Algorithm 2 prints it.
    """

    server: Kind = "adam"
    root: bool = True


class RadFedIOptions(RadFedOptions):
    """The keys of RADFed, and ``gamma``: share of the new score in a client's running score.

    ``score``: mean squared gradient norm over samples (Algorithm 2) or over mini-batches (Section III-B; the
    default in ``variant: released``). ``scored_start``: all clients score the first model, as there.
    """

    gamma: Annotated[float, Field(ge=0, le=1)] = 0.9
    score: Literal["sample", "batch"] | None = None
    scored_start: bool | None = omit_default(None)


def build_i(options: RadFedIOptions, spec: Spec) -> Recipe:
    """RADFed with clients drawn in proportion to running scores of squared gradient norms."""
    released = spec.variant == "released"
    select = Importance(
        gamma=options.gamma,
        redistributions=options.redistributions,
        score=options.score or ("batch" if released else "sample"),
        scored_start=given(options.scored_start, released),
    )
    return _recipe(options, select)


def _recipe(options: RadFedOptions, select: Assignments | None = None, **parts: Any) -> Recipe:
    """Return RADFed's: the plain mean of m models, each trained by S clients in turn."""
    select = select or Assignments(redistributions=options.redistributions)
    return recipe(schedule=Redistribution(select), select=select, aggregate=PlainMean(), **parts)


PLUGINS = (
    Plugin(
        "radfed",
        RadFedOptions,
        lambda options, spec: _recipe(options),
        "models are redistributed to other clients S times before they are averaged",
        "RADFed, Algorithm 1",
        label="RADFed",
        pen=Pen("#661100", "h"),
    ),
    Plugin(
        "radfed_p",
        RadFedPOptions,
        lambda options, spec: _recipe(options, objective=(Proximal(options.mu),)),
        "RADFed with a proximal term to the model received",
        "RADFed, Algorithm 2",
        label="RADFedp",
        pen=Pen("#661100", "s", "--"),
    ),
    Plugin(
        "radfed_m",
        RadFedMOptions,
        lambda options, spec: _recipe(
            options, server=ServerSgd(options.alpha, label="mixing with the old model")
        ),
        "RADFed, the average mixed with the old model",
        "RADFed, Algorithm 2, line 14",
        label="RADFedm",
        pen=Pen("#661100", "d", ":"),
    ),
    Plugin(
        "radfed_a",
        RadFedAOptions,
        lambda options, spec: _recipe(options, **adaptive(options.server, options, spec, root=options.root)),
        "RADFed with an adaptive server optimizer",
        "RADFed, Algorithm 2, lines 15-17",
        label="RADFeda",
        pen=Pen("#661100", ">", "-."),
    ),
    Plugin(
        "radfed_i",
        RadFedIOptions,
        build_i,
        "RADFed with clients drawn by importance",
        "RADFed, Algorithm 2, lines 8-11",
        released="scores are mean squared norms of mini-batch gradients; all clients score the first model",
        label="RADFedi",
        pen=Pen("#661100", "<", "--"),
    ),
)
