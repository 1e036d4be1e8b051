"""The documentation's pages that follow from code and from other files; docs/ holds the written ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.site import words

TEMPLATES = Path(__file__).parent / "templates"


def rendered(template: str, **values: Any) -> str:
    """Return the Markdown page that a template makes of values."""
    return words.rendered(f"{template}.md", values, TEMPLATES)
