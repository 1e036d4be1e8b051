"""What all of fedcore needs: errors, files, random streams, options, YAML and the registry."""

__version__ = "0.1.0"
