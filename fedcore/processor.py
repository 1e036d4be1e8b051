"""Which kind of processor this is; floating-point libraries choose their code by it, and so last digits."""

from __future__ import annotations

import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
KEYS = ("vendor_id", "cpu family", "model")


def processor(cpuinfo: Path = CPUINFO) -> str:
    """Return vendor, family and model of the first processor, or the architecture where they aren't told."""
    try:
        block = cpuinfo.read_text("utf-8").split("\n\n", 1)[0]
    except OSError:
        block = ""
    pairs = (line.partition(":") for line in block.splitlines())
    told = {key.strip(): value.strip() for key, _, value in pairs}
    if all(told.get(key) for key in KEYS):
        return " ".join(told[key] for key in KEYS)
    return platform.processor() or platform.machine()
