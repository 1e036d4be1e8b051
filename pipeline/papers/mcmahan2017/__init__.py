"""Communication-Efficient Learning of Deep Networks from Decentralized Data: federated averaging.

Tables 1 and 2: rounds until the test accuracy reaches a target. Figure 1: the loss between two models.
"""

from pipeline.catalogue.targets import Paper
from pipeline.papers.mcmahan2017.averaging import averaging
from pipeline.papers.mcmahan2017.rounds import RATES, TABLES

PAPER = Paper(
    title="Communication-Efficient Learning of Deep Networks from Decentralized Data",
    citation="B. McMahan, E. Moore, D. Ramage, S. Hampson, B. Aguera y Arcas, AISTATS 2017",
    datasets={"mnist_2nn": "MNIST", "mnist_cnn": "MNIST", "shakespeare": "Shakespeare"},
    targets={**TABLES, **RATES, "fig1": averaging},
)
