"""Who trains which slot in a round, and when slots are merged."""
