"""Tables of words: parameters or recipes in, csv, Markdown, HTML and LaTeX out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from fedcore.base.errors import DataError
from fedcore.base.files import write_text
from fedcore.base.lazy import pd
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Cell, Column, Query, Sources, Target
from pipeline.reports import captions
from pipeline.reports.captions import Caption
from pipeline.reports.grid import Grid, PrintedCell, groups
from pipeline.reports.render import csv, write_grid
from pipeline.reports.results import published_cells

COLUMNS = ("paper", "target", "row", "column", "value", "published_mean", "scale", "variant")


@dataclass(frozen=True)
class Entry:
    """A line of a listing: ``key`` in files, ``label`` in print, and a text for each column."""

    key: str
    label: str
    words: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Listing(Target):
    """A table of words: it follows from the parameters or the recipes, so it needs no run.

    Attributes:
        columns: the columns, given the paper's parameters.
        entries: the lines, given the paper's parameters.
        heading: what stands over the lines' labels.
        note: a sentence of its own for the caption.
        scaled: whether the words change with the scale, which the caption then says.
    """

    kind = "words"
    columns: Callable[[PaperParams], tuple[Column, ...]]
    entries: Callable[[PaperParams], tuple[Entry, ...]]
    heading: str = ""
    note: str = ""
    scaled: bool = True

    @property
    def changes_with_scale(self) -> bool:
        """Whether the words do."""
        return self.scaled

    def cells(self, params: PaperParams) -> Mapping[Cell, tuple[Query, ...]]:
        """Return no cells: nothing has to run."""
        del params
        return {}

    def build(self, found: Sources, outputs: Mapping[str, Path]) -> None:
        """Write the table in all its forms.

        Raises:
            DataError: a line of it has too few or too many cells.
        """
        columns, entries = self.columns(found.params), self.entries(found.params)
        for entry in entries:
            if len(entry.words) != len(columns):
                raise DataError(
                    f"reports/{found.paper}/{found.name}: line '{entry.key}' has {len(entry.words)} cells, "
                    f"expected {len(columns)}"
                )
        known = {cell: own.mean for cell, own in published_cells(found.about.numbers, found.name).items()}
        words = {
            (entry.key, column.key): word
            for entry in entries
            for column, word in zip(columns, entry.words, strict=True)
        }
        place, at = (found.paper, found.name), (found.scale, found.params.variant)
        lines = [(*place, *cell, word, known.get(cell), *at) for cell, word in words.items()]
        frame = pd.DataFrame(lines, columns=list(COLUMNS))
        write_text(outputs["csv"], csv(frame))
        write_grid(self.grid(found, words, known), outputs)

    def grid(
        self, found: Sources, words: Mapping[Cell, str], known: Mapping[Cell, float] = MappingProxyType({})
    ) -> Grid:
        """Lay the table out: the word of each cell, and the number that is published for some."""
        columns = self.columns(found.params)
        keys = [column.key for column in columns]
        return Grid(
            name=f"{found.paper}-{found.name}",
            unit="",
            groups=groups(columns),
            columns=tuple(column.label for column in columns),
            rows=tuple(
                (
                    entry.label,
                    tuple(
                        PrintedCell(
                            words.get((entry.key, key), ""), published=_number(known.get((entry.key, key)))
                        )
                        for key in keys
                    ),
                )
                for entry in self.entries(found.params)
            ),
            caption=self.caption(found),
            corner=self.heading,
            words=True,
        )

    def caption(self, found: Sources) -> Caption:
        """Say what the table shows, and at which scale where that makes a difference."""
        sentences = (
            f"{self.title}.",
            self.note,
            captions.scale_and_variant(found.scale, found.params.variant) if self.scaled else "",
            captions.origin(self.published, found.about),
        )
        return Caption(captions.watermark(found.scale) if self.scaled else "", tuple(filter(None, sentences)))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"
