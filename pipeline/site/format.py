"""Values as texts, the same on all pages."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.filesize import decimal

from fedcore.base.lazy import pd
from pipeline.reports.render import in_print

TEMPLATES, ASSETS = (Path(__file__).parent / name for name in ("templates", "assets"))
MOST, SHORT = 40, 12
SCORES = ("accuracy", "f1", "auc")


def with_std(mean: float, std: float) -> str:
    """Return a number with its standard deviation, where there is one."""
    return in_print(mean) + (f" ± {in_print(std, '{:.3g}')}" if pd.notna(std) else "")


def outcome(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what lists say of a run: status, hash, time, and the last accuracy in per cent if it has one."""
    accuracy = (facts.get("final") or {}).get("test_accuracy")
    return {
        "status": facts.get("status"),
        "accuracy": None if accuracy is None else f"{100 * accuracy:.2f}",
        "spec": str(facts.get("spec", ""))[:SHORT],
        "finished": facts.get("finished"),
    }


def flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return nested values as (name, text), one level a blank."""
    lines: list[tuple[str, str]] = []
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            lines += flat(value, f"{name} ")
        elif isinstance(value, list):
            more = " …" if len(value) > MOST else ""
            lines.append((name, ", ".join(map(str, value[:MOST])) + more or "none"))
        elif value is not None:
            lines.append((name, _printed(key, value)))
    return [(name.replace("_", " "), text) for name, text in lines]


def _printed(key: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if key.endswith(SCORES):
        return f"{100 * value:.2f} %"
    if key.startswith("bytes_"):
        return decimal(int(value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)
