"""Local update rules: how a gradient is bent before the local step."""
