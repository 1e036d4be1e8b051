"""What is generated from the schema: params.schema.json and study.schema.json for editors, docs/params.md."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import get_args, get_origin

from pydantic import BaseModel

from fedcore.cli.describe import allowed, default_of
from pipeline.catalogue.schema import EvaluationParams, PaperParams, Params, StudyParams, TrainingParams
from pipeline.reports.render import md_table, rendered

GROUPS = {"training": TrainingParams, "evaluation": EvaluationParams}


def schema_json(model: type[BaseModel] = Params, title: str = "params.yaml") -> str:
    """Return the JSON schema of params.yaml, or of a study's file."""
    document = model.model_json_schema(by_alias=True)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    return json.dumps(document | head, indent=2).replace(r"\n", " ") + "\n"


def key_page() -> str:
    """Return the page that explains each key of params.yaml."""
    paper_keys = {key for key, *_ in _every(PaperParams)}
    study = (line for line in _every(StudyParams) if line[0] not in paper_keys)
    groups = (line for name, model in GROUPS.items() for line in keys(model, name))
    values = {"params": table(_every(Params)), "groups": table(groups), "study": table(study)}
    return rendered("params.md", values, Path(__file__).parent)


FILES: Mapping[str, Callable[[], str]] = {
    "params.schema.json": schema_json,
    "study.schema.json": partial(schema_json, StudyParams, "a study"),
    "docs/params.md": key_page,
}


def table(lines: Iterable[Iterable[str]]) -> str:
    """Return lines of ``keys`` as a Markdown table."""
    return md_table(("key", "default", "values", "meaning"), lines)


def keys(model: type[BaseModel], where: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Yield a model's keys, with ``where`` before them: name, default, values and meaning, in Markdown."""
    document = model.model_json_schema(by_alias=True)
    for (key, schema), field in zip(document["properties"].items(), model.model_fields.values(), strict=True):
        shown = "" if isinstance(schema.get("default"), dict) else f"`{default_of(schema)}`"
        default = "required" if field.is_required() else shown
        values, text = (cell.replace("|", "\\|") for cell in (allowed(schema), field.description or ""))
        yield f"`{where}.{key}`".replace("`.", "`"), default, values, " ".join(text.split())


def _every(model: type[BaseModel], where: str = "") -> Iterator[tuple[str, str, str, str]]:
    for line, field in zip(keys(model, where), model.model_fields.values(), strict=True):
        yield line
        path, below = line[0].strip("`"), field.annotation
        if get_origin(below) is dict:
            path, below = f"{path}.<name>", get_args(below)[1]
        if isinstance(below, type) and issubclass(below, BaseModel) and below not in GROUPS.values():
            yield from _every(below, path)
