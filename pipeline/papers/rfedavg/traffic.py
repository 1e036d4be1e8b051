"""Table III: how many bytes of mean features (delta) a client receives in a round."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Column, PlannedRun, Query
from pipeline.reports.results import final_of, history_of, summary_of
from pipeline.reports.tables import Table

MODELS = {"cnn": ("mnist", "sim0"), "rnn": ("sent140", "noniid")}
REGIMES = {"cross_silo": "Cross-silo", "cross_device": "Cross-device"}
METHODS = {"rfedavg": "rFedAvg", "rfedavg_plus": "rFedAvg+"}
BYTES = {"float32": 4, "float64": 8}
NOTE = (
    "A client's downloads in the last round minus FedAvg's (one model per client) and minus whole models "
    "that a second synchronisation sends. Only payload is counted; the published 2808 and 1784 bytes hold "
    "760 bytes of serialisation and 512 and 256 numbers. Cross-device, rFedAvg sends only the vectors "
    "of a round's clients (deltas_of: cohort), as the published numbers count them; its Algorithm 1 "
    "sends those of all N."
)
COHORT = (("algorithm.deltas_of", "cohort"),)


def columns(params: PaperParams) -> tuple[Column, ...]:
    """Return a column for each regime and kind of model."""
    return tuple(
        Column(f"{regime}-{model}", model.upper(), label)
        for regime, label in REGIMES.items()
        for model in MODELS
    )


def query(algorithm: str, column: str) -> Query:
    """Return the setting that represents a regime and kind of model.

    Only rFedAvg's bytes depend on whose deltas are sent, and only where not all clients take part.
    """
    regime, model = column.split("-")
    changes = COHORT if (algorithm, regime) == ("rfedavg", "cross_device") else ()
    return Query(regime, *MODELS[model], algorithm, changes)


def rows(params: PaperParams) -> Mapping[str, str]:
    """Return the two methods that send mean features."""
    return METHODS


def received(run: PlannedRun, root: Path, column: str) -> float | None:
    """Return the bytes of delta that a client of the last round received, None if the run diverged.

    rFedAvg+ sends the new model a second time, but a client that has it needs no model in the next round:
    beyond FedAvg's traffic there are whole models and the vectors, which are smaller than one model
    together.
    """
    summary = summary_of(run, root)
    if summary is None or not final_of(run, root):
        return None
    history = history_of(run, root)
    if history["round"].diff().iloc[-1] != 1:
        return None
    model = int(summary["parameters"]) * BYTES[run.spec["dtype"]]
    cohort = cohort_of(summary, run.spec["participation"]["fraction"])
    beyond = int(history["bytes_down"].iloc[-1]) - cohort * model
    return (beyond % model if run.algorithm == "rfedavg_plus" else beyond) / cohort


def cohort_of(summary: Mapping[str, object], fraction: float) -> int:
    """Return how many clients take part in a round: the fraction, rounded half up, of those with data."""
    clients, empty = summary["clients"], summary["empty_clients"]
    assert isinstance(clients, int)
    assert isinstance(empty, list)
    return max(1, min(int(fraction * clients + 0.5), clients - len(empty)))


TRAFFIC = Table(
    title="Mean features that a client receives in a round",
    published="Table III",
    columns=columns,
    query=query,
    rows=rows,
    measure=received,
    unit="bytes",
    decimals=0,
    best="smallest",
    test="none",
    when="",
    note=NOTE,
)
