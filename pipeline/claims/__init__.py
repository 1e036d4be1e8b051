"""What a paper says and what it leaves open: the ledger of its claims, and the readings of its text."""
