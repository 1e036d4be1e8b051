"""The fidelity board: every published number with ours, and every headline claim with a verdict."""

from __future__ import annotations

from pathlib import Path

from fedcore.base.files import digest, sha256_file
from pipeline.catalogue import codehash
from pipeline.papers import FOLDER


def board_plan() -> str:
    """Return a hash of the published numbers, the claims and the code that compares them, for rerunning."""
    said = sorted(path for name in ("published.csv", "claims.yaml") for path in FOLDER.glob(f"*/{name}"))
    templates = sorted((Path(__file__).parent / "templates").iterdir())
    code = codehash.of_code("pipeline.fidelity.board", "pipeline.fidelity.page")
    return digest([code, [sha256_file(path) for path in (*said, *templates)]])[:16]
