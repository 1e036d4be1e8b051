"""Readers: one module a file format, each a function from a path to plain arrays or values."""

from __future__ import annotations

from fedcore.base.errors import DataError


class MissingPackage(DataError):
    """A format needs a package that is not installed."""
