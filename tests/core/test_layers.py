"""Packages import lower layers only, and reading a specification loads no heavy library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

from fedcore.base import lazy

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "torchvision", "pandas", "matplotlib", "seaborn", "sklearn", "scipy", "cvxpy", "pyarrow"}
HEAVY |= {"numba"}
NEEDS_MORE = ("fedcore.engines.kernels", "pipeline.__main__", "pipeline.handbook.hooks")


def test_each_package_imports_lower_layers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert lint_imports(config_filename="pyproject.toml", no_cache=True) == EXIT_STATUS_SUCCESS


def loaded(code: str) -> set[str]:
    """Return the packages that a program leaves loaded."""
    program = f"import sys\n{code}\nprint(*{{name.split('.')[0] for name in sys.modules}})\n"
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(process.stdout.split())


def test_no_module_loads_anything_heavy_when_imported() -> None:
    code = (
        "import importlib, pkgutil, fedcore, pipeline\n"
        "for package in (fedcore, pipeline):\n"
        "    for module in pkgutil.walk_packages(package.__path__, f'{package.__name__}.'):\n"
        f"        if module.name not in {NEEDS_MORE}:\n"
        "            importlib.import_module(module.name)\n"
    )
    assert not loaded(code) & HEAVY


def test_a_lazy_package_is_loaded_at_its_first_name() -> None:
    code = "from fedcore.base.lazy import functional, pd, scipy\nassert scipy.stats.norm.cdf(0) == 0.5\n"
    assert loaded(code) & {"torch", "pandas", "scipy"} == {"scipy"}


def test_a_lazy_package_lacks_what_the_package_lacks() -> None:
    with pytest.raises(AttributeError, match="'scipy' has no attribute 'nothing'"):
        _ = lazy.scipy.nothing


def test_parsing_every_plugin_loads_nothing_heavy() -> None:
    code = (
        "from fedcore.base.registry import PACKAGES, plugins\n"
        "import fedcore.spec\n"
        "assert all(plugins(kind) for kind in PACKAGES)\n"
        "fedcore.spec.parse(dict(data={'name': 'quadratics'}, model={'name': 'scalar_quadratic'},"
        " algorithm={'name': 'scaffold'}, training=dict(rounds=1, batch_size='full', lr=.1)))\n"
    )
    assert not loaded(code) & HEAVY
