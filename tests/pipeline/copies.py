"""Copies of folders of the project, with the modules that Python has compiled already."""

from __future__ import annotations

import shutil
import sys
from importlib.util import cache_from_source
from pathlib import Path

SKIPPED = shutil.ignore_patterns("out", "*.pyc.*", "*.nb[ci]*")


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder, and what is compiled of its modules, so that no copy is compiled again."""
    shutil.copytree(source, target, ignore=SKIPPED)
    if sys.pycache_prefix and (compiled := _compiled(source)).is_dir():
        shutil.copytree(compiled, _compiled(target), ignore=SKIPPED)


def _compiled(package: Path) -> Path:
    """Return where Python keeps the compiled modules of a package."""
    return Path(cache_from_source(str(package / "__init__.py"))).parent
