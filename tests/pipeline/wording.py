"""How errors are worded."""

from __future__ import annotations


def one_line(message: object) -> str:
    """Demand that a message is one line, and was one before its line ends became escapes; return it."""
    text = str(message)
    assert "\n" not in text
    assert "\\n" not in text, text
    return text
