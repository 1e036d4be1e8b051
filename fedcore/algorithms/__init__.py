"""Algorithms by name: each a recipe, what it is made of."""
