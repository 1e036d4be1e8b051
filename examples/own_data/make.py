"""Write a folder of federated data to try things on: eight clients, each with rows of two of four classes."""

import sys
from pathlib import Path

import numpy as np

folder = Path(sys.argv[1])
generator = np.random.default_rng(0)
centres = generator.normal(size=(4, 10))


def write(name: str, y: np.ndarray) -> None:
    """Write rows with the labels y, each a noisy copy of its class's centre."""
    x = (centres[y] + 1.5 * generator.normal(size=(len(y), 10))).astype(np.float32)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    np.savez(folder / f"{name}.npz", x=x, y=y)


for client in range(8):
    write(f"clients/{client}", generator.choice([client % 4, (client + 1) % 4], 40 + 20 * client))
write("test", generator.integers(0, 4, 1000))
