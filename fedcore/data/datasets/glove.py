"""GloVe word vectors: model data for Sent140."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError
from fedcore.data import Source
from fedcore.data.download import Entry, cache, declared, fetch

WIDTH = 50
DECLARATION = declared(__file__)["glove"]


def vectors(edition: str, source: Source) -> tuple[list[str], NDArray[np.float32]]:
    """Return the words, most frequent first, and their vectors [words, 50]."""
    paths = fetch.obtain(DECLARATION, edition, source)
    arrays = cache.derived(source, f"glove-{edition}-1", paths, lambda: _parse(*paths.values()))
    return arrays["words"].tobytes().decode().split("\n"), arrays["vectors"]


def counts(edition: str, source: Source) -> dict[str, int]:
    """Return the number of words."""
    return {"words": len(vectors(edition, source)[0])}


def _parse(path: Path) -> dict[str, NDArray[Any]]:
    words, numbers = [], []
    try:
        with path.open(encoding="utf-8", newline="\n") as lines:
            for line in lines:
                word, *values = line.rstrip("\n").split(" ")
                words.append(word)
                numbers.append(values)
        vectors = np.array(numbers, np.float32)
    except ValueError:
        vectors = np.empty(0, np.float32)
    if vectors.shape != (len(words), WIDTH) or not np.isfinite(vectors).all():
        raise DataError(f"{path}: expected a word and {WIDTH} numbers a line")
    return {"words": np.frombuffer("\n".join(words).encode(), np.uint8), "vectors": vectors}


ENTRY = Entry(DECLARATION, counts)
