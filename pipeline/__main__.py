"""``python -m pipeline``: the commands that the papers add to ``fedcore``, as the workflow calls them."""

from fedcore.cli.groups import execute, lazy_group
from pipeline.cli import COMMANDS

app = lazy_group("python -m pipeline", "What this repository's papers add to `fedcore`.", COMMANDS)

if __name__ == "__main__":
    execute(app)
