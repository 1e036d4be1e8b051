"""Tables of words: parameters or recipes in, csv, Markdown, HTML and LaTeX out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from fedcore.base.lazy import pd
from pipeline.catalogue.schema import PaperParams
from pipeline.catalogue.targets import Cell, Sources, Target
from pipeline.reports import captions
from pipeline.reports.grid import Grid, PrintedCell
from pipeline.reports.render import write_grid
from pipeline.reports.results import published_cells

COLUMNS = ("paper", "target", "row", "column", "value", "published_mean", "scale", "variant")


@dataclass(frozen=True, kw_only=True)
class Listing(Target):
    """A table of words: it follows from the parameters or the recipes, so it needs no run.

    ``word`` is the text of a cell, given the paper's parameters, row and column key; ``heading`` stands over
    the lines' labels; ``note`` is a sentence of its own for the caption.
    """

    kind = "words"
    word: Callable[[PaperParams, str, str], str]
    heading: str = ""
    note: str = ""

    def build(self, sources: Sources, outputs: Mapping[str, Path]) -> None:
        """Write the table in all its forms."""
        params = sources.params
        cells = product(self.rows(params), (column.key for column in self.columns(params)))
        words = {cell: self.word(params, *cell) for cell in cells}
        published = published_cells(sources.declared.numbers, sources.name)
        known = {key: cell.mean for key, cell in published.items()}
        lines = [
            (sources.paper, sources.name, *cell, word, known.get(cell), sources.scale, params.variant)
            for cell, word in words.items()
        ]
        frame = pd.DataFrame(lines, columns=[*COLUMNS])
        write_grid(self.grid(sources, words, known), frame, outputs, sources.layout)

    def grid(self, sources: Sources, words: Mapping[Cell, str], known: Mapping[Cell, float] = {}) -> Grid:
        """Lay the table out: the word of each cell, and the number that is published for some."""
        columns, texts = self.columns(sources.params), (f"{self.title}.", self.note)
        scale_and_variant = (sources.scale, sources.params.variant) if self.scaled else ()

        def printed(cell: Cell) -> PrintedCell:
            return PrintedCell(words.get(cell, ""), published=f"{known[cell]:g}" if cell in known else "")

        rows = tuple(
            (label, tuple(printed((row, column.key)) for column in columns))
            for row, label in self.row_labels(sources.params).items()
        )
        caption = captions.compose(texts, self.published, sources.declared, *scale_and_variant)
        return Grid(f"{sources.paper}-{sources.name}", columns, rows, caption, self.heading, words=True)
