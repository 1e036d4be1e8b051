"""Facts about data sets, read from the YAML file beside the module that loads them.

``mnist.yaml`` stands beside ``mnist.py`` and maps names of data sets to the fields of ``Declaration``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from fedcore.base import core_yaml
from fedcore.base.errors import SpecError
from fedcore.base.options import describe
from fedcore.data.download import Declaration

DECLARATIONS = TypeAdapter(dict[str, Declaration], config=ConfigDict(extra="forbid"))


def declared(module: str) -> Mapping[str, Declaration]:
    """Return the data sets that the YAML file beside a module declares, by name.

    Args:
        module: the module's file, ``__file__``.

    Raises:
        SpecError: one line that names the file and the key: it can't be read, or a key is missing, unknown
            or has a wrong value.
    """
    path = Path(module).with_suffix(".yaml")
    try:
        return DECLARATIONS.validate_python(written(path))
    except ValidationError as error:
        raise SpecError(f"{path}: {describe(error, dict[str, Declaration])}") from None


@cache
def written(path: Path) -> Any:
    """Return what a file of facts says, each set with its name."""
    facts = core_yaml.read(path, "file of facts", quick=True)
    if not isinstance(facts, dict):
        raise SpecError(f"{path}: expected names of data sets, each with its facts")
    return {name: {"name": name, **own} if isinstance(own, dict) else own for name, own in facts.items()}
