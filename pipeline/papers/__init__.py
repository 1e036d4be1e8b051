"""The papers, each a folder that declares its targets in ``PAPER`` and brings its published numbers."""

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fedcore.base.errors import SpecError
from pipeline.catalogue import Catalogue
from pipeline.catalogue.params import StudyError, configuration, laid_over, load, with_studies
from pipeline.catalogue.schema import StudyParams
from pipeline.catalogue.targets import Paper
from pipeline.claims.ledger import PAPERS
from pipeline.claims.readings import readings_targets
from pipeline.reports.study import study_paper


@cache
def papers() -> Mapping[str, Paper]:
    """Return all papers by name."""
    by_name = {}
    for name in sorted(info.name for info in pkgutil.iter_modules(__path__) if info.ispkg):
        module = importlib.import_module(f"{__name__}.{name}")
        by_name[name] = replace(module.PAPER, numbers=published(name), code=module.__name__)
    return MappingProxyType(by_name)


def build_catalogue(config: Mapping[str, Any]) -> Catalogue:
    """Return the catalogue of a merged configuration, with its studies, or raise SpecError if it is wrong."""
    params = load(config)
    studies = {
        name: study_paper(params.files[name], paper_params)
        for name, paper_params in params.papers.items()
        if isinstance(paper_params, StudyParams)
    }
    if taken := [name for name in studies if name in papers()]:
        raise StudyError(f"{params.files[taken[0]]}: a paper has this name, expected another")
    all_papers = {**papers(), **studies}
    for name, paper in all_papers.items():
        try:
            more = readings_targets(name, paper, params.papers[name]) if name in params.papers else {}
        except SpecError as error:
            raise params.refusal(name, error) from None
        all_papers[name] = replace(paper, targets={**paper.targets, **more})
    return Catalogue(params, all_papers)


def catalogue_of(
    params: Path, scale: str | None = None, over: Path | None = None, *, studies: Iterable[Path] = ()
) -> Catalogue:
    """Return the catalogue of a params.yaml, at its own scale or another, and of the studies beside it.

    ``over`` is a file laid over it; ``studies`` are files of studies elsewhere. It raises SpecError if a file
    can't be read or is wrong.
    """
    config = configuration(params)
    if over is not None:
        config = laid_over(config, over)
    if scale:
        config["scale"] = scale
    if studies:
        config["studies"] = [*map(str, studies)]
    try:
        return build_catalogue(with_studies(config, params.parent))
    except SpecError as error:
        if over is None or isinstance(error, StudyError):
            raise
        raise SpecError(f"{params} with {over}: {error}") from None


def published(paper: str) -> Path:
    """Return the file of a paper's published numbers."""
    return PAPERS / paper / "published.csv"
