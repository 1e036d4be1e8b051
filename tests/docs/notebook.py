"""The notebook of the documentation: executed, and written with what its cells gave.

`uv run python tests/docs/notebook.py` writes docs/study.ipynb again.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "docs" / "study.ipynb"


def executed(folder: Path) -> Any:
    """Return the notebook as its cells leave it when they are run in a folder, without times of day."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    work = folder / "work"
    work.mkdir()
    client = NotebookClient(notebook, timeout=60, resources={"metadata": {"path": work}}, record_timing=False)
    manager = client.create_kernel_manager()
    manager.transport = "ipc"
    manager.connection_file = str(folder / "kernel.json")
    client.execute(env=os.environ | {"IPYTHONDIR": str(folder / "ipython")})
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return notebook


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        nbformat.write(executed(Path(place)), NOTEBOOK)
