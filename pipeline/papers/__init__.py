"""The papers, each a folder that declares its targets in ``PAPER`` and brings its published numbers."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from pipeline.targets import Paper

FOLDER = Path(__file__).parent


@cache
def papers() -> Mapping[str, Paper]:
    """Return all papers by name."""
    names = sorted(info.name for info in pkgutil.iter_modules(__path__) if info.ispkg)
    return MappingProxyType({name: importlib.import_module(f"{__name__}.{name}").PAPER for name in names})


def published(paper: str) -> Path:
    """Return the file of a paper's published numbers."""
    return FOLDER / paper / "published.csv"
