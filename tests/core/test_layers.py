"""The layers look one way, and reading a specification loads no heavy library."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "torchvision", "pandas", "matplotlib", "seaborn", "sklearn", "scipy", "cvxpy", "pyarrow"}


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


def test_the_library_knows_no_pipeline() -> None:
    modules = list((ROOT / "fedcore").rglob("*.py"))
    assert len(modules) > 20
    for path in modules:
        assert not imported(path) & {"pipeline", "snakemake", "dvc"}, path


def test_parsing_every_plugin_loads_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from fedcore.registry import PACKAGES, plugins\n"
        "import fedcore.spec\n"
        "assert all(plugins(kind) for kind in PACKAGES)\n"
        "fedcore.spec.parse(dict(data={'name': 'quadratics'}, model={'name': 'scalar_quadratic'},"
        " algorithm={'name': 'scaffold'}, training=dict(rounds=1, batch_size='full', lr=.1)))\n"
        "print(*{name.split('.')[0] for name in sys.modules})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not set(done.stdout.split()) & HEAVY
