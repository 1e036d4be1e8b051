"""Server optimizers: how the aggregated change moves the server's model."""
