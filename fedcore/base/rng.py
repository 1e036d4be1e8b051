"""Named random streams: (seed, repetition, purpose, round, client) -> an independent generator.

The generator is counter-based (Philox) and keyed by a hash of its name, so a draw depends on
nothing but its name: not on the order of clients, on parallel jobs, or on an interruption.
"""

import hashlib
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Streams:
    """All random numbers of one run, by name; a ``repetition`` above 0 has others."""

    seed: int
    repetition: int = 0

    def get(self, purpose: str, round: int = -1, client: int = -1) -> np.random.Generator:
        """Return the generator of one purpose, at one round and for one client; -1 stands for none."""
        again = f"+{self.repetition}" if self.repetition else ""
        name = f"{self.seed}{again}/{purpose}/{round}/{client}".encode()
        key = np.frombuffer(hashlib.sha256(name).digest()[:16], dtype=np.uint64)
        return np.random.Generator(np.random.Philox(key=key))
