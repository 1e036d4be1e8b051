"""``fedcore data``: list, info, fetch and verify data sets."""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from fedcore.base.errors import DataError, columns, say
from fedcore.cli.options import Json, Mirror, Quiet, Root, completing, show
from fedcore.data import Source
from fedcore.data.download import Edition, fetch, inventory

app = typer.Typer(
    help="Data sets: what there is, where it comes from, and whether it is intact.",
    no_args_is_help=True,
    add_completion=False,
)

NAME: Any = typer.Argument(help="Name of the data set.", autocompletion=completing(inventory.entries))
Name = Annotated[str, NAME]
SHOWN = 12


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List every data set with its editions, papers and licence.

    Example: fedcore data list
    """
    declared = [entry.declaration for entry in inventory.entries().values()]
    values = [
        {"name": data.name, "editions": [*data.editions], "papers": data.papers, "licence": data.licence}
        for data in declared
    ]
    texts = [(data.name, " ".join(data.editions), " ".join(data.papers), data.licence) for data in declared]
    show(as_json, values, columns([tuple(values[0]), *texts]).split("\n"))


@app.command()
def info(name: Name, as_json: Json = False) -> None:
    """Say everything that is declared about a data set.

    Example: fedcore data info mnist
    """
    data = inventory.entry(name).declaration
    facts = {
        "papers": ", ".join(data.papers),
        "cite": data.citation,
        "licence": data.licence,
        "redistributable": {True: "yes", False: "no", None: "not stated"}[data.redistributable],
        "upstream": data.upstream,
        "sample": data.shape,
        "classes": data.classes or "-",
    }
    editions = [line for edition in data.editions.items() for line in _described(*edition)]
    head = (f"{data.name}: {data.title}", *(f"  {key}: {fact}" for key, fact in facts.items()))
    show(as_json, asdict(data), (*head, *editions))


@app.command("fetch")
def fetch_(
    name: Name,
    edition: Annotated[str, typer.Option(help="Which edition; see 'fedcore data info'.")] = "full",
    root: Root = Path("data"),
    mirror: Mirror = None,
    accept_terms: Annotated[bool, typer.Option(help="Accept the conditions that data come with.")] = False,
    quiet: Quiet = False,
) -> None:
    """Bring an edition's files into the cache, verified.

    Example: fedcore data fetch mnist --mirror https://example.org/data
    """
    data = inventory.entry(name).declaration
    source = Source(root, mirror)
    if accept_terms:
        fetch.accept_terms(data, source)
    chosen = data.edition(edition)
    if not chosen.files:
        say(f"{name} ({edition}): nothing to fetch; {chosen.how or 'it ships with the code'}")
        return
    progress = sys.stderr.isatty() and not quiet
    for path in fetch.obtain(data, edition, source, progress).values():
        say(f"{path}: {path.stat().st_size:,} bytes, verified")


@app.command()
def verify(
    name: Annotated[str | None, NAME] = None,
    everything: Annotated[bool, typer.Option("--all", help="All data sets.")] = False,
    root: Root = Path("data"),
    mirror: Mirror = None,
    as_json: Json = False,
) -> None:
    """Check what is here (demo files, cache, mirror): checksums of files, then what loading counts.

    Nothing is downloaded from upstream. The exit code is 1 if anything is wrong.

    Example: fedcore data verify --all
    """
    if (name is None) != everything:
        raise DataError("data verify: expected the name of a data set, or --all")
    chosen = inventory.entries().values() if name is None else [inventory.entry(name)]
    findings = [finding for entry in chosen for finding in inventory.verify(entry, Source(root, mirror))]
    wrong = sum(finding.status == "wrong" for finding in findings)
    head = ("name", "edition", "state", "status", "files", "counts", "note")
    show(as_json, list(map(asdict, findings)), columns([head, *map(_row, findings)]).split("\n"))
    if not as_json:
        present = sum(finding.status == "ok" for finding in findings)
        say(f"{present} editions here and right, {wrong} wrong, {len(findings) - present - wrong} absent")
        if everything and mirror and not fetch.is_url(mirror):
            say(
                f"in the mirror but not declared: {', '.join(inventory.unclaimed(mirror)) or 'nothing'}"
                if fetch.mirror_folder(mirror).is_dir()
                else f"{mirror}: no such folder, so no mirror"
            )
    if wrong:
        raise typer.Exit(1)


def _row(finding: inventory.EditionCheck) -> tuple[str, ...]:
    counts = " ".join(f"{key}={value:,}" for key, value in finding.counts.items())
    head = (finding.data, finding.edition, finding.state, finding.status)
    return (*head, str(finding.files or "-"), counts or "-", finding.note)


def _described(name: str, edition: Edition) -> Iterator[str]:
    counts = ", ".join(f"{key} {value:,}" for key, value in edition.counts.items())
    yield f"  edition {name}: {edition.state}; {edition.note}" + (f" ({counts})" if counts else "")
    for label, text in (("terms", edition.terms), ("how to get it", edition.how)):
        if text:
            yield f"    {label}: {text}"
    files = (*edition.files, *edition.extras)
    for file in files[:SHOWN]:
        yield f"    {file.path}: sha256 {file.sha256 or 'of the plain content not known'}"
        for form in file.forms:
            parts = [form.digest, f"member {form.member}" if form.member else "", *form.urls]
            yield f"      as {form.name} " + " ".join(filter(None, parts))
    if len(files) > SHOWN:
        yield f"    and {len(files) - SHOWN} more files"
