"""Data sets by name: one file each, with its source, licence, checksums and reader."""
