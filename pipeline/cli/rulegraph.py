"""The picture of the rules in the documentation, from what Snakemake itself says of them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

from fedcore.base.errors import FedcoreError, say
from fedcore.base.files import write_text

COMMAND = "snakemake --cores 1 --quiet all --rulegraph --config scale=quick -- reports/all"
STYLE = """graph [bgcolor=white, margin=0.1];
node [shape=box, style=rounded, fontname=sans, fontsize=11];
edge [color="#777777"];"""


PICTURE = Path("docs/img/rulegraph.svg")


def rulegraph() -> None:
    """Draw docs/img/rulegraph.svg: the rules between the data and the site. Needs Graphviz.

    Example: fedcore rulegraph

    Raises:
        FedcoreError: Graphviz is missing, or Snakemake fails.
    """
    if shutil.which("dot") is None:
        raise FedcoreError("dot: not found; install Graphviz to draw the graph of rules")
    told = subprocess.run(shlex.split(COMMAND), capture_output=True, text=True, check=False)
    if told.returncode:
        raise FedcoreError(f"snakemake --rulegraph: {told.stderr.strip().splitlines()[-1]}")
    graph = plain(told.stdout)
    for command in (["tred"], ["dot", "-Tsvg"]):
        graph = subprocess.run(command, input=graph, capture_output=True, text=True, check=True).stdout
    write_text(PICTURE, graph)
    say(f"wrote {PICTURE}")


def plain(graph: str) -> str:
    """Return a graph of rules without Snakemake's colours, which differ from call to call."""
    nodes = dict(re.findall(r'(\d+)\s*\[\s*label\s*=\s*"([^"]+)"', graph))
    edges = sorted({(nodes[a], nodes[b]) for a, b in re.findall(r"(\d+)\s*->\s*(\d+)", graph)})
    lines = [f'"{a}" -> "{b}";' for a, b in edges]
    return "\n".join(["digraph rules {", "rankdir=LR;", STYLE, *lines, "}"]) + "\n"
