"""An executed notebook as a page: its text, its code and what its cells gave."""

import base64
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedcore.base.files import read_object

STYLE = re.compile(r"<style.*?</style>\n?", re.DOTALL)
# The pages' own look, and sideways scrolling, are for tables without a class.
TABLE = re.compile("<table[^>]*>")
PNG, HTML, TEXT = "image/png", "text/html", "text/plain"


def page(path: Path) -> str:
    """Return a notebook's page; its pictures are at the addresses that ``pictures`` gives."""
    addresses = iter(pictures(path))
    pieces = []
    for cell in read_object(path)["cells"]:
        text = "".join(cell["source"])
        pieces.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in _given(cell):
            if PNG in output:
                pieces.append(f"![What the cell above draws]({next(addresses)})")
            elif HTML in output:
                html = TABLE.sub("<table>", STYLE.sub("", output[HTML])).strip()
                pieces.append(f"<div>\n{html}\n</div>")
            else:
                pieces.append(f"```text\n{output[TEXT].rstrip()}\n```")
    return "\n\n".join(pieces) + "\n"


def pictures(path: Path) -> dict[str, bytes]:
    """Return a notebook's pictures by their addresses."""
    drawn = [output[PNG] for cell in read_object(path)["cells"] for output in _given(cell) if PNG in output]
    return {f"img/{path.stem}/{number}.png": base64.b64decode(image) for number, image in enumerate(drawn)}


def _given(cell: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for output in cell.get("outputs", []):
        data = output.get("data", {TEXT: output.get("text", "")})
        yield {kind: "".join(content) for kind, content in data.items()}
