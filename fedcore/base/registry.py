"""Plug-ins: algorithms, data sets, partitions, models and observers, each found by name in its own file.

A plug-in module defines ``PLUGIN`` or ``PLUGINS``; the registry imports every module of the kind's
package and collects them. Adding one is adding a file: to the package, or to ``algorithms/``,
``datasets/``, ``partitions/``, ``models/`` or ``observers/`` in a folder that the environment variable
``FEDCORE_PLUGINS`` names. Nothing here imports torch.
"""

import importlib
import importlib.util
import os
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Literal, NamedTuple

from fedcore.base.errors import BrokenContract, SpecError, shown
from fedcore.base.options import Options, suggestion, validate

VARIABLE = "FEDCORE_PLUGINS"
NAME = r"^[a-z][a-z0-9_]*$"
PACKAGES: Mapping[str, str] = {
    "algorithm": "fedcore.algorithms",
    "data": "fedcore.data.datasets",
    "partition": "fedcore.partitions",
    "model": "fedcore.models",
    "observer": "fedcore.parts.observers",
}
OPTIONS: Mapping[str, str] = {"partition": "PartitionOptions", "model": "ModelOptions"}  # with keys of runs
FOLDERS: Mapping[str, str] = {kind: name.rpartition(".")[2] for kind, name in PACKAGES.items()}
Line = Literal["-", "--", "-.", ":", ""]


class Pen(NamedTuple):
    """How figures draw an algorithm; it gets a spare look where there is no colour."""

    colour: str = ""
    marker: str = ""
    line: Line = "-"


SPARE = Pen()


@dataclass(frozen=True)
class Plugin:
    """One named thing that a specification can ask for.

    Attributes:
        name: what a specification writes, lower case.
        options: its option class; every key of the specification's section but ``name``.
        build: what makes it; what it is given depends on the kind; see docs/add-an-algorithm.md and so on.
        summary: one sentence for ``fedcore list``.
        source: where it is defined: paper, section or equation.
        released: how the authors' released code differs, where ``variant: released`` is known.
        clients: of data that name their clients: given the options, how many there are; None where only the
            files tell.
        size: of data sets: their ``fedcore.data.Size`` by their options, for guesses of time and memory.
        multiplications: of models: given a built one and a row's shape, those of a row in a forward pass
            through what is trained: with weights that are used once, and with those used at many places.
            Unless given, each weight of a matrix is used once.
        label: its name in tables and figures; the name unless given.
        pen: of algorithms: how figures draw it.
    """

    name: str
    options: type[Options]
    build: Callable[..., Any]
    summary: str
    source: str
    released: str = ""
    clients: Callable[[Any], int | None] | None = None
    size: Callable[[Any], Any] | None = None
    multiplications: Callable[[Any, tuple[int, ...]], tuple[float, float]] | None = None
    label: str = ""
    pen: Pen = SPARE


@dataclass(frozen=True)
class Choice:
    """A plug-in that a specification asks for, with its validated options."""

    plugin: Plugin
    options: Any

    @property
    def name(self) -> str:
        """The plug-in's name."""
        return self.plugin.name

    def build(self, *given: Any) -> Any:
        """Build it; what is given depends on the kind. BrokenContract if a class of it lacks a method."""
        try:
            return self.plugin.build(self.options, *given)
        except TypeError as error:
            if "abstract class" not in str(error):
                raise
            raise BrokenContract(f"'{self.name}': {error}") from error

    def values(self) -> dict[str, Any]:
        """Return the options as plain values, with every default filled in."""
        plain: dict[str, Any] = self.options.model_dump(mode="json", by_alias=True)
        return plain

    def resolved(self) -> dict[str, Any]:
        """Return the section of a specification that asks for it."""
        return {"name": self.name, **self.values()}


_REGISTERED: dict[str, dict[str, Plugin]] = {kind: {} for kind in PACKAGES}


def register(kind: str, plugin: Plugin) -> None:
    """Make a plug-in known to this process alone, in place of one that was registered under its name.

    Args:
        kind: a key of ``PACKAGES``, such as ``model``.
        plugin: the plug-in; a file that ``FEDCORE_PLUGINS`` finds serves other processes too.

    Raises:
        SpecError: there is no such kind, or a file declares the name.
    """
    if plugin.name in plugins(kind) and plugin.name not in _REGISTERED[kind]:
        raise SpecError(f"{kind} '{plugin.name}': a file declares this name, expected another")
    _refuse_options(kind, plugin, "fedcore.register")
    _REGISTERED[kind][plugin.name] = plugin
    plugins.cache_clear()


@cache
def plugins(kind: str) -> Mapping[str, Plugin]:
    """Return all plug-ins of a kind, such as ``algorithm`` (see ``PACKAGES``), by name.

    Raises:
        SpecError: there is no such kind, a file can't be loaded or declares a taken or wrong name, or
            ``FEDCORE_PLUGINS`` is wrong.
    """
    if kind not in PACKAGES:
        raise SpecError(f"kind: got {shown(kind)}, expected one of {', '.join(PACKAGES)}")
    by_name = dict(_REGISTERED[kind])
    places = dict.fromkeys(by_name, "a registered plug-in")
    for module in _modules(kind):
        place = Path(str(module.__file__)).resolve()
        for plugin in of_module(module):
            if re.fullmatch(NAME, plugin.name) is None:
                raise SpecError(f"{place}: {kind} {plugin.name!r}, expected a name of the form {NAME}")
            _refuse_options(kind, plugin, place)
            if other := places.get(plugin.name):
                text = f"{place} declares this name as {other} does, expected another"
                raise SpecError(f"{kind} '{plugin.name}': {text}")
            by_name[plugin.name], places[plugin.name] = plugin, str(place)
    return MappingProxyType(by_name)


def _refuse_options(kind: str, plugin: Plugin, where: object) -> None:
    """Refuse options without the keys that every plug-in of the kind has."""
    base = getattr(importlib.import_module(PACKAGES[kind]), OPTIONS.get(kind, ""), Options)
    if not issubclass(plugin.options, base):
        found = f"has {plugin.options.__name__} as options"
        raise SpecError(f"{where}: {kind} '{plugin.name}' {found}, expected a class of {base.__name__}")


def of_module(module: ModuleType) -> list[Any]:
    """Return the plug-ins that a module declares, ``PLUGINS`` and any ``PLUGIN``; refuse anything else."""
    several, one = getattr(module, "PLUGINS", ()), getattr(module, "PLUGIN", None)
    if not isinstance(several, list | tuple):
        found = type(several).__name__
        raise SpecError(f"{module.__file__}: PLUGINS is of type {found}, expected a list of Plugin")
    declared = [*several, *([] if one is None else [one])]
    for entry in declared:
        if not isinstance(entry, Plugin):
            raise SpecError(f"{module.__file__}: declares {shown(entry)}, expected a Plugin")
    return declared


def find(kind: str, name: object, where: str | None = None) -> Plugin:
    """Return one plug-in; ``where`` is the key that an error names, ``<kind>.name`` unless given.

    Raises:
        SpecError: no such kind, or no such name; the nearest known one is suggested.
    """
    known = plugins(kind)
    if not isinstance(name, str) or name not in known:
        hint = suggestion(shown(name), sorted(known))
        searched = f"{VARIABLE} names {', '.join(map(str, folders(kind))) or 'no folder'}"
        files = (path for folder in folders(kind) for path in folder.glob("*.py") if path.stem == name)
        empty = "".join(f"; {path} declares no PLUGIN of this name" for path in files)
        raise SpecError(f"{where or kind + '.name'}: no {kind} named {shown(name)}{hint}; {searched}{empty}")
    return known[name]


def chosen(kind: str, section: Any) -> Choice:
    """Return what a section asks for: its ``name``, and options as its other keys; SpecError: a wrong one."""
    if not isinstance(section, Mapping) or "name" not in section:
        raise SpecError(f"{kind}: expected keys and values with a 'name', got {shown(section)}")
    plugin = find(kind, section["name"])
    options = {key: value for key, value in section.items() if key != "name"}
    return Choice(plugin, validate(plugin.options, options, kind))


def _modules(kind: str) -> Iterator[ModuleType]:
    """Import the modules of a kind's package, and the user's own as ``fedcore_plugins.<folder>.<file>``."""
    package = importlib.import_module(PACKAGES[kind])
    for name in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        yield importlib.import_module(f"{package.__name__}.{name}")
    for name, path in _own(kind):
        yield imported(name, path)


def contributed(kind: str) -> dict[Path, ModuleType]:
    """Return the user's own modules of plug-ins, by their files."""
    plugins(kind)
    return {path: sys.modules[name] for name, path in _own(kind) if name in sys.modules}


def _own(kind: str) -> list[tuple[str, Path]]:
    paths = (path for folder in folders(kind) for path in sorted(folder.glob("*.py")))
    return [(f"fedcore_plugins.{FOLDERS[kind]}.{path.stem}", path) for path in paths]


def folders(kind: str) -> list[Path]:
    """Return the user's folders of a kind's plug-ins, one for each root in ``FEDCORE_PLUGINS``.

    A root must hold one of the known folders; the returned one may be missing.
    """
    roots = [Path(root) for root in os.environ.get(VARIABLE, "").split(os.pathsep) if root]
    for root in roots:
        for singular, name in FOLDERS.items():
            if f"{singular}s" == name and any(Path(root, singular).glob("*.py")):
                raise SpecError(f"{VARIABLE}: found the folder {root / singular}, expected {root / name}")
        if not any(Path(root, name).is_dir() for name in FOLDERS.values()):
            known = ", ".join(f"{name}/" for name in FOLDERS.values())
            raise SpecError(f"{VARIABLE}: '{root}' has no plug-ins, expected a folder with some of {known}")
    return [root / FOLDERS[kind] for root in roots]


def imported(name: str, path: Path) -> ModuleType:
    """Import a file as the module ``name``, or raise SpecError with what is wrong."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SpecError(f"{path}: not a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise SpecError(f"{path}: cannot be loaded ({type(error).__name__}: {error})") from error
    return module
