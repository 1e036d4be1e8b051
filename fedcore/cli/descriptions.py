"""What can be run, in words: lists of plug-ins, and one plug-in's parts, keys, messages and source."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from fedcore.algorithms import example
from fedcore.base.errors import SpecError
from fedcore.base.options import Options, nearest
from fedcore.base.registry import PACKAGES, Plugin, plugins
from fedcore.cli.options import columns
from fedcore.parts import Part, Recipe, roles

KINDS = {
    "algorithms": "algorithm",
    "models": "model",
    "data": "data",
    "partitions": "partition",
    "observers": "observer",
}
PLAIN = "-"


def listing(kind: str) -> str:
    """Return the plug-ins of one kind, such as ``algorithms`` (see ``KINDS``), one per line.

    Raises:
        SpecError: there is no such kind.
    """
    rows = [tuple(entry.values()) for entry in entries(kind)]
    head = [("NAME", "PARTS (besides FedAvg's)", "WHAT IT DOES")] if kind == "algorithms" else []
    return columns([*head, *rows])


def entries(kind: str) -> list[dict[str, str]]:
    """Return the name and the summary of each plug-in of one kind, and the parts of algorithms.

    Raises:
        SpecError: there is no such kind.
    """
    if kind not in KINDS:
        raise SpecError(f"list: no kind {kind!r}{nearest(kind, KINDS)}; known: {', '.join(KINDS)}")
    known = plugins(KINDS[kind])
    if kind != "algorithms":
        return [{"name": name, "summary": plugin.summary} for name, plugin in known.items()]
    return [
        {"name": name, "parts": composition(example(name)), "summary": plugin.summary}
        for name, plugin in sorted(known.items())
    ]


def composition(recipe: Recipe) -> str:
    """Return the labels of the parts in which a recipe differs from FedAvg, joined by ``+``."""
    ground = {type(part) for _, part in roles(example("fedavg"))}
    labels = [part.label for _, part in roles(recipe) if type(part) not in ground]
    return " + ".join(dict.fromkeys(labels)) or "none"


def describe(name: str) -> str:
    """Return all there is to know about a plug-in as text."""
    kind, plugin = named(name)
    sections = algorithm_sections(plugin) if kind == "algorithm" else options_sections(plugin)
    return "\n".join([f"{name} ({kind}): {plugin.summary}", f"Source: {plugin.source}", *sections])


def facts(name: str) -> dict[str, Any]:
    """Return what ``describe`` says as values: options as JSON schema, an algorithm's parts and messages."""
    kind, plugin = named(name)
    found = {"name": name, "kind": kind, "summary": plugin.summary, "source": plugin.source}
    options = {"options": plugin.options.model_json_schema()["properties"], "released": plugin.released}
    if kind != "algorithm":
        return found | options
    recipe = example(name)
    parts = [{"role": role, "label": part.label, "values": values(part)} for role, part in roles(recipe)]
    return found | options | {"parts": parts, **messages(recipe)}


def messages(recipe: Recipe) -> dict[str, list[str]]:
    """Return what goes down to a client of the cohort and up from it in each round, in words."""
    model = ["the model"] if recipe.schedule.federated else []
    sent = {"down": [*model], "up": [*model]}
    for message in recipe.messages():
        sent[message.way].append(message.name)
    return sent


def named(name: str) -> tuple[str, Plugin]:
    """Return the kind of a plug-in and the plug-in, looked for among algorithms first.

    Raises:
        SpecError: nothing has that name; the nearest known one is suggested.
    """
    for kind in PACKAGES:
        if name in plugins(kind):
            return kind, plugins(kind)[name]
    raise SpecError(f"describe: nothing is named {name!r}{nearest(name, names())}; see 'fedcore list'")


def names() -> list[str]:
    """Return the names of all plug-ins."""
    return [name for kind in PACKAGES for name in plugins(kind)]


def algorithm_sections(plugin: Plugin) -> Iterator[str]:
    """Yield the sections that describe an algorithm: parts, hyperparameters, messages, variants."""
    recipe = example(plugin.name)
    yield "\nParts"
    for role, part in roles(recipe):
        yield f"  {role}: {shown(part)}"
        yield from indented(part_documentation(part), 6)
    yield from options_sections(plugin)
    yield "\nEach round, for every client of the cohort"
    for way, sent in messages(recipe).items():
        yield f"  {way + ':':5} {'; '.join(sent) or 'nothing'}"
    if plugin.released:
        yield "\nvariant: released"
        yield f"  {plugin.released}"
        yield from indented("\n".join(changes(recipe, example(plugin.name, variant="released"))), 2)


def options_sections(plugin: Plugin) -> Iterator[str]:
    """Yield the section that describes a plug-in's keys: default, range, and what they mean."""
    properties = plugin.options.model_json_schema()["properties"]
    if not properties:
        yield "\nHyperparameters: none of its own"
        return
    yield "\nHyperparameters"
    rows = [(key, f"default {written(schema)}", allowed(schema)) for key, schema in properties.items()]
    yield from indented(columns(rows), 2)
    for base in reversed(plugin.options.__mro__):
        own = (
            issubclass(base, Options) and base is not Options and set(base.__annotations__) & set(properties)
        )
        if own or base is plugin.options:
            yield from indented(documentation(base), 2)


def changes(paper: Recipe, released: Recipe) -> Iterator[str]:
    """Yield what differs between two recipes, role by role: a part, or the values of one that stays."""
    before, after = grouped(paper), grouped(released)
    for role in dict.fromkeys([*before, *after]):
        old, new = before.get(role, []), after.get(role, [])
        if [type(part) for part in old] != [type(part) for part in new]:
            yield f"{role}: {' + '.join(map(shown, old)) or PLAIN} -> {' + '.join(map(shown, new)) or PLAIN}"
            continue
        for one, other in zip(old, new, strict=True):
            was, now = values(one), values(other)
            moved = [f"{name}={was[name]} -> {now[name]}" for name in was if was[name] != now[name]]
            if moved:
                yield f"{role}: {one.label}, {', '.join(moved)}"


def grouped(recipe: Recipe) -> dict[str, list[Part]]:
    """Return each role's parts."""
    found: dict[str, list[Part]] = {}
    for role, part in roles(recipe):
        found.setdefault(role, []).append(part)
    return found


def shown(part: Part) -> str:
    """Return a part's label with its values."""
    text = ", ".join(f"{name}={value}" for name, value in values(part).items())
    return f"{part.label} ({text})" if text else part.label


def values(part: Part) -> dict[str, str]:
    """Return a part's values by name, as text; parts inside it by their labels."""
    names: list[str] = (
        [field.name for field in fields(part) if field.name != "label"] if is_dataclass(part) else []
    )
    found = {name: getattr(part, name) for name in names}
    return {name: value.label if isinstance(value, Part) else str(value) for name, value in found.items()}


def part_documentation(part: Part) -> str:
    """Return a part's docstring, after those of the parts that it specialises."""
    lineage = [owner for owner in type(part).__mro__ if is_dataclass(owner)]
    return "\n".join(filter(None, map(documentation, reversed(lineage))))


def documentation(owner: type) -> str:
    """Return a class's own docstring without indentation, or the empty string."""
    return inspect.cleandoc(owner.__dict__.get("__doc__") or "")


def written(schema: Mapping[str, Any]) -> str:
    """Return an option's default as a specification writes it."""
    if "default" not in schema:
        return "none, must be given"
    return json.dumps(schema["default"]).strip('"')


def allowed(schema: Mapping[str, Any]) -> str:
    """Return what an option may be: its type with its range, or its choices."""
    if "anyOf" in schema:
        return " or ".join(allowed(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    bounds = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    limits = [f"{sign} {schema[key]:g}" for key, sign in bounds.items() if key in schema]
    return " ".join([str(schema.get("type", "values")), ", ".join(limits)]).strip()


def indented(text: str, width: int) -> Iterator[str]:
    """Yield the lines of a text, moved to the right."""
    yield from (" " * width + line if line else "" for line in text.splitlines())
