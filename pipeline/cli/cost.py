"""``fedcore cost``: what a report costs before it is built."""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from fedcore.base.errors import SpecError, say
from fedcore.base.files import write_json
from fedcore.cli.options import Json, show
from fedcore.data.download import inventory
from fedcore.execution import runner
from fedcore.execution.machine import processor
from fedcore.execution.status import FINISHED, survey
from fedcore.spec import parse
from pipeline.catalogue import Catalogue, weights
from pipeline.catalogue.params import STUDY
from pipeline.catalogue.targets import RESULTS, Cell, PlannedRun
from pipeline.cli.lookup import cell
from pipeline.cli.names import PARAMS, TARGET, Overlay, Scale, elsewhere
from pipeline.papers import catalogue_of
from pipeline.reports.kept import line_of
from pipeline.workflow import estimate
from pipeline.workflow.estimate import NOTHING, UNKNOWN, Guesses, demand
from pipeline.workflow.expected import stated
from pipeline.workflow.messages import job_name
from pipeline.workflow.reports import runs_of

GPUS = Path("/proc/driver/nvidia/gpus")
COSTLIEST = 5
LEAST_MEMORY, MOST_MEMORY = 0.5, 1.4  # of what was guessed, among runs whose peak was measured
RUN_BYTES, ROUND_BYTES = 40_000, 120
SAMPLE = {"rff_linear": 20, "mlp": 20, "cnn": 2}  # rounds of each model: a second or two
HOUR, GB = 3600, 1e9
Guess = dict[str, float]


def cost(
    target: Annotated[str | None, TARGET] = None,
    scale: Scale = None,
    cell: Annotated[
        tuple[str, str] | None,
        typer.Option(help="Only this cell of the report: its row and column, by key or label."),
    ] = None,
    cores: Annotated[int | None, typer.Option(min=1, help="Runs side by side; all cores by default.")] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="First measure this machine, for some seconds.")
    ] = False,
    overlay: Overlay = None,
    as_json: Json = False,
) -> None:
    """Estimate what a report costs: runs, core hours, memory, disk, and its most expensive settings.

    Example: fedcore cost rfedavg/table2 --scale paper --cores 8
    """
    if calibrate:
        say(f"runs take {calibrated():.2f} times as long here as the kept ones took", error=True)
    elif target is None:
        raise SpecError("cost: expected a report, a paper or 'all'; `fedcore targets` lists them")
    if target is None:
        show(as_json, {"speed": estimate.calibrated_speed()}, [])
    else:
        catalogue = catalogue_of(PARAMS, scale, overlay, studies=elsewhere([target]))
        costs = bill(catalogue, target, cell, cores or os.cpu_count() or 1)
        show(as_json, costs, text(costs))


def bill(
    catalogue: Catalogue, target: str, where: Cell | None = None, cores: int = 1, root: Path = Path()
) -> dict[str, Any]:
    """Return what a target, named as people type it, costs on this machine; docs/costs.md lists the keys.

    ``where`` is the row and column of a cell, by key or label, None for the whole; ``cores`` is how many runs
    go side by side; ``root`` holds results/. A target, row or column that there isn't raises SpecError.
    """
    runs = runs_of(catalogue, target)
    if where:
        sources, row, column = cell(catalogue, target, *where)
        runs = list(sources.cells[row, column]) if sources.trained else []
    planned = {str(root / run.folder): stated(run) for run in runs}
    statuses = survey(root / RESULTS, planned, alone=True)
    ended = {str(run.folder): run.seconds for run in statuses if run.state in FINISHED}
    left = [run for run in runs if str(root / run.folder) not in ended and line_of(run, root) is None]
    guess = estimate.guesses(catalogue, root)
    gpus = len([*GPUS.glob("*")])
    on_gpu = estimate.measured_here(catalogue, root, "cuda")
    memory = max((guess(run).memory_mb for run in left), default=0) * 2**20 / GB
    scales = {run.scale for run in runs}
    groups = {run.group: run for run in left}.values()
    unknown = {run.spec["data"]["name"] for run in groups if not demand(run.spec, run.recipe).known}
    return {
        "target": target,
        "scale": min(scales - {STUDY}, default=STUDY if scales else catalogue.params.scale),
        "to_make": len(left),
        "made": len(runs) - len(left),
        "made_core_hours": round(sum(ended.values()) / HOUR, 4),
        "core_hours": _wall(guess, left, 1),
        "cores": cores,
        "wall_hours": _wall(guess, left, cores),
        "gpus": gpus,
        "gpu_wall_hours": _wall(Guesses(1.0, on_gpu), left, gpus) if gpus and on_gpu else None,
        "memory_gb": _guess(memory, memory * LEAST_MEMORY, memory * MOST_MEMORY),
        "disk_gb": _disk(left, root),
        "speed": estimate.calibrated_speed(),
        "measured_here": len(guess.here or ()),
        "unknown_data": sorted(unknown),
        "dearest": [*_costliest(catalogue, guess, left)],
    }


def text(costs: Mapping[str, Any]) -> list[str]:
    """Return a bill for a terminal."""
    at = "" if costs["scale"] == STUDY else f" at {costs['scale']} scale"
    runs, made_hours = "run" if costs["to_make"] == 1 else "runs", costs["made_core_hours"]
    lines = [
        f"{costs['target']}{at}: {costs['to_make']:,} {runs} to make, {costs['made']:,} already made "
        f"({estimate.duration(made_hours * HOUR)})"
    ]
    if not costs["to_make"]:
        return lines
    basis = "This machine is taken to be as fast as that of the kept runs; measure: fedcore cost --calibrate"
    if costs["measured_here"]:
        basis = f"Times follow results that are here ({costs['measured_here']} groups of runs)."
    elif costs["speed"]:
        basis = f"Runs take {costs['speed']:.2f} times as long here as the kept ones took."
    side = f"{costs['cores']} core" + ("s" if costs["cores"] > 1 else "")
    gpu_hours = costs["gpu_wall_hours"]
    lines += [
        f"  on one core   {_shown(costs['core_hours'])}",
        f"  on {side:10} {_shown(costs['wall_hours'])}",
        *([f"  on {costs['gpus']} GPU      {_shown(gpu_hours)}"] if gpu_hours else []),
        f"  memory        {_gigabytes(costs['memory_gb'])} for the largest run",
        f"  disk          {_gigabytes(costs['disk_gb'])}",
        "the most expensive settings:",
        *(f"  {_shown(row['core_hours']):36} {row['name']}, runs: {row['runs']}" for row in costs["dearest"]),
        f"In brackets: where eight of ten lie. {basis}",
    ]
    if costs["gpus"] and not gpu_hours:
        lines += ["A GPU is seen; the kept runs had none, so what it saves is known once results are here."]
    if costs["unknown_data"]:
        names = ", ".join(costs["unknown_data"])
        lines.append(f"data {names}: the size is not known, taken as {UNKNOWN.rows:,} rows of 100 numbers")
    return lines


def _wall(guess: Guesses, runs: Sequence[PlannedRun], side: int) -> Guess:
    """Return the time with so many runs side by side, which is that of the longest at least."""
    costs = list(map(guess, runs))
    total, longest = sum(costs, NOTHING), max(costs, key=lambda run_cost: run_cost.seconds, default=NOTHING)
    ends = ("seconds", "low", "high")
    return _guess(*(max(getattr(total, end) / side, getattr(longest, end)) / HOUR for end in ends))


def _guess(*values: float) -> Guess:
    return {name: round(value, 4) for name, value in zip(("guess", "low", "high"), values, strict=True)}


def _disk(runs: Sequence[PlannedRun], root: Path) -> Guess:
    """Return GB of results, half to twice as much, and of files to fetch, which may be kept twice."""
    measured = (run.spec["training"]["rounds"] / run.spec["evaluation"]["every"] for run in runs)
    written = sum(RUN_BYTES + ROUND_BYTES * count for count in measured)
    entries = inventory.entries()
    data = (spec for run in runs for spec in (run.spec["data"], weights(run)) if spec)
    keys = {(spec["name"], spec["edition"]) for spec in data if spec["name"] in entries and "edition" in spec}
    declared = (entries[name].declaration.editions.get(edition) for name, edition in keys)
    files = {file.path: file.bytes for edition in declared if edition for file in edition.files}
    fetched = sum(size for path, size in files.items() if not (root / "data" / "fetched" / path).exists())
    sums = (written * times + fetched * copies for times, copies in ((1, 1.5), (0.5, 1), (2, 2)))
    return _guess(*(amount / GB for amount in sums))


def _costliest(catalogue: Catalogue, guess: Guesses, runs: Sequence[PlannedRun]) -> Iterator[dict[str, Any]]:
    """Yield the settings that take longest, in the paper's words: the runs that these words hold for."""
    runs_by_name: dict[str, list[PlannedRun]] = defaultdict(list)
    for run in runs:
        wildcards = {key: getattr(run, key) for key in ("paper", "scale", "setting", "method")}
        runs_by_name[job_name(catalogue, "train", wildcards)].append(run)
    ordered = sorted(runs_by_name.items(), key=lambda pair: -sum(guess(run).seconds for run in pair[1]))
    for name, group in ordered[:COSTLIEST]:
        yield {"name": name, "runs": len(group), "core_hours": _wall(guess, group, 1)}


def calibrated() -> float:
    """Train three models for some seconds, and keep how many times as long as guessed that took."""
    ratios = []
    for name in ("mlp", *SAMPLE):  # the first one also loads PyTorch
        rounds = SAMPLE[name]
        spec = parse(
            {
                "data": {"name": "mnist", "edition": "demo"},
                "partition": {"name": "iid", "clients": 10},
                "model": {"name": name},
                "algorithm": {"name": "fedavg"},
                "training": {"rounds": rounds, "local_steps": 5, "batch_size": 32, "lr": 0.01},
                "evaluation": {"every": rounds},
            }
        )
        seconds = runner.run(spec, settings=runner.Settings(device="cpu")).timing["seconds"]
        ratios.append(seconds / estimate.estimate(demand(spec.resolved(), spec.recipe)).seconds)
    speed: float = median(ratios[1:])
    write_json(estimate.calibration(), {"processor": processor(), "speed": round(speed, 3)})
    return speed


def _shown(guess: Guess) -> str:
    return estimate.with_interval(*(hours * HOUR for hours in guess.values()))


def _gigabytes(size: Guess) -> str:
    guess, low, high = size.values()
    return f"{guess:.2g} GB ({low:.2g} to {high:.2g})"
