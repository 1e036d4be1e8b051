"""Tidy numbers of earlier sittings: the cell of a kept table, found by the specifications of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedcore.base.lazy import pd
from pipeline.reports import significance


@dataclass(frozen=True)
class Earlier:
    """What an earlier sitting measured of a cell, as its tidy line has it.

    Attributes:
        samples: runs' numbers by pair.
        specs: the specifications of its runs, diverged ones too.
        notes: the state of its data, and the note for captions.
    """

    samples: Mapping[str, float] = field(default_factory=dict)
    specs: tuple[str, ...] = ()
    notes: tuple[str, str] = ("", "")


NOTHING = Earlier()


def earlier_cells(path: Path) -> dict[tuple[str, str], Earlier]:
    """Read a tidy table's cells; none if there is no such file, or it doesn't hold runs' own numbers."""
    if not path.exists():
        return {}
    frame = pd.read_csv(path, dtype={"row": str, "column": str}, keep_default_na=False)
    if not {"row", "specs", "values"} <= {*frame}:
        return {}
    return {
        (line["row"], line["column"]): Earlier(
            significance.parsed(line["values"]),
            tuple(line["specs"].split()),
            (line["data_state"], line["data"]),
        )
        for line in frame.to_dict("records")
    }


def together(before: Mapping[str, float], now: Mapping[str, float], pairs: Sequence[str]) -> dict[str, float]:
    """Return the numbers of both sittings in the runs' order, the newer if both have one.

    Numbers of runs that share a pair can't be matched: the sitting with more of them counts.
    """
    if any("#" in pair for pair in (*before, *now)):
        return dict(before if len(before) > len(now) else now)
    union = {**before, **now}
    return {pair: union[pair] for pair in sorted(union, key=pairs.index)}
