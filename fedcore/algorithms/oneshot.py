"""One round only: local training to convergence, then one average."""

from fedcore.algorithms import AlgorithmOptions, Pen, Plugin, Recipe, Spec, given, omit_default, recipe
from fedcore.base.errors import SpecError
from fedcore.parts.aggregate import Weights, averaging
from fedcore.parts.schedule import Chained, OwnStarts, Synchronous


class OneShotOptions(AlgorithmOptions):
    """``weights``: the plain mean of Zhang et al. (``uniform``), or n_k/n (``nk``).

    ``same_start``: clients start from one model, or each from a random draw of its own.
    """

    weights: Weights = "uniform"
    same_start: bool = omit_default(True)


class DlUOptions(AlgorithmOptions):
    """``chained``: clients train one after another, each from the model that the one before it left, as in
    ``variant: released``, whose default it is.
    """

    chained: bool | None = omit_default(None)


def build_oneshot(options: OneShotOptions, spec: Spec) -> Recipe:
    """w = mean of the local models."""
    require_one_round(spec)
    schedule = Synchronous() if options.same_start else OwnStarts()
    return recipe(schedule=schedule, aggregate=averaging(options.weights))


def build_dl_u(options: DlUOptions, spec: Spec) -> Recipe:
    """w = sum_k (n_k/n) w_k."""
    require_one_round(spec)
    return recipe(schedule=Chained() if given(options.chained, spec.variant == "released") else Synchronous())


def require_one_round(spec: Spec) -> None:
    """Refuse several rounds, which make no sense where an algorithm averages once."""
    if spec.training.rounds != 1:
        raise SpecError(
            f"training.rounds: got {spec.training.rounds}, but '{spec.algorithm.name}' averages once; "
            "expected 1 (its local training is as long as local_epochs or local_steps say)"
        )


PLUGINS = (
    Plugin(
        "oneshot",
        OneShotOptions,
        build_oneshot,
        "local training to convergence, one average",
        "Zhang et al.; FedAvgR, Section 5",
        label="OneShot",
        pen=Pen("#DDCC77", ">", ":"),
    ),
    Plugin(
        "dl_u",
        DlUOptions,
        build_dl_u,
        "local training to convergence, one average with weights n_k/n",
        "DL-opt / FedOMW, Section 5.2",
        released="clients train one after another, each from the model that the one before it left",
        label="DL-u",
        pen=Pen("#7F7F7F", "v", ":"),
    ),
)
