"""README's picture of Table I: made by a command, and known by the numbers that it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

from pipeline.site import pictures

HOME = Path(__file__).parents[2]


def test_the_picture_says_which_numbers_it_shows() -> None:
    with Image.open(HOME / "docs/img/table1.png") as shown:
        assert re.fullmatch(r"[0-9a-f]{64}", shown.info[pictures.NUMBERS])


def test_the_picture_shows_the_numbers_of_the_table_that_was_built() -> None:
    table = HOME / "reports/rfedavg/table1.csv"
    if not table.exists() or ",demo," not in table.read_text():
        pytest.skip("Table I isn't built here at demo scale")
    with Image.open(HOME / "docs/img/table1.png") as shown:
        assert shown.info[pictures.NUMBERS] == pictures.numbers(table)


def test_other_numbers_are_another_hash(tmp_path: Path) -> None:
    for name, mean in (("a", "50.1"), ("b", "50.2")):
        (tmp_path / f"{name}.csv").write_text(f"row,column,mean,std,n,seeds\nx,y,{mean},,1,1\n")
    assert pictures.numbers(tmp_path / "a.csv") != pictures.numbers(tmp_path / "b.csv")
