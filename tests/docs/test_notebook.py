"""The notebook of the documentation gives what it shows, in seconds and in any folder."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

import nbformat
import pytest
from notebook import NOTEBOOK, executed

from pipeline.handbook import notebook

NUMBER = re.compile(r"-?\d+\.\d+")
SECONDS = re.compile(r"<td>[\d.]+ s</td>")


def shown(notebook: Any) -> list[str]:
    """Return what the cells gave: texts and tables without times, and that there is a picture."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    kinds = [output.get("data", {"text/html": output.get("text", "")}) for output in outputs]
    return [
        "picture" if "image/png" in data else SECONDS.sub("", data.get("text/html", "")) for data in kinds
    ]


def used() -> float:
    """Return the seconds of processors that this process and those it ended have used."""
    return sum(os.times()[:4])


def test_the_notebook_gives_the_numbers_that_it_shows() -> None:
    committed = shown(nbformat.read(NOTEBOOK, as_version=4))
    began = used()
    with tempfile.TemporaryDirectory() as place:  # a short path, as sockets need
        outputs = shown(executed(Path(place)))
    assert used() - began < 30
    assert [NUMBER.sub("#", text) for text in outputs] == [NUMBER.sub("#", text) for text in committed]
    for output, expected in zip(outputs, committed, strict=True):
        numbers = [[float(number) for number in NUMBER.findall(text)] for text in (output, expected)]
        assert numbers[0] == pytest.approx(numbers[1], rel=0.02), "processors differ in last digits"
    assert outputs.count("picture") == 2
    assert sum("<progress" in text for text in outputs) == 6


def test_the_notebook_is_a_page_with_its_pictures() -> None:
    text, pictures = notebook.page(NOTEBOOK), notebook.pictures(NOTEBOOK)
    assert all(picture.startswith(b"\x89PNG") for picture in pictures.values())
    assert (
        re.findall(r"!\[[^]]+\]\((\S+)\)", text) == list(pictures) == ["img/study/0.png", "img/study/1.png"]
    )
    assert text.count("<table>") == 3
    assert "<style" not in text
    assert "\n\n```python\nimport fedcore\n" in text
