"""``python -m pipeline``: the old name of the commands that the papers add to ``fedcore``."""

from fedcore.cli.groups import execute, lazy_group
from pipeline.cli import COMMANDS

app = lazy_group(
    "python -m pipeline", "The old name of `fedcore`, for the commands of this repository's papers.", COMMANDS
)

if __name__ == "__main__":
    execute(app)
