"""Observers: what a run keeps for figures beside its history. They change nothing in it."""
