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
from pipeline.reports.grid import Grid, PrintedCell
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
        return {}

    def build(self, sources: Sources, outputs: Mapping[str, Path]) -> None:
        """Write the table in all its forms.

        Raises:
            DataError: a line of it has too few or too many cells.
        """
        columns, name = self.columns(sources.params), f"reports/{sources.paper}/{sources.name}"
        words: dict[Cell, str] = {}
        for entry in self.entries(sources.params):
            if len(entry.words) != len(columns):
                raise DataError(
                    f"{name}: line '{entry.key}' has {len(entry.words)} cells, expected {len(columns)}"
                )
            words |= {(entry.key, c.key): word for c, word in zip(columns, entry.words, strict=True)}
        known = {cell: own.mean for cell, own in published_cells(sources.about.numbers, sources.name).items()}
        place, at = (sources.paper, sources.name), (sources.scale, sources.params.variant)
        lines = [(*place, *cell, word, known.get(cell), *at) for cell, word in words.items()]
        write_text(outputs["csv"], csv(pd.DataFrame(lines, columns=list(COLUMNS))))
        write_grid(self.grid(sources, words, known), outputs, sources.layout)

    def grid(
        self, sources: Sources, words: Mapping[Cell, str], known: Mapping[Cell, float] = MappingProxyType({})
    ) -> Grid:
        """Lay the table out: the word of each cell, and the number that is published for some."""
        columns = self.columns(sources.params)

        def printed(cell: Cell) -> PrintedCell:
            return PrintedCell(words.get(cell, ""), published=f"{known[cell]:g}" if cell in known else "")

        return Grid(
            name=f"{sources.paper}-{sources.name}",
            columns=columns,
            rows=tuple(
                (entry.label, tuple(printed((entry.key, column.key)) for column in columns))
                for entry in self.entries(sources.params)
            ),
            caption=self.caption(sources),
            corner=self.heading,
            words=True,
        )

    def caption(self, sources: Sources) -> Caption:
        """Say what the table shows, and at which scale where that makes a difference."""
        at = (sources.scale, sources.params.variant) if self.scaled else ("", "")
        return captions.compose((f"{self.title}.", self.note), self.published, sources.about, *at)
