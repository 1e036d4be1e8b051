"""Training on pooled data: the yardstick of divergence curves and bounds."""

from fedcore.algorithms import AlgorithmOptions, Plugin, Recipe, Spec, omit_default, recipe
from fedcore.parts.pooled import PooledTraining, check_pooled
from fedcore.parts.schedule import Centralised


class CentralisedOptions(AlgorithmOptions):
    """``equal_steps``: as many gradient steps as the clients of the round take together, so that the work is
    that of a federated run; otherwise ``local_epochs`` passes over the pooled rows, or ``local_steps`` steps.
    """

    equal_steps: bool = omit_default(False)


def build(options: CentralisedOptions, spec: Spec) -> Recipe:
    """Local training of the usual length on the pooled rows of the clients that would take part."""
    check_pooled(spec)
    return recipe(schedule=Centralised(), aggregate=PooledTraining(options.equal_steps))


PLUGIN = Plugin(
    "centralised",
    CentralisedOptions,
    build,
    "ordinary training on the pooled data of the clients",
    "RADFed, Section V-B; FedAvgR, Section 3",
    label="Centralised",
)
