"""The workflow: what the Snakefile asks, DVC's stages, costs, records, and which files are believed."""
