"""What other packages add to commands, by entry points; one whose package is not installed is left out."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any


def extensions(group: str) -> Iterator[Any]:
    """Yield what the entry points of a group name.

    The papers' pipeline is there in a checkout and missing where the library was installed alone.
    """
    for entry in entry_points(group=group):
        if find_spec(entry.module.partition(".")[0]) is not None:
            yield entry.load()
