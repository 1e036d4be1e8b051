"""A hash of the code that a result depends on: by import graph, of the normalised syntax tree.

Comments, docstrings, blank lines and quotes change nothing; a change of meaning changes the hash of every
result whose code imports it, and of no other. Nothing is imported to find out.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from fedcore.registry import find

HOME = Path(__file__).parent.parent
OURS = ("fedcore.", "pipeline.")
CONTRIBUTED = "fedcore_plugins."
RUN = ("fedcore.runner",)
PARTITION = ("fedcore.partitioning.build", "fedcore.partitioning.stats")


@cache
def of_run(algorithm: str, data: str, model: str, partition: str, observers: tuple[str, ...] = ()) -> str:
    """Return the hash of what a run with these plug-ins executes."""
    named = {"algorithm": algorithm, "data": data, "partition": partition, "model": model}
    plugins = (*named.items(), *(("observer", name) for name in observers))
    return of_modules(*RUN, *(_plugin(kind, name) for kind, name in plugins))


@cache
def of_partition(data: str, partition: str) -> str:
    """Return the hash of what making a partition executes."""
    return of_modules(*PARTITION, _plugin("data", data), _plugin("partition", partition))


@cache
def of_modules(*names: str) -> str:
    """Return the hash of modules and all of this project's modules that they import."""
    digest = hashlib.sha256()
    for module in sorted(reached(names)):
        digest.update(_digest(module))
    return digest.hexdigest()[:16]


def reached(names: Iterable[str]) -> set[str]:
    """Return the modules and, transitively, the project's modules that they import.

    Packages above a module count, but for the two at the top, which only hand names on.
    """
    return set().union(*(_reached(name) for name in names))


@cache
def _reached(name: str) -> frozenset[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        module = waiting.pop()
        if module in found:
            continue
        found.add(module)
        waiting += imports(module)
        parent = module.rpartition(".")[0]
        waiting += [parent] if "." in parent and _path(parent) else []
    return frozenset(found)


@cache
def _digest(module: str) -> bytes:
    return hashlib.sha256(f"{module}\n{normalised(module)}".encode()).digest()


@cache
def imports(module: str) -> tuple[str, ...]:
    """Return the project's modules that a module imports anywhere but for annotations alone."""
    names: set[str] = set()
    for node in _walk(_tree(module)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.update([node.module, *(f"{node.module}.{alias.name}" for alias in node.names)])
    return tuple(sorted(name for name in names if name.startswith(OURS) and _path(name)))


@cache
def normalised(module: str) -> str:
    """Return a module's syntax tree as text, without docstrings and positions."""
    tree = _tree(module)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [item for item in body if not _silent(item)]  # type: ignore[attr-defined]
    return ast.dump(tree, annotate_fields=False)


def _plugin(kind: str, name: str) -> str:
    return find(kind, name).build.__module__


@cache
def _tree(module: str) -> ast.Module:
    path = _path(module)
    if path is None:
        raise FileNotFoundError(f"{module}: no such module under {HOME}")
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _path(module: str) -> Path | None:
    if module.startswith(CONTRIBUTED) and module in sys.modules:
        return Path(str(sys.modules[module].__file__))
    base = HOME.joinpath(*module.split("."))
    candidates = (base.with_suffix(".py"), base / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


def _walk(node: ast.AST) -> Iterable[ast.AST]:
    """Walk a tree, leaving out ``if TYPE_CHECKING`` blocks."""
    for child in ast.iter_child_nodes(node):
        if (
            isinstance(child, ast.If)
            and isinstance(child.test, ast.Name)
            and child.test.id == "TYPE_CHECKING"
        ):
            continue
        yield child
        yield from _walk(child)


def _silent(node: ast.stmt) -> bool:
    """Whether a statement is a docstring."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
