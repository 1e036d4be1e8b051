"""The structure of fedcore and pipeline, in numbers and as a picture.

A subpackage is a module or package directly below one of them; those that import one another are a cycle. Its
layer is the longest chain of imports below it.

    python -m benchmarks.structure                                     # the table, as Markdown
    python -m benchmarks.structure --picture docs/img/structure.svg    # subpackages on their layers
"""

from __future__ import annotations

import argparse
import ast
import statistics
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import grimp

from fedcore.base.files import atomic
from pipeline.reports import figures

ROOT = Path(__file__).parent.parent
PACKAGES = ("fedcore", "pipeline")
SMALL = 40
Edges = Mapping[str, frozenset[str]]


def subpackages(package: str, graph: grimp.ImportGraph) -> dict[str, frozenset[str]]:
    """Return for each subpackage of a package the subpackages that it imports."""
    edges: dict[str, set[str]] = {
        child.rpartition(".")[2]: set() for child in graph.find_children(package) if "__main__" not in child
    }
    for importer in graph.modules:
        subpackage = _subpackage(importer, package)
        if subpackage in edges:
            imported = (_subpackage(m, package) for m in graph.find_modules_directly_imported_by(importer))
            edges[subpackage] |= {other for other in imported if other in edges} - {subpackage}
    return {subpackage: frozenset(imported) for subpackage, imported in edges.items()}


def cycles(edges: Edges) -> list[frozenset[str]]:
    """Return the groups of names that lead to one another."""
    below = {name: _reached(name, edges) for name in edges}
    groups = {frozenset({name, *(other for other in below[name] if name in below[other])}) for name in edges}
    return sorted((group for group in groups if len(group) > 1), key=sorted)


def layers(edges: Edges) -> dict[str, int]:
    """Return the layer of each subpackage, from 1; subpackages of a cycle share one."""
    group = {name: frozenset({name}) for name in edges} | {n: ring for ring in cycles(edges) for n in ring}
    by_group: dict[frozenset[str], int] = {}

    def layer(members: frozenset[str]) -> int:
        if members not in by_group:
            below = {group[other] for name in members for other in edges[name]} - {members}
            by_group[members] = 1 + max(map(layer, below), default=0)
        return by_group[members]

    return {name: layer(group[name]) for name in edges}


def back_up(edges: Edges) -> int:
    """Return how many imports lead to the same layer or one above."""
    placed = layers(edges)
    return sum(placed[name] <= placed[other] for name, imported in edges.items() for other in imported)


def table() -> str:
    """Return the numbers as a Markdown table."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    links: Edges = {name: frozenset(graph.find_modules_directly_imported_by(name)) for name in graph.modules}
    edges = {package: subpackages(package, graph) for package in PACKAGES}
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    sizes = [len(path.read_text().splitlines()) for path in files]
    trees = [ast.parse(path.read_text()) for path in files]
    bodies = [node.end_lineno - node.lineno + 1 for node in _functions(trees) if node.end_lineno]
    hidden = {id(inner) for node in _functions(trees) for inner in ast.walk(node) if _imports(inner)}
    tests = sum(len(path.read_text().splitlines()) for path in (ROOT / "tests").rglob("*.py"))
    counts = [str(len(package_edges)) for package_edges in edges.values()]
    highest = [str(max(layers(package_edges).values())) for package_edges in edges.values()]
    up = sum(map(back_up, edges.values()))
    tangled = sum(len(cycles(package_edges)) for package_edges in edges.values())
    small = [path for path, size in zip(files, sizes, strict=True) if size < SMALL]
    markers = [path for path in small if path.name == "__init__.py" and path.read_text().count("\n") == 1]
    recipes = [path for path in small if path.parent.name == "algorithms"]
    for_types = sum(_for_types(node) for tree in trees for node in ast.walk(tree))
    lines = {
        "packages of fedcore / of pipeline": " / ".join(counts),
        "layers of fedcore / of pipeline": " / ".join(highest),
        "import cycles of packages / of modules": f"{tangled} / {len(cycles(links))}",
        "imports of a package on the same layer or above": str(up),
        f"modules / of them under {SMALL} lines": f"{len(files)} / {len(small) / len(files):.0%}",
        "of these, packages' `__init__` of one line / recipes": f"{len(markers)} / {len(recipes)}",
        "median / longest module": f"{statistics.median(sizes):.0f} / {max(sizes)}",
        "median / longest function": f"{statistics.median(bodies):.0f} / {max(bodies)}",
        "imports inside functions / `TYPE_CHECKING` blocks": f"{len(hidden)} / {for_types}",
        "source lines": f"{sum(sizes):,}",
        "test lines per source line": f"{tests / sum(sizes):.2f}",
    }
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in lines.items())])


def draw(path: Path) -> None:
    """Draw the subpackages on their layers: a subpackage imports lower layers only."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    with figures.styled():
        figure = figures.framed(5.0)
        for axes, package in zip(figure.subplots(1, len(PACKAGES)), PACKAGES, strict=True):
            edges = subpackages(package, graph)
            placed = layers(edges)
            for layer in range(1, max(placed.values()) + 1):
                row = sorted(subpackage for subpackage, level in placed.items() if level == layer)
                for place, subpackage in enumerate(row):
                    axes.text(
                        (place + 0.5) / len(row),
                        layer,
                        subpackage,
                        ha="center",
                        va="center",
                        bbox={"boxstyle": "round", "facecolor": "0.95", "edgecolor": "0.6"},
                    )
            axes.set(title=package, xticks=[], ylim=(0.4, max(placed.values()) + 0.6), ylabel="layer")
            axes.grid(visible=False)
            figures.whole_numbers(axes.yaxis)
        with atomic(path) as handle:
            figures.save(figure, {"svg": handle})


def _subpackage(module: str, package: str) -> str:
    top, _, rest = module.partition(".")
    return rest.partition(".")[0] if top == package else ""


def _reached(start: str, edges: Edges) -> set[str]:
    reached: set[str] = set()
    left = [start]
    while left:
        new = edges[left.pop()] - reached
        reached |= new
        left += new
    return reached


def _functions(trees: Iterable[ast.AST]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for tree in trees:
        yield from (
            node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        )


def _imports(node: ast.AST) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def main() -> None:
    """Print the table, and draw the picture where a file is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, help="an svg to draw the subpackages into")
    options = parser.parse_args()
    if options.picture:
        draw(options.picture)
    print(table())


if __name__ == "__main__":
    main()
