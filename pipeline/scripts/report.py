"""Snakemake's way into the report stage; Snakemake itself defines the name ``snakemake``."""

import sys
from contextlib import redirect_stderr
from pathlib import Path
from traceback import print_exc
from typing import TYPE_CHECKING

from fedcore.errors import FedcoreError
from pipeline.report.stage import build

if TYPE_CHECKING:
    from snakemake.script import Snakemake

    snakemake: Snakemake

outputs = {name: Path(path) for name, path in snakemake.output.items()}
with open(snakemake.log[0], "w", buffering=1) as log, redirect_stderr(log):
    try:
        build(snakemake.config, snakemake.wildcards.paper, snakemake.params.target, outputs)
    except FedcoreError as error:
        print(f"error: {error}", file=log)
        sys.exit(1)
    except Exception:
        print_exc()
        sys.exit(1)
