"""The excess-risk bound O(G1 + G2 + G3), its terms measured over the rounds of runs on synthetic(1, 1)."""

from __future__ import annotations

from fedcore.base.lazy import pd
from pipeline.reports import figures, style
from pipeline.reports.drawings import Inputs, Picture, by_round, drawing, each
from pipeline.reports.results import RunFacts

METHODS = ("fedavg", "fedprox", "fedavgr")
COLUMN = "synthetic_one"
TERMS = {
    "discrepancy": "discrepancy",
    "mmd": "MMD of features",
    "rademacher": "weighted Rademacher term",
    "g1": "G1",
    "g2": "G2",
    "g3": "G3",
}
FROM_ZERO = ("discrepancy", "mmd")
CHI_SQUARED = "chi_squared"


def terms_of(facts: RunFacts) -> pd.DataFrame:
    """Return the terms of a run by round.

    As the clients' weights are known, rho~ = rho: G1 has no discrepancy and chi-squared is 0. The Rademacher
    term of G1 is that of G3 too; G2 has one of its own.

    Raises:
        DataError: the run has no measurements of its terms.
    """
    measured = facts.table("risk.csv").set_index("round")
    return pd.DataFrame(
        {
            "discrepancy": measured["discrepancy"],
            "mmd": measured["mmd"],
            "rademacher": measured["agnostic_complexity"],
            CHI_SQUARED: measured["agnostic_deviation"],
            "g1": measured["agnostic_complexity"] + measured["agnostic_deviation"],
            "g2": measured["approximation"],
            "g3": measured["discrepancy"] + measured["federated"],
        }
    )


@drawing(
    title="Terms of the excess-risk bound over rounds, synthetic(1, 1)",
    published="The excess-risk bound (Section 3)",
    queries=each(METHODS, {COLUMN: ("mmd", COLUMN, "natural")}, ("evaluation.observe.risk.every", 1)),
)
def excess_risk(inputs: Inputs) -> Picture:
    """Draw the terms that training moves above, G1, G2 and G3 below."""
    cells = {(row, term): runs for (row, _), runs in inputs.cells.items() for term in (*TERMS, CHI_SQUARED)}
    frame = by_round(cells, lambda facts, term: terms_of(facts)[term])
    figure, panels = figures.lines(frame, TERMS, style.looks(METHODS), 4.6, across=3, sharex=True)
    for term, axes in panels.items():
        if term in FROM_ZERO:
            axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
        axes.label_outer()
    chi_squared = frame[frame["column"] == CHI_SQUARED]["mean"].iloc[0]  # the same for all: rows alone count
    sentences = (
        "Discrepancy, in G3: the largest gap between a client's loss and the mixture's over the models "
        "at hand (the global one and those that clients sent), an estimate from below. MMD: between the "
        "features of a client and of all under the global model, 100 rows of each, which FedAvgR "
        "penalises in place of the discrepancy. Rademacher term, in G1 and G3: B√C/n_k ||φ(X^k)||_F, B "
        "the trace norm of the global model's W. All three: means over clients, weighted by their rows.",
        f"Chi-squared term, in G1: √((χ² + 1)/n) = {chi_squared:.3g}. The clients' weights are known, so χ² "
        "and disc(ρ~, ρ) are 0 in G1; the bound's constants are left out, as in O(G1 + G2 + G3).",
        figures.BAND,
    )
    return Picture(frame, figure, sentences)
