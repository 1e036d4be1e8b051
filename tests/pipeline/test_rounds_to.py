"""Rounds until a level is reached: the first such round, or the crossing of a curve made monotone."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from pipeline.reports.cost import rounds_to

CURVE = {0: 0.1, 1: 0.5, 2: 0.4, 3: 0.9, 4: 0.8}


@pytest.mark.parametrize(
    ("level", "first", "crossing"),
    [
        (0.1, 0, 0),  # reached at the start
        (0.3, 1, 0.5),  # half of the way from .1 to .5
        (0.5, 1, 1),
        (0.7, 3, 2.5),  # the best so far after round 2 is .5, not .4
        (0.95, math.inf, math.inf),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_the_round_at_which_a_level_is_reached(
    sign: int, level: float, first: float, crossing: float
) -> None:
    values, falling = sign * pd.Series(CURVE), sign < 0
    assert rounds_to(values, sign * level, falling=falling) == first
    assert rounds_to(values, sign * level, falling=falling, interpolated=True) == pytest.approx(crossing)


def test_rounds_that_were_not_measured_are_passed_over() -> None:
    """Between the rounds 2 and 10, at .2 and .6, a line is at .4 after round 6."""
    values = pd.Series({0: 0.0, 2: 0.2, 5: math.nan, 10: 0.6})
    assert rounds_to(values, 0.4) == 10
    assert rounds_to(values, 0.4, interpolated=True) == pytest.approx(6)
    assert rounds_to(values, math.nan) == math.inf
