"""A file with plug-ins, registered under their names wherever the file is."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import ModuleType

from fedcore.algorithms import AlgorithmOptions
from fedcore.base.errors import SpecError
from fedcore.base.registry import FOLDERS, PACKAGES, VARIABLE, Plugin, folders, imported, of_module, plugins
from fedcore.models import ModelOptions
from fedcore.partitions import PartitionOptions

TESTED = ("algorithm", "data", "partition", "model")


def register(path: Path, folder: Path) -> tuple[str, list[Plugin]]:
    """Make a file's plug-ins known to this process.

    Args:
        path: the file.
        folder: an empty folder, which gets a link to the file where it does not lie among known plug-ins.

    Returns:
        Their kind, one of ``TESTED``, and the plug-ins.

    Raises:
        SpecError: no such file, it can't be loaded, declares no plug-in or one of a name that is taken, or it
            is of a kind that is not tested.
    """
    if not path.is_file():
        raise SpecError(f"{path}: no such file")
    path = path.resolve()
    own = _declared(alone(path), path)
    kind = _kind(path, own[0])
    if not _known(path, kind):
        place = folder / FOLDERS[kind]
        place.mkdir(parents=True)
        (place / path.name).symlink_to(path)
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = os.pathsep.join(filter(None, [before, str(folder)]))
    plugins.cache_clear()
    known = plugins(kind)
    return kind, [known[plugin.name] for plugin in own]


def alone(path: Path) -> ModuleType:
    """Import a file under a name that nobody looks for.

    Raises:
        SpecError: it can't be loaded.
    """
    return imported(f"fedcore_proving_{path.stem}", path)


def _declared(module: ModuleType, path: Path) -> list[Plugin]:
    own = of_module(module)
    if not own or not all(isinstance(plugin, Plugin) for plugin in own):
        raise SpecError(f"{path}: declares no plug-in; expected PLUGIN = fedcore.base.registry.Plugin(...)")
    return own


def _kind(path: Path, plugin: Plugin) -> str:
    """Tell an algorithm, a partition and a model by their options, other kinds by their folder."""
    if issubclass(plugin.options, AlgorithmOptions):
        return "algorithm"
    if issubclass(plugin.options, PartitionOptions):
        return "partition"
    if issubclass(plugin.options, ModelOptions):
        return "model"
    kind = next((kind for kind, name in FOLDERS.items() if path.parent.name == name), "data")
    if kind not in TESTED:
        raise SpecError(f"{path}: a {kind}; expected an algorithm, a data set, a partition or a model")
    return kind


def _known(path: Path, kind: str) -> bool:
    """Whether a file is in a folder where plug-ins of its kind are searched."""
    packaged = map(Path, importlib.import_module(PACKAGES[kind]).__path__)
    return any(folder.resolve() == path.parent for folder in (*packaged, *folders(kind)))
