"""The reference: command lines, a run's specification and plug-ins, from what they say about themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from pydantic import BaseModel
from typer import Context
from typer.cli import get_docs_for_click
from typer.main import get_command

from fedcore.base.registry import plugins
from fedcore.cli.descriptions import KINDS, allowed, describe, written
from fedcore.cli.main import app
from fedcore.spec import Evaluation, LrSchedule, Participation, Spec, Training

COMMANDS = """# The command line

This page is for readers who look up a command or an option. It shows the text of `--help`. `fedcore` is the
one command: the library brings the commands that run and look, and a checkout adds those that build and keep
the papers' reports. `python -m pipeline` is the old name of the latter; both work. An error of the user gives
one line and exit code 2. `fedcore --install-completion` teaches your shell (bash, zsh or fish) to complete
commands, options, reports, algorithms and data sets. With `--json`, commands print the
[keys of this table](../results.md#what-commands-print-as-json). Without a terminal, or with `NO_COLOR`, there
are no colours.
"""
SPECIFICATION = """# A run's specification

This page is for readers who write a specification.

One YAML file holds everything that determines a run's numbers, and nothing else: no paths of results, no
devices, no cores. `fedcore run spec.yaml` checks it before anything is loaded. An error names the key, the
value found and the value expected. Defaults are filled in before hashing, so equal meanings have equal
hashes. The file is YAML 1.2 with its core types. Only `true` and `false` are booleans, and booleans are not
numbers; `yes`, `on` and dates are text. Anchors and merge keys work. A key given twice is an error, and so
is a file of more than 1 MB.

```yaml title="spec.yaml"
data: {name: mnist, edition: demo}
partition: {name: similarity, clients: 10, similarity: 0.1}
model: {name: mlp, hidden: [64]}
algorithm: {name: fedprox, mu: 0.1}
training: {rounds: 3, local_epochs: 1, batch_size: 20, lr: 0.1}
participation: {fraction: 0.5}
evaluation: {every: 1, clients: true}
seed: 3
```

`data`, `partition`, `model` and `algorithm` hold the `name` of a plug-in and the keys of this plug-in
([all plug-ins](plugins.md)).
"""
SECTIONS: dict[str, type[BaseModel]] = {
    "": Spec,
    "training": Training,
    "training.lr_schedule": LrSchedule,
    "participation": Participation,
    "evaluation": Evaluation,
}


def commands_page() -> str:
    """Return the page: every command with its arguments and options, in the groups of the help."""
    group: Any = get_command(app)
    found = [COMMANDS]
    for panel, places in groupby(group.commands.places.items(), key=lambda item: item[1][0]):
        found.append(f"## {panel}\n")
        for name, _ in places:
            command = group.commands[name]
            context = Context(command)
            found.append(get_docs_for_click(obj=command, ctx=context, indent=2, name=f"fedcore {name}"))
    return "\n".join(found)


PLUGINS = """# Plug-ins

This page is for readers who look up a plug-in. It shows everything that a specification can name, as
`fedcore describe NAME` prints it: parts, keys with defaults and ranges, what is sent, and the source of each
definition. `fedcore list` prints all names.
"""


def specification_page() -> str:
    """Return the page on a specification's keys."""
    found = [SPECIFICATION]
    for where, model in SECTIONS.items():
        found += [
            f"## {f'`{where}`' if where else 'The top level'}",
            "",
            inspect.cleandoc(model.__doc__ or ""),
        ]
        found += ["", "| key | default | values | meaning |", "|:--|:--|:--|:--|", *_rows(model, where), ""]
    return "\n".join(found)


def plugins_page() -> str:
    """Return the page on plug-ins."""
    found = [PLUGINS]
    for title, kind in KINDS.items():
        found.append(f"## {title.capitalize()}\n")
        for name in sorted(plugins(kind)):
            found.append(f"### {name}\n\n```text\n{describe(name)}\n```\n")
    return "\n".join(found)


def _rows(model: type[BaseModel], where: str) -> Iterator[str]:
    made = model.model_json_schema(by_alias=True)
    for key, schema in made["properties"].items():
        default = "required" if key in made.get("required", ()) else f"`{written(schema)}`"
        values = allowed(schema).replace("|", "\\|")
        name = f"{where}.{key}".strip(".")
        yield f"| `{name}` | {default} | {values} | {schema.get('description', '')} |"
