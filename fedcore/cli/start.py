"""Where the ``fedcore`` command begins: in a warm process if a workflow shares one, else in its own."""

import sys

from fedcore.execution.forkserver import delegate


def main() -> None:
    """Execute the command line somewhere, and end with its exit code."""
    if (code := delegate(sys.argv[1:])) is not None:
        sys.exit(code)
    from fedcore.cli.main import main as here

    here()
