"""A hash of the code that a result depends on: of the definitions that are reached by name.

A definition is a function, a class or a constant at the top of a module. From the definitions that begin a
job, names lead to others, through imports and attributes of modules, to all that the job can execute: here,
in plug-ins, and in modules of the user's that no package installed. What is hashed is the syntax of these
definitions without docstrings, comments, imports, names of modules and the annotations of functions; with a
call of ``declared`` also the facts in the YAML file beside the module, but for those that only describe. So a
definition may move to another module, and an edit of one that a job does not use changes nothing; an edit of
one that it does use changes the hash. Nothing is imported to find out.
"""

import ast
import hashlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from fedcore.base.errors import SpecError
from fedcore.base.files import canonical_json
from fedcore.base.registry import find
from fedcore.data.download import read_facts

HOME = Path(__file__).parents[2]
OURS = ("fedcore", "pipeline")
LAZY = "fedcore.base.lazy"  # its names stand for packages of others
CONTRIBUTED = "fedcore_plugins."
RUN = ("fedcore.spec:parse", "fedcore.execution.runner:execute")
PARTITION = ("fedcore.partitions.build:make", "fedcore.partitions.file:identity", "fedcore.partitions.stats")
INNER_IMPORT = re.compile(r"^[ \t]+(from [\w.]+ import|import [\w.]+)\b", re.MULTILINE)
UNSEEN = frozenset({"ctx", "returns", "type_comment", "kind", "type_ignores", "simple"})
NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
ASSIGNMENT = (ast.Assign, ast.AnnAssign, ast.AugAssign)
BLOCKS = frozenset({"body", "orelse", "finalbody"})
BUILT = 3  # of a plug-in's arguments: name, options and build; the others describe it
WORDS = frozenset({"summary", "source", "released", "label", "pen"})
DESCRIBED = frozenset({"title", "citation", "licence", "redistributable", "upstream", "papers"})
Definition = tuple[str, str]


@cache
def of_run(algorithm: str, data: str, model: str, partition: str, observers: tuple[str, ...] = ()) -> str:
    """Return the hash of what a run with these plug-ins executes."""
    named = {"algorithm": algorithm, "data": data, "partition": partition, "model": model}
    plugins = (*named.items(), *(("observer", name) for name in observers))
    return of_code(*RUN, *(_plugin(kind, name) for kind, name in plugins))


@cache
def of_partition(data: str, partition: str) -> str:
    """Return the hash of what making a partition executes."""
    return of_code(*PARTITION, _plugin("data", data), _plugin("partition", partition))


@cache
def of_code(*starts: str) -> str:
    """Return the hash of ``module:name`` definitions, or whole modules, and of all that they reach."""
    digests = sorted(_digest(module, name) for module, name in reached(starts))
    return hashlib.sha256(b"".join(digests)).hexdigest()[:16]


def reached(starts: Iterable[str]) -> frozenset[Definition]:
    """Return the definitions, as (module, name), that ``module:name`` definitions or modules lead to."""
    return frozenset().union(*(_reached(start) for start in starts))


@cache
def _reached(start: str) -> frozenset[Definition]:
    module, _, name = start.partition(":")
    waiting = list(_resolved(module, name) if name else _whole(module))
    if not waiting:
        raise LookupError(f"{start}: no such definition under {HOME}")
    definitions: set[Definition] = set()
    while waiting:
        definition = waiting.pop()
        if definition not in definitions:
            definitions.add(definition)
            waiting += _led_to(*definition)
    return frozenset(definitions)


@cache
def _led_to(module: str, name: str) -> frozenset[Definition]:
    paths = (path for node in _module(module).definitions[name] for path in _paths(node))
    return frozenset().union(*(_resolved(module, first, tuple(rest)) for first, *rest in paths))


@cache
def _resolved(
    module: str, name: str, rest: tuple[str, ...] = (), above: frozenset[Definition] = frozenset()
) -> frozenset[Definition]:
    """Return what a name in a module may stand for: definitions there, and what imports bring.

    With a definition comes what else its module does at its top, such as to fill a table. ``above``: names
    that led here, as imports may go in a circle.
    """
    above |= {(module, name)}
    homes, found = [module], set[Definition]()
    for home in homes:
        known = _module(home)
        homes += [other for other in known.stars if _path(other) and other not in homes]
        if name in known.definitions:
            found |= {(home, key) for key in (name, "") if key in known.definitions}
        if name in known.imports:
            found |= _target(known.imports[name], rest, above)
    return frozenset(found)


def _target(target: str, rest: tuple[str, ...], above: frozenset[Definition]) -> frozenset[Definition]:
    """Return what an imported ``module`` or ``module:name``, with attributes, stands for."""
    module, _, name = target.partition(":")
    if name and _path(f"{module}.{name}") and not (_path(module) and name in _module(module).definitions):
        module, name = f"{module}.{name}", ""
    if not _path(module):  # of an installed package, or a folder of the user's without __init__.py
        inner = f"{module}.{rest[0]}" if rest and not name else ""
        return _target(inner, rest[1:], above) if inner and _path(inner) else frozenset()
    if name:
        return frozenset() if (module, name) in above else _resolved(module, name, rest, above)
    return _target(f"{module}:{rest[0]}", rest[1:], above) if rest else _whole(module)


def _whole(module: str) -> frozenset[Definition]:
    return frozenset((module, name) for name in _module(module).definitions)


@dataclass(frozen=True)
class _Module:
    """A module: the statements that define each name, or none, and what its imports bring, by name.

    An import brings a ``module`` or ``module:name``, or all names of ``stars``. Few modules have imports
    inside of definitions, or call ``declared``, so few are walked.
    """

    source: str
    definitions: Mapping[str, list[ast.stmt]]
    imports: Mapping[str, str]
    stars: list[str]


@cache
def _module(name: str) -> _Module:
    if (path := _path(name)) is None:
        raise FileNotFoundError(f"{name}: no such module under {HOME}")
    source = path.read_text(encoding="utf-8")
    executed = [node for node in ast.parse(source).body if not _for_types(node)]
    definitions: dict[str, list[ast.stmt]] = {}
    for node in executed:
        for defined in () if _unseen(node) else _defined(node):
            definitions.setdefault(defined, []).append(node)
    inside = INNER_IMPORT.search(source) is not None
    nodes = (inner for node in executed for inner in ast.walk(node)) if inside else executed
    package = name.split(".")[: None if path.stem == "__init__" else -1]
    imported = list(_imported(nodes, package))
    stars = [target.partition(":")[0] for name, target in imported if name == "*"]
    return _Module(source, definitions, dict(imported), stars)


@cache
def _digest(module: str, name: str) -> bytes:
    """Return the hash of a definition's syntax, and of the facts that it reads."""
    home, nodes = _module(module), _module(module).definitions[name]
    text = "\n".join(_text(node, home.imports) for node in nodes)
    inside = (inner for node in nodes for inner in ast.walk(node))
    if "declared" in home.source and any(_calls(inner, "declared") for inner in inside):
        text += _facts(module)
    return hashlib.sha256(text.encode()).digest()


def _facts(module: str) -> str:
    """Return what the YAML file beside a module declares, but for words that describe it."""
    path = (_path(module) or HOME).with_suffix(".yaml")
    sets = read_facts(path) if path.is_file() else {}
    kept = {name: {key: facts[key] for key in facts if key not in DESCRIBED} for name, facts in sets.items()}
    return canonical_json(kept) if kept else ""


def _defined(node: ast.stmt) -> list[str]:
    """Return the names that a statement at a module's top defines, and "" if it may do more than that."""
    if isinstance(node, NAMED):
        return [node.name]
    inner = list(ast.walk(node))
    stored = [n for n in inner if isinstance(getattr(n, "ctx", None), ast.Store)]
    names = [n.id for n in stored if isinstance(n, ast.Name)]
    names += [n.name for n in inner if isinstance(n, NAMED)]
    changes = any(isinstance(n, ast.Attribute | ast.Subscript) for n in stored)
    return names if isinstance(node, ASSIGNMENT) and not changes else [*names, ""]


def _imported(nodes: Iterable[ast.AST], package: list[str]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (first, first)
        elif isinstance(node, ast.ImportFrom):
            near = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*near, *filter(None, [node.module])])
            for alias in node.names:
                yield alias.asname or alias.name, f"{module}:{alias.name}"


def _paths(node: ast.AST) -> Iterator[tuple[str, ...]]:
    """Yield each name that is read, with the attributes taken of it, but for annotations of functions."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        yield (node.id, *reversed(attributes))
        return
    for _, value in _seen(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _paths(child)


def _text(node: object, imports: Mapping[str, str]) -> str:
    """Return a node's syntax in a form that neither a version of Python nor a module's name changes."""
    if isinstance(node, str):
        parts = node.split(".")
        ours = len(parts) > 1 and all(map(str.isidentifier, parts)) and _own_path(node)
        return "module" if ours else repr(node)
    if isinstance(node, list):
        return f"[{','.join([_text(item, imports) for item in node])}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Attribute) and _our_module(node.value, imports):
        node = ast.Name(node.attr)
    fields = ",".join([f"{field}={_text(value, imports)}" for field, value in _seen(node)])
    return f"{type(node).__name__}({fields})"


def _our_module(node: ast.expr, imports: Mapping[str, str]) -> str | None:
    """Return the module that a name with its attributes stands for, if it is one of ours."""
    target = ""
    if isinstance(node, ast.Name):
        target = imports.get(node.id, "").replace(":", ".")
    elif isinstance(node, ast.Attribute) and (outer := _our_module(node.value, imports)):
        target = f"{outer}.{node.attr}"
    return target if _path(target) else None


def _seen(node: ast.AST) -> Iterator[tuple[str, object]]:
    """Yield the fields of a node that decide what it does."""
    for field in node._fields:
        value = getattr(node, field, None)
        typed = field == "annotation" and isinstance(node, ast.arg)
        if field in UNSEEN or typed or value is None or value == []:
            continue
        if field in BLOCKS and isinstance(value, list):
            value = [item for item in value if not _unseen(item)]
        elif isinstance(value, list) and _calls(node, "Plugin"):  # its later arguments describe a plug-in
            value = value[:BUILT] if field == "args" else [item for item in value if item.arg not in WORDS]
        yield field, value


def _unseen(item: object) -> bool:
    """Whether a node is an import or a docstring."""
    if isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant):
        return isinstance(item.value.value, str)
    return isinstance(item, ast.Import | ast.ImportFrom)


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and name in (getattr(node.func, key, "") for key in ("id", "attr"))


def _for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _plugin(kind: str, name: str) -> str:
    module = getattr(find(kind, name).build, "__module__", "")
    if not _path(module):
        raise SpecError(f"{kind} '{name}': got a build of '{module}', expected a function of its file")
    return module


@cache
def _path(module: str) -> Path | None:
    """Return the file of a module of ours or of the user's; None for one of an installed package."""
    return _own_path(module) or _loose_path(module)


def _own_path(module: str) -> Path | None:
    if not module.startswith(OURS) or module == LAZY:
        return None
    if module.startswith(CONTRIBUTED):
        return Path(str(sys.modules[module].__file__)) if module in sys.modules else None
    return _source(HOME.joinpath(*module.split(".")))


def _loose_path(module: str) -> Path | None:
    """Return the file of a module that no installed package brought, so no ``.dist-info`` lies beside it."""
    first, *rest = module.split(".")
    if first in {*OURS, CONTRIBUTED[:-1], *sys.stdlib_module_names}:
        return None
    spec = None
    with suppress(ImportError, ValueError):
        spec = find_spec(first)
    if spec is None:
        return None
    base = Path(next(iter(spec.submodule_search_locations or ()), Path(str(spec.origin)).with_suffix("")))
    return None if any(base.parent.glob("*.dist-info")) else _source(base.joinpath(*rest))


def _source(base: Path) -> Path | None:
    return next(filter(Path.is_file, (base.with_suffix(".py"), base / "__init__.py")), None)
