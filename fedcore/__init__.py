"""fedcore: federated-learning algorithms, data, partitions and the round loop.

The library layer. It knows no paper, no Snakemake and no DVC; it reads a run's
specification and writes its history, summary and timing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from fedcore.base import __version__ as __version__

if sys.platform == "win32":
    raise ImportError(
        "fedcore needs Linux or macOS (it locks folders as POSIX systems do); on Windows use WSL 2"
    )

if TYPE_CHECKING:
    from fedcore.execution.results import Result
    from fedcore.execution.runner import run

__all__ = ["Result", "run"]


def __getattr__(name: str) -> Any:
    """Load the runner (and torch) only when it is asked for, so that reading specs stays quick."""
    if name in __all__:
        from fedcore.execution import runner

        return getattr(runner, name)
    raise AttributeError(f"module 'fedcore' has no attribute {name!r}")
