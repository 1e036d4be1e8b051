"""What several tests share: a small real federated data set and specifications on it."""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
ORACLE_DATA = Path(__file__).parent / "oracle" / "data"
BYTECODE = Path(__file__).parents[1] / ".pytest_cache" / "bytecode"
LONGEST = ("pipeline", "docs", "faults")
COUNTED: dict[str, dict[str, int | str]] = {}
COLLECTED: set[str] = set()


# Most of a process's start is compiling, so each module is compiled once, whatever the environment says.
# Where what is installed can't be written, all compiled modules have a folder of their own.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
if not os.access(Path(pytest.__file__).parent, os.W_OK):
    sys.pycache_prefix = os.environ.setdefault("PYTHONPYCACHEPREFIX", str(BYTECODE))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--measured", type=Path, metavar="FILE", help="add each test's outcome and trials to a JSON file"
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    COLLECTED.add(item.nodeid)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the folders whose files take longest, so that all processes end together."""
    order = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.parent.name, len(order)))


def pytest_collection_finish() -> None:
    """Spare the garbage collector what all modules made: looking through it again and again takes long."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if (report.when == "call" or report.failed) and not report.skipped:
        counted = {key: value for key, value in report.user_properties if isinstance(value, int)}
        COUNTED[report.nodeid] = {"trials": 1, **counted, "outcome": report.outcome}


def pytest_sessionfinish(session: pytest.Session) -> None:
    gc.unfreeze()  # some libraries take what is left at the end for leaks
    if not hasattr(session.config, "workerinput"):
        copies = BYTECODE.joinpath(*Path(tempfile.gettempdir()).parts[1:])
        for folder in copies.glob("pytest-of-*"):
            shutil.rmtree(folder, ignore_errors=True)
    path: Path | None = session.config.getoption("--measured")
    if path and not hasattr(session.config, "workerinput"):
        before = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(before | COUNTED, indent=1, sort_keys=True) + "\n")


@pytest.fixture(scope="session")
def collected_here(pytestconfig: pytest.Config) -> frozenset[str]:
    """All cases of the files that this session collected whole, those that it leaves out included."""
    return frozenset() if any("::" in argument for argument in pytestconfig.args) else frozenset(COLLECTED)


@pytest.fixture(scope="session")
def digits() -> Path:
    """Five clients of 8x8 digits, sorted by label, with test and validation rows."""
    return ORACLE_DATA


@pytest.fixture
def spec(digits: Path) -> dict[str, Any]:
    """A specification that runs in a fraction of a second, with mini-batches and sampling."""
    return {
        "data": {"name": "npz", "path": str(digits)},
        "partition": {"name": "given"},
        "model": {"name": "mlp", "hidden": [16]},
        "algorithm": {"name": "fedavg"},
        "training": {"rounds": 6, "local_epochs": 2, "batch_size": 16, "lr": 0.1},
        "participation": {"fraction": 0.6},
        "seed": 3,
    }
