"""Snakemake's way to the site; Snakemake itself defines the name ``snakemake``."""

import sys
from typing import TYPE_CHECKING

from fedcore.errors import FedcoreError
from pipeline.site.build import build

if TYPE_CHECKING:
    from snakemake.script import Snakemake

    snakemake: Snakemake

with open(snakemake.log[0], "w", buffering=1) as sys.stderr:
    try:
        build(snakemake.config)
    except FedcoreError as error:
        sys.exit(f"error: {error}")
