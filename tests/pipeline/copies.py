"""Copies of folders of the project, with the modules that Python has compiled already."""

from __future__ import annotations

import shutil
from importlib.util import cache_from_source
from pathlib import Path

SKIPPED = shutil.ignore_patterns("__pycache__", "out")
UNFINISHED = shutil.ignore_patterns("*.pyc.*")


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder, and what is compiled of its modules, so that no copy is compiled again."""
    shutil.copytree(source, target, ignore=SKIPPED)
    if (compiled := _compiled(source)).is_dir():
        shutil.copytree(compiled, _compiled(target), ignore=UNFINISHED)


def _compiled(package: Path) -> Path:
    """Return where Python keeps the compiled modules of a package."""
    return Path(cache_from_source(str(package / "__init__.py"))).parent
