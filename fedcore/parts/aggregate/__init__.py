"""How uploads become one change of the server's model."""
