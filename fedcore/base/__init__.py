"""What all of fedcore needs: errors, files, random streams, options, YAML and the registry."""

__version__ = "0.2.0"
