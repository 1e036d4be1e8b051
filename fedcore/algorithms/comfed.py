"""ComFed: every client-variance reduction of one list with every server optimizer of another."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from pydantic import NonNegativeFloat, create_model

from fedcore.algorithms import AlgorithmOptions, Pen, Plugin, Recipe, Spec, omit_default, recipe
from fedcore.algorithms.corrected_sgd import control_variates
from fedcore.algorithms.fednova import FedNovaOptions, normalised
from fedcore.algorithms.fedopt import COLOURS, AdaptiveOptions, adaptive
from fedcore.base.registry import Line
from fedcore.parts.objective import Proximal
from fedcore.parts.server import Kind
from fedcore.parts.update import Averaging, Divisor


class ProxOptions(AlgorithmOptions):
    """``mu``: weight of the proximal term."""

    mu: NonNegativeFloat = 1.0


class ScafOptions(AlgorithmOptions):
    """``option``: how c_k is renewed (1 or 2). ``averaging``: ``nk`` weighs models and controls by sample
    counts, ``mixed`` models only, ``uniform`` neither. ``divisor``: as SCAFFOLD's.
    """

    option: Literal[1, 2] = 1
    averaging: Averaging = "nk"
    divisor: Divisor = omit_default("steps")


class Client(NamedTuple):
    """A client-variance reduction: its title, its keys, its parts of a recipe, and its look."""

    title: str
    options: type[AlgorithmOptions]
    parts: Callable[[Any, Spec], dict[str, Any]]
    summary: str
    marker: str
    line: Line


def prox(options: ProxOptions, spec: Spec) -> dict[str, Any]:
    """Return FedProx's local objective."""
    return {"objective": (Proximal(options.mu),)}


CLIENTS = {
    "prox": Client("Prox", ProxOptions, prox, "proximal local objectives", "s", "--"),
    "scaf": Client("Scaf", ScafOptions, control_variates, "control variates", "^", "-."),
    "nova": Client("Nova", FedNovaOptions, normalised, "normalised averaging", "d", ":"),
}


def combine(name: str, client: Client, kind: Kind) -> Plugin:
    """Return the algorithm of one cell of ComFed's Table III, with the keys of both sides."""

    def build(options: Any, spec: Spec) -> Recipe:
        parts = client.parts(options, spec)
        return recipe(**parts | adaptive(kind, options, spec, parts.get("update")))

    title = f"{client.title}{kind.capitalize()}"
    options = create_model(f"{title}Options", __base__=(client.options, AdaptiveOptions))
    return Plugin(
        name,
        options,
        build,
        f"{client.summary} with {kind.capitalize()} on the server",
        "ComFed, Algorithm 2, Tables II and III",
        label=title,
        pen=Pen(COLOURS[kind], client.marker, client.line),
    )


PLUGINS = tuple(combine(f"{name}_{kind}", base, kind) for name, base in CLIENTS.items() for kind in COLOURS)
