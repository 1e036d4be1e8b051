"""The same federated work in Flower, FedLab, pfl-research, fedjax and fedcore: time, start-up, memory.

    python benchmarks/peers/speed.py --quick                     all of it with fewer rounds, some minutes
    python benchmarks/peers/speed.py --only mlp --only lstm      two workloads
    python benchmarks/peers/speed.py --only table                a whole table, end to end, against Flower
    python benchmarks/peers/speed.py --peer fedjax --only cnn    one peer
    python benchmarks/peers/speed.py --only gpu-cifar10 --out benchmarks/out/gpu.json    where there is a GPU

Each peer has an environment of its own below .benchmarks/, which the first call makes. Everything runs on
one core and one thread. A repetition runs every side once, one after another, each in a new process; a
round's time is the median over repetitions of the median round, a first round apart.
Before that, every side does two rounds of full-batch steps from the same first weights, which leave
nothing to chance: the weights must agree. A peer that can't be installed, or fails, is named with its reason.

The figures are wall-clock time. "core" is the share of the core that a side got while it was measured (for
Flower, whose clients are other processes, it is not known): below 0.95 something else was running.
The results go to a file; `python benchmarks/peers/report.py` writes the documentation's tables from it.
The exit code is 1 where a target is missed, or weights do not agree.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

sys.path.insert(0, str(Path(__file__).parent))

import processes
import whole_table
from environments import BY_NAME as PEERS
from environments import ENGINES, OURS, OWN, ROOT, TITLES, NotInstalled, interpreter
from figures import Target, processor_share, round_seconds, start_seconds, target
from protocol import Request, written
from workloads import CHECK_ROUNDS, CLIENTS, ON_A_GPU, WORKLOADS, Workload, weights, write

HERE = Path(__file__).parent
TABLE = "table"
WORK = {work.name: work for work in (*WORKLOADS, *(ON_A_GPU if torch.cuda.is_available() else ()))}
WITH_A_GPU = ("pfl", OURS)
LIMIT = 900.0
TOLERANCE = 1e-3
"""Largest difference of weights, relative to how far they moved, that float32's rounding explains."""
TOLERANCE_OF_TILES = 2e-3
"""The same with ``compiled``, whose larger rounding may put a unit on the other side of zero for a row."""
TOLERANCE_OF_TF32 = 2e-2
"""The same on a GPU, where PyTorch's convolutions, and so the peer's, keep 10 bits unless told otherwise."""


class Failed(Exception):
    """A side did not do what was asked; the message says why."""


def main(
    only: Annotated[
        list[str] | None, typer.Option(help=f"One of {', '.join((*WORK, TABLE))}; repeatable.")
    ] = None,
    peer: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(PEERS)}; repeatable.")] = None,
    quick: Annotated[bool, typer.Option(help="Fewer rounds and repetitions.")] = False,
    repetitions: Annotated[int, typer.Option(min=0, help="How often; 0 for 2 (quick) or 5.")] = 0,
    core: Annotated[int, typer.Option(help="Which core to measure on; -1 for the last one.")] = -1,
    out: Annotated[
        Path, typer.Option(help="Where the results go.", show_default="benchmarks/out/peers.json")
    ] = ROOT / "benchmarks/out/peers.json",
) -> None:
    """Measure and print."""
    names = _known(only, (*WORK, TABLE), "--only")
    sides = [*_known(peer, tuple(PEERS), "--peer"), *OWN]
    core = max(os.sched_getaffinity(0)) if core < 0 else core
    times = repetitions or (2 if quick else 5)
    results: dict[str, Any] = {
        "machine": machine(),
        "quick": quick,
        "repetitions": times,
        "failures": {},
        "workloads": {},
    }
    results = _kept(out, results) if only else results
    print(f"{results['machine']['processor']}, one core of {results['machine']['cores']}")
    print(f"a round: {CLIENTS} clients unless said, plain SGD; median of {times} repetitions")
    if results["machine"]["idle"] < 0.9:
        print(f"this machine is busy ({1 - results['machine']['idle']:.0%}): the times are not to be trusted")
    pythons = _pythons(sides, results["failures"])
    missed = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            if name == TABLE:
                result = whole_table.measure(pythons, Path(folder), quick, core, results["failures"])
                results[TABLE] = result
                print(whole_table.text(result))
            else:
                work = WORK[name]
                result = measure(work, pythons, Path(folder), quick, times, core, results["failures"])
                results["workloads"][name] = result
                print(text(work, result), flush=True)
                missed += _missed(work, result)
            _write(out, results)
    for name, reason in results["failures"].items():
        print(f"{name}: {reason}")
    print(f"\n{'missed: ' + '; '.join(missed) if missed else 'every target reached'}\nresults: {out}")
    raise typer.Exit(bool(missed))


def _kept(path: Path, results: dict[str, Any]) -> dict[str, Any]:
    """Return what was measured before on the same machine in the same form, to add to; else nothing."""
    before = json.loads(path.read_text()) if path.exists() else {}
    same = all(before.get(key) == results[key] for key in ("quick", "repetitions"))
    same = same and before["machine"]["processor"] == results["machine"]["processor"]
    return before if same else results


def measure(
    work: Workload,
    pythons: dict[str, Path],
    folder: Path,
    quick: bool,
    repetitions: int,
    core: int,
    failures: dict[str, str],
) -> dict[str, Any]:
    """Do a workload on all sides in turns; return each side's figures, and add failures."""
    data = folder / "data"
    write(work, data)
    sides = {
        side: python
        for side, python in pythons.items()
        if (
            side in WITH_A_GPU
            if work.device == "cuda"
            else side not in ENGINES or work.engine == ENGINES[side]
        )
    }
    measured: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    ends: dict[str, Path] = {}
    for turn in range(repetitions + 1):
        for side, python in list(sides.items()):
            check = turn == 0
            rounds = CHECK_ROUNDS if check else 1 + (work.quick_rounds if quick else work.rounds)
            end = folder / f"{side}-{turn}.npz"
            if sys.stderr.isatty():
                print(
                    f"  {work.name}, {turn} of {repetitions}: {TITLES[side]:20s}", end="\r", file=sys.stderr
                )
            try:
                answer = one(side, python, work, data, rounds, check, end, core)
            except Failed as error:
                failures[f"{TITLES[side]}, {work.name}"] = str(error)
                del sides[side]
                continue
            if check:
                ends[side] = end
            else:
                measured[side].append(answer)
    start = weights(data / "start.npz")
    final = {side: weights(end) for side, end in ends.items()}
    return {
        side: figures(answers) | {"deviation": deviation(final[side], final.get(OURS), start)}
        for side, answers in measured.items()
        if side in sides and answers
    }


def one(
    side: str, python: Path, work: Workload, data: Path, rounds: int, check: bool, end: Path, core: int
) -> dict[str, Any]:
    """Run one side once.

    Raises:
        Failed: it ended with an error.
    """
    ours, engine = side in OWN, ENGINES.get(side, "auto")
    request = Request(work.name, str(data), rounds, check, time.monotonic(), str(end), engine)
    script = HERE / f"with_{OURS if ours else side}.py"
    environment = {"PYTHONPATH": os.pathsep.join([str(HERE), *([str(ROOT)] if ours else [])])}
    process = processes.run([python, script, written(request)], environment, core, LIMIT)
    if process.code or not process.output.strip():
        raise Failed(process.reason)
    return {**json.loads(process.output.strip().splitlines()[-1]), "peak": process.peak}


def figures(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a side's figures from its repetitions."""
    wall = [answer["wall"] for answer in answers]
    processor = [answer["processor"] for answer in answers]
    return {
        "version": answers[0]["version"],
        "engine": answers[0]["engine"],
        "round": round_seconds(wall),
        "start": start_seconds([answer["began"] for answer in answers], wall),
        "peak_mb": statistics.median(answer["peak"] for answer in answers) / 1e6,
        "core": processor_share(processor, wall),
        "wall": wall,
    }


def deviation(final: dict[str, Any], ours: dict[str, Any] | None, start: dict[str, Any]) -> float | None:
    """Return the largest difference from our weights, relative to the largest move of ours."""
    if ours is None:
        return None
    if {name: array.shape for name, array in final.items()} != {n: a.shape for n, a in start.items()}:
        raise ValueError("the final weights are not those of the model")
    moved = max(float(np.abs(ours[name] - start[name]).max()) for name in start)
    return max(float(np.abs(final[name] - ours[name]).max()) for name in start) / moved


def text(work: Workload, found: dict[str, Any]) -> str:
    """Return a workload's table for the terminal."""
    lines = [
        f"\n{work.name}: {work.title}, {work.cohort} of {work.clients} clients, batch {work.batch}, "
        f"{work.rows} rows, {work.epochs} epochs"
    ]
    if not found:
        return "\n".join([*lines, "nothing was measured"])
    others = (values["round"] for side, values in found.items() if side not in OWN)
    fastest = min(others, default=float("nan"))
    ours = found.get(OURS, {}).get("round", float("nan"))
    lines.append("                round   /fastest peer  /fedcore  start-up   memory   core  same weights")
    for side, values in sorted(found.items(), key=lambda item: item[1]["round"]):
        apart = values["deviation"]
        same = "-" if apart is None else f"{'yes' if apart <= _tolerance(work, side) else 'NO'} ({apart:.0e})"
        share = "   -" if side == "flower" else f"{values['core']:.2f}"
        seconds = values["round"]
        lines.append(
            f"{TITLES[side]:13s} {seconds * 1e3:5.0f} ms  {seconds / fastest:11.2f}  {seconds / ours:9.2f}  "
            f"{values['start']:6.1f} s  {values['peak_mb']:5.0f} MB  {share}  {same}"
        )
    reached = _reached(work, found)
    if reached:
        verdict = "reached" if reached.met else "MISSED"
        lines.append(
            f"{reached.ratio:.2f} times as fast as {TITLES[reached.fastest]}; "
            f"target {reached.wanted}: {verdict}"
        )
    return "\n".join(lines)


def _reached(work: Workload, by_side: dict[str, Any]) -> Target | None:
    """Compare the faster of our engines with the fastest peer."""
    rounds = {side: values["round"] for side, values in by_side.items()}
    named = [side for side in ENGINES if side in by_side]
    return target(rounds, named[0] if named else OURS, work.faster)


def machine() -> dict[str, Any]:
    """Return what the figures depend on, without the machine's name."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").is_file() else ""
    models = [line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")]
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(pages / 1e9),
        **({"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {}),
        "idle": processes.idle_share(),
        "python": platform.python_version(),
        "torch": version("torch"),
        "numpy": np.__version__,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def _pythons(sides: list[str], failures: dict[str, str]) -> dict[str, Path]:
    """Return the interpreters of those sides that can be had, and add why others can't."""
    pythons = {}
    for side in sides:
        try:
            pythons[side] = interpreter(side)
        except NotInstalled as error:
            failures[TITLES[side]] = f"not installed: {error}"
    return pythons


def _missed(work: Workload, by_side: dict[str, Any]) -> list[str]:
    reached = _reached(work, by_side)
    slow = [f"{work.name} {reached.ratio:.2f} < {reached.wanted}"] if reached and not reached.met else []
    return slow + [
        f"{work.name}: {TITLES[side]}'s weights differ by {values['deviation']:.0e}"
        for side, values in by_side.items()
        if (values["deviation"] or 0.0) > _tolerance(work, side)
    ]


def _tolerance(work: Workload, side: str) -> float:
    if work.device == "cuda":
        return TOLERANCE_OF_TF32
    return TOLERANCE_OF_TILES if ENGINES.get(side) == "compiled" else TOLERANCE


def _known(given: list[str] | None, choices: tuple[str, ...], option: str) -> list[str]:
    for name in given or ():
        if name not in choices:
            raise typer.BadParameter(f"'{name}', expected one of {', '.join(choices)}", param_hint=option)
    return [name for name in choices if not given or name in given]


def _write(path: Path, results: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(results, indent=1) + "\n")
    shutil.move(new, path)


if __name__ == "__main__":
    main.__doc__ = __doc__.replace("\n\n    python", "\n\n\b\n    python", 1)
    app = typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
