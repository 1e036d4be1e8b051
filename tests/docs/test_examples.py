"""The worked examples do what they say, at small size; docs/examples.md itself is executed elsewhere."""

from __future__ import annotations

import ast

from blocks import ROOT

EXAMPLES = ROOT / "examples"


def test_the_comparison_takes_twenty_lines() -> None:
    text = (EXAMPLES / "own_data" / "compare.py").read_text()
    tree = ast.parse(text)
    first = tree.body[1].lineno
    lines = [line for line in text.splitlines()[first - 1 :] if line.strip()]
    assert 10 < len(lines) <= 20
