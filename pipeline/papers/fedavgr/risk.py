"""The excess-risk bound O(G1 + G2 + G3), its terms measured over the rounds of runs on synthetic(1, 1)."""

from __future__ import annotations

from pathlib import Path

from fedcore.base.errors import DataError
from fedcore.base.lazy import pd
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Cell, PlannedRun, Query
from pipeline.reports import figures, style
from pipeline.reports.drawings import Drawing, Found, Picture
from pipeline.reports.results import summary_of
from pipeline.reports.spread import line

METHODS = ("fedavg", "fedprox", "fedavgr")
COLUMN = "synthetic_one"
EVERY = 1
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


def queries(params: PaperParams) -> dict[Cell, Query]:
    """Return the runs of FedAvg, FedProx and FedAvgR on synthetic(1, 1), their terms measured."""
    measured = (("evaluation.observe.risk.every", EVERY),)
    return {(name, COLUMN): Query("mmd", COLUMN, "natural", name, measured) for name in METHODS}


def terms_of(run: PlannedRun, root: Path) -> pd.DataFrame:
    """Return the terms of a run by round.

    As the clients' weights are known, rho~ = rho: G1 has no discrepancy and chi-squared is 0. The Rademacher
    term of G1 is that of G3 too; G2 has one of its own.

    Raises:
        DataError: the run has no measurements of its terms.
    """
    path = root / run.folder / "risk.csv"
    if summary_of(run, root) is None or not path.exists():
        raise DataError(f"{path}: missing, but a report needs it; delete the folder and build it again")
    found = pd.read_csv(path).set_index("round")
    return pd.DataFrame(
        {
            "discrepancy": found["discrepancy"],
            "mmd": found["mmd"],
            "rademacher": found["agnostic_complexity"],
            CHI_SQUARED: found["agnostic_deviation"],
            "g1": found["agnostic_complexity"] + found["agnostic_deviation"],
            "g2": found["approximation"],
            "g3": found["discrepancy"] + found["federated"],
        }
    )


def numbers(found: Found) -> pd.DataFrame:
    """Return each term by method and round, over seeds."""
    lines = []
    for (row, _), runs in found.cells.items():
        each = [terms_of(run, found.root) for run in runs]
        rounds = sorted({int(at) for own in each for at in own.index})
        lines += [
            line(row, term, [own[term].get(at) for own in each], round=at)
            for term in (*TERMS, CHI_SQUARED)
            for at in rounds
        ]
    return pd.DataFrame(lines)


def draw(found: Found) -> Picture:
    """Draw the terms that training moves above, G1, G2 and G3 below."""
    frame = numbers(found)
    figure, known = figures.framed(4.6), style.looks(METHODS)
    for axes, (term, label) in zip(figure.subplots(2, 3, sharex=True).flat, TERMS.items(), strict=True):
        figures.curves(axes, frame[frame["column"] == term], known)
        if term in FROM_ZERO:
            axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
        axes.set_title(label)
        axes.label_outer()
    figures.legend(figure, known)
    sentences = (
        "Discrepancy, in G3: the largest gap between a client's loss and the mixture's over the models "
        "at hand (the global one and those that clients sent), an estimate from below. MMD: between the "
        "features of a client and of all under the global model, 100 rows of each, which FedAvgR "
        "penalises in place of the discrepancy. Rademacher term, in G1 and G3: B√C/n_k ||φ(X^k)||_F, B "
        "the trace norm of the global model's W. All three: means over clients, weighted by their rows.",
        f"{chi_squared(frame)} The clients' weights are known, so χ² and disc(ρ~, ρ) are 0 in G1; "
        "the bound's constants are left out, as in O(G1 + G2 + G3).",
        figures.BAND,
    )
    return Picture(frame, figure, sentences)


def chi_squared(frame: pd.DataFrame) -> str:
    """Say how large the chi-squared term is; it depends only on the numbers of rows."""
    values = frame[frame["column"] == CHI_SQUARED]["mean"]
    return f"Chi-squared term, in G1: √((χ² + 1)/n) = {values.iloc[0]:.3g}."


EXCESS_RISK = Drawing(
    title="Terms of the excess-risk bound over rounds, synthetic(1, 1)",
    published="The excess-risk bound (Section 3)",
    queries=queries,
    draw=draw,
)
