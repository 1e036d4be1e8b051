"""How algorithms look in print: one label, colour and marker each, in all reports.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart; markers differ as well.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from fedcore.base.registry import Line, plugins
from pipeline.catalogue.targets import Sources

DIVERGED = "‡"
TEXT, COLUMN = {1: 4.77, 2: 7.0}, 3.3  # width in inches, by columns of the page
BLUE, ORANGE, GREEN, VERMILION, PURPLE = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"
SKY_BLUE, YELLOW, BLACK = "#56B4E9", "#F0E442", "#000000"
Labels = tuple[Mapping[str, str], Mapping[str, str]]


@dataclass(frozen=True)
class Look:
    """An algorithm's label, colour, marker and line style."""

    label: str
    colour: str
    marker: str
    line: Line = "-"


SPARE_COLOURS = (BLUE, "#8C6D1F", "#6A51A3", "#7F7F7F")
LINES: tuple[Line, ...] = (":", "-", "-.", "--")
SPARE = tuple(
    Look("", colour, marker, LINES[(first + index) % len(LINES)])
    for first in range(len(LINES))
    for index, (colour, marker) in enumerate(zip(SPARE_COLOURS, "X<>h", strict=True))
)


def look(name: str, among: Iterable[str] = ()) -> Look:
    """Return how an algorithm looks; one without a colour gets a spare look by its place in ``among``."""
    plugin = plugins("algorithm").get(name)
    if plugin and plugin.pen.colour:
        return Look(label(name), *plugin.pen)
    drawn = {key for key, known in plugins("algorithm").items() if known.pen.colour}
    others = sorted({*among, name} - drawn)
    return replace(SPARE[others.index(name) % len(SPARE)], label=label(name))


def looks(names: Iterable[str], labels: Mapping[str, str] = {}) -> dict[str, Look]:
    """Return how each of the algorithms of a figure looks, in order; ``labels`` names others in print."""
    names = list(dict.fromkeys(names))
    return {name: replace(look(name, names), label=labels.get(name, label(name))) for name in names}


def marked(looks: Mapping[str, Look], rows: Collection[str]) -> dict[str, Look]:
    """Return looks; the labels of rows that lack diverged runs end with a sign that the caption explains."""
    return {
        name: replace(look, label=look.label + DIVERGED) if name in rows else look
        for name, look in looks.items()
    }


def distinct(looks: Mapping[str, Look]) -> dict[str, Look]:
    """Return looks with a spare colour for all but the first of those of one colour, as far as there are."""
    first = {look.colour: name for name, look in reversed([*looks.items()])}
    spare = (colour for colour in SPARE_COLOURS if colour not in first)
    return {
        name: look if first[look.colour] == name else replace(look, colour=next(spare, look.colour))
        for name, look in looks.items()
    }


def label(name: str) -> str:
    """Return an algorithm's name in print."""
    plugin = plugins("algorithm").get(name)
    return (plugin.label if plugin else "") or name


def labels(sources: Sources) -> Labels:
    """Return the printed label of each row and of each column of a target, by key."""
    target, params = sources.target, sources.params
    rows = {row: label(row) for row, _ in sources.cells}
    columns = {column: sources.declared.datasets.get(column, column) for _, column in sources.cells}
    return {**rows, **target.row_labels(params)}, {**columns, **target.column_labels(params)}
