"""Sentences that targets say under their numbers, made of the numbers."""

from __future__ import annotations

from collections.abc import Callable

from fedcore.base.lazy import pd


def stopped(printed: int) -> Callable[[pd.DataFrame], str]:
    """Return a note on how many of the paper's ``printed`` rounds were trained, if not all.

    The tidy frame has a ``round``, or rounds as its columns.
    """

    def sentence(frame: pd.DataFrame) -> str:
        last = int(frame["round"].max()) if "round" in frame else max(map(int, frame["column"]))
        return f"Training stopped after {last} of {printed:,} rounds." if last < printed else ""

    return sentence
