"""A small SVG of the labels of each client, drawn from a partition's statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, CELLS, BARS = 640.0, 220.0, 70.0
TICKS = 10


@dataclass(frozen=True)
class Picture:
    """What the template draws: rectangles (x, y, width, height[, opacity]), ticks (place, text)."""

    cells: tuple[tuple[float, float, float, float, float], ...]
    bars: tuple[tuple[float, float, float, float], ...]
    clients: tuple[tuple[float, int], ...]
    classes: tuple[tuple[float, int], ...]
    largest: int


def picture(counts: Sequence[Sequence[int]]) -> Picture:
    """Return the share of each class in each client's rows as shades, and the clients' sizes as bars.

    Args:
        counts: rows of each class on each client, [clients, classes].
    """
    sizes = [sum(own) for own in counts]
    wide, high = WIDTH / len(counts), CELLS / len(counts[0])
    largest = max(max(sizes), 1)
    cells = tuple(
        (_r(client * wide), _r(label * high), _r(wide), _r(high), round(rows / sizes[client], 3))
        for client, own in enumerate(counts)
        for label, rows in enumerate(own)
        if rows
    )
    bars = tuple(
        (
            _r((client + 0.05) * wide),
            _r(BARS * (1 - size / largest)),
            _r(0.9 * wide),
            _r(BARS * size / largest),
        )
        for client, size in enumerate(sizes)
    )
    return Picture(cells, bars, _ticks(len(counts), wide), _ticks(len(counts[0]), high), largest)


def words(statistics: Mapping[str, Any]) -> str:
    """Say in a sentence what the picture shows."""
    sizes = statistics["sizes"]
    empty = len(statistics["empty_clients"])
    held = f"{sizes['min']} to {sizes['max']} rows, {sizes['mean']:.1f} on average"
    none = f"; {empty} hold none" if empty else ""
    scale = "0: all have the same labels; towards 2: no two share any"
    return (
        f"{statistics['clients']} clients hold {held}{none}. C-score {statistics['c_score']:.3f} ({scale})."
    )


def _ticks(number: int, size: float) -> tuple[tuple[float, int], ...]:
    step = -(-number // TICKS)
    return tuple((_r((place + 0.5) * size), place) for place in range(0, number, step))


def _r(value: float) -> float:
    return round(value, 2)
