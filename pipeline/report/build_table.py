"""The table stage: summaries in, csv, Markdown, HTML and LaTeX out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedcore.errors import DataError
from fedcore.files import write_text
from pipeline.catalogue import Catalogue
from pipeline.report import render
from pipeline.report.collect import origin_of, refuse_changed, tidy
from pipeline.report.grid import arrange
from pipeline.targets import Table


def build(
    catalogue: Catalogue,
    paper: str,
    target: str,
    outputs: Mapping[str, Path],
    root: Path = Path(),
    earlier: Path | None = None,
) -> None:
    """Write a table in all its forms.

    Args:
        catalogue: where its runs are found.
        paper, target: which table.
        outputs: a path for each of ``csv``, ``md``, ``html``, ``tex`` and ``standalone``.
        root: the folder that holds results/.
        earlier: this table's csv of another sitting, for runs that aren't here.

    Raises:
        DataError: the target is no table, or a summary can't be used.
    """
    table = catalogue.target(paper, target)
    if not isinstance(table, Table):
        raise DataError(f"reports/{paper}/{target}: is no table")
    params = catalogue.params.papers[paper]
    cells = catalogue.cells(paper, target)
    columns = table.columns(params)
    refuse_changed(catalogue.needed(paper, target), root)
    frame = tidy(paper, target, table, cells, catalogue.papers[paper].numbers, root, columns, earlier)
    labels = {} if table.rows is None else table.rows(params)
    origin = origin_of(catalogue.needed(paper, target), root)
    grid = arrange(frame, table, columns, catalogue.papers[paper], labels, origin)
    write_text(outputs["csv"], frame.to_csv(index=False, lineterminator="\n", float_format="%.6g"))
    write_text(outputs["md"], render.markdown(grid))
    write_text(outputs["html"], render.html(grid))
    write_text(outputs["tex"], render.latex(grid))
    write_text(outputs["standalone"], render.standalone(grid))
