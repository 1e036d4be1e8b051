"""Runs: one, several in a process, and what is kept of them."""
