"""Captions, made from the collected runs, so that no caption names a run that does not exist."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from fedcore.base.lazy import DataFrame
from fedcore.execution.machine import commit
from pipeline.catalogue.params import STUDY
from pipeline.catalogue.targets import Cell, Paper, Test
from pipeline.reports import significance, style
from pipeline.reports.results import REPRODUCTION, RunFacts
from pipeline.reports.significance import ALPHA, Comparison

TESTS: Mapping[Test, str] = {"t": "paired t-test", "wilcoxon": "Wilcoxon signed-rank test"}
SPREAD = "Mean ± sample standard deviation"
LISTED = 4
Note = str | Callable[[DataFrame], str]


@dataclass(frozen=True)
class Caption:
    """A caption: what a reader must not overlook, or nothing, and the other sentences, with full stops."""

    watermark: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """All of it as one paragraph."""
        return " ".join(filter(None, [self.watermark, *self.sentences]))

    def divided(self) -> tuple[str, str]:
        """Return the caption as it is printed, in at most two sentences with the watermark, and its notes."""
        first = 1 if self.watermark or "? " in self.sentences[0] else 2
        return " ".join(self.sentences[:first]), " ".join(self.sentences[first:])


def watermark(scale: str) -> str:
    """Return the warning that goes with a reduced scale."""
    return "" if scale in {REPRODUCTION, STUDY} else f"{scale.capitalize()} scale: not a reproduction."


def spread(samples: Iterable[object]) -> str:
    """Say what a number with ± means, from the cells' ``values``."""
    cells = [significance.parse_samples(text) for text in samples]
    seeds = {int(pair.partition("#")[0].rpartition("/seed")[2]) for cell in cells for pair in cell}
    return spread_of(seeds, map(len, cells))


def spread_of(seeds: Collection[int], runs: Iterable[int], what: str = SPREAD, each: str = "a cell") -> str:
    """Say what a number with ± means, given the seeds that ran and how many runs each number is of."""
    counts = sorted({*runs} - {0})
    if not counts:
        return "No run is finished."
    named = ", ".join(map(str, sorted(seeds))) if len(seeds) <= 5 else f"{min(seeds)} to {max(seeds)}"
    if counts == [1]:
        only = f"One seed ({named})" if len(seeds) == 1 else f"One run {each} (seeds {named})"
        return f"{only}, so no spread is given."
    if counts == [len(seeds)]:
        return f"{what} over {len(seeds)} seeds ({named})."
    return f"{what} over {extent(counts)} runs {each} (seed{'s' if len(seeds) > 1 else ''} {named})."


def extent(counts: Iterable[int]) -> str:
    """Return "5" or "5 to 8", the least and the largest of some counts; 0 of none."""
    known = sorted(counts) or [0]
    return " to ".join(map(str, dict.fromkeys((known[0], known[-1]))))


def failed(cells: Iterable[str]) -> str:
    """Say that runs failed, given what ``failed`` says of the cells that lack some."""
    counted = Counter(what.partition(" ")[2] for cell in cells for what in cell.split("; "))
    parts = [f"{what} in {count} cell{'s' if count > 1 else ''}" for what, count in sorted(counted.items())]
    return f"Runs without a result: {', '.join(reversed(parts))}." if parts else ""


def diverged(
    lost: Mapping[Cell, tuple[int, int]],
    names: tuple[Mapping[str, str], Mapping[str, str]],
    cells: Collection[Cell],
    since: str = "",
    untrained: bool = False,
) -> str:
    """Say which of the runs of all ``cells`` diverged, as every table and figure does; empty if none did.

    Args:
        lost: how many runs of a cell diverged, of how many; see ``results.lost``.
        names: the labels of rows, and of columns.
        since: from when on a diverged run has no numbers, where it has some before.
        untrained: whether they count as the model was before the first round.
    """
    rows, columns = names
    parts = [
        f"{rows[r]}, {columns[c]} ({diverged} of {runs} runs)" for (r, c), (diverged, runs) in lost.items()
    ]
    if len(lost) > LISTED or any("@" in column for _, column in lost):
        totals, counts = (Counter(row for row, _ in group) for group in (cells, lost))
        parts = [f"{rows[row]} (in {number} of {totals[row]} cells)" for row, number in counts.items()]
    how = "Diverged runs count as the untrained model" if untrained else f"Without diverged runs{since}"
    return f"{style.DIVERGED} {how}: {'; '.join(parts)}." if parts else ""


def underlined(
    tests: Mapping[str, Test], compared: Mapping[str, Comparison], labels: Mapping[str, str]
) -> str:
    """Say by which test of its column a method is underlined, and where none could run."""
    tested = (key for key, test in tests.items() if test != "none")
    comparisons = {key: compared[key] for key in tested if compared[key].best is not None}
    ran = {key: entry for key, entry in comparisons.items() if entry.p}
    reasons = {key: entry.why for key, entry in comparisons.items() if not entry.p}
    if not comparisons:
        return ""
    if not ran:
        return f"No test of significance: {'; '.join(dict.fromkeys(reasons.values()))}."
    names = " and ".join(dict.fromkeys(TESTS[tests[key]] for key in ran))
    pairs = extent(n for entry in ran.values() for n in entry.pairs.values())
    sentences = [
        f"Underlined: not significantly worse than the best (two-sided {names} over {pairs} pairs of runs "
        f"that share seed and partition; p ≥ {ALPHA:g} after Holm's correction over the methods of a column)."
    ]
    for why in dict.fromkeys(reasons.values()):
        columns = _listed([labels[key] for key, reason in reasons.items() if reason == why])
        sentences.append(f"No test of significance for {columns}: {why}.")
    flat = [why for entry in ran.values() for why in entry.untested.values()].count(significance.LEVEL)
    if flat:
        cells = f"{flat} cell{'s' if flat > 1 else ''} whose"
        sentences.append(f"Not tested: {cells} differences from the best are the same in all runs.")
    return " ".join(sentences)


def origin_of(runs: Collection[RunFacts]) -> str:
    """Say in what arithmetic runs computed, which code reports on them, and when the newest was finished."""
    specs = [run.run.spec for run in runs if run.summary is not None]
    reduced = ["bf16" in (spec.get("precision"), spec["evaluation"].get("precision")) for spec in specs]
    some = "" if all(reduced) else " of some runs"
    days = [str(run.timing["finished"])[:10] for run in runs if run.timing and "finished" in run.timing]
    parts = [f"commit {at}" if (at := commit()) else "", f"newest run {max(days)}" if days else ""]
    words = ", ".join(filter(None, parts))
    devices = {run.timing.get("device") for run in runs if run.timing}
    sentences = (
        "Some runs were made on a CPU, others on a GPU." if {"cpu", "cuda"} <= devices else "",
        f"Forward and backward passes{some} in bfloat16." if any(reduced) else "",
        f"{words[0].upper()}{words[1:]}." if words else "",
    )
    return " ".join(filter(None, sentences))


def note(words: Note, frame: DataFrame) -> str:
    """Return what a target itself says under its numbers."""
    return words if isinstance(words, str) else words(frame)


def naming_only_what_ran(sentence: str, absent: Iterable[str], instead: str = "") -> str:
    """Return a sentence, or ``instead`` where it names one of the absent methods."""
    named = any(re.search(rf"(?<![\w-]){re.escape(label)}(?![\w+-])", sentence) for label in absent if label)
    return instead if named else sentence


def compose(
    sentences: Iterable[str],
    published: str,
    paper: Paper,
    scale: str = "",
    variant: str = "",
    notes: Iterable[tuple[str, str, str]] = (),
    origin: str = "",
) -> Caption:
    """Return a caption: what the report says itself, then of what and where it comes from.

    Scale and variant are empty where it says the same at each; empty sentences are left out. ``notes`` are
    (data set in print, state, note) of the data; for ``origin`` see ``origin_of``.
    """
    parts = [
        f"{'' if note.lower().startswith(name.lower()) else f'{name}: '}{note} ({state})"
        for name, state, note in dict.fromkeys(notes)
        if name and note
    ]
    texts = (
        *sentences,
        f"Scale: {scale}. Variant: {variant}." if scale and not paper.is_study else "",
        f"Data: {'; '.join(parts)}." if parts else "",
        f"{published} of {paper.citation}" + ("." if paper.is_study else ", computed anew."),
        origin,
    )
    return Caption(watermark(scale) if scale else "", tuple(filter(None, texts)))


def _listed(columns: list[str]) -> str:
    counted = Counter(columns)
    if len(counted) > LISTED:
        return f"{len(columns)} columns"
    return ", ".join(name if times == 1 else f"{times} columns {name}" for name, times in counted.items())


def stopped(printed: int) -> Callable[[DataFrame], str]:
    """Return a note on how many of the paper's ``printed`` rounds were trained, if not all.

    The tidy frame has a ``round``, or rounds as its columns.
    """

    def sentence(frame: DataFrame) -> str:
        last = int(frame["round"].max()) if "round" in frame else max(map(int, frame["column"]))
        return f"Training stopped after {last} of {printed:,} rounds." if last < printed else ""

    return sentence
