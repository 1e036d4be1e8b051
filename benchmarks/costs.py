"""What do runs cost? Fits the guesses of pipeline/workflow/estimate.py to the seconds of the kept runs.

    python benchmarks/costs.py            write pipeline/workflow/costs.json, half a minute
    python benchmarks/costs.py --fit      the same but for how far off guesses are, which leaves tables out

Rates are fitted to the logarithm of seconds, each setting counting once, with little weight on outliers.
They start from orders of magnitude (chosen with all kept runs in view), which decide where kept runs say
little. An hour in which the machine did other things makes all its runs slower: such an hour gets a
factor of its own, which the rates are freed of. Then each group of runs that are alike gets a factor.
"""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from fedcore.base.files import write_json
from pipeline.catalogue import Catalogue
from pipeline.papers import catalogue_of
from pipeline.reports.kept import REFERENCE, RUNS, SHORTER, read_kept
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
    runs_by_hash = {run.spec_sha256: run for catalogue in catalogues for run in catalogue.index.values()}
    demands: dict[str, Demand] = {}
    kept = []
    for path in sorted(KEPT.rglob(RUNS)):
        lines = read_kept(path)
        for line in lines[lines["spec_sha256"].isin(runs_by_hash)].to_dict("records"):
            run = runs_by_hash[line["spec_sha256"]]
            all_rounds = int(line["rounds"]) == run.spec["training"]["rounds"]
            if all_rounds and line["status"] == "completed" and line["device"] == "cpu":
                if run.group not in demands:
                    demands[run.group] = demand(run.spec, run.recipe)
                sitting = f"{line['commit']} {line['finished'][:13]}"
                kept.append(Kept(line["run"], demands[run.group], float(line["seconds"]), sitting))
    return kept


def calm(runs: Sequence[Kept]) -> list[Kept]:
    """Return the runs that no equal run, of another seed, shows to be disturbed by what else was going on.

    A run is disturbed that took more than twice as long as the fastest equal one, and so are all runs of a
    sitting in which a third of those that have an equal one are.
    """
    equal: dict[int, list[float]] = {}
    for run in runs:
        equal.setdefault(id(run.demand), []).append(run.seconds)
    slow = [run.seconds > TWICE * min(equal[id(run.demand)]) for run in runs]
    slow_by_sitting: dict[str, list[bool]] = {}
    for run, is_slow in zip(runs, slow, strict=True):
        if len(equal[id(run.demand)]) > 1:
            slow_by_sitting.setdefault(run.sitting, []).append(is_slow)
    loud = {sitting for sitting, flags in slow_by_sitting.items() if sum(flags) >= THIRD * len(flags)}
    return [run for run, is_slow in zip(runs, slow, strict=True) if not is_slow and run.sitting not in loud]


def fit(runs: Sequence[Kept]) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Return rates, factors of groups, and factors of sittings."""
    sittings: dict[str, float] = {}
    for _ in range(SITTINGS):
        rates, groups = _once(runs, sittings)
        misses: dict[str, list[float]] = {}
        for run in runs:
            misses.setdefault(run.sitting, []).append(log(run.seconds / guessed(run.demand, rates, groups)))
        shrunk = {sitting: median(logs) * len(logs) / (len(logs) + FEW) for sitting, logs in misses.items()}
        usual = median(shrunk[run.sitting] for run in runs)
        sittings = {sitting: exp(miss - usual) for sitting, miss in shrunk.items()}
    return *_once(runs, sittings), sittings


def guessed(found: Demand, rates: Mapping[str, float], groups: Mapping[str, float]) -> float:
    """Return the guessed seconds of a run."""
    return raw(found, rates) * factor(found, groups)[1]


def _once(runs: Sequence[Kept], sittings: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """Return rates and factors with the sittings' known."""
    timings = [(run, run.seconds / sittings.get(run.sitting, 1.0)) for run in runs]
    alike: dict[int, list[tuple[Kept, float]]] = {}
    for pair in timings:
        alike.setdefault(id(pair[0].demand), []).append(pair)
    settings = [*alike.values()]
    work = np.array([[pairs[0][0].demand.work[name] * START[name] for name in START] for pairs in settings])
    seconds = np.array([median(log(took) for _, took in pairs) for pairs in settings])
    weight = np.array([(1 + log(len(pairs))) ** 0.5 for pairs in settings])

    def misses(logs: Any) -> Any:
        return np.concatenate([(np.log(work @ np.exp(logs)) - seconds) * weight, HOLD * logs])

    def slopes(logs: Any) -> Any:
        parts = work * np.exp(logs)
        shares = parts / parts.sum(1, keepdims=True)
        return np.concatenate([shares * weight[:, None], HOLD * np.eye(len(START))])

    shifts = least_squares(misses, np.zeros(len(START)), slopes, loss="soft_l1", f_scale=OUTLIER).x
    rates = {name: _short(START[name] * exp(shift)) for name, shift in zip(START, shifts, strict=True)}
    groups = factors((run.demand, took / raw(run.demand, rates)) for run, took in timings)
    return rates, {name: _short(value) for name, value in groups.items()}


def _short(value: float) -> float:
    return float(f"{value:.3g}")


def left_out(catalogues: Iterable[Catalogue], runs: Sequence[Kept]) -> tuple[dict[str, Any], list[float]]:
    """Return how far off guesses are of each kept table when its runs are left out, and by sort of group."""
    by_level: dict[int, list[float]] = {}
    misses: dict[str, list[float]] = {known: [] for known in KNOWN}
    totals: dict[str, list[float]] = {known: [] for known in KNOWN}
    for name, folders in chain.from_iterable(map(_tables, catalogues)):
        held_out = [run for run in runs if run.run in folders]
        rest = [run for run in runs if run.run not in folders]
        if not held_out:
            continue
        rates, groups, _ = fit(rest)
        guesses = [guessed(run.demand, rates, groups) for run in held_out]
        for run, guess in zip(held_out, guesses, strict=True):
            by_level.setdefault(factor(run.demand, groups)[0], []).append(abs(log(run.seconds / guess)))
        ratios = [(run, run.seconds / guessed(run.demand, rates, groups)) for run in (*held_out, *rest)]
        took = sum(run.seconds for run in held_out)
        for known, corrections in _corrections(ratios, len(held_out)).items():
            better = [guess * correction for guess, correction in zip(guesses, corrections, strict=True)]
            misses[known] += [log(run.seconds / guess) for run, guess in zip(held_out, better, strict=True)]
            totals[known].append(log(took / sum(better)))
        near, total = _near(misses[RESULTS], NEAR, len(held_out)), exp(totals[RESULTS][-1])
        print(f"{name:36} {len(held_out):4} runs {near:4.0%} near, measured / guessed {total:.2f}")
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
    spread = [_short(exp(_quantile(by_level.get(level, [0.0])))) for level in range(5)]
    return figures, list(accumulate(spread, max))


def _corrections(ratios: Sequence[tuple[Kept, float]], count: int) -> dict[str, list[float]]:
    """Return what the first ``count`` guesses are multiplied by, by what is known of the machine.

    That is: the other runs of the sitting, as ``fedcore cost`` takes results that are here; their median
    alone, as a calibration gives it; nothing.
    """
    sittings: dict[str, list[tuple[Kept, float]]] = {}
    for run, ratio in ratios:
        sittings.setdefault(run.sitting, []).append((run, ratio))
    corrections: dict[str, list[float]] = {known: [] for known in KNOWN}
    for run, _ in ratios[:count]:
        others = [(other, ratio) for other, ratio in sittings[run.sitting] if other is not run]
        groups = factors((other.demand, ratio) for other, ratio in others)
        corrections[RESULTS].append(factor(run.demand, groups)[1])
        corrections[SPEED].append(exp(median(log(ratio) for _, ratio in others)) if others else 1.0)
        corrections[NOTHING].append(1.0)
    return corrections


def _without(values: list[float], value: float) -> list[float]:
    at = values.index(value)
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
    several = [logs for logs in alike.values() if len(logs) > 1]
    return [took - median(_without(logs, took)) for logs in several for took in logs]


def _near(misses: Sequence[float], times: float, last: int = 0) -> float:
    latest = misses[-last:]
    return round(sum(abs(miss) < log(times) for miss in latest) / len(latest), 2)


def _quantile(misses: Iterable[float]) -> float:
    return float(np.quantile([*misses], SHARE))


def main() -> None:
    """Fit, print what leaving out gives, and write the file."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--fit", action="store_true", help="keep how far off guesses are")
    only_fit = parser.parse_args().fit
    editions = ROOT / "data" / "editions.yaml"
    catalogues = [catalogue_of(ROOT / "params.yaml", scale, editions) for scale in ("paper", SHORTER)]
    kept = kept_runs(catalogues)
    runs = calm(kept)
    rates, groups, _ = fit(runs)
    costs: dict[str, Any] = {"rates": rates, "factors": groups}
    if only_fit:
        costs |= {name: fitted()[name] for name in ("spread", "left_out")}
    else:
        figures, spread = left_out(catalogues, runs)
        figures |= {"kept": len(kept), "disturbed": len(kept) - len(runs)}
        figures["near_other_seeds_of_all"] = _near(_seeds(kept), NEAR)
        costs |= {"spread": spread, "left_out": figures}
        print(figures, spread)
    write_json(FITTED, costs)


if __name__ == "__main__":
    main()
