from __future__ import annotations

import subprocess
import sys

HEAVY = ("torch", "torchvision", "pandas", "matplotlib", "sklearn", "scipy", "pyarrow", "pooch", "requests")


def test_declaring_and_listing_data_imports_no_heavy_library() -> None:
    code = (
        "import sys, fedcore.base.registry, fedcore.data.download.inventory, fedcore.cli.data\n"
        "fedcore.base.registry.plugins('data'); fedcore.data.download.inventory.entries()\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"
