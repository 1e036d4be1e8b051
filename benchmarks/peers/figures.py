"""From measured rounds to figures: medians, ratios, targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

Rounds = Sequence[Sequence[float]]


def round_seconds(repetitions: Rounds) -> float:
    """Return the median over repetitions of the median round, without the first: a warm-up."""
    return median(median(rounds[1:]) for rounds in repetitions)


def start_seconds(began: Sequence[float], repetitions: Rounds) -> float:
    """Return the median of what precedes a usual round: starting, reading, what the first costs more."""
    return median(
        before + rounds[0] - median(rounds[1:]) for before, rounds in zip(began, repetitions, strict=True)
    )


def processor_share(processor: Rounds, wall: Rounds) -> float:
    """Return processor over wall-clock seconds of the measured rounds: 1 where nothing disturbs."""
    return sum(sum(rounds[1:]) for rounds in processor) / sum(sum(rounds[1:]) for rounds in wall)


@dataclass(frozen=True)
class Target:
    """How many times as fast as the fastest peer fedcore is, and has to be."""

    fastest: str
    ratio: float
    wanted: float

    @property
    def met(self) -> bool:
        """Whether it is."""
        return self.ratio >= self.wanted


def target(seconds: Mapping[str, float], ours: str, wanted: float) -> Target | None:
    """Compare with the fastest peer; None where one side was not measured."""
    others = {name: value for name, value in seconds.items() if not name.startswith(ours.partition("-")[0])}
    if ours not in seconds or not others:
        return None
    fastest = min(others, key=others.__getitem__)
    return Target(fastest, others[fastest] / seconds[ours], wanted)
