"""Client sampling."""
