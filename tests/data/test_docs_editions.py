"""docs/data.md names every edition of every data set."""

from __future__ import annotations

from pathlib import Path

from fedcore.data.download import inventory

PAGE = Path(__file__).parents[2] / "docs" / "data.md"


def test_the_data_page_names_every_edition() -> None:
    text = PAGE.read_text()
    for name, entry in inventory.entries().items():
        for edition in entry.declaration.editions:
            assert f"`{edition}`" in text, f"{name}: {edition}"
