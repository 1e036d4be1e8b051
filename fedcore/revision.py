"""Which commit the code at hand is, as git tells it."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

HOME = Path(__file__).parent.parent
LENGTH = 10


@cache
def commit(home: Path = HOME) -> str:
    """Return the short hash of a working tree's commit, with ``+`` where tracked code was changed since.

    Empty where there is no git, or where ``home`` is not the top of a working tree.
    """
    top = _git(home, "rev-parse", "--show-toplevel")
    head = _git(home, "rev-parse", f"--short={LENGTH}", "HEAD")
    if not top or not head or Path(top).resolve() != home.resolve():
        return ""
    changed = _git(home, "status", "--porcelain", "--untracked-files=no")
    return head + ("+" if changed else "")


def _git(home: Path, *arguments: str) -> str:
    """Return what git says, or nothing where it refuses or is not there."""
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", *arguments], cwd=home, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
