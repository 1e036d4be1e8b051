"""The command line: ``fedcore run``, ``fedcore data``, ``fedcore partition``, ``fedcore list``, ..."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import typer

from fedcore.base import errors
from fedcore.base.errors import FedcoreError, say
from fedcore.cli.groups import lazy_group

COMMANDS = {
    "run": "fedcore.cli.run:run",
    "run-batch": "fedcore.cli.run:run_batch",
    "partition": "fedcore.cli.partition:partition",
    "verify": "fedcore.cli.verify:verify",
    "status": "fedcore.cli.status:status",
    "list": "fedcore.cli.describe:list_plugins",
    "describe": "fedcore.cli.describe:describe",
    "test": "fedcore.cli.test:prove",
    "data": "fedcore.cli.data:app",
}
app = lazy_group(
    "fedcore",
    "Federated-learning runs from one specification file. Results are the same bytes every time.",
    COMMANDS,
)


@cache
def command() -> Any:
    """Return the command line as an object; making it takes as long as a short run's round."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the command line; an error of the user's or a fault of the machine is one line and exit code 2."""
    try:
        command()()
    except FedcoreError as error:
        say(f"error: {error}", error=True)
        sys.exit(2)
    except Exception as error:
        said = errors.fault_message(error)
        if said is None:
            raise
        say(f"error: {said}", error=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
