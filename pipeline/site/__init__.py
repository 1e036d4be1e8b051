"""The site: results and documentation, built by MkDocs beside the old one and then put in its place."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedcore.base.lazy import mkdocs_build, mkdocs_config, plotly
from pipeline.site.pages import Results, every
from pipeline.site.survey import survey

CONFIG = Path(__file__).parents[2] / "mkdocs.yml"


def build(config: Mapping[str, Any], root: Path = Path()) -> Path:
    """Build reports/site/ from whatever exists, and return its start page.

    Without a folder ``root/docs``, the site has no documentation. Equal reports and runs give equal bytes,
    but for the repository's commit at the foot of pages. ``config`` is params.yaml, with what was changed on
    the command line. It raises SpecError if that is wrong, and DataError if a report can't be read.
    """
    results = every(survey(config, root), root)
    target, docs = root.resolve() / "reports" / "site", root.resolve() / "docs"
    target.parent.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")
    with tempfile.TemporaryDirectory(
        dir=target.parent, prefix=".site.", ignore_cleanup_errors=True
    ) as folder:
        new, old, nothing = (Path(folder, name) for name in ("site", "old", "docs"))
        nothing.mkdir()
        docs_dir = str(docs if docs.exists() else nothing)
        settings = mkdocs_config.load_config(str(CONFIG), docs_dir=docs_dir, site_dir=str(new))
        settings.extra["results"] = results
        mkdocs_build.build(settings)
        if target.exists():
            os.rename(target, old)
        try:
            os.rename(new, target)
        except OSError:
            if old.exists():
                os.rename(old, target)
            raise
    return root / "reports" / "site" / "index.html"


def write(results: Results, site: Path) -> None:
    """Write what the pages of results point at: their data, the targets' files, and what draws curves."""
    for path, text in results.data.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text, encoding="utf-8", newline="\n")
    for shown in results.targets:
        (site / shown.folder).mkdir(parents=True, exist_ok=True)
        for file in shown.files.values():
            shutil.copyfile(file, site / shown.folder / file.name)
    (site / "assets" / "plotly.min.js").write_text(plotly.offline.get_plotlyjs(), encoding="utf-8")
