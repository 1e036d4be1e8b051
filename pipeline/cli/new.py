"""`fedcore study new` and `fedcore paper new`: your own question, or another paper, that builds as it is."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from fedcore.base import core_yaml
from fedcore.base.errors import SpecError, say
from fedcore.base.files import write_text
from fedcore.base.options import keys_of
from fedcore.base.registry import NAME, chosen, find
from fedcore.partitions import PartitionOptions
from fedcore.spec import load as load_run
from pipeline.catalogue.params import RESERVED, STUDIES, StudyError, configuration, load, study_names
from pipeline.claims.ledger import PAPERS
from pipeline.cli.names import ALGORITHMS, DATA, PARAMS, TEMPLATES
from pipeline.papers import build_catalogue
from pipeline.reports import style
from pipeline.reports.render import rendered

study = typer.Typer(
    help="Studies: tables and figures of your own question, from one file. Example: "
    "fedcore study new skew --data mnist --edition demo --methods fedavg,fedprox; fedcore build skew",
    no_args_is_help=True,
    add_completion=False,
)
paper = typer.Typer(
    help="Papers: another paper's tables and figures, from a folder and a section of params.yaml. Example: "
    "fedcore paper new mini --data mnist --edition demo; fedcore build mini",
    no_args_is_help=True,
    add_completion=False,
)
Data = Annotated[str, typer.Option(help="Data sets, with commas between.", autocompletion=DATA)]
Methods = Annotated[str, typer.Option(help="Algorithms, with commas between.", autocompletion=ALGORITHMS)]
PARTITION, CLIENTS, ROUNDS = "dirichlet:0.1", 10, 20
Partitions = Annotated[
    str | None,
    typer.Option(help="Partitions, with their first key's value: dirichlet:0.1,iid.", show_default=PARTITION),
]
Seeds = Annotated[int, typer.Option(min=1, help="How many seeds.")]
Clients = Annotated[int | None, typer.Option(min=1, help="How many clients.", show_default=str(CLIENTS))]
Rounds = Annotated[
    int | None, typer.Option(min=1, help="How many communication rounds.", show_default=str(ROUNDS))
]
Edition = Annotated[str, typer.Option(help="Edition of the data sets: demo ships with the code.")]
MODELS = {"images": "{name: cnn}", "text": "{name: lstm}", "numbers": "{name: mlp, hidden: [64]}"}
SMALL = {
    "images": "{name: cnn, channels: [8, 16], hidden: 64} # small, as the data are: else [32, 64] and 512",
    "text": "{name: lstm, hidden: 64} # small, as the data are: else 256",
}
SCALES = "\nscales:\n"


@study.callback()
@paper.callback()
def _groups() -> None:
    """Make `new` a command of its own."""


@study.command("new")
def new_study(
    name: Annotated[str, typer.Argument(help="The study's name: the file is studies/NAME.yaml.")],
    data: Data = "",
    methods: Methods = "fedavg,fedprox,scaffold",
    partition: Partitions = None,
    seeds: Seeds = 5,
    clients: Clients = None,
    rounds: Rounds = None,
    edition: Edition = "",
    like: Annotated[Path | None, typer.Option(help="A run's file: data, model, partition, training")] = None,
) -> None:
    """Write studies/NAME.yaml, with comments and the plug-ins' defaults, which `fedcore build NAME` builds.

    Example: fedcore study new skew --data mnist --partition dirichlet:0.1,iid --methods fedavg,moon
    """
    path = Path(STUDIES, f"{name}.yaml")
    if re.fullmatch(NAME, name) is None:
        raise SpecError(f"NAME: got '{name}', expected a name of the form {NAME}")
    if path.exists():
        raise SpecError(f"{path}: is there already, expected a new name")
    if bool(like) == bool(data):
        raise SpecError("--data, --like: expected one of them")
    settings = _like(like) if like else _settings(data, partition, edition, rounds)
    given = {"partition": partition, "edition": edition, "rounds": rounds, "clients": clients}
    for key in settings.get("has", ()):
        if given[key]:
            raise SpecError(f"--{key}: given beside --like, whose run has its own")
    values = _asked(methods, settings, name=name, seeds=seeds, clients=clients or CLIENTS)
    write_text(path, _valid(values, path))
    say(f"wrote {path}", f"uv run fedcore build {name}")


@paper.command("new")
def new_paper(
    name: Annotated[str, typer.Argument(help="The paper's name: the folder is pipeline/papers/NAME.")],
    data: Data,
    title: Annotated[str, typer.Option(help="The paper's title.")] = "A Paper",
    methods: Methods = "fedavg",
    partition: Partitions = None,
    seeds: Seeds = 3,
    clients: Clients = None,
    rounds: Rounds = None,
    edition: Edition = "",
) -> None:
    """Write a paper's folder and its section of params.yaml, which `fedcore build NAME` builds.

    They have a table and a figure of all methods, data sets and partitions. README.md, published.csv and
    claims.yaml are there to be filled.

    Example: fedcore paper new mini --data mnist --partition similarity:0.0,iid --methods fedavg,fedprox
    """
    folder, text = PAPERS / name, PARAMS.read_text(encoding="utf-8")
    if re.fullmatch(NAME, name) is None or name in RESERVED:
        raise SpecError(f"NAME: got '{name}', expected a name of the form {NAME} but {', '.join(RESERVED)}")
    if folder.exists() or re.search(rf"(?m)^  {name}:", text) or name in study_names():
        raise SpecError(f"NAME: '{name}' is there already, expected a new name")
    if text.count(SCALES) != 1:
        raise SpecError(f"{PARAMS}: expected the line 'scales:' once, before which the section goes")
    settings = _settings(data, partition, edition, rounds)
    values = _asked(methods, settings, name=name, seeds=seeds, clients=clients or CLIENTS)
    try:
        _valid(values, Path(STUDIES, f"{name}.yaml"))
    except StudyError as error:
        raise SpecError(str(error).partition(": ")[2]) from None
    values["title"] = " ".join(title.split()).translate({ord('"'): "'", ord("\\"): "/"})
    files = sorted(path.stem for path in (TEMPLATES / "new_paper").iterdir())
    contents = {file: rendered(f"new_paper/{file}", values, TEMPLATES) for file in files}
    new_text = text.replace(SCALES, f"\n{contents.pop(PARAMS.name)}{SCALES}")
    load(core_yaml.parsed(new_text, str(PARAMS)))
    for file, content in contents.items():
        write_text(folder / file, content)
    write_text(PARAMS, new_text)
    say(f"wrote {os.path.relpath(folder)} and its section of {PARAMS}", f"uv run fedcore build {name}")


def _valid(values: Mapping[str, Any], path: Path) -> str:
    """Return a study's text, or raise SpecError if it makes no valid run."""
    text = rendered("new_study.yaml", values, TEMPLATES)
    config = {**configuration(PARAMS), "studies": {str(path): core_yaml.parsed(text, str(path))}}
    build_catalogue(config).planned(path.stem)
    return text


def _asked(methods: str, settings: dict[str, Any], seeds: int, **more: Any) -> dict[str, Any]:
    """Return what the templates show: settings, and methods with their defaults or the settings' options."""
    rows = {name: find("algorithm", name, "--methods") for name in _several("--methods", methods)}
    given = settings.get("options", {})
    options = {name: given.get(name) or _numbers(plugin.options) for name, plugin in rows.items()}
    labels = {name: style.label(name) for name in rows}
    return {**settings, **more, "seeds": [*range(seeds)], "rows": options, "labels": labels}


def _settings(data: str, partitions: str | None, edition: str, rounds: int | None) -> dict[str, Any]:
    """Return the settings that a command line names."""
    texts = _several("--partition", partitions or PARTITION)
    splits = {re.sub(r"\W", "_", text): _split(text) for text in texts}
    if len(splits) < len(texts):
        raise SpecError(f"--partition: got '{partitions}', expected names that differ in letters and digits")
    return {
        "sets": {name: _dataset(name, edition) for name in _several("--data", data)},
        "splits": splits,
        "renamed": {key: split["label"] for key, split in splits.items() if split["label"] != key},
        "training": {"rounds": rounds or ROUNDS, "local_epochs": 1, "batch_size": 20, "lr": 0.1},
    }


def _like(path: Path) -> dict[str, Any]:
    """Return the settings of a run's specification, and its algorithm's options."""
    load_run(path)
    run = {"partition": {"name": "given"}} | core_yaml.read(path, "specification")
    algorithm = run["algorithm"]
    return {
        "sets": {run["data"]["name"]: {key: run[key] for key in ("data", "model")}},
        "splits": {run["partition"]["name"]: {"section": run["partition"], "choices": ""}},
        "training": run["training"],
        "fraction": run.get("participation", {}).get("fraction", 1.0),
        "common": {key: run[key] for key in ("dtype", "precision", "engine") if key in run},
        "options": {algorithm.pop("name"): algorithm},
        "has": ("partition", "edition", "rounds", *({"clients"} & {*run["partition"]})),
    }


def _several(option: str, names: str) -> list[str]:
    if not (several := list(dict.fromkeys(filter(None, map(str.strip, names.split(",")))))):
        raise SpecError(f"{option}: got '{names}', expected a name or more")
    return several


def _numbers(options: Any) -> dict[str, Any]:
    values = {field.alias or key: field.default for key, field in options.model_fields.items()}
    return {key: value for key, value in values.items() if type(value) in (int, float)}


def _split(text: str) -> dict[str, Any]:
    """Return a partition's name in print, its section, and a comment on the choices that there were."""
    name, _, value = text.partition(":")
    options = find("partition", name, "--partition").options
    keys = [key for key in keys_of(options) if key not in {"clients", *keys_of(PartitionOptions)}]
    if value and not keys:
        raise SpecError(f"--partition: got '{text}', expected {name} without a value")
    section = {"name": name, **({keys[0]: core_yaml.parsed(value, "--partition")} if value else {})}
    choices = ""
    for key, field in options.model_fields.items():
        if field.is_required() and get_origin(field.annotation) is Literal:
            section[key], *others = get_args(field.annotation)
            choices = f"{name}'s {key} may also be {', '.join(others)}"
    label = f"{name}, {keys[0]} = {value}" if value else name
    return {"label": label, "section": section, "choices": choices}


def _dataset(name: str, edition: str) -> dict[str, Any]:
    plugin, section = find("data", name, "--data"), {"name": name}
    if keys := [key for key, field in plugin.options.model_fields.items() if field.is_required()]:
        raise SpecError(f"--data: '{name}' needs {', '.join(keys)}; use `fedcore study new --like RUN.yaml`")
    if "edition" in plugin.options.model_fields:
        section["edition"] = edition or "full"
    size = plugin.size(chosen("data", section).options) if plugin.size else None
    kind = "numbers" if size is None or len(size.inputs) < 3 else "images"
    models = MODELS | SMALL if section.get("edition") == "demo" else MODELS
    return {"data": section, "model": models["text" if size and size.vocabulary else kind]}
