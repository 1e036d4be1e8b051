"""From the merged configuration to validated parameters at one scale, or one line with the error.

A plug-in file of an algorithm may say, beside its ``PLUGIN``, whose tables it joins: a paper with the content
of ``papers.<paper>.algorithms.<name>``, as in ``PAPERS = {"rfedavg": {}}``. So such an algorithm is one file.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcore.base import core_yaml
from fedcore.base.errors import SpecError
from fedcore.base.options import suggestion, validate
from fedcore.base.registry import NAME, contributed
from pipeline.catalogue.schema import CommonParams, Layout, PaperParams, Params, ScaleParams, StudyParams

STUDY, STUDIES = "study", "studies"
RESERVED = ("all", "data", "evaluation", "fidelity", "reference", "reports", "results", "site", "studies")
EDITIONS = Path("data/editions.yaml")  # laid over a params.yaml: which data kept results were measured on


@dataclass(frozen=True)
class ScaledParams:
    """Parameters with one scale's reductions applied.

    ``primary`` names the primary paper; ``mirror`` is a folder or URL of data files; ``common`` is what all
    runs share. With ``one_process``, all seeds of a setting and algorithm are trained in one process.
    ``papers`` are each paper's values at this scale, and each study's, whose file ``files`` gives; ``layout``
    is how reports are printed.
    """

    scale: str
    primary: str
    mirror: str | None
    one_process: bool
    common: CommonParams
    papers: Mapping[str, PaperParams]
    files: Mapping[str, str]
    layout: Layout

    def scale_of(self, paper: str) -> str:
        """Return the scale of a paper's runs; a study has none, which is a word of its own."""
        return STUDY if paper in self.files else self.scale

    def refusal(self, paper: str, problem: object) -> SpecError:
        """Return the error for a wrong value of a paper's section, or of a study's file."""
        if paper in self.files:
            return StudyError(f"{self.files[paper]}: {problem}")
        return SpecError(f"papers.{paper}.{problem}")


class StudyError(SpecError):
    """A study's file is wrong; the message begins with the file."""


def with_studies(config: Mapping[str, Any], root: Path = Path()) -> dict[str, Any]:
    """Return a configuration with the contents of all studies, by file, in its section ``studies``.

    On entry the section lists files outside of ``root/studies``; contents, if it has them already, stay as
    they are. It raises SpecError if a file can't be read.
    """
    given = config.get(STUDIES) or ()
    if isinstance(given, Mapping):
        return dict(config)
    if not isinstance(given, str | list | tuple) or not all(isinstance(path, str) for path in given):
        raise SpecError(f"{STUDIES}: got {given!r}, expected files of studies")
    paths = [*sorted((root / STUDIES).glob("*.yaml")), *([given] if isinstance(given, str) else given)]
    files = dict.fromkeys(os.path.relpath(path) for path in paths)
    try:
        contents = {file: core_yaml.read(Path(file), "study") for file in files}
    except SpecError as error:
        raise StudyError(str(error)) from None
    return {**config, STUDIES: contents}


def study_names(root: Path = Path()) -> list[str]:
    """Return the names of the studies in ``root/studies``; of files elsewhere nothing is known."""
    return sorted(path.stem for path in (root / STUDIES).glob("*.yaml"))


def configuration(params: Path) -> dict[str, Any]:
    """Read a params.yaml; SpecError if it has no keys and values."""
    config = core_yaml.read(params, "configuration")
    if not isinstance(config, dict):
        raise SpecError(f"{params}: expected keys and values")
    return config


def load(config: Mapping[str, Any]) -> ScaledParams:
    """Validate the configuration, with the rows of plug-in files, and apply its scale.

    It raises SpecError: one line with the path of the key, what was found and what was expected.
    """
    studies = config.get(STUDIES) or {}
    config = _joined({key: value for key, value in config.items() if key != STUDIES})
    params = validate(Params, config, "")
    require_known("primary_paper", params.primary_paper, params.papers)
    require_known("scale", params.scale, params.scales)
    if STUDY in params.scales:
        raise SpecError(f"scales.{STUDY}: studies have this name, expected another")
    scale = params.scales[params.scale]
    where = f"scales.{params.scale}"
    if scale.one_process and scale.seeds is None:
        raise SpecError(f"{where}.seeds: missing, but required where one_process is true")
    for paper in scale.papers:
        require_known(f"{where}.papers", paper, params.papers)
    unscaled = params.common.model_dump(exclude_unset=True)
    common = validate(CommonParams, overlay(unscaled, scale.common), f"{where}.common")
    papers = {name: _reduced(config["papers"][name], scale, where, name) for name in params.papers}
    files = _named(studies)
    for name, file in files.items():
        try:
            papers[name] = validate(StudyParams, studies[file], "")
        except SpecError as error:
            raise StudyError(f"{file}: {str(error).removeprefix(': ')}") from None
    return ScaledParams(
        scale=params.scale,
        primary=params.primary_paper,
        mirror=params.data.mirror,
        one_process=scale.one_process,
        common=common,
        papers=papers,
        files=files,
        layout=params.layout,
    )


def _named(files: Iterable[str]) -> dict[str, str]:
    files_by_name: dict[str, str] = {}
    for file in files:
        name = Path(file).stem
        if re.fullmatch(NAME, name) is None or name in RESERVED:
            others = ", ".join(RESERVED)
            raise StudyError(f"{file}: got '{name}', expected a name of the form {NAME} but {others}")
        if name in files_by_name:
            raise StudyError(f"{file}: {files_by_name[name]} has this name, expected another")
        files_by_name[name] = file
    return files_by_name


def overlay(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``changes`` laid over it, key by key through nested mappings.

    A section that brings another ``name`` replaces the old one: one plug-in's keys mean nothing to another.
    """
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            renamed = "name" in old and value.get("name", old["name"]) != old["name"]
            value = value if renamed else overlay(old, value)
        merged[key] = value
    return merged


def laid_over(config: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Return a configuration with a file laid over it: of data/editions.yaml, the papers that it has.

    It raises SpecError if the file can't be read.
    """
    changes, known = configuration(file), config.get("papers")
    papers = changes.get("papers")
    if file.parts[-2:] == EDITIONS.parts and isinstance(known, Mapping) and isinstance(papers, Mapping):
        changes["papers"] = {key: value for key, value in papers.items() if key in known}
    return overlay(config, changes)


def _reduced(base: Mapping[str, Any], scale: ScaleParams, where: str, paper: str) -> PaperParams:
    where = f"{where}.papers.{paper}"
    changes = dict(scale.papers.get(paper, {}))
    if scale.seeds is not None:
        changes.setdefault("seeds", list(scale.seeds))
    reduced = validate(PaperParams, overlay(base, changes), where)
    if scale.one_process and reduced.seeds != scale.seeds:
        raise SpecError(f"{where}.seeds: set, but one_process needs the same seeds everywhere")
    for group in ("regimes", "datasets", "algorithms"):
        for name in changes.get(group, {}):
            require_known(f"{where}.{group}", name, base[group])
    return reduced


def require_known(where: str, name: str, known: Mapping[str, Any]) -> None:
    """Refuse a name that is not defined; ``where`` is the key that gives it."""
    if name not in known:
        raise SpecError(f"{where}: got '{name}', which is not defined{suggestion(name, known)}")


def _joined(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the configuration with the rows that plug-in files ask for; its own values win."""
    papers = config.get("papers")
    if not isinstance(papers, Mapping):
        return config
    papers = dict(papers)
    for path, module in contributed("algorithm").items():
        for name, options in _asked(path, module).items() if hasattr(module, "PAPERS") else ():
            if name not in papers:
                hint = suggestion(name, papers)
                raise SpecError(f"{path}: PAPERS has the paper {name!r}, which is not defined{hint}")
            paper, row = papers[name], module.PLUGIN.name
            rows = paper.get("algorithms") if isinstance(paper, Mapping) else None
            if isinstance(rows, Mapping) and row not in rows:
                papers[name] = {**paper, "algorithms": {**rows, row: dict(options)}}
    return {**config, "papers": papers}


def _asked(path: Path, module: Any) -> Mapping[str, Mapping[str, Any]]:
    papers = module.PAPERS
    if not isinstance(papers, Mapping) or not all(isinstance(entry, Mapping) for entry in papers.values()):
        raise SpecError(f"{path}: PAPERS is {papers!r}, expected keys by paper, such as {{'rfedavg': {{}}}}")
    if not hasattr(module, "PLUGIN"):
        raise SpecError(f"{path}: PAPERS without PLUGIN, so it is not clear which algorithm joins")
    return papers
