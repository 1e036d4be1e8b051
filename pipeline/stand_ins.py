"""Which data can't stand for the paper's own: numbers of a part of them tell little of published ones."""

from __future__ import annotations

from typing import Final

PART = "subset"
SAME_ON_ANY_DATA = frozenset({"bytes"})
ON_STAND_IN: Final = "on stand-in data"


def stands_in(state: object, unit: object = "") -> bool:
    """Say whether a number was measured on a part of the data, and would differ on all of them.

    Args:
        state: the states of a cell's data, as in a tidy table; anything but text says nothing.
        unit: the number's unit. Bytes are counted from the model's shape, whatever the data.
    """
    return isinstance(state, str) and PART in state.split() and unit not in SAME_ON_ANY_DATA
