"""A plug-in file that can't be loaded is named in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPEC = """
data: {name: synthetic, clients: 2}
model: {name: logistic}
algorithm: {name: fedavg}
training: {rounds: 1, batch_size: 10, lr: 0.1}
"""


def test_a_broken_plugin_file_is_named(tmp_path: Path) -> None:
    plugin = tmp_path / "plugins/algorithms/broken.py"
    plugin.parent.mkdir(parents=True)
    plugin.write_text("import no_such_module\n")
    (tmp_path / "s.yaml").write_text(SPEC)
    command = [sys.executable, "-m", "fedcore.cli.main", "run", "s.yaml", "--out", "out"]
    environment = {**os.environ, "FEDCORE_PLUGINS": "plugins", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "broken.py: cannot be loaded (ModuleNotFoundError" in done.stderr
