"""``fedcore partition``: make a specification's partition once, describe it and draw it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcore.base.errors import say
from fedcore.base.files import sha256_file, write_json
from fedcore.cli.options import Mirror, Quiet, Root, SpecFile
from fedcore.data import Source
from fedcore.execution.integrity import sealed
from fedcore.partitions import file
from fedcore.partitions.build import make
from fedcore.partitions.figure import draw, write
from fedcore.partitions.stats import label_counts, of_data, statistics, warn_of_empty
from fedcore.spec import load


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

    Example: fedcore partition examples/fedavg.yaml --out out/partition
    """
    checked = load(spec)
    data, own = checked.data, checked.partition
    dataset = data.build(Source(root, mirror))
    made = make(own.plugin, own.options, dataset, checked.seed)
    origin = file.identity(own.resolved(), data.resolved(), checked.seed, dataset.sha256())
    described = statistics(made, dataset.train.y, dataset.classes)
    file.save(made, out / "partition.npz", origin)
    digest = {"partition.npz_sha256": sha256_file(out / "partition.npz")} | ({"code": code} if code else {})
    write_json(out / "stats.json", sealed({**of_data(dataset), **described, **digest}))
    if figure:
        counts = label_counts(made.clients, dataset.train.y, dataset.classes)
        subtitle = f"{dataset.name} ({dataset.state}: {dataset.note}); C-score {described['c_score']:.2f}"
        write(draw(counts, made.note, subtitle), out / "partition")
    if not quiet:
        sizes = described["sizes"]
        say(
            f"{described['clients']} clients of {sizes['min']} to {sizes['max']} rows, "
            f"C-score {described['c_score']:.3f} -> {out}",
            error=True,
        )
    warn_of_empty(len(described["empty_clients"]), described["clients"])
