"""Values as texts, the same on all pages."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.site.survey import Shown

MOST = 40


def heading(shown: Shown) -> str:
    """Return a target's name in its paper, and whose reading it is where that is the authors' code's."""
    suffix = " (released)" if shown.name.endswith("_released") else ""
    return f"{shown.about.published}{suffix}"


def number(value: float, unit: str = "") -> str:
    """Return a number with its unit, nothing for NaN."""
    return "" if math.isnan(value) else f"{value:.6g} {unit}".strip()


def accuracy(facts: Mapping[str, Any]) -> str | None:
    """Return a run's accuracy after the last round in per cent, None if it has none."""
    final = facts.get("final")
    value = final.get("test_accuracy") if isinstance(final, Mapping) else None
    return None if value is None else f"{100 * value:.2f}"


def read_object(path: Path) -> dict[str, Any]:
    """Return a JSON object; nothing where there is no such file or it holds none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


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
            lines.append((name, f"{value:.6g}" if isinstance(value, float) else str(value)))
    return lines
