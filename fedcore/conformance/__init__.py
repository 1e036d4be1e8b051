"""Plug-ins from any file, and what a check found of one, in words for whoever wrote it."""

import importlib
import os
import random
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from fedcore.algorithms import AlgorithmOptions
from fedcore.base.errors import FedcoreError, SpecError
from fedcore.base.lazy import torch
from fedcore.base.registry import FOLDERS, PACKAGES, VARIABLE, Plugin, folders, imported, of_module, plugins
from fedcore.models import ModelOptions
from fedcore.partitions import PartitionOptions

Check = Callable[[], None]
Checks = Iterator[tuple[str, Check]]
TOLD_BY = {"algorithm": AlgorithmOptions, "partition": PartitionOptions, "model": ModelOptions}


class Unmet(Exception):
    """Raised by a check whose demand is not met, with what was found instead."""


class Skipped(Exception):
    """Raised by a check that says nothing about this plug-in, with the reason."""


@dataclass(frozen=True)
class CheckResult:
    """What one check found of a demand."""

    demand: str
    wrong: str = ""  # what was found instead and where to look; empty if the demand is met
    skipped: str = ""  # why nothing could be said

    def __str__(self) -> str:
        word = "FAILED" if self.wrong else "skipped" if self.skipped else "ok"
        more = self.wrong or self.skipped
        return f"{word:7}  {self.demand}" + (f": {more}" if more else "")


def check_results(checks: Checks) -> Iterator[CheckResult]:
    """Make checks, of what is demanded by a function that raises ``Unmet``, one after another."""
    for demand, check in checks:
        wrong = skipped = ""
        try:
            check()
        except Skipped as reason:
            skipped = str(reason)
        except Unmet as unmet:
            wrong = str(unmet)
        except FedcoreError as error:
            wrong = f"refused: {error}"
        except Exception as error:
            place, message = traceback.extract_tb(error.__traceback__)[-1], " ".join(str(error).split())
            wrong = f"raises {type(error).__name__} ({message}) at {place.filename}:{place.lineno}"
        yield CheckResult(demand, wrong, skipped)


def require(met: object, otherwise: str) -> None:
    """Raise ``Unmet`` with the words ``otherwise`` unless a demand is met."""
    if not met:
        raise Unmet(otherwise)


def disturb(seed: int) -> None:
    """Seed the random numbers that no plug-in should use."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def register(path: Path, folder: Path) -> tuple[str, list[Plugin]]:
    """Make a file's plug-ins known to this process; return their kind, such as ``algorithm``, and them.

    An empty folder gets a link to the file where it does not lie among known plug-ins. Raises SpecError where
    there is no such file, it can't be loaded, declares no plug-in, or one of a taken name or untested kind.
    """
    if not path.is_file():
        raise SpecError(
            f"{path}: {'a folder' if path.is_dir() else 'no such file'}, expected a plug-in's file"
        )
    path = path.resolve()
    declared = of_module(alone(path))
    if not declared:
        raise SpecError(f"{path}: declares no plug-in; expected PLUGIN = fedcore.base.registry.Plugin(...)")
    kind = _kind(path, declared[0])
    packaged = map(Path, importlib.import_module(PACKAGES[kind]).__path__)
    if not any(searched.resolve() == path.parent for searched in (*packaged, *folders(kind))):
        place = folder / FOLDERS[kind]
        place.mkdir(parents=True)
        (place / path.name).symlink_to(path)
        os.environ[VARIABLE] = os.pathsep.join(filter(None, [os.environ.get(VARIABLE), str(folder)]))
    plugins.cache_clear()
    return kind, [plugins(kind)[plugin.name] for plugin in declared]


def alone(path: Path) -> ModuleType:
    """Import a file under a name that nobody looks for."""
    return imported(f"fedcore_proving_{path.stem}", path)


def _kind(path: Path, plugin: Plugin) -> str:
    """Tell an algorithm, a partition and a model by their options, other kinds by their folder."""
    for kind, options in TOLD_BY.items():
        if issubclass(plugin.options, options):
            return kind
    kind = next((kind for kind, name in FOLDERS.items() if path.parent.name == name), "data")
    if kind not in {*TOLD_BY, "data"}:
        raise SpecError(f"{path}: an {kind}; expected an algorithm, a data set, a partition or a model")
    return kind
