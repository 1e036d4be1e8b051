"""Captions, made of what was collected, so that none can name what did not run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from pipeline.report.collect import REPRODUCTION
from pipeline.targets import Paper


@dataclass(frozen=True)
class Caption:
    """A caption in parts.

    Attributes:
        watermark: what a reader must not overlook, or empty.
        sentences: the rest, each with its full stop.
    """

    watermark: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """All of it as one paragraph."""
        return " ".join(filter(None, [self.watermark, *self.sentences]))


def watermark(scale: str) -> str:
    """Return the warning that goes with a reduced scale."""
    return "" if scale == REPRODUCTION else f"{scale.capitalize()} scale: not a reproduction."


def spread(seeds: Sequence[int], what: str = "Mean ± sample standard deviation") -> str:
    """Say what a number with ± means."""
    if len(seeds) == 1:
        return f"One seed ({seeds[0]}), so no spread is given."
    return f"{what} over {len(seeds)} seeds ({', '.join(map(str, seeds))})."


def bold(kinds: set[str]) -> list[str]:
    """Say what is set in bold, given which means of columns are."""
    named = sorted(kinds - {"none"})
    return [f"Bold: {' or '.join(named)} mean of the column."] if named else []


def data(notes: Iterable[tuple[str, str, str]]) -> str:
    """Say what the data were, given (data set in print, state, note)."""
    parts = [f"{name}: {note} ({state})" for name, state, note in dict.fromkeys(notes) if note]
    return f"Data: {'; '.join(parts)}." if parts else ""


def scale_and_variant(scale: str, variant: str) -> str:
    """Say at which scale and in which reading of the paper the runs were made."""
    return f"Scale: {scale}. Variant: {variant}."


def origin(published: str, paper: Paper) -> str:
    """Say what this rebuilds."""
    return f"{published} of {paper.citation}, rebuilt."


def notes_of(frame: pd.DataFrame, labels: dict[str, str]) -> list[tuple[str, str, str]]:
    """Return (data set in print, state, note) of the lines of a tidy table."""
    return [
        (labels.get(column, column), state, note)
        for column, state, note in frame[["column", "data_state", "data"]].itertuples(index=False)
    ]
