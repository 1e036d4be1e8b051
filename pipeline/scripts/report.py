"""Snakemake's way into the report stage."""

import sys
from pathlib import Path

from fedcore.errors import FedcoreError
from pipeline.report.stage import build
from snakemake.script import snakemake

outputs = {name: Path(path) for name, path in snakemake.output.items()}
try:
    build(snakemake.config, snakemake.wildcards.paper, snakemake.params.target, outputs)
except FedcoreError as error:
    Path(snakemake.log[0]).write_text(f"error: {error}\n")
    sys.exit(f"error: {error}")
