"""Front pages' pictures of a table and of a figure."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from fedcore.base.errors import DataError
from fedcore.base.files import atomic
from fedcore.base.lazy import PIL, pd
from fedcore.execution.machine import processor
from pipeline.catalogue import Catalogue
from pipeline.reports import figures
from pipeline.reports.drawings import Curves

FRONT, WIDTH = "table1", 1100
FIGURE = "fedomw/fig1_released"
NUMBERS, PROCESSOR = "numbers", "processor"
SHOWN = ["row", "column", "mean", "std", "n", "seeds"]
TOOL = "pdftoppm"


def front(reports: Path, paper: str, target: Path) -> None:
    """Draw the front page's table, a paper's first; the png's own texts have numbers and processor.

    It raises DataError if the table's csv or pdf is missing, or there is no ``pdftoppm``.
    """
    source = reports / paper / f"{FRONT}.pdf"
    if not source.exists():
        raise DataError(f"{source}: missing; build it with snakemake --cores 2 {source}")
    texts = PIL.PngImagePlugin.PngInfo()
    texts.add_text(NUMBERS, numbers(source.with_suffix(".csv")))
    texts.add_text(PROCESSOR, processor())
    if shutil.which(TOOL) is None:
        raise DataError(f"{TOOL}: not found; it draws tables (Debian: poppler-utils)")
    with tempfile.TemporaryDirectory() as folder, atomic(target) as handle:
        size = ["-scale-to-x", str(WIDTH), "-scale-to-y", "-1"]
        subprocess.run([TOOL, "-png", "-singlefile", *size, str(source), f"{folder}/page"], check=True)
        drawn = PIL.Image.open(f"{folder}/page.png")
        drawn.convert("RGB").quantize(64).save(handle, "PNG", pnginfo=texts, optimize=True)


def redrawn(catalogue: Catalogue, name: str, folder: Path, target: Path) -> None:
    """Draw a figure of curves anew from its numbers in the folder of kept results."""
    paper, figure = name.split("/")
    sources = catalogue.sources(paper, figure)
    assert isinstance(sources.target, Curves)
    with atomic(target) as handle, figures.styled(sources.layout.columns):
        figures.save(sources.target.figure_of(pd.read_csv(folder / f"{name}.csv"), sources), {"svg": handle})


def numbers(table: Path) -> str:
    """Return what a table's csv measured as csv, apart from what it is compared with."""
    return pd.read_csv(table, dtype=str)[SHOWN].to_csv(index=False, lineterminator="\n")
