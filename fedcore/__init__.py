"""fedcore: federated-learning algorithms, data, partitions and the round loop.

The library layer. It knows no paper, no Snakemake and no DVC; it reads a run's
specification and writes its history, summary and timing.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedcore.base import __version__ as __version__

if sys.platform == "win32":
    raise ImportError("fedcore needs Linux or macOS (it locks folders as POSIX does); on Windows use WSL 2")

if TYPE_CHECKING:
    from fedcore.base.registry import register as register
    from fedcore.data import Source as Source
    from fedcore.data.datasets.own import from_arrays as from_arrays
    from fedcore.execution.compare import compare as compare
    from fedcore.execution.result import Result as Result
    from fedcore.execution.result import load as load
    from fedcore.execution.runner import Settings as Settings
    from fedcore.execution.runner import run as run
    from fedcore.models.module import from_module as from_module
    from fedcore.spec import Spec as Spec

_HOMES = {
    "fedcore.base.registry": ("register",),
    "fedcore.data": ("Source",),
    "fedcore.data.datasets.own": ("from_arrays",),
    "fedcore.execution.compare": ("compare",),
    "fedcore.execution.result": ("Result", "load"),
    "fedcore.execution.runner": ("Settings", "run"),
    "fedcore.models.module": ("from_module",),
    "fedcore.spec": ("Spec",),
}
__all__ = sorted(name for names in _HOMES.values() for name in names)


def __getattr__(name: str) -> Any:
    """Import a name's module when the name is first asked for, so that ``import fedcore`` is quick."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'fedcore' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
