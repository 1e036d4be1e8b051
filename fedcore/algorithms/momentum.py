"""FedAvgM, SlowMo and FedADC: momentum on the server."""

from pydantic import PositiveFloat

from fedcore.algorithms import AlgorithmOptions, Decay, Plugin, Recipe, Spec, given, recipe
from fedcore.parts.server import ServerMomentum, SlowMomentum
from fedcore.parts.update import EmbeddedMomentum


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


def build_fedadc(options: FedAdcOptions, spec: Spec) -> Recipe:
    """Local steps along g + beta_local m / tau_k, m <- -D / gamma + (beta - beta_local) m."""
    local = given(options.beta_local, options.beta)
    server = SlowMomentum(options.server_lr, options.beta, local, label="server momentum")
    return recipe(update=EmbeddedMomentum(local), server=server)


PLUGINS = (
    Plugin(
        "fedavgm",
        MomentumOptions,
        lambda options, spec: recipe(server=ServerMomentum(options.server_lr, options.beta)),
        "momentum on the averaged change",
        "Hsu et al.; ComFed, Table I",
    ),
    Plugin(
        "slowmo",
        SlowMoOptions,
        lambda options, spec: recipe(server=SlowMomentum(options.server_lr, options.beta)),
        "slow momentum, in units of the local learning rate",
        "Wang et al. (SlowMo), Algorithm 1; ComFed, Table I",
    ),
    Plugin(
        "fedadc",
        FedAdcOptions,
        build_fedadc,
        "server momentum, normalised and embedded into local steps",
        "Ozfatura et al. (FedADC); ComFed, Table I",
    ),
)
