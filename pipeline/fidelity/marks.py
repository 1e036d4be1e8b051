"""Generated parts of hand-written pages, between two marks."""

from __future__ import annotations

from pathlib import Path

from fedcore.base.errors import DataError
from fedcore.base.files import write_text


def inserted(page: str, name: str, part: str) -> str:
    """Return a page with a generated part between ``<!-- name -->`` and ``<!-- end of name -->``.

    Raises:
        DataError: the marks are not there.
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    head, _, rest = page.partition(begin)
    _, found, tail = rest.partition(end)
    if not found:
        raise DataError(f"expected the marks {begin} and {end}")
    return f"{head}{begin}\n\n{part}\n{end}{tail}"


def renew(path: Path, name: str, part: str) -> None:
    """Put a generated part into a page.

    Raises:
        DataError: the page has no marks of that name.
    """
    write_text(path, inserted(path.read_text(encoding="utf-8"), name, part))
