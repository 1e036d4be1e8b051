"""Partitions by name: ways to deal a data set's rows out to clients."""
