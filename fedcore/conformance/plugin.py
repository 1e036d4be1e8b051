"""A file with plug-ins, registered under their names wherever the file is."""

import importlib
import os
from pathlib import Path
from types import ModuleType

from fedcore.algorithms import AlgorithmOptions
from fedcore.base.errors import SpecError
from fedcore.base.registry import FOLDERS, PACKAGES, VARIABLE, Plugin, folders, imported, of_module, plugins
from fedcore.models import ModelOptions
from fedcore.partitions import PartitionOptions

TOLD_BY = {"algorithm": AlgorithmOptions, "partition": PartitionOptions, "model": ModelOptions}


def register(path: Path, folder: Path) -> tuple[str, list[Plugin]]:
    """Make a file's plug-ins known to this process; return their kind, such as ``algorithm``, and them.

    An empty folder gets a link to the file where it does not lie among known plug-ins.

    Raises:
        SpecError: no such file, it can't be loaded, declares no plug-in or one of a name that is taken, or it
            is of a kind that is not tested.
    """
    if not path.is_file():
        raise SpecError(f"{path}: no such file")
    path = path.resolve()
    own = of_module(alone(path))
    if not own or not all(isinstance(plugin, Plugin) for plugin in own):
        raise SpecError(f"{path}: declares no plug-in; expected PLUGIN = fedcore.base.registry.Plugin(...)")
    kind = _kind(path, own[0])
    packaged = map(Path, importlib.import_module(PACKAGES[kind]).__path__)
    if not any(searched.resolve() == path.parent for searched in (*packaged, *folders(kind))):
        place = folder / FOLDERS[kind]
        place.mkdir(parents=True)
        (place / path.name).symlink_to(path)
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = os.pathsep.join(filter(None, [before, str(folder)]))
    plugins.cache_clear()
    known = plugins(kind)
    return kind, [known[plugin.name] for plugin in own]


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
        raise SpecError(f"{path}: a {kind}; expected an algorithm, a data set, a partition or a model")
    return kind
