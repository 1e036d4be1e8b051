"""The command line: ``fedcore run``, ``fedcore data``, ``fedcore partition``, ``fedcore list``, ..."""

from fedcore.cli.groups import execute, lazy_group

COMMANDS = {
    "Run": {
        "run": "fedcore.cli.run:run",
        "partition": "fedcore.cli.run:partition",
        "data": "fedcore.cli.data:app",
        "test": "fedcore.cli.test:prove",
    },
    "Look": {
        "list": "fedcore.cli.describe:list_plugins",
        "describe": "fedcore.cli.describe:describe",
        "status": "fedcore.cli.status:status",
        "verify": "fedcore.cli.status:verify",
        "doctor": "fedcore.cli.doctor:doctor",
    },
    "For maintainers": {"run-batch": "fedcore.cli.run:run_batch"},
}
app = lazy_group(
    "fedcore",
    "Federated-learning runs from one specification file, and the reports made of them. Results are the same "
    "bytes every time.",
    COMMANDS,
    entry_points="fedcore.commands",
)


def main() -> None:
    """Run the command line; an error of the user's or a fault of the machine is one line and exit code 2."""
    execute(app)


if __name__ == "__main__":
    main()
