"""q-FedAvg: a fair objective that gives clients with a larger loss more weight."""

from pydantic import NonNegativeFloat, PositiveFloat

from fedcore.algorithms import AlgorithmOptions, Pen, Plugin, given, omit_default, recipe
from fedcore.parts.aggregate import Fair, Weights


class QFedAvgOptions(AlgorithmOptions):
    """``q``: how much a larger loss counts; 0 is the plain mean. ``weights``: plain or n_k-weighted sums.

    ``lipschitz``: L; 1 / learning rate unless given. ``scaled``: h_k has the squared norm of the change times
    F_k^q, as in ``variant: released``, whose default it is.
    """

    q: NonNegativeFloat = 1.0
    weights: Weights = "uniform"
    lipschitz: PositiveFloat | None = omit_default(None)
    scaled: bool | None = omit_default(None)


PLUGIN = Plugin(
    "qfedavg",
    QFedAvgOptions,
    lambda options, spec: recipe(
        aggregate=Fair(
            options.q, options.weights, options.lipschitz, given(options.scaled, spec.variant == "released")
        )
    ),
    "fair aggregation by powers of the clients' losses",
    "Li et al. (q-FFL), Algorithm 2; rFedAvg, Section VI-A",
    released="in rFedAvg's code h_k has the squared norm of the change scaled by F_k^q, and L is a value of "
    "its own (lipschitz)",
    label="q-FedAvg",
    pen=Pen("#CC79A7", "v"),
)
