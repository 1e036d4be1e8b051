"""What partitions are made with: their options, algorithms, files, statistics and picture."""
