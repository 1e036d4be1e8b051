"""Variables are named after what they hold."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
VAGUE = {"asked", "made", "own", "said", "told"}  # they say that there is something, not what it is


def bound(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the names of variables and parameters, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno


def test_no_name_is_vague() -> None:
    bindings = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for room in ("fedcore", "pipeline", "benchmarks")
        for path in sorted((ROOT / room).rglob("*.py"))
        for name, line in bound(ast.parse(path.read_text(encoding="utf-8")))
        if name in VAGUE
    ]
    assert bindings == []


def test_each_way_to_bind_a_name_is_seen() -> None:
    code = (
        "def f(own): pass\nfor own in (): pass\n[own for own in ()]\nwith f() as own: pass\nlambda own: own"
    )
    assert sorted(line for name, line in bound(ast.parse(code)) if name == "own") == [1, 2, 3, 4, 5]
