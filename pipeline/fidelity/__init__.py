"""The fidelity board: every published number with ours, and every headline claim with a verdict."""
