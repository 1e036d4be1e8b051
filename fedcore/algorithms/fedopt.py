"""FedAvg's clients under another server optimizer.

An adaptive one: FedAdagrad, FedAdam, FedYogi and FedAdapt; or momentum: FedAvgM, SlowMo and FedADC.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import NonNegativeFloat, PositiveFloat

from fedcore.algorithms import AlgorithmOptions, Decay, Pen, Plugin, Recipe, Spec, given, linear, recipe
from fedcore.base.errors import SpecError
from fedcore.parts import UpdateRule
from fedcore.parts.server import Adaptive, Kind, ServerMomentum, SlowMomentum
from fedcore.parts.update import BlendedMomentum, EmbeddedMomentum

COLOURS: Mapping[Kind, str] = {"adam": "#0072B2", "adagrad": "#CC79A7", "yogi": "#D55E00"}


class AdaptiveOptions(AlgorithmOptions):
    """``server_lr``: the server's learning rate. ``beta1``, ``beta2``: decay of its first and second moment;
    Adagrad's second has none. ``tau``: added to the root of the second moment; ``v0``: that before round 1.

    Defaults are ComFed's; Reddi et al. run FedAdagrad with ``beta1: 0``. ``second_moment_of``: of the
    ``change`` (Reddi et al., ICLR 2021), or of the first moment (``momentum``; their first preprint).
    ``momentum_in_local``: share of the server's first moment in every local step; 0 leaves local steps
    alone (ComFed, Section VI, proposes it).
    """

    server_lr: PositiveFloat = 0.01
    beta1: Decay = 0.9
    beta2: Decay = 0.99
    tau: PositiveFloat = 1e-3
    v0: NonNegativeFloat = 0.0
    second_moment_of: Literal["change", "momentum"] = "change"
    momentum_in_local: Decay = 0.0


class FedAdaptOptions(AdaptiveOptions):
    """``server``: the kind of optimizer."""

    server: Kind = "adam"


class MomentumOptions(AlgorithmOptions):
    """``server_lr``: the server's learning rate. ``beta``: how much of the past a round keeps."""

    server_lr: PositiveFloat = 1.0
    beta: Decay = 0.9


class SlowMoOptions(MomentumOptions):
    """``server_lr``: alpha, the slow learning rate. ``beta``: the slow momentum."""

    beta: Decay = 0.7


class FedAdcOptions(MomentumOptions):
    """``server_lr``: alpha. ``beta_local``: the part of ``beta`` that the clients follow; all by default."""

    beta_local: Decay | None = None


def adaptive(
    kind: Kind, options: AdaptiveOptions, spec: Spec, rule: UpdateRule | None = None, root: bool = True
) -> dict[str, Any]:
    """Return a kind of server optimizer, and the local update, with the server's momentum if asked for."""
    server = Adaptive(
        kind=kind,
        lr=options.server_lr,
        beta1=options.beta1,
        beta2=options.beta2,
        tau=options.tau,
        v0=options.v0,
        of=options.second_moment_of,
        root=root,
        label=kind.capitalize(),
    )
    update = rule or UpdateRule()
    if options.momentum_in_local:
        update = linear(spec, "momentum_in_local", BlendedMomentum(update, options.momentum_in_local))
    return {"server": server, "update": update}


def plugin(kind: Kind) -> Plugin:
    """Return Reddi et al.'s algorithm of a kind: FedAvg's mean change enters the optimizer as a gradient."""
    title = kind.capitalize()
    return Plugin(
        f"fed{kind}",
        AdaptiveOptions,
        lambda options, spec: recipe(**adaptive(kind, options, spec)),
        f"{title} on the server",
        "Reddi et al., Algorithm 2; ComFed, Section III-E",
        label=f"Fed{title}",
        pen=Pen(COLOURS[kind], "o"),
    )


def build_fedadc(options: FedAdcOptions, spec: Spec) -> Recipe:
    """Local steps along g + beta_local m / tau_k, m <- -D / gamma + (beta - beta_local) m."""
    if (local := given(options.beta_local, options.beta)) > options.beta:
        raise SpecError(f"algorithm.beta_local: got {local}, expected at most beta, which is {options.beta}")
    server = SlowMomentum(options.server_lr, options.beta, local, label="server momentum")
    return recipe(update=linear(spec, "'fedadc'", EmbeddedMomentum(local)), server=server)


PLUGINS = (
    *map(plugin, COLOURS),
    Plugin(
        "fedadapt",
        FedAdaptOptions,
        lambda options, spec: recipe(**adaptive(options.server, options, spec)),
        "an adaptive server optimizer of a chosen kind",
        "Reddi et al., Algorithm 2; RADFed, Section IV-E",
        label="FedAdapt",
        pen=Pen("#0072B2", ">", ":"),
    ),
    Plugin(
        "fedavgm",
        MomentumOptions,
        lambda options, spec: recipe(server=ServerMomentum(options.server_lr, options.beta)),
        "momentum on the averaged change",
        "Hsu et al.; ComFed, Table I",
        label="FedAvgM",
    ),
    Plugin(
        "slowmo",
        SlowMoOptions,
        lambda options, spec: recipe(server=SlowMomentum(options.server_lr, options.beta)),
        "slow momentum, in units of the local learning rate",
        "Wang et al. (SlowMo), Algorithm 1; ComFed, Table I",
        label="SlowMo",
    ),
    Plugin(
        "fedadc",
        FedAdcOptions,
        build_fedadc,
        "server momentum, normalised and embedded into local steps",
        "Ozfatura et al. (FedADC); ComFed, Table I",
        label="FedADC",
    ),
)
