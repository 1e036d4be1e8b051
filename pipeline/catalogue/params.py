"""From the merged configuration to validated parameters at one scale, or one line with the error.

A plug-in file of an algorithm may say, beside its ``PLUGIN``, whose tables it joins: a paper with the content
of ``papers.<paper>.algorithms.<name>``, as in ``PAPERS = {"rfedavg": {}}``. So such an algorithm is one file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from fedcore.base import core_yaml
from fedcore.base.errors import SpecError
from fedcore.base.options import suggestion, validate
from fedcore.base.registry import folders, plugins
from pipeline.catalogue.schema import CommonParams, PaperParams, Params, ScaleParams


@dataclass(frozen=True)
class ScaledParams:
    """Parameters with one scale's reductions applied.

    Attributes:
        scale: the scale's name.
        primary: name of the primary paper.
        mirror: folder or URL of data files, or None.
        one_process: all seeds of a setting and algorithm are trained in one process.
        common: what all runs share.
        papers: each paper's values at this scale.
    """

    scale: str
    primary: str
    mirror: str | None
    one_process: bool
    common: CommonParams
    papers: Mapping[str, PaperParams]


def configuration(params: Path) -> dict[str, Any]:
    """Read a params.yaml.

    Raises:
        SpecError: the file can't be read or holds no keys and values.
    """
    config = core_yaml.read(params, "configuration")
    if not isinstance(config, dict):
        raise SpecError(f"{params}: expected keys and values")
    return config


def load(config: Mapping[str, Any]) -> ScaledParams:
    """Validate the configuration, with the rows of plug-in files, and apply its scale.

    Raises:
        SpecError: one line with the path of the key, what was found and what was expected.
    """
    config = _joined(config)
    params = validate(Params, config, "")
    require_known("primary_paper", params.primary_paper, params.papers)
    require_known("scale", params.scale, params.scales)
    scale = params.scales[params.scale]
    where = f"scales.{params.scale}"
    if scale.one_process and scale.seeds is None:
        raise SpecError(f"{where}.seeds: missing, but required where one_process is true")
    for paper in scale.papers:
        require_known(f"{where}.papers", paper, params.papers)
    common = validate(
        CommonParams, overlay(params.common.model_dump(exclude_unset=True), scale.common), f"{where}.common"
    )
    papers = {name: _reduced(config["papers"][name], scale, where, name) for name in params.papers}
    return ScaledParams(
        scale=params.scale,
        primary=params.primary_paper,
        mirror=params.data.mirror,
        one_process=scale.one_process,
        common=common,
        papers=papers,
    )


def overlay(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``changes`` laid over it, key by key through nested mappings.

    A section that brings another ``name`` replaces the old one: one plug-in's keys mean nothing to another.
    """
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping) and not _renamed(old, value):
            merged[key] = overlay(old, value)
        else:
            merged[key] = value
    return merged


def _renamed(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return "name" in old and "name" in new and old["name"] != new["name"]


def _reduced(base: Mapping[str, Any], scale: ScaleParams, where: str, paper: str) -> PaperParams:
    changes = dict(scale.papers.get(paper, {}))
    if scale.seeds is not None:
        changes.setdefault("seeds", list(scale.seeds))
    reduced = validate(PaperParams, overlay(base, changes), f"{where}.papers.{paper}")
    if scale.one_process and reduced.seeds != scale.seeds:
        raise SpecError(f"{where}.papers.{paper}.seeds: set, but one_process needs the same seeds everywhere")
    _only_known_names(base, changes, f"{where}.papers.{paper}")
    return reduced


def _only_known_names(base: Mapping[str, Any], changes: Mapping[str, Any], where: str) -> None:
    """A scale reduces what the paper has: it can't bring in a new data set, regime or algorithm."""
    for group in ("regimes", "datasets", "algorithms"):
        for name in changes.get(group, {}):
            require_known(f"{where}.{group}", name, base[group])


def require_known(where: str, name: str, known: Mapping[str, Any]) -> None:
    """Refuse a name that nothing bears, where ``where`` gives it."""
    if name not in known:
        raise SpecError(f"{where}: got '{name}', which is not defined{suggestion(name, known)}")


def _joined(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the configuration with the rows that plug-in files ask for; its own values win.

    Raises:
        SpecError: a file asks for a paper that there is not, or does not say for which algorithm.
    """
    papers = config.get("papers")
    if not isinstance(papers, Mapping):
        return config
    papers = dict(papers)
    for path, module in _contributed():
        for paper, options in _asked(path, module).items():
            if paper not in papers:
                hint = suggestion(paper, papers)
                raise SpecError(f"{path}: PAPERS has the paper {paper!r}, which is not defined{hint}")
            papers[paper] = _with_row(papers[paper], module.PLUGIN.name, options)
    return {**config, "papers": papers}


def _contributed() -> Iterator[tuple[Path, ModuleType]]:
    """Yield the plug-in files of algorithms that have ``PAPERS``, loaded."""
    for path in (path for folder in folders("algorithm") for path in sorted(folder.glob("*.py"))):
        plugins("algorithm")
        module = sys.modules.get(f"fedcore_plugins.algorithms.{path.stem}")
        if module is not None and hasattr(module, "PAPERS"):
            yield path, module


def _asked(path: Path, module: ModuleType) -> Mapping[str, Mapping[str, Any]]:
    found = module.PAPERS
    if not isinstance(found, Mapping) or not all(isinstance(own, Mapping) for own in found.values()):
        raise SpecError(
            f"{path}: PAPERS is {found!r}, expected papers with hyperparameters, such as {{'rfedavg': {{}}}}"
        )
    if not hasattr(module, "PLUGIN"):
        raise SpecError(f"{path}: PAPERS without PLUGIN, so it is not clear which algorithm joins")
    return found


def _with_row(paper: Any, name: str, options: Mapping[str, Any]) -> Any:
    rows = paper.get("algorithms") if isinstance(paper, Mapping) else None
    if not isinstance(rows, Mapping) or name in rows:
        return paper
    return {**paper, "algorithms": {**rows, name: dict(options)}}
