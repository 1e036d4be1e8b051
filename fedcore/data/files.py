"""The user's files that sections of a specification name: hashes of code, kept data and DVC follow them."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedcore.base.errors import DataError
from fedcore.base.files import Stamps, stamps, walked
from fedcore.data.readers import read_table

KEYS = ("path", "test", "init", "weights")


def files_of(section: Mapping[str, Any]) -> list[Path]:
    """Return the files that a section reads: those that it names, those in folders, and a table's images."""
    named = (*named_in(section), *images_of(section))
    return [path for place in named for below, _ in walked(place) if (path := Path(below)).is_file()]


def named_in(section: Mapping[str, Any]) -> list[Path]:
    """Return what a section gives in the place of a file or folder of the user's, which it may not be."""
    return [Path(section[key]) for key in KEYS if isinstance(section.get(key), str)]


def images_of(section: Mapping[str, Any]) -> list[Path]:
    """Return the files that the column of images of a section's tables names; none of what is no table."""
    if not isinstance(column := section.get("image"), str):
        return []
    return [path for table in named_in(section) for path in _images(table, column, stamps(table))]


@lru_cache(maxsize=16)
def _images(table: Path, column: str, now: Stamps) -> list[Path]:
    try:
        return [table.parent / str(name) for name in read_table(table, [column])[column]]
    except (OSError, DataError):
        return []
