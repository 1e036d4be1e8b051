"""Federated Learning for Non-IID Data: From Theory to Algorithm: FedAvgR.

Table 2: five methods on nine data sets, tuned and near the published level; Table 3: the regularisers. Grid
searches find what the paper does not say, by scores on rows that no test and no training sees.
The excess-risk bound O(G1 + G2 + G3): its terms are measured over the rounds of runs on synthetic(1, 1).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedcore.base.lazy import DataFrame, sklearn
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Cell, Changes, Column, Paper, Query, Variation
from pipeline.papers.fedavgr.theory import bounds
from pipeline.reports import figures, ranks, style
from pipeline.reports.drawings import Inputs, Picture, by_round, drawing, each
from pipeline.reports.results import RunFacts
from pipeline.reports.search import Choice, Search, held_out, search, seeds
from pipeline.reports.tables import Table, of_datasets
from pipeline.reports.variations import variations

NAMES = ("a1a", "svmguide1", "splice", "vehicle", "dna", "pendigits", "satimage", "usps")
SETS = {**{name: name for name in NAMES}, "mnist": "MNIST"}
DATASETS = {**SETS, "synthetic_half": "synthetic(0.5, 0.5)", "synthetic_one": "synthetic(1, 1)"}
ABLATED = {name: name for name in ("svmguide1", "vehicle", "dna", "pendigits", "usps")}
ABLATED["synthetic"] = "synthetic_half"
METHOD = "fedavgr"
METHODS = dict.fromkeys(("oneshot", "fedavg", "fedprox", "fl_hc", METHOD), "")  # labelled as everywhere
SHARDS = ("table2", "shards", "fedavg")
NEAR_PRINTED = {"svmguide1": 0.4, "vehicle": 0.4, "dna": 0.1, "pendigits": 0.6, "satimage": 0.9}
PLAIN: Mapping[str, Changes] = {
    "fedprox": (("algorithm.mu", 0.01),),
    "fedavgr": (("algorithm.beta", 0.01), ("algorithm.gamma", 1.0)),
}
WEIGHTS = {"fedavgr_w": "alpha", "fedavgr_phi": "beta", "fedavgr_mmd": "gamma"}
LABELS = {
    "fedavgr_non": "no regulariser",
    "fedavgr_w": "trace norm of W",
    "fedavgr_phi": "norm of the features",
    "fedavgr_mmd": "MMD",
    "fedavgr": "all (FedAvgR)",
}

GRIDS = {
    f"search_{method}": Search(method, label, "Section 5")
    for method, label in {"fedavg": "FedAvg", "fedprox": "FedProx", METHOD: "FedAvgR"}.items()
}


def split(dataset: str) -> str:
    """Return how a data set is split: synthetic ones come in clients."""
    return "natural" if dataset.startswith("synthetic") else "shards"


def without(row: str) -> Changes:
    """Return the changes that leave only one regulariser, or none; empty for the full method."""
    if row == METHOD:
        return ()
    return tuple((f"algorithm.{weight}", 0.0) for other, weight in WEIGHTS.items() if other != row)


def sets(labels: Mapping[str, str]) -> Callable[[PaperParams], tuple[Column, ...]]:
    """Return a column for each data set."""
    return lambda params: tuple(Column(key, label) for key, label in labels.items())


def matched(algorithm: str, column: str) -> Query:
    """Return the runs of a cell of Table 2, with values that bring FedAvg closer to the published one."""
    level = (("model.sigma", NEAR_PRINTED[column]), ("training.lr", 0.02))
    return Query("table2", column, "shards", algorithm, (*level, *PLAIN.get(algorithm, ())))


def searched(params: PaperParams, column: str, search: Search, choice: Choice) -> Query:
    """Return the runs of a candidate on a data set."""
    changes = (*held_out(params), *choice.items())
    return Query("table2", column, split(column), search.method, changes, seeds(params))


TABLES: Mapping[str, Table] = {
    "table1": of_datasets("Table 1", ("classes", "training_size", "testing_size", "features"), SETS, *SHARDS),
    "clients": replace(
        of_datasets("Sections 1 and 5", ("c_score", "spread", "labels"), SETS, *SHARDS),
        title="Skew, sizes and labels of the clients",
        unit="per cent, and a count",
        decimals=1,
    ),
    "table2": Table(
        title="Test accuracy with two label-sorted shards a client",
        published="Table 2",
        columns=sets(SETS),
        rows=lambda params: METHODS,
        query=lambda algorithm, column: Query("table2", column, "shards", algorithm),
    ),
    "table2_matched": Table(
        title="Test accuracy with sigma and the rate set by FedAvg's published accuracy",
        published="Table 2",
        columns=sets({name: SETS[name] for name in NEAR_PRINTED}),
        rows=lambda params: METHODS,
        query=matched,
        beside="table2",
        note="Sigma and the learning rate were set by FedAvg's test accuracy: gains compare, levels don't.",
    ),
    "centralised": variations(
        "Test accuracy of FedAvg and of pooled training",
        "Section 1",
        {name: Variation("", name) for name in ("centralised", "fedavg")},
        {name: name for name in NAMES},
        lambda params, name, key, changes: Query("table2", key, "shards", name, changes, params.seeds[:3]),
    ),
    "table3": Table(
        title="Test accuracy with the regularisers alone and together",
        published="Table 3",
        columns=sets({key: DATASETS[name] for key, name in ABLATED.items()}),
        rows=lambda params: LABELS,
        query=lambda row, key: Query("table3", ABLATED[key], split(ABLATED[key]), "fedavgr", without(row)),
    ),
}
SEARCHES = {
    name: search(
        grid,
        searched,
        "Grid search of {}: accuracy on a fifth of each client's rows",
        sets(DATASETS),
        note="Other hyperparameters are as declared.",
    )
    for name, grid in GRIDS.items()
}


COLUMN = "synthetic_one"
ROWS = 50
BOUNDED = ("fedavg", "fedprox", "fedavgr")
TERMS = {
    "discrepancy": "discrepancy",
    "mmd": "MMD of features",
    "rademacher": "weighted Rademacher term",
    "g1": "G1",
    "g2": "G2",
    "g3": "G3",
}
CHI_SQUARED = "chi_squared"


def rounds(params: PaperParams) -> tuple[int, ...]:
    """Return the rounds 0, 30, 60 and 100 of 100, or as many hundredths of fewer."""
    last = params.regimes["mmd"].training.rounds or 0
    return tuple(sorted({round(share * last) for share in (0.0, 0.3, 0.6, 1.0)}))


def queries(params: PaperParams) -> dict[Cell, Query]:
    """Return FedAvgR's runs on synthetic(1, 1), with features of the four rounds."""
    kept = (("evaluation.observe.mixture.rows", ROWS), ("evaluation.observe.mixture.rounds", rounds(params)))
    return {(METHOD, COLUMN): Query("mmd", COLUMN, "natural", METHOD, kept)}


@drawing(
    title="Features of clients and mixture, and the MMD between them, synthetic(1, 1)",
    published="The figure on the MMD's impact",
    queries=queries,
)
def mmd(inputs: Inputs) -> Picture:
    """Draw the features at the four rounds, and the MMD over all; the tidy lines are the four rounds."""
    frame = by_round(inputs.cells, lambda facts, column: facts.series("mmd"))
    marked = rounds(inputs.params)
    shown = frame[frame["round"].isin(marked)]
    first = inputs.cells[METHOD, COLUMN][0]
    features = features_of(first)
    figure = figures.framed(4.4)
    grid = figure.add_gridspec(2, len(marked), height_ratios=(1, 1.1))
    for position, at in enumerate(marked):
        means = shown[shown["round"] == at]["mean"]
        title = f"round {at}" + (f"\nMMD {means.iloc[0]:.3f}" if len(means) else "")
        axes = figure.add_subplot(grid[0, position], title=title, xticks=[], yticks=[])
        if at in features:
            points, coloured = features[at]
            for mask, size, colour in ((~coloured, 4, "0.7"), (coloured, 6, style.look(METHOD).colour)):
                axes.scatter(points[mask, 0], points[mask, 1], s=size, color=colour, linewidths=0)
    axes = figure.add_subplot(grid[1, :])
    known = inputs.looks([METHOD])
    figures.curves(axes, frame, known, marked=frame["round"].isin(marked))
    printed = {int(at): number.mean for (_, at), number in inputs.published.items() if int(at) <= marked[-1]}
    if printed:
        figures.published(axes, [*printed], [*printed.values()])
        known |= {"published": figures.PUBLISHED}
    figures.legend(axes, known, loc="upper right")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("MMD to the mixture")
    sentences = (
        f"Above: features of up to {ROWS} training rows per client under FedAvgR's global model, seed "
        f"{first.run.seed}, on the first two principal components of their round; grey: all clients, colour: "
        "the client whose mean feature is farthest from the mean of all at the start. Below: the MMD, mean "
        "over clients weighted by their rows, of 100 points drawn from each density (the slides show such "
        "points); Gaussian kernel with the median heuristic.",
        inputs.spread(frame),
    )
    return Picture(shown.assign(column=shown["round"].astype(str)).drop(columns="round"), figure, sentences)


def features_of(facts: RunFacts) -> dict[int, tuple[NDArray[np.floating], NDArray[np.bool_]]]:
    """Return by round the kept features on two axes [n, 2], and which rows [n] are the farthest client's.

    Nothing where the run diverged.
    """
    arrays = facts.arrays("mixture.npz")
    if arrays is None:
        return {}
    features = arrays["features"].astype(np.float64)
    coloured = arrays["client"] == farthest(features[0], arrays["client"])
    return {int(at): (principal(rows), coloured) for at, rows in zip(arrays["round"], features, strict=True)}


def farthest(features: NDArray[np.floating], client: NDArray[np.int64]) -> int:
    """Return the client whose mean feature is farthest from the mean of all; the lowest id among equals."""
    clients, mean = np.unique(client), features.mean(axis=0)
    return int(max(clients, key=lambda k: np.linalg.norm(features[client == k].mean(axis=0) - mean)))


def principal(features: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return features [n, d] on their first two principal components [n, 2].

    Each component points where its largest loading is positive, so that equal features give equal pictures.
    """
    fitted = sklearn.decomposition.PCA(2, svd_solver="full").fit(features)
    components: NDArray[np.floating] = fitted.transform(features)
    return components


def terms_of(facts: RunFacts) -> DataFrame:
    """Return the terms of a run by round.

    As the clients' weights are known, rho~ = rho: G1 has no discrepancy and chi-squared is 0. The Rademacher
    term of G1 is that of G3 too; G2 has one of its own.
    """
    names = {"agnostic_complexity": "rademacher", "agnostic_deviation": CHI_SQUARED, "approximation": "g2"}
    terms = facts.table("risk.csv").set_index("round").rename(columns=names)
    return terms.assign(
        g1=terms["rademacher"] + terms[CHI_SQUARED], g3=terms["discrepancy"] + terms["federated"]
    )


@drawing(
    title="Terms of the excess-risk bound over rounds, synthetic(1, 1)",
    published="The excess-risk bound (Section 3)",
    queries=each(BOUNDED, {COLUMN: ("mmd", COLUMN, "natural")}, ("evaluation.observe.risk.every", 1)),
)
def excess_risk(inputs: Inputs) -> Picture:
    """Draw the terms that training moves above, G1, G2 and G3 below."""
    cells = {(row, term): runs for (row, _), runs in inputs.cells.items() for term in (*TERMS, CHI_SQUARED)}
    frame = by_round(cells, lambda facts, term: terms_of(facts)[term])
    figure, panels = figures.lines(frame, TERMS, inputs.looks(BOUNDED), 4.6, across=3, sharex=True)
    for term, axes in panels.items():
        if term in {"discrepancy", "mmd"}:
            axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
        subplot = axes.get_subplotspec()
        if subplot and not subplot.is_last_row():
            axes.set_xlabel("")
    chi_squared = frame[frame["column"] == CHI_SQUARED]["mean"].iloc[0]  # the same for all: rows alone count
    sentences = (
        "Discrepancy, in G3: the largest gap between a client's loss and the mixture's over the models "
        "at hand (the global one and those that clients sent), an estimate from below. MMD: between the "
        "features of a client and of all under the global model, 100 rows of each, which FedAvgR "
        "penalises in place of the discrepancy. Rademacher term, in G1 and G3: B√C/n_k ||φ(X^k)||_F, B "
        "the trace norm of the global model's W. All three: means over clients, weighted by their rows.",
        f"Chi-squared term, in G1: √((χ² + 1)/n) = {chi_squared:.3g}. The clients' weights are known, so χ² "
        "and disc(ρ~, ρ) are 0 in G1; the bound's constants are left out, as in O(G1 + G2 + G3).",
        inputs.spread(frame),
    )
    return Picture(frame, figure, sentences)


PAPER = Paper(
    title="Federated Learning for Non-IID Data: From Theory to Algorithm",
    citation="B. Wei, J. Li, Y. Liu, W. Wang, PRICAI 2021",
    datasets=DATASETS,
    targets={
        **TABLES,
        "table2_ranks": ranks.summary(TABLES["table2"]),
        "fig_mmd": mmd,
        "excess_risk": excess_risk,
        "bounds": bounds,
        **SEARCHES,
    },
)
