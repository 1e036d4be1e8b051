"""`fedcore study`: a question of your own, begun as a file that builds as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from fedcore.base import core_yaml
from fedcore.base.errors import SpecError, say
from fedcore.base.files import write_text
from fedcore.base.options import keys_of
from fedcore.base.registry import chosen, find, plugins
from fedcore.cli.options import completing
from fedcore.partitions import PartitionOptions
from pipeline.catalogue.params import STUDIES, configuration
from pipeline.cli.names import PARAMS
from pipeline.papers import build_catalogue

app = typer.Typer(
    help="Studies: tables and figures of your own question, from one file. Example: "
    "fedcore study new skew --data mnist --edition demo --methods fedavg,fedprox; fedcore build skew",
    no_args_is_help=True,
    add_completion=False,
)
Data = Annotated[
    str,
    typer.Option(help="Data sets, with commas between.", autocompletion=completing(partial(plugins, "data"))),
]
Methods = Annotated[
    str,
    typer.Option(
        help="Algorithms, with commas between.", autocompletion=completing(partial(plugins, "algorithm"))
    ),
]
Partitions = Annotated[
    str, typer.Option(help="Partitions with the value of their first key, if it has one: dirichlet:0.1,iid.")
]
Seeds = Annotated[int, typer.Option(min=1, help="How many seeds.")]
Clients = Annotated[int, typer.Option(min=1, help="How many clients.")]
Rounds = Annotated[int, typer.Option(min=1, help="How many communication rounds.")]
Edition = Annotated[str, typer.Option(help="Edition of the data sets: demo ships with the code.")]
Split = tuple[str, dict[str, Any], str]
MODELS = {"images": "{name: cnn}", "text": "{name: lstm}", "numbers": "{name: mlp, hidden: [64]}"}
TEXT = """\
# yaml-language-server: $schema=../study.schema.json
#
# docs/studies.md explains studies, docs/params.md each key, and `fedcore describe NAME` a method, data set,
# model or partition. To build it: uv run fedcore build {name}

title: {title}
seeds: {seeds} # tests of significance need five or more
# The loss on all training rows costs as much as the training of a round; 0: never measured.
common: {{evaluation: {{train_every: 0}}}}
regimes:
  all_clients:
    clients: {clients}
    fraction: 1.0 # of the clients, which take part in a round
    training: {{rounds: {rounds}, local_epochs: 1, batch_size: 20, lr: 0.1}}
datasets: # each split of each data set is a column{choices}
{datasets}
algorithms: # each is a row
{algorithms}
# Values to try: keys of algorithm and training give rows; data, partition, model and participation columns.
# grid: {{training.lr: [0.03, 0.1], partition.clients: [10, 20]}}
# Values to search for on held-out rows: fedcore build {name}/tune_{first} and so on, then fedcore chosen.
# tune: {{how: quasirandom, trials: 8, over: {{training.lr: {{low: 0.001, high: 1.0, log: true}}}}}}
report:
  metric: accuracy # or f1, auc, loss
  target: null # for the cost, such as 0.8; null: what {base} ends with
  labels: {labels}
"""


@app.callback()
def _studies() -> None:
    """Make `new` a command of its own."""


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="The study's name: the file is studies/NAME.yaml.")],
    data: Data,
    methods: Methods = "fedavg,fedprox,scaffold",
    partition: Partitions = "dirichlet:0.1",
    seeds: Seeds = 5,
    clients: Clients = 10,
    rounds: Rounds = 20,
    edition: Edition = "",
) -> None:
    """Write studies/NAME.yaml, with comments and the plug-ins' defaults, which `fedcore build NAME` builds.

    Example: fedcore study new skew --data mnist --partition dirichlet:0.1,iid --methods fedavg,moon
    """
    path = Path(STUDIES, f"{name}.yaml")
    if path.exists():
        raise SpecError(f"{path}: is there already, expected a new name")
    rows, splits = several(methods), splits_of(partition)
    text = TEXT.format(
        name=name,
        title=f"{', '.join(map(_label, rows))} on {data.replace(',', ', ')}",
        clients=clients,
        rounds=rounds,
        first=rows[0],
        base=_label("fedavg" if "fedavg" in rows else rows[0]),
        labels=_flow({key: label for key, (label, *_) in splits.items() if label != key}),
        **sections(several(data), rows, splits, seeds, edition),
    )
    config = {**configuration(PARAMS), "studies": {str(path): core_yaml.parsed(text, str(path))}}
    _ = build_catalogue(config).index
    write_text(path, text)
    say(f"wrote {path}", f"uv run fedcore build {name}")


def sections(
    data: Iterable[str], rows: Iterable[str], splits: Mapping[str, Split], seeds: int, edition: str
) -> dict[str, str]:
    """Return the lines of seeds, data sets and algorithms, with plug-ins' defaults, and splits' choices."""
    return {
        "seeds": _flow([*range(seeds)]),
        "choices": "".join(dict.fromkeys(choices for *_, choices in splits.values())),
        "datasets": "\n".join(_dataset(own, edition, splits) for own in data),
        "algorithms": "\n".join(f"  {own}: {_flow(_numbers(own))}" for own in rows),
    }


def splits_of(partitions: str) -> dict[str, Split]:
    """Return partitions that a command line names, by the names that their splits get."""
    return {re.sub(r"\W", "_", own): _split(own) for own in several(partitions)}


def several(names: str) -> list[str]:
    """Return the names that commas part, each once."""
    return list(dict.fromkeys(filter(None, map(str.strip, names.split(",")))))


def _label(method: str) -> str:
    return find("algorithm", method, "--methods").label or method


def _numbers(method: str) -> dict[str, Any]:
    """Return the defaults of an algorithm's numbers, which are what one tries other values of."""
    options = find("algorithm", method, "--methods").options.model_fields.items()
    values = {field.alias or key: field.default for key, field in options}
    return {key: own for key, own in values.items() if type(own) in (int, float)}


def _split(asked: str) -> Split:
    """Return a partition's name in print, its section, and a comment on the choices that there were."""
    name, _, value = asked.partition(":")
    options = find("partition", name, "--partition").options
    keys = [key for key in keys_of(options) if key not in {"clients", *keys_of(PartitionOptions)}]
    if value and not keys:
        raise SpecError(f"--partition: got '{asked}', expected {name} without a value")
    section = {"name": name, **({keys[0]: core_yaml.parsed(value, "--partition")} if value else {})}
    choices = ""
    for key, field in options.model_fields.items():
        if field.is_required() and get_origin(field.annotation) is Literal:
            section[key], *others = get_args(field.annotation)
            choices = f"\n  # {name}'s {key} may also be {', '.join(others)}"
    label = f"{name}, {keys[0]} = {value}" if value else name
    return label, section, choices


def _dataset(name: str, edition: str, splits: Mapping[str, Split]) -> str:
    plugin, section = find("data", name, "--data"), {"name": name}
    if "edition" in plugin.options.model_fields:
        section["edition"] = edition or "full"
    size = plugin.size(chosen("data", section).options) if plugin.size else None
    kind = "numbers" if size is None or len(size.inputs) < 3 else "images"
    model = MODELS["text" if size and size.vocabulary else kind]
    lines = [f"  {name}:", f"    data: {_flow(section)}", f"    model: {model}", "    splits:"]
    return "\n".join([*lines, *(f"      {key}: {_flow(own)}" for key, (_, own, _) in splits.items())])


def _flow(value: Any) -> str:
    return core_yaml.written(value, flow=True).strip()
