"""SCAFFOLD, FedDC, VRL-SGD and Mime: local steps corrected against client drift."""

from typing import Any, Literal

from pydantic import NonNegativeFloat, PositiveFloat

from fedcore.algorithms import AlgorithmOptions, Decay, Pen, Plugin, Recipe, Spec, given, linear, recipe
from fedcore.base.errors import SpecError
from fedcore.base.options import omit_default
from fedcore.parts.aggregate import DriftCorrectedMean, PlainMean, Weights, averaging
from fedcore.parts.objective import DriftPenalty
from fedcore.parts.server import ServerSgd
from fedcore.parts.update import Averaging, ControlVariates, Deviations, Divisor, Mimicry


class ScaffoldOptions(AlgorithmOptions):
    """``option``: how c_k is renewed (1 or 2); ``server_lr``: eta_g.

    ``averaging``: ``uniform`` takes plain means of models and controls (the SCAFFOLD paper), ``nk``
    weighs both by sample counts (ComFed), ``mixed`` weighs models only. ``divisor``: option 2 divides a
    client's change by eta times its number of ``steps``, or by eta times the ``norm`` ||a_k||_1 that its
    local momentum gives them. ``cancels``: the correction cancels out, whatever keys but ``server_lr`` are,
    as in ``variant: released``, whose default it is.
    """

    option: Literal[1, 2] = 1
    server_lr: PositiveFloat = 1.0
    averaging: Averaging = "uniform"
    divisor: Divisor = omit_default("steps")
    cancels: bool | None = omit_default(None)


class FedDcOptions(AlgorithmOptions):
    """``alpha``: weight of the penalty on model plus drift."""

    alpha: NonNegativeFloat = 0.01


class VrlSgdOptions(AlgorithmOptions):
    """``averaging``: clients weigh by sample counts (``nk``, as ComFed averages) or all alike (``uniform``,
    as the paper does).
    """

    averaging: Weights = "nk"


class MimeOptions(AlgorithmOptions):
    """``beta``: momentum. ``lite``: without the variance reduction (MimeLite).

    ``averaging``: models and gradients of the cohort weigh by sample counts (``nk``, as ComFed averages) or
    all alike (``uniform``, as the paper prints it).
    """

    beta: Decay = 0.9
    lite: bool = False
    averaging: Weights = "nk"


def build_scaffold(options: ScaffoldOptions, spec: Spec) -> Recipe:
    """FedAvg with corrected local steps."""
    if given(options.cancels, spec.variant == "released"):
        return recipe(server=ServerSgd(options.server_lr), aggregate=PlainMean())
    return recipe(server=ServerSgd(options.server_lr), **control_variates(options, spec))


def control_variates(options: Any, spec: Spec) -> dict[str, Any]:
    """Return SCAFFOLD's local update, and the averaging of models beside it."""
    by_norm = options.divisor == "norm"
    if by_norm and options.option == 1:
        raise SpecError("algorithm.divisor: got 'norm' with option 1, expected option 2")
    update = ControlVariates(options.option, options.averaging, options.divisor)
    return {
        "update": linear(spec, "divisor 'norm'", update) if by_norm else update,
        "aggregate": averaging("uniform" if options.averaging == "uniform" else "nk"),
    }


def build_feddc(options: FedDcOptions, spec: Spec) -> Recipe:
    """A drift penalty, gradients corrected by mean less own update, and the mean of drift-corrected models.

    The correction 1/(tau_k eta) <w, g_k - g> with g_k the client's and g the mean update is kept as the
    authors' code keeps it: g_k counts what the client moved without its own correction, which is
    SCAFFOLD's second option with controls weighted by sample counts. With local momentum ||a_k||_1
    (FedNova's) stands for tau_k.
    """
    return recipe(
        objective=(DriftPenalty(options.alpha),),
        update=linear(spec, "'feddc'", ControlVariates(option=2, averaging="nk", divisor="norm")),
        aggregate=DriftCorrectedMean(),
    )


PLUGINS = (
    Plugin(
        "scaffold",
        ScaffoldOptions,
        build_scaffold,
        "control variates correct every local step",
        "Karimireddy et al., Algorithm 1; rFedAvg, Section VI-A; ComFed, Section III-C",
        released="in rFedAvg's code the correction cancels, which leaves the plain mean of FedAvg's local "
        "models",
        label="SCAFFOLD",
        pen=Pen("#56B4E9", "^"),
    ),
    Plugin(
        "feddc",
        FedDcOptions,
        build_feddc,
        "a drift variable a client: penalised locally, added before averaging",
        "Gao et al., Algorithm 1; ComFed, Table I",
        label="FedDC",
    ),
    Plugin(
        "vrl_sgd",
        VrlSgdOptions,
        lambda options, spec: recipe(
            update=linear(spec, "'vrl_sgd'", Deviations()), aggregate=averaging(options.averaging)
        ),
        "local gradients corrected by the client's deviation from the mean model",
        "Liang et al., Algorithm 1; ComFed, Table I",
        label="VRL-SGD",
    ),
    Plugin(
        "mime",
        MimeOptions,
        lambda options, spec: recipe(
            update=Mimicry(options.beta, options.lite, options.averaging),
            aggregate=averaging(options.averaging),
        ),
        "local steps mimic centralised training with momentum",
        "Karimireddy et al. (Mime), Algorithm 1; ComFed, Table I",
        label="Mime",
    ),
)
