"""The papers, each a folder that declares its targets in ``PAPER`` and brings its published numbers."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pipeline.catalogue import Catalogue
from pipeline.catalogue.params import configuration, load, overlay
from pipeline.catalogue.targets import Paper

FOLDER = Path(__file__).parent


@cache
def papers() -> Mapping[str, Paper]:
    """Return all papers by name."""
    names = sorted(info.name for info in pkgutil.iter_modules(__path__) if info.ispkg)
    declared = {name: importlib.import_module(f"{__name__}.{name}").PAPER for name in names}
    return MappingProxyType({name: replace(own, numbers=published(name)) for name, own in declared.items()})


def build_catalogue(config: Mapping[str, Any]) -> Catalogue:
    """Return the catalogue of a merged configuration.

    Raises:
        SpecError: the configuration is wrong.
    """
    return Catalogue(load(config), papers())


def catalogue_of(params: Path, scale: str | None = None, over: Path | None = None) -> Catalogue:
    """Return the catalogue of a params.yaml, at its own scale or another, with a second file laid over it.

    Raises:
        SpecError: a file can't be read or is wrong.
    """
    config = configuration(params)
    if over is not None:
        config = overlay(config, configuration(over))
    return build_catalogue(config | ({"scale": scale} if scale else {}))


def published(paper: str) -> Path:
    """Return the file of a paper's published numbers."""
    return FOLDER / paper / "published.csv"
