"""Local training: batches, optimizers and the engines that compute gradients."""
