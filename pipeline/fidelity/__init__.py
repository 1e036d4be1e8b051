"""The fidelity board: every published number beside ours, and every headline claim with a verdict."""
