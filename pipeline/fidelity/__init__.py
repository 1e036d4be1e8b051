"""The fidelity board: every published number with ours, and every headline claim with a verdict."""

from __future__ import annotations

from fedcore.base.files import digest, sha256_file
from pipeline.catalogue import codehash
from pipeline.papers import FOLDER


def board_plan() -> str:
    """Return a hash of published numbers, claims and all that compares and shows them, for rerunning."""
    said = sorted(path for name in ("published.csv", "claims.yaml") for path in FOLDER.glob(f"*/{name}"))
    looks = sorted(
        path for name in ("templates", "assets") for path in (FOLDER.parent / "site" / name).iterdir()
    )
    code = codehash.of_code("pipeline.fidelity.board:board", "pipeline.site.board:write")
    return digest([code, [sha256_file(path) for path in (*said, *looks)]])[:16]
