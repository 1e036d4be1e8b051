"""The site: pages, their data, pictures and assets, written beside the old one and then put in its place."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedcore.base.lazy import PIL, plotly
from pipeline.site import pages
from pipeline.site.survey import survey

ASSETS = Path(__file__).parent / "assets"
THUMB = (480, 240)


def build(config: Mapping[str, Any], root: Path = Path()) -> Path:
    """Build reports/site/ from whatever exists, and return its start page.

    Equal reports and runs give equal bytes, but for the repository's commit in the footers. ``config`` is
    params.yaml, with what was changed on the command line.

    Raises:
        SpecError: the configuration is wrong.
        DataError: a report can't be read.
    """
    found = survey(config, root)
    target = root / "reports" / "site"
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=target.parent, prefix=".site."))
    try:
        made.chmod(0o755)
        shutil.copytree(ASSETS, made / "assets")
        _write(made / "assets" / "plotly.min.js", plotly.offline.get_plotlyjs())
        for shown in found.targets:
            _copies(shown.files, made / shown.folder)
        for path, content in pages.every(found, root):
            _write(made / path, content)
        _swap(made, target)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return target / "index.html"


def script(data: Mapping[str, Any]) -> str:
    """Return a script that hands a page its data; it can't end a script element or start a tag."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    harmless = text.replace("<", "\\u003c")
    return f"window.SITE = {harmless};\n"


def _write(path: Path, content: str | Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else script(content), encoding="utf-8", newline="\n")


def _copies(files: Mapping[str, Path], folder: Path) -> None:
    """Copy a target's forms, so that the site can be handed on without reports/."""
    for path in files.values():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / path.name)
    if "png" in files:
        with PIL.Image.open(files["png"]) as image:
            small = image.convert("RGB")
        small.thumbnail(THUMB)
        small.quantize(64).save(folder / f"{files['png'].stem}.small.png", optimize=True)


def _swap(made: Path, target: Path) -> None:
    """Put the new site in the old one's place."""
    old = made.with_name(f"{made.name}.old")
    if target.exists():
        os.rename(target, old)
    os.rename(made, target)
    shutil.rmtree(old, ignore_errors=True)
