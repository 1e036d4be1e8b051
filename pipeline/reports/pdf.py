"""A standalone LaTeX document to PDF, with the TeX that the machine has."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from fedcore.base.errors import DataError
from fedcore.base.files import atomic

ENGINES = ("pdflatex", "lualatex", "xelatex", "tectonic")
INSTALL = "texlive-latex-recommended and preview-latex-style (Debian, Ubuntu), MacTeX, MiKTeX or tectonic"


def engine() -> str | None:
    """Return the first TeX engine found on PATH, or None."""
    return next((name for name in ENGINES if shutil.which(name)), None)


def compile_document(source: Path, target: Path) -> None:
    """Compile ``source`` and put the PDF at ``target``.

    Raises:
        DataError: there is no TeX, or it refuses the document.
    """
    name = engine()
    if name is None:
        raise DataError(
            f"{target}: a PDF needs a TeX on PATH, and there is none; install {INSTALL}, or ask for .tex"
        )
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(source, Path(folder, "table.tex"))
        options = (
            [] if name == "tectonic" else ["-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error"]
        )
        done = subprocess.run(
            [name, *options, "table.tex"], cwd=folder, capture_output=True, text=True, check=False
        )
        made = Path(folder, "table.pdf")
        if done.returncode or not made.exists():
            problems = [line for line in done.stdout.splitlines() if line.startswith("!")]
            raise DataError(
                f"{source}: {name} refused it: {' '.join(problems) or done.stderr.strip()[-200:]}"
            )
        with atomic(target) as handle:
            handle.write(made.read_bytes())
