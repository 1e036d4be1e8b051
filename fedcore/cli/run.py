"""``fedcore run``, ``run-batch`` and ``partition``: specifications in, histories or partitions out."""

import os
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from fedcore.base.errors import SpecError, say
from fedcore.base.files import canonical_json, exclusive, sha256_file, write_json
from fedcore.cli.options import Mirror, Quiet, Root, SpecFile
from fedcore.data import Source
from fedcore.execution import runner
from fedcore.execution.batch import execute, orders
from fedcore.execution.gpus import claimed
from fedcore.execution.integrity import CHECKPOINT, PARTITION, PROVENANCE, SPEC, STATISTICS, SUMMARY, sealed
from fedcore.execution.progress import reporter
from fedcore.partitions import file
from fedcore.partitions.build import make
from fedcore.partitions.figure import draw, write
from fedcore.partitions.stats import label_counts, of_data, repeated, statistics, warn_of_empty
from fedcore.spec import load

Device = Annotated[str, typer.Option(help="cpu, cuda, or auto: a GPU if there is one.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads of a run; more than one change its last digits.")]
TRACK = "Also show them in tensorboard[:DIR], wandb[:PROJECT] or mlflow[:DIR]; repeatable."
Track = Annotated[list[str] | None, typer.Option(help=TRACK)]
Stall = Annotated[
    float, typer.Option(min=0, help="Seconds without a finished round before the process ends; 0 for never.")
]


def run(
    spec: SpecFile,
    out: Annotated[Path, typer.Option(help="Folder for history.csv, summary.json and timing.json.")],
    partition_file: Annotated[
        Path | None, typer.Option("--partition", help="Partition file made by 'fedcore partition'.")
    ] = None,
    root: Root = Path("data"),
    mirror: Mirror = None,
    device: Device = "auto",
    threads: Threads = 1,
    save_model: Annotated[bool, typer.Option(help="Write model.npz too.")] = False,
    resume: Annotated[bool, typer.Option(help="Go on from a checkpoint in the folder.")] = True,
    checkpoint_every: Annotated[
        float, typer.Option(min=0, help="Minimum seconds between checkpoints.")
    ] = 30.0,
    stall_after: Stall = 3600.0,
    force: Annotated[bool, typer.Option("--force", help="Replace another specification's result.")] = False,
    quiet: Quiet = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print all measurements of each measured round.")
    ] = False,
    track: Track = None,
) -> None:
    """Do one run: a specification in, its history and summary out.

    Example: fedcore run fedprox.yaml --out out/fedprox
    """
    settings = runner.Settings(
        partition=partition_file,
        source=Source(root, mirror),
        device=device,
        threads=threads,
        resume=resume,
        save_model=save_model,
        checkpoint_seconds=checkpoint_every,
        stall_seconds=stall_after,
        force=force,
    )
    checked = load(spec)
    if os.path.realpath(spec) == os.path.realpath(out / SPEC) and not (out / PROVENANCE).is_file():
        raise SpecError(f"{spec}: would be replaced by the run's own; take another folder than {out}")
    with exclusive(out), reporter(spec.stem, checked.training.rounds, quiet or verbose) as progress:
        result = runner.run(checked, out, settings, _say_round if verbose else progress or False, track or ())
    if not quiet:
        summary, final = result.summary, result.summary["final"]
        reached = f", test accuracy {100 * final['test_accuracy']:.2f}%" if final else ""
        after = f"{'' if final else 'after '}{summary['rounds']} rounds{reached}"
        say(f"{summary['status']}: {after} -> {out}", error=True)
        warn_of_empty(len(summary["empty_clients"]), summary["clients"])


def run_batch(
    batch: Annotated[Path, typer.Argument(help="JSON list of {spec, out, partition?, provenance?}.")],
    root: Root = Path("data"),
    mirror: Mirror = None,
    device: Device = "auto",
    threads: Threads = 1,
    gpu_percent: Annotated[int, typer.Option(min=1, max=100, help="Share of a GPU, if there is one.")] = 100,
    benchmark: Annotated[Path | None, typer.Option(help="File for seconds and memory of each run.")] = None,
    stall_after: Stall = 3600.0,
    quiet: Quiet = False,
) -> None:
    """Do several runs in one process; the same bytes as one by one, without the start-up of each.

    A run whose folder holds the finished result of the same specification and provenance is left as it
    is; another result there is replaced. A run that fails does not stop the others; the command then ends
    with exit code 2.

    Example: fedcore run-batch orders.json
    """
    with nullcontext() if device == "cpu" else claimed(gpu_percent):
        settings = runner.Settings(None, Source(root, mirror), device, threads, stall_seconds=stall_after)
        if execute(orders(batch), settings, quiet, benchmark):
            raise typer.Exit(2)


def _say_round(done: int, total: int, row: Mapping[str, float]) -> None:
    values = ", ".join(f"{name} {value:.6g}" for name, value in row.items() if name != "round")
    say(f"round {done}/{total}: {values}", error=True)


def partition(
    spec: SpecFile,
    out: Annotated[Path, typer.Option(help="Folder for partition.npz, stats.json and the figure.")],
    root: Root = Path("data"),
    mirror: Mirror = None,
    code: Annotated[str, typer.Option(help="Hash of the code, kept in stats.json.")] = "",
    figure: Annotated[bool, typer.Option(help="Draw partition.png and partition.svg.")] = True,
    quiet: Quiet = False,
) -> None:
    """Split the data of a specification: partition.npz, stats.json, partition.png, partition.svg.

    Example: fedcore partition fedavg.yaml --out out/partition
    """
    checked = load(spec)
    for name in (PROVENANCE, SUMMARY, CHECKPOINT):
        if (out / name).exists():
            raise SpecError(f"{out}: holds {name} of a run, expected a folder without one")
    written = {PARTITION, STATISTICS, "partition.png", "partition.svg"}
    runner.refuse_inputs(out, written, checked, spec)
    data, choice = checked.data.resolved(), checked.partition
    dataset, data_sha256 = runner.load_data(canonical_json(data), Source(root, mirror))
    split = make(choice.plugin, choice.options, dataset, checked.seed)
    origin = file.identity(choice.resolved(), data, checked.seed, data_sha256)
    described = statistics(split, dataset.train.y, dataset.classes)
    more = {"client_names": dataset.names_of(split.clients), "repeated_rows": repeated(dataset, split)}
    more = {key: value for key, value in {**more, "code": code}.items() if value}
    with exclusive(out):
        file.save(split, out / PARTITION, origin)
        digest = {f"{PARTITION}_sha256": sha256_file(out / PARTITION)}
        write_json(out / STATISTICS, sealed({**of_data(dataset), **described, **more, **digest}))
        if figure:
            counts = label_counts(split.clients, dataset.train.y, dataset.classes)
            subtitle = f"{dataset.name} ({dataset.state}: {dataset.note}); C-score {described['c_score']:.2f}"
            write(draw(counts, split.note, subtitle), out / "partition")
    if not quiet:
        sizes = described["sizes"]
        held = f"{described['clients']} clients of {sizes['min']} to {sizes['max']} rows"
        say(f"{held}, C-score {described['c_score']:.3f} -> {out}", error=True)
    warn_of_empty(len(described["empty_clients"]), described["clients"])
