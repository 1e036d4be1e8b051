"""The documentation's pages that follow from code and from other files; docs/ holds the written ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedcore.base.lazy import jinja2


def rendered(template: str, **values: Any) -> str:
    """Return the Markdown page that a template makes of values."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=False,  # Markdown of this repository's own files
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(f"{template}.md.j2").render(values)
