"""What travels besides models, and the memory it needs."""
