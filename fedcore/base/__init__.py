"""What all of fedcore needs: errors, files, random streams, options, YAML and the registry."""

__version__ = "0.2.0"
MIRROR = "FEDCORE_MIRROR"  # the variable that names a folder or URL of upstream's data files
