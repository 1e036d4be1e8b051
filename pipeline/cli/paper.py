"""`fedcore paper`: another paper, begun as a folder and a section of params.yaml that build as they are."""

from __future__ import annotations

import os
import re
from pathlib import Path
from textwrap import indent
from typing import Annotated

import typer

from fedcore.base import core_yaml
from fedcore.base.errors import SpecError, say
from fedcore.base.files import write_text
from pipeline.catalogue.params import RESERVED, load
from pipeline.catalogue.schema import KEY
from pipeline.cli import study
from pipeline.cli.names import PARAMS
from pipeline.papers import FOLDER

app = typer.Typer(
    help="Papers: another paper's tables and figures, from a folder and a section of params.yaml. Example: "
    "fedcore paper new mini --data mnist --edition demo; fedcore build mini",
    no_args_is_help=True,
    add_completion=False,
)
SCALES = "\nscales:\n"
SECTION = "params.yaml"
TEMPLATES = Path(__file__).with_name("new_paper")


@app.callback()
def _papers() -> None:
    """Make `new` a command of its own."""


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="The paper's name: the folder is pipeline/papers/NAME.")],
    data: study.Data,
    title: Annotated[str, typer.Option(help="The paper's title.")] = "A Paper",
    methods: study.Methods = "fedavg",
    partition: study.Partitions = "dirichlet:0.1",
    seeds: study.Seeds = 3,
    clients: study.Clients = 10,
    rounds: study.Rounds = 20,
    edition: study.Edition = "",
) -> None:
    """Write a paper's folder and its section of params.yaml, which `fedcore build NAME` builds.

    They have a table and a figure of all methods, data sets and partitions. README.md, published.csv and
    claims.yaml are there to be filled.

    Example: fedcore paper new mini --data mnist --partition similarity:0.0,iid --methods fedavg,fedprox
    """
    folder, text = FOLDER / name, PARAMS.read_text(encoding="utf-8")
    if re.fullmatch(KEY, name) is None or name in RESERVED:
        raise SpecError(f"NAME: got '{name}', expected a name of the form {KEY} but {', '.join(RESERVED)}")
    if folder.exists() or re.search(rf"(?m)^  {name}:", text):
        raise SpecError(f"NAME: '{name}' is there already, expected a new name")
    if text.count(SCALES) != 1:
        raise SpecError(f"{PARAMS}: expected the line 'scales:' once, before which the section goes")
    sets, splits = study.several(data), study.splits_of(partition)
    parts = study.sections(sets, study.several(methods), splits, seeds, edition)
    parts |= {key: indent(parts[key], "    ") for key in ("datasets", "algorithms", "choices")}
    labels = {key: label for key, (label, *_) in splits.items()}
    known = {"own_datasets": _quoted({key: key for key in sets}), "own_splits": _quoted(labels)}
    title = title.translate({ord('"'): "'", ord("\\"): "/"})
    told = {"name": name, "title": title, "clients": clients, "rounds": rounds, **known, **parts}
    made = {path.stem: path.read_text(encoding="utf-8").format(**told) for path in TEMPLATES.iterdir()}
    whole = text.replace(SCALES, f"\n{made.pop(SECTION)}{SCALES}")
    load(core_yaml.parsed(whole, str(PARAMS)))
    for file, content in made.items():
        write_text(folder / file, content)
    write_text(PARAMS, whole)
    say(f"wrote {os.path.relpath(folder)} and its section of {PARAMS}", f"uv run fedcore build {name}")


def _quoted(names: dict[str, str]) -> str:
    """Return names as Python writes them, with the quotes that Ruff's format has."""
    return str(names).replace("'", '"')
