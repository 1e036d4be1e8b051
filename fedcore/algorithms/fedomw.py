"""DL-opt and FedOMW: mixture weights learned on the server, in one shot or in rounds."""

from typing import Any, Literal, Self

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from fedcore.algorithms import AlgorithmOptions, Decay, Pen, Plugin, Recipe, Spec, given, omit_default, recipe
from fedcore.algorithms.oneshot import require_one_round
from fedcore.parts.aggregate import LearnedMixture
from fedcore.parts.objective import Proximal, WeightNorm
from fedcore.parts.schedule import Chained, Synchronous

CENTRAL = 100
RELEASED_BATCH = 16
RELEASED_MOMENTUM = 0.9


class MixtureOptions(AlgorithmOptions):
    """``gamma``: weight of the plain norm ||w|| in the local loss; ``lr_p``: step size on p.

    ``steps_p`` counts gradient steps on p, ``epochs_p`` passes over the validation rows in batches of
    ``batch_p`` (one of the two; 100 steps on all rows unless given, in ``variant: released`` 100 passes in
    batches of 16); ``momentum_p``: heavy ball on p.
    The ablations are keys: ``steps_p: 0`` leaves p at n_k/n (-w), ``gamma: 0`` drops the norm (-p), both
    together leave neither (-non).
    Other readings: ``regulariser: squared`` takes (gamma/2) ||w||^2, ``reg_bias`` counts biases, ``simplex``
    projects p after every step, ``mu`` adds a proximal term. ``chained``: clients train one after another,
    each from the model that the one before it left; ``keep_velocity``: that of p lasts over rounds; both hold
    in ``variant: released`` unless they are given.
    """

    gamma: NonNegativeFloat = 5e-4
    lr_p: PositiveFloat = 5e-3
    steps_p: NonNegativeInt | None = None
    epochs_p: PositiveInt | None = None
    batch_p: PositiveInt | Literal["full"] | None = None
    momentum_p: Decay | None = None
    regulariser: Literal["plain", "squared"] = "plain"
    reg_bias: bool = False
    simplex: bool = False
    mu: NonNegativeFloat = 0.0
    chained: bool | None = omit_default(None)
    keep_velocity: bool | None = omit_default(None)

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if self.steps_p is not None and self.epochs_p is not None:
            raise ValueError("steps_p and epochs_p are both given, expected one of them")
        return self


class FedOmwOptions(MixtureOptions):
    """The keys of DL-opt, and ``p_reset``: start p from n_k/n again in each round.

    The default rates are those of the authors for usps.
    """

    gamma: NonNegativeFloat = 5e-5
    lr_p: PositiveFloat = 5e-4
    p_reset: bool = False


def build_dl_opt(options: MixtureOptions, spec: Spec) -> Recipe:
    """Local training on loss + gamma ||w||, then p by gradient steps, then w = sum_k p_k w_k."""
    require_one_round(spec)
    return _recipe(options, spec, momentum=0.0)


def build_fedomw(options: FedOmwOptions, spec: Spec) -> Recipe:
    """DL-opt in rounds: local steps from w, gradient steps on p, w = sum_k p_k w_k."""
    return _recipe(options, spec, momentum=RELEASED_MOMENTUM, reset=options.p_reset)


def _recipe(options: MixtureOptions, spec: Spec, momentum: float, reset: bool = False) -> Recipe:
    released = spec.variant == "released"
    length: dict[str, Any] = {"steps": options.steps_p, "epochs": options.epochs_p}
    if options.steps_p is None and options.epochs_p is None:
        length["epochs" if released else "steps"] = CENTRAL
    norm = WeightNorm(options.gamma, options.regulariser == "squared", options.reg_bias)
    prox = Proximal(options.mu, squared=not released)
    return recipe(
        schedule=Chained() if given(options.chained, released) else Synchronous(),
        objective=(norm, *([prox] if options.mu else [])),
        aggregate=LearnedMixture(
            lr=options.lr_p,
            batch=options.batch_p or (RELEASED_BATCH if released else "full"),
            momentum=given(options.momentum_p, momentum * released),
            keep_velocity=given(options.keep_velocity, released),
            reset=reset,
            simplex=options.simplex,
            **length,
        ),
    )


PLUGINS = (
    Plugin(
        "dl_opt",
        MixtureOptions,
        build_dl_opt,
        "one-shot averaging with mixture weights learned on validation rows, and a weight norm",
        "DL-opt / FedOMW, Algorithm 1",
        released="clients train one after another, each from the model that the one before it left; p by 100 "
        "passes over the validation rows in batches of 16",
        label="DL-opt",
        pen=Pen("#6A51A3", "*", "--"),
    ),
    Plugin(
        "fedomw",
        FedOmwOptions,
        build_fedomw,
        "federated averaging with mixture weights learned on validation rows, and a weight norm",
        "DL-opt / FedOMW, Algorithm 2",
        released="clients train one after another, each from the model that the one before it left; p by 100 "
        "passes over the validation rows in batches of 16 with momentum .9, which persists as p does",
        label="FedOMW",
        pen=Pen("#0072B2", "X"),
    ),
)
