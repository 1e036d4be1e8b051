"""Terms of the local objective."""
