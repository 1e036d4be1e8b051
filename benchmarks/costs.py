"""What do runs cost? Fits the guesses of pipeline/workflow/estimate.py to the seconds of the kept runs.

    python benchmarks/costs.py            write pipeline/workflow/costs.json, half a minute
    python benchmarks/costs.py --fit      the same but for how far off guesses are, which leaves tables out

Rates are fitted to the logarithm of seconds, each setting counting once, with little weight on outliers.
They start from orders of magnitude (chosen with all kept runs in view), which decide where kept runs say
little. An hour in which the machine did other things makes all its runs slower: such an hour gets a
factor of its own, which the rates are freed of. Then each group of runs that are alike gets a factor.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from fedcore.base.files import digest, write_json
from pipeline.catalogue import Catalogue
from pipeline.papers import catalogue_of
from pipeline.reports.kept import REFERENCE, RUNS, SHORTER, read_runs
from pipeline.workflow.estimate import FITTED, Demand, demand, factor, factors, fitted, raw

ROOT = Path(__file__).parents[1]
KEPT = ROOT / REFERENCE
START = {
    "step": 1e-4,
    "dense": 5e-12,
    "shared": 8e-12,
    "bf16": 2.5e-12,
    "vectors": 3e-10,
    "pairs": 3e-8,
    "decompositions": 2e-4,
    "training": 2e-4,
    "sent": 2e-8,
    "round": 5e-4,
    "server": 3e-5,
    "mixed": 1e-9,
    "measured": 2e-7,
    "loaded": 5e-8,
}
HOLD = 2.0
SITTINGS = 3
FEW = 3
TWICE, THIRD = 2.0, 1 / 3
OUTLIER = 0.3
NEAR, NEAR_TOTAL, SHARE = 1.5, 1.3, 0.8
KNOWN = RESULTS, SPEED, NOTHING = "with_results", "with_speed", "without_speed"


@dataclass(frozen=True)
class Kept:
    """A kept run: its folder, what it asks for, what it took, and its commit with the hour it ended in."""

    run: str
    demand: Demand
    seconds: float
    sitting: str


def kept_runs(catalogues: Iterable[Catalogue]) -> list[Kept]:
    """Return the kept runs whose specification params.yaml still describes; none that ended at its target."""
    hashes = {digest(run.spec): run for own in catalogues for run in own.index.values()}
    demands: dict[str, Demand] = {}
    found = []
    for path in sorted(KEPT.rglob(RUNS)):
        for line in read_runs(path).to_dict("records"):
            run = hashes.get(line["spec_sha256"])
            whole = run and int(line["rounds"]) == run.spec["training"]["rounds"]
            if run and whole and line["status"] == "completed" and line["device"] == "cpu":
                if run.group not in demands:
                    demands[run.group] = demand(run.spec, run.recipe)
                sitting = f"{line['commit']} {line['finished'][:13]}"
                found.append(Kept(line["run"], demands[run.group], float(line["seconds"]), sitting))
    return found


def calm(runs: Sequence[Kept]) -> list[Kept]:
    """Return the runs that no equal run, of another seed, shows to be disturbed by what else was going on.

    A run is disturbed that took more than twice as long as the fastest equal one, and so are all runs of a
    sitting in which a third of those that have an equal one are.
    """
    equal: dict[int, list[float]] = {}
    for run in runs:
        equal.setdefault(id(run.demand), []).append(run.seconds)
    slow = [run.seconds > TWICE * min(equal[id(run.demand)]) for run in runs]
    shares: dict[str, list[bool]] = {}
    for run, own in zip(runs, slow, strict=True):
        if len(equal[id(run.demand)]) > 1:
            shares.setdefault(run.sitting, []).append(own)
    loud = {sitting for sitting, own in shares.items() if sum(own) >= THIRD * len(own)}
    return [run for run, own in zip(runs, slow, strict=True) if not own and run.sitting not in loud]


def fit(runs: Sequence[Kept]) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Return rates, factors of groups, and factors of sittings."""
    sittings: dict[str, float] = {}
    for _ in range(SITTINGS):
        rates, groups = _once(runs, sittings)
        off: dict[str, list[float]] = {}
        for run in runs:
            off.setdefault(run.sitting, []).append(log(run.seconds / guessed(run.demand, rates, groups)))
        shrunk = {hour: median(own) * len(own) / (len(own) + FEW) for hour, own in off.items()}
        usual = median(shrunk[run.sitting] for run in runs)
        sittings = {hour: exp(own - usual) for hour, own in shrunk.items()}
    return *_once(runs, sittings), sittings


def guessed(found: Demand, rates: Mapping[str, float], groups: Mapping[str, float]) -> float:
    """Return the guessed seconds of a run."""
    return raw(found, rates) * factor(found, groups)[1]


def _once(runs: Sequence[Kept], sittings: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """Return rates and factors with the sittings' known."""
    calm = [(run, run.seconds / sittings.get(run.sitting, 1.0)) for run in runs]
    alike: dict[int, list[tuple[Kept, float]]] = {}
    for pair in calm:
        alike.setdefault(id(pair[0].demand), []).append(pair)
    settings = [*alike.values()]
    work = np.array([[own[0][0].demand.work[name] * START[name] for name in START] for own in settings])
    seconds = np.array([median(log(took) for _, took in own) for own in settings])
    weight = np.array([(1 + log(len(own))) ** 0.5 for own in settings])

    def misses(logs: Any) -> Any:
        return np.concatenate([(np.log(work @ np.exp(logs)) - seconds) * weight, HOLD * logs])

    def slopes(logs: Any) -> Any:
        parts = work * np.exp(logs)
        return np.concatenate(
            [parts / parts.sum(1, keepdims=True) * weight[:, None], HOLD * np.eye(len(START))]
        )

    found = least_squares(misses, np.zeros(len(START)), slopes, loss="soft_l1", f_scale=OUTLIER).x
    rates = {name: _short(START[name] * exp(own)) for name, own in zip(START, found, strict=True)}
    groups = factors((run.demand, took / raw(run.demand, rates)) for run, took in calm)
    return rates, {name: _short(own) for name, own in groups.items()}


def _short(value: float) -> float:
    return float(f"{value:.3g}")


def left_out(catalogues: Iterable[Catalogue], runs: Sequence[Kept]) -> tuple[dict[str, Any], list[float]]:
    """Return how far off guesses are of each kept table when its runs are left out, and by sort of group."""
    by_level: dict[int, list[float]] = {}
    misses: dict[str, list[float]] = {known: [] for known in KNOWN}
    totals: dict[str, list[float]] = {known: [] for known in KNOWN}
    for name, folders in chain.from_iterable(map(_tables, catalogues)):
        own = [run for run in runs if run.run in folders]
        rest = [run for run in runs if run.run not in folders]
        if not own:
            continue
        rates, groups, _ = fit(rest)
        guesses = [guessed(run.demand, rates, groups) for run in own]
        for run, guess in zip(own, guesses, strict=True):
            by_level.setdefault(factor(run.demand, groups)[0], []).append(abs(log(run.seconds / guess)))
        ratios = [(run, run.seconds / guessed(run.demand, rates, groups)) for run in (*own, *rest)]
        took = sum(run.seconds for run in own)
        for known, corrections in _corrections(ratios, len(own)).items():
            better = [guess * own for guess, own in zip(guesses, corrections, strict=True)]
            misses[known] += [log(run.seconds / guess) for run, guess in zip(own, better, strict=True)]
            totals[known].append(log(took / sum(better)))
        near, total = _near(misses[RESULTS], NEAR, len(own)), exp(totals[RESULTS][-1])
        print(f"{name:36} {len(own):4} runs {near:4.0%} near, measured / guessed {total:.2f}")
    figures = {
        "tables": len(totals[RESULTS]),
        "runs": len(misses[RESULTS]),
        "within_2": _near(misses[RESULTS], 2),
        "totals_within_2": _near(totals[RESULTS], 2),
        "near_other_seeds": _near(_seeds(runs), NEAR),
    }
    for known in KNOWN:
        figures[f"near_{known}"] = _near(misses[known], NEAR)
        figures[f"totals_near_{known}"] = _near(totals[known], NEAR_TOTAL)
    spread = [_short(exp(_quantile(by_level.get(at, [0.0])))) for at in range(5)]
    return figures, list(accumulate(spread, max))


def _corrections(ratios: Sequence[tuple[Kept, float]], count: int) -> dict[str, list[float]]:
    """Return what the first ``count`` guesses are multiplied by, by what is known of the machine.

    That is: the other runs of the sitting, as ``fedcore cost`` takes results that are here; their median
    alone, as a calibration gives it; nothing.
    """
    sittings: dict[str, list[tuple[Kept, float]]] = {}
    for run, ratio in ratios:
        sittings.setdefault(run.sitting, []).append((run, ratio))
    found: dict[str, list[float]] = {known: [] for known in KNOWN}
    for run, _ in ratios[:count]:
        others = [(own, ratio) for own, ratio in sittings[run.sitting] if own is not run]
        here = factors((own.demand, ratio) for own, ratio in others)
        found[RESULTS].append(factor(run.demand, here)[1])
        found[SPEED].append(exp(median(log(ratio) for _, ratio in others)) if others else 1.0)
        found[NOTHING].append(1.0)
    return found


def _without(values: list[float], one: float) -> list[float]:
    at = values.index(one)
    return [*values[:at], *values[at + 1 :]]


def _tables(catalogue: Catalogue) -> Iterable[tuple[str, frozenset[str]]]:
    """Yield the kept tables with the folders of their runs; of those with the same runs only one."""
    scale, seen = catalogue.params.scale, set()
    folder = KEPT / SHORTER if scale == SHORTER else KEPT
    for name in catalogue.names():
        folders = frozenset(run.folder for run in catalogue.needed(*name.split("/")))
        if (folder / f"{name}.csv").exists() and folders not in seen:
            seen.add(folders)
            yield name, folders


def _seeds(runs: Sequence[Kept]) -> list[float]:
    """Return how far each run is from the median of its setting's other seeds: no guess can be nearer."""
    alike: dict[int, list[float]] = {}
    for run in runs:
        alike.setdefault(id(run.demand), []).append(log(run.seconds))
    several = [own for own in alike.values() if len(own) > 1]
    return [took - median(_without(own, took)) for own in several for took in own]


def _near(misses: Sequence[float], times: float, last: int = 0) -> float:
    asked = misses[-last:]
    return round(sum(abs(miss) < log(times) for miss in asked) / len(asked), 2)


def _quantile(misses: Iterable[float]) -> float:
    return float(np.quantile([*misses], SHARE))


def main() -> None:
    """Fit, print what leaving out gives, and write the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fit", action="store_true", help="keep how far off guesses are")
    only_fit = parser.parse_args().fit
    editions = ROOT / "data" / "editions.yaml"
    catalogues = [catalogue_of(ROOT / "params.yaml", scale, editions) for scale in ("paper", SHORTER)]
    every = kept_runs(catalogues)
    runs = calm(every)
    rates, groups, _ = fit(runs)
    found: dict[str, Any] = {"rates": rates, "factors": groups}
    if only_fit:
        found |= {name: fitted()[name] for name in ("spread", "left_out")}
    else:
        figures, spread = left_out(catalogues, runs)
        figures |= {"kept": len(every), "disturbed": len(every) - len(runs)}
        figures["near_other_seeds_of_all"] = _near(_seeds(every), NEAR)
        found |= {"spread": spread, "left_out": figures}
        print(figures, spread)
    write_json(FITTED, found)


if __name__ == "__main__":
    main()
