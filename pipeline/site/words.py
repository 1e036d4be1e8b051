"""Values as texts, the same on all pages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pipeline.fidelity.board import split_reading
from pipeline.site.survey import TargetStatus

MOST = 40
SCORES = ("accuracy", "f1", "auc")
PREFIXES = "kMGTP"


def heading(shown: TargetStatus) -> str:
    """Return a target's name in its paper, and which reading it is where that is not the text's."""
    reading = split_reading(shown.name)[1].replace("_", " ")
    return f"{shown.about.published} ({reading})" if reading else shown.about.published


def number(value: float, unit: str = "") -> str:
    """Return a number with its unit, nothing for NaN."""
    return "" if math.isnan(value) else f"{value:.6g} {unit}".strip()


def accuracy(facts: Mapping[str, Any]) -> str | None:
    """Return a run's accuracy after the last round in per cent, None if it has none."""
    final = facts.get("final")
    value = final.get("test_accuracy") if isinstance(final, Mapping) else None
    return None if value is None else f"{100 * value:.2f}"


def flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return nested values as (name, text), one level a blank."""
    lines: list[tuple[str, str]] = []
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            lines += flat(value, f"{name} ")
        elif isinstance(value, list):
            lines.append(
                (name, ", ".join(map(str, value[:MOST])) + (" …" if len(value) > MOST else "") or "none")
            )
        elif value is not None:
            lines.append((name, _told(key, value)))
    return [(name.replace("_", " "), text) for name, text in lines]


def size(number: float) -> str:
    """Return a number of bytes with a unit of thousands that suits it."""
    power = 0
    while number >= 1000 and power < len(PREFIXES):
        number, power = number / 1000, power + 1
    return f"{number:.4g} {PREFIXES[power - 1] if power else ''}B"


def _told(key: str, value: Any) -> str:
    """Return a value as a reader wants it: scores in per cent, traffic in bytes with a unit."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if key.endswith(SCORES):
        return f"{100 * value:.2f} %"
    return (
        size(value)
        if key.startswith("bytes_")
        else f"{value:.6g}"
        if isinstance(value, float)
        else str(value)
    )
