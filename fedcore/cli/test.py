"""``fedcore test``: whether a contributed plug-in does what all of them must."""

import tempfile
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from fedcore.base.core_yaml import parsed
from fedcore.base.errors import SpecError, say
from fedcore.cli.options import Json, Mirror, Root, say_json
from fedcore.conformance import Checks, algorithms, check_results, data, models, partitions, register
from fedcore.data import Source


def prove(
    file: Annotated[Path, typer.Argument(help="The plug-in's Python file, wherever it lies.")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="An option of the plug-in, as key=value; repeatable.")
    ] = None,
    root: Root = Path("data"),
    mirror: Mirror = None,
    as_json: Json = False,
) -> None:
    """Check what every algorithm, data set, partition or model must do, and say in plain words what fails.

    An algorithm: equal bytes again, exact resume, engines that agree, traffic that is counted. A data set:
    the same arrays again, what it declares. A partition: every row once, the same again. A model: gradients,
    precision, rows that do not depend on one another. The exit code is 1 if something fails.

    Example: fedcore test plugins/algorithms/fedclip.py --set length=0.5
    """
    options = dict(map(_option, set_ or ()))
    results: list[dict[str, str]] = []
    with tempfile.TemporaryDirectory() as name:
        kind, plugins = register(file, Path(name, "plugins"))
        for plugin in plugins:
            say(f"{kind} '{plugin.name}'", error=as_json)
            checks: dict[str, Callable[..., Checks]] = {
                "algorithm": partial(algorithms.checks, folder=Path(name, plugin.name)),
                "data": partial(data.checks, source=Source(root, mirror), path=file),
                "model": models.checks,
                "partition": partitions.checks,
            }
            for finding in check_results(checks[kind](plugin, options)):
                say(f"  {finding}", error=as_json)
                results.append({"plugin": plugin.name, "kind": kind, **asdict(finding)})
    if as_json:
        say_json(results)
    if failed := sum(bool(finding["wrong"]) for finding in results):
        say(f"{failed} failed", error=True)
        raise typer.Exit(1)


def _option(text: str) -> tuple[str, Any]:
    """Split key=value; the value is read as YAML."""
    key, sign, value = text.partition("=")
    if not sign:
        raise SpecError(f"--set: got {text!r}, expected key=value")
    return key, parsed(value, f"--set {key}")
