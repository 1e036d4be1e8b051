"""A processor's kind: by Linux' own words, or the architecture."""

from __future__ import annotations

import platform
from pathlib import Path

from fedcore.execution.machine import processor

X86 = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: X: Y\n\n"


def test_vendor_family_and_model_are_told(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text(X86 + X86.replace("143", "85"))
    assert processor(path) == "GenuineIntel 6 143"


def test_where_they_are_not_told_it_is_the_architecture(tmp_path: Path) -> None:
    other = platform.processor() or platform.machine()
    assert processor(tmp_path / "none") == other
    arm = tmp_path / "arm"
    arm.write_text("processor\t: 0\nBogoMIPS\t: 50.00\n")
    assert processor(arm) == other
