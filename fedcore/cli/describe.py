"""``fedcore list`` and ``fedcore describe``: plug-ins, and one plug-in's parts, keys, messages and source."""

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from textwrap import indent
from typing import Annotated, Any

import typer

from fedcore.algorithms import example
from fedcore.base.errors import SpecError, columns
from fedcore.base.options import Options, nearest
from fedcore.base.registry import PACKAGES, Plugin, plugins
from fedcore.cli.options import Json, completing, show
from fedcore.parts import Part, Recipe, roles

KINDS = {name: name.removesuffix("s") for name in ("algorithms", "models", "data", "partitions", "observers")}


def list_plugins(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="algorithms, models, data, partitions or observers.", autocompletion=completing(KINDS.keys)
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print what a specification can name: algorithms with their parts, models, data, partitions, observers.

    Example: fedcore list algorithms
    """
    text = listing(kind) if kind else "\n\n".join(f"{key.capitalize()}\n{listing(key)}" for key in KINDS)
    show(as_json, {key: _entries(key) for key in ([kind] if kind else KINDS)}, text.split("\n"))


def describe(
    name: Annotated[
        str | None,
        typer.Argument(help="A name from 'fedcore list'.", autocompletion=completing(lambda: _names())),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print a plug-in's parts, keys with ranges and defaults, source, messages, and variants.

    Example: fedcore describe scaffold
    """
    if name is None:
        raise SpecError("describe: expected a name from 'fedcore list'")
    show(as_json, _facts(name), description(name).split("\n"))


def listing(kind: str) -> str:
    """Return the plug-ins of one kind, such as ``algorithms`` (see ``KINDS``), one per line."""
    head = [("NAME", "PARTS (besides FedAvg's)", "WHAT IT DOES")] if kind == "algorithms" else []
    return columns([*head, *(tuple(entry.values()) for entry in _entries(kind))])


def _entries(kind: str) -> list[dict[str, str]]:
    if kind not in KINDS:
        raise SpecError(f"list: no kind {kind!r}{nearest(kind, KINDS)}; known: {', '.join(KINDS)}")
    known = plugins(KINDS[kind])
    if kind != "algorithms":
        return [{"name": name, "summary": plugin.summary} for name, plugin in known.items()]
    ground, rows = {type(part) for _, part in roles(example("fedavg"))}, []
    for name, plugin in sorted(known.items()):
        recipe, _ = _example(name)
        parts = [] if recipe is None else [part for _, part in roles(recipe) if type(part) not in ground]
        labels = " + ".join(dict.fromkeys(part.label for part in parts)) or "none"
        rows.append({"name": name, "parts": "-" if recipe is None else labels, "summary": plugin.summary})
    return rows


def _example(name: str) -> tuple[Recipe | None, str]:
    """Return an algorithm's recipe with its defaults, or None and why it has none."""
    try:
        return example(name), ""
    except SpecError as error:
        return None, str(error)


def description(name: str) -> str:
    """Return all there is to know about a plug-in as text."""
    kind, plugin = _named(name)
    sections = _of_algorithm(plugin) if kind == "algorithm" else _of_options(plugin)
    return "\n".join([f"{name} ({kind}): {plugin.summary}", f"Source: {plugin.source}", *sections])


def _facts(name: str) -> dict[str, Any]:
    """Return what ``description`` says as values, options as JSON schema."""
    kind, plugin = _named(name)
    facts = {"name": name, "kind": kind, "summary": plugin.summary, "source": plugin.source}
    facts |= {"options": plugin.options.model_json_schema()["properties"], "released": plugin.released}
    recipe = _example(name)[0] if kind == "algorithm" else None
    if recipe is None:
        return facts
    parts = [{"role": role, "label": part.label, "values": _values(part)} for role, part in roles(recipe)]
    return {**facts, "parts": parts, **_messages(recipe)}


def _messages(recipe: Recipe) -> dict[str, list[str]]:
    model = ["the model"] if recipe.schedule.federated else []
    sent = {"down": [*model], "up": [*model]}
    for message in recipe.messages():
        sent[message.way].append(message.name)
    return sent


def _named(name: str) -> tuple[str, Plugin]:
    for kind in PACKAGES:
        if name in plugins(kind):
            return kind, plugins(kind)[name]
    raise SpecError(f"describe: nothing is named {name!r}{nearest(name, _names())}; see 'fedcore list'")


def _names() -> list[str]:
    return [name for kind in PACKAGES for name in plugins(kind)]


def _of_algorithm(plugin: Plugin) -> Iterator[str]:
    recipe, why = _example(plugin.name)
    if recipe is None:
        yield from _of_options(plugin)
        yield f"\nParts: they depend on values that must be given ({why})"
        return
    yield "\nParts"
    for role, part in roles(recipe):
        yield f"  {role}: {_shown(part)}"
        lineage = [_documentation(owner) for owner in type(part).__mro__[::-1] if is_dataclass(owner)]
        yield from _indented("\n".join(filter(None, lineage)), 6)
    yield from _of_options(plugin)
    yield "\nEach round, for every client of the cohort"
    for way, sent in _messages(recipe).items():
        yield f"  {way + ':':5} {'; '.join(sent) or 'nothing'}"
    if plugin.released:
        yield f"\nvariant: released\n  {plugin.released}"
        yield from _indented("\n".join(changes(recipe, example(plugin.name, variant="released"))), 2)


def _of_options(plugin: Plugin) -> Iterator[str]:
    properties = plugin.options.model_json_schema()["properties"]
    if not properties:
        yield "\nHyperparameters: none of its own"
        return
    yield "\nHyperparameters"
    rows = [(key, f"default {default_of(schema)}", allowed(schema)) for key, schema in properties.items()]
    yield from _indented(columns(rows), 2)
    for base in reversed(plugin.options.__mro__):
        keys = issubclass(base, Options) and base is not Options and base.__annotations__.keys() & properties
        if keys or base is plugin.options:
            yield from _indented(_documentation(base), 2)


def changes(paper: Recipe, released: Recipe) -> Iterator[str]:
    """Yield what differs between two recipes, role by role: a part, or the values of one that stays."""
    for role in dict.fromkeys(role for recipe in (paper, released) for role, _ in roles(recipe)):
        old, new = ([part for its, part in roles(recipe) if its == role] for recipe in (paper, released))
        if [type(part) for part in old] != [type(part) for part in new]:
            yield f"{role}: {' + '.join(map(_shown, old)) or '-'} -> {' + '.join(map(_shown, new)) or '-'}"
            continue
        for old_part, new_part in zip(old, new, strict=True):
            was, now = _values(old_part), _values(new_part)
            moved = [f"{name}={was[name]} -> {now[name]}" for name in was if was[name] != now[name]]
            if moved:
                yield f"{role}: {old_part.label}, {', '.join(moved)}"


def _shown(part: Part) -> str:
    text = ", ".join(f"{name}={value}" for name, value in _values(part).items())
    return f"{part.label} ({text})" if text else part.label


def _values(part: Part) -> dict[str, str]:
    """Return a part's values by name, as text; parts inside it by their labels."""
    names = [key.name for key in fields(part)] if is_dataclass(part) else list[str]()
    values = {name: getattr(part, name) for name in names if name != "label"}
    return {name: value.label if isinstance(value, Part) else str(value) for name, value in values.items()}


def _documentation(owner: type) -> str:
    """Return a class's own docstring as a terminal shows it, or the empty string."""
    return inspect.cleandoc(owner.__dict__.get("__doc__") or "").replace("``", "`")


def default_of(schema: Mapping[str, Any]) -> str:
    """Return an option's default as a specification writes it."""
    return json.dumps(schema["default"]).strip('"') if "default" in schema else "none, must be given"


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
    kind = f"array of {allowed(schema['items'])}" if schema.get("items") else schema.get("type", "values")
    return " ".join(["section" if "$ref" in schema else kind, ", ".join(limits)]).strip()


def _indented(text: str, width: int) -> list[str]:
    return indent(text, " " * width).splitlines()
