"""The reference of the command lines, from what they say about themselves."""

from __future__ import annotations

from typer import Context
from typer.cli import get_docs_for_click
from typer.main import get_command

from fedcore.cli.main import app as fedcore
from pipeline.cli.main import app as pipeline

HEAD = """# The command line

What `--help` says, as a page. `fedcore` is the library's command; `python -m pipeline` looks after this
repository's papers. Errors of the user's are one line and exit code 2.
"""


def page() -> str:
    """Return the page: every command with its arguments and options."""
    found = [HEAD]
    for app, name in ((fedcore, "fedcore"), (pipeline, "python -m pipeline")):
        command = get_command(app)
        found.append(get_docs_for_click(obj=command, ctx=Context(command), indent=1, name=name))
    return "\n".join(found)
