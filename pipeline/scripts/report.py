"""Snakemake's way into the report stage; Snakemake itself defines the name ``snakemake``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fedcore.errors import FedcoreError
from pipeline.report.stage import build

if TYPE_CHECKING:
    from snakemake.script import Snakemake

    snakemake: Snakemake

outputs = {name: Path(path) for name, path in snakemake.output.items()}
with open(snakemake.log[0], "w", buffering=1) as sys.stderr:
    try:
        build(snakemake.config, snakemake.wildcards.paper, snakemake.params.target, outputs)
    except FedcoreError as error:
        sys.exit(f"error: {error}")
