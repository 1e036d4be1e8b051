"""Pictures of front pages: made by a command, and known by the numbers that they show."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from fedcore.execution.machine import processor
from pipeline.papers import catalogue_of
from pipeline.reports.kept import REFERENCE
from pipeline.site import pictures

HOME = Path(__file__).parents[2]
# By how many points another processor may move nine of ten accuracies after few demo rounds, and any.
USUALLY, AT_MOST = 5.0, 15.0


def shown() -> tuple[pd.DataFrame, str]:
    """Return the numbers of the front page's Table I, and the processor that computed them."""
    with Image.open(HOME / "docs/img/table1.png") as picture:
        numbers, made_on = (str(picture.info[key]) for key in (pictures.NUMBERS, pictures.PROCESSOR))
    return pd.read_csv(io.StringIO(numbers)), made_on


def test_the_picture_says_which_numbers_it_shows() -> None:
    numbers, made_on = shown()
    assert list(numbers) == pictures.SHOWN
    assert (numbers["row"].nunique(), numbers["column"].nunique(), len(numbers)) == (6, 8, 48)
    assert numbers["mean"].between(0, 100).all()
    assert (numbers["n"] == numbers["seeds"]).all()
    assert made_on


def test_the_picture_shows_the_numbers_of_the_table_that_was_built() -> None:
    table = HOME / "reports/rfedavg/table1.csv"
    if not table.exists() or ",demo," not in table.read_text():
        pytest.skip("Table I isn't built here at demo scale")
    numbers, made_on = shown()
    built = pd.read_csv(io.StringIO(pictures.numbers(table)))
    keys = ["row", "column", "n", "seeds"]
    assert built[keys].equals(numbers[keys])
    same = made_on == processor()
    apart = (numbers["mean"] - built["mean"]).abs()
    assert (apart <= (1e-6 if same else USUALLY)).mean() >= (1 if same else 0.9)
    assert apart.max() <= AT_MOST


def test_other_numbers_are_other_texts(tmp_path: Path) -> None:
    for name, mean in (("a", "50.1"), ("b", "50.2")):
        (tmp_path / f"{name}.csv").write_text(f"row,column,mean,std,n,seeds\nx,y,{mean},,1,1\n")
    assert pictures.numbers(tmp_path / "a.csv") != pictures.numbers(tmp_path / "b.csv")


def test_the_figure_is_drawn_from_the_kept_numbers(tmp_path: Path) -> None:
    catalogue = catalogue_of(HOME / "params.yaml", "paper")
    pictures.redrawn(catalogue, pictures.FIGURE, HOME / REFERENCE, tmp_path / "drawn.svg")
    shown = HOME / REFERENCE / f"{pictures.FIGURE}.svg"
    assert f"({REFERENCE}/{pictures.FIGURE}.svg)" in (HOME / "README.md").read_text(encoding="utf-8")
    assert (tmp_path / "drawn.svg").read_bytes() == shown.read_bytes()
