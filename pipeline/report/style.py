"""How algorithms look in print: one label, colour and marker each, in all reports.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart; markers differ as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import MappingProxyType

from fedcore.registry import plugins
from pipeline.targets import Sources

DIVERGED = "‡"
Labels = tuple[Mapping[str, str], Mapping[str, str]]
_marked: ContextVar[frozenset[str]] = ContextVar("marked", default=frozenset())


@dataclass(frozen=True)
class Look:
    """An algorithm's label, colour, marker and line style."""

    label: str
    colour: str
    marker: str
    line: str = "-"


LOOKS: Mapping[str, Look] = MappingProxyType(
    {
        "fedavg": Look("FedAvg", "#000000", "o"),
        "fedprox": Look("FedProx", "#E69F00", "s"),
        "scaffold": Look("SCAFFOLD", "#56B4E9", "^"),
        "qfedavg": Look("q-FedAvg", "#CC79A7", "v"),
        "rfedavg": Look("rFedAvg", "#009E73", "D", "--"),
        "rfedavg_plus": Look("rFedAvg+", "#D55E00", "P"),
        "dl_u": Look("DL-u", "#7F7F7F", "v", ":"),
        "dl_opt": Look("DL-opt", "#6A51A3", "*", "--"),
        "fedadam": Look("FedAdam", "#0072B2", "o"),
        "fedadagrad": Look("FedAdagrad", "#CC79A7", "o"),
        "fedyogi": Look("FedYogi", "#D55E00", "o"),
        "prox_adam": Look("ProxAdam", "#0072B2", "s", "--"),
        "prox_adagrad": Look("ProxAdagrad", "#CC79A7", "s", "--"),
        "prox_yogi": Look("ProxYogi", "#D55E00", "s", "--"),
        "scaf_adam": Look("ScafAdam", "#0072B2", "^", "-."),
        "scaf_adagrad": Look("ScafAdagrad", "#CC79A7", "^", "-."),
        "scaf_yogi": Look("ScafYogi", "#D55E00", "^", "-."),
        "fednova": Look("FedNova", "#7F7F7F", "d", ":"),
        "nova_adam": Look("NovaAdam", "#0072B2", "d", ":"),
        "nova_adagrad": Look("NovaAdagrad", "#CC79A7", "d", ":"),
        "nova_yogi": Look("NovaYogi", "#D55E00", "d", ":"),
        "fedomw": Look("FedOMW", "#0072B2", "X"),
        "fedasync": Look("FedAsync", "#8C6D1F", "<", ":"),
        "fedadapt": Look("FedAdapt", "#0072B2", ">", ":"),
        "radfed": Look("RADFed", "#661100", "h"),
        "radfed_i": Look("RADFedi", "#661100", "<", "--"),
        "radfed_a": Look("RADFeda", "#661100", ">", "-."),
        "radfed_p": Look("RADFedp", "#661100", "s", "--"),
        "radfed_m": Look("RADFedm", "#661100", "d", ":"),
        "oneshot": Look("OneShot", "#DDCC77", ">", ":"),
        "fl_hc": Look("FL+HC", "#332288", "h", "-."),
        "fedavgr": Look("FedAvgR", "#882255", "p"),
    }
)
SPARE = tuple(
    Look("", colour, marker, line)
    for line in (":", "-.")
    for colour, marker in zip(("#0072B2", "#8C6D1F", "#6A51A3", "#7F7F7F"), "X<>h", strict=True)
)


def look(name: str, among: Iterable[str] = ()) -> Look:
    """Return how an algorithm looks; one that is not listed gets a spare look by its place in ``among``."""
    if name in LOOKS:
        found = LOOKS[name]
    else:
        others = sorted({*among, name} - set(LOOKS))
        found = SPARE[others.index(name) % len(SPARE)]
    return replace(found, label=label(name))


def label(name: str) -> str:
    """Return an algorithm's name in print."""
    known = LOOKS.get(name) or plugins("algorithm").get(name)
    return ((known.label if known else "") or name) + mark(name)


def labels(found: Sources) -> Labels:
    """Return the printed label of each row and of each column of a target, by key."""
    about, params = found.target, found.params
    rows = {row: label(row) for row, _ in found.cells}
    columns = {column: found.about.datasets.get(column, column) for _, column in found.cells}
    return {**rows, **about.row_labels(params)}, {**columns, **about.column_labels(params)}


@contextmanager
def marking(rows: Iterable[str]) -> Iterator[None]:
    """Let the labels of rows that lack diverged runs end with a sign that the caption explains."""
    before = _marked.set(frozenset(rows))
    try:
        yield
    finally:
        _marked.reset(before)


def mark(row: str) -> str:
    """Return the sign of a row that lacks diverged runs, within ``marking``; else nothing."""
    return DIVERGED if row in _marked.get() else ""
