"""Readers: one module a file format, each a function from a path to plain arrays or values."""
