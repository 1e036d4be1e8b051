"""Small pictures of reports for the papers' pages: docs/img/papers/<paper>/<target>.webp."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from fedcore.base.errors import DataError
from fedcore.base.files import atomic, sha256_text, write_json
from fedcore.base.lazy import PIL, pd
from pipeline.papers import papers

WIDTH, QUALITY = 760, 50
FRONT, FRONT_WIDTH, NUMBERS = "table1", 1100, "numbers_sha256"
SHOWN = ["row", "column", "mean", "std", "n", "seeds"]
TOOL = "pdftoppm"
MADE = "made.json"


def make(reports: Path, out: Path, scale: str, commit: str, date: str) -> list[Path]:
    """Draw every target that has a picture or a PDF; other targets' pictures in ``out`` stay.

    ``scale``, ``commit`` and ``date`` are the words below them.

    Raises:
        DataError: nothing is in ``reports``, or there is no ``pdftoppm`` for tables.
    """
    made = []
    for name, paper in papers().items():
        for target in paper.targets:
            forms = (reports / name / f"{target}.{form}" for form in ("png", "pdf"))
            if source := next(filter(Path.exists, forms), None):
                made.append(_small(source, out / name / f"{target}.webp"))
    if not made:
        raise DataError(f"{reports}: no figures or tables as png or pdf")
    write_json(out / MADE, {"scale": scale, "commit": commit, "date": date})
    return made


def front(reports: Path, paper: str, target: Path) -> None:
    """Draw the table that README shows, a paper's first, with a hash of its numbers in the png's own texts.

    Raises:
        DataError: the table's csv or pdf is missing, or there is no ``pdftoppm``.
    """
    source = reports / paper / f"{FRONT}.pdf"
    if not source.exists():
        raise DataError(f"{source}: missing; build it with snakemake --cores 2 {source}")
    said = PIL.PngImagePlugin.PngInfo()
    said.add_text(NUMBERS, numbers(source.with_suffix(".csv")))
    with tempfile.TemporaryDirectory() as folder, atomic(target) as handle:
        drawn = PIL.Image.open(_raster(source, Path(folder), FRONT_WIDTH))
        drawn.convert("RGB").quantize(64).save(handle, "PNG", pnginfo=said, optimize=True)


def numbers(table: Path) -> str:
    """Return a hash of what a table's csv measured, apart from what it is compared with."""
    return sha256_text(pd.read_csv(table, dtype=str)[SHOWN].to_csv(index=False, lineterminator="\n"))


def _small(source: Path, target: Path) -> Path:
    with tempfile.TemporaryDirectory() as folder:
        path = _raster(source, Path(folder)) if source.suffix == ".pdf" else source
        with PIL.Image.open(path) as picture:
            plain = picture.convert("RGB")
        plain.thumbnail((WIDTH, 4 * WIDTH))
        with atomic(target) as handle:
            plain.save(handle, "WEBP", quality=QUALITY, method=6)
    return target


def _raster(source: Path, folder: Path, width: int = WIDTH) -> Path:
    if shutil.which(TOOL) is None:
        raise DataError(f"{TOOL}: not found; it draws tables (Debian: poppler-utils)")
    size = ["-scale-to-x", str(width), "-scale-to-y", "-1"]
    command = [TOOL, "-png", "-singlefile", *size, str(source), str(folder / "page")]
    subprocess.run(command, check=True)
    return folder / "page.png"
