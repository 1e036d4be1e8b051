"""FedAvgR: averaging with the three regularisers that lower its excess-risk bound."""

from pydantic import NonNegativeFloat, PositiveInt

from fedcore.algorithms import AlgorithmOptions, Pen, Plugin, Recipe, Spec, recipe
from fedcore.parts.discrepancy import Discrepancy
from fedcore.parts.exchange import Densities, Density
from fedcore.parts.objective import FeatureNorm, MmdToMixture, TraceNorm


class FedAvgROptions(AlgorithmOptions):
    """``alpha``, ``beta``, ``gamma``: weights of trace norm, feature norm and MMD; 0 leaves one out.

    ``density``: what clients estimate and send, a diagonal Gaussian or the mean alone; ``samples``: points
    drawn from the mixture a client and round; ``mmd``: Gaussian kernel with the median heuristic, or
    difference of means; ``squared``: take the MMD squared.
    """

    alpha: NonNegativeFloat = 1e-4
    beta: NonNegativeFloat = 0.01
    gamma: NonNegativeFloat = 1.0
    density: Density = "gaussian"
    samples: PositiveInt = 100
    mmd: Discrepancy = "kernel"
    squared: bool = False


def build(options: FedAvgROptions, spec: Spec) -> Recipe:
    """FedAvg plus alpha ||W||_* + beta ||phi(X)||_F + gamma MMD[rho_k, rho] in the local loss."""
    mmd = MmdToMixture(options.gamma, options.samples, options.mmd, options.squared)
    return recipe(
        objective=(TraceNorm(options.alpha), FeatureNorm(options.beta), *([mmd] if options.gamma else [])),
        exchange=(Densities(options.density, options.mmd, options.samples),) if options.gamma else (),
    )


PLUGIN = Plugin(
    "fedavgr",
    FedAvgROptions,
    build,
    "trace norm, feature norm and the MMD to the mixture of all clients' feature densities",
    "FedAvgR, Algorithm 1",
    label="FedAvgR",
    pen=Pen("#882255", "p"),
)
