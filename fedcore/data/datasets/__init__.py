"""Data sets by name: one file each, with its source, licence, checksums and reader.

Each raises ``DataError`` where files are missing, damaged or under terms that were not accepted.
"""
