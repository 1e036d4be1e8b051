"""Files from a mirror or from upstream: declared, fetched, verified, unpacked, kept."""
