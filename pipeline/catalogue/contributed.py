"""Rows that plug-in files add to papers' tables, so that an algorithm of one's own is one file.

A file in ``algorithms/`` of a folder in ``$FEDCORE_PLUGINS`` may say, beside its ``PLUGIN``, whose tables it
joins: ``PAPERS = {"rfedavg": {}}``, a paper with the content of ``papers.<paper>.algorithms.<name>``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from fedcore.base.errors import SpecError
from fedcore.base.options import nearest
from fedcore.base.registry import plugins

VARIABLE = "FEDCORE_PLUGINS"
NAME = "PAPERS"


def joined(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with the rows that plug-in files ask for; its own values win.

    Raises:
        SpecError: a file asks for a paper that there is not, or does not say for which algorithm.
    """
    papers = config.get("papers")
    if not isinstance(papers, Mapping):
        return dict(config)
    papers = dict(papers)
    for path, module in _modules():
        for paper, options in _asked(path, module).items():
            if paper not in papers:
                hint = nearest(paper, papers) or f"; known: {', '.join(papers)}"
                raise SpecError(f"{path}: {NAME} has the paper {paper!r}, which is not defined{hint}")
            papers[paper] = _with_row(papers[paper], module.PLUGIN.name, options)
    return {**config, "papers": papers}


def _modules() -> Iterator[tuple[Path, ModuleType]]:
    """Yield the plug-in files of algorithms that have ``PAPERS``, loaded."""
    for root in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        for path in sorted((Path(root) / "algorithms").glob("*.py")):
            plugins("algorithm")
            module = sys.modules.get(f"fedcore_plugins.algorithms.{path.stem}")
            if module is not None and hasattr(module, NAME):
                yield path, module


def _asked(path: Path, module: ModuleType) -> Mapping[str, Mapping[str, Any]]:
    found = getattr(module, NAME)
    if not isinstance(found, Mapping) or not all(isinstance(own, Mapping) for own in found.values()):
        raise SpecError(
            f"{path}: {NAME} is {found!r}, expected papers with hyperparameters, such as {{'rfedavg': {{}}}}"
        )
    if not hasattr(module, "PLUGIN"):
        raise SpecError(f"{path}: {NAME} without PLUGIN, so it is not clear which algorithm joins")
    return found


def _with_row(paper: Any, name: str, options: Mapping[str, Any]) -> Any:
    rows = paper.get("algorithms") if isinstance(paper, Mapping) else None
    if not isinstance(rows, Mapping) or name in rows:
        return paper
    return {**paper, "algorithms": {**rows, name: dict(options)}}
