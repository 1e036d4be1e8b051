"""GloVe word vectors: model data for Sent140."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError
from fedcore.data import Source
from fedcore.data.download import Declaration, Edition, Entry, File, Form, cache, fetch

WIDTH = 50
ARCHIVE = Form(
    "glove.6B.zip",
    "sha256:617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
    ("https://nlp.stanford.edu/data/glove.6B.zip",),
    member="glove.6B.50d.txt",
)
DECLARATION = Declaration(
    name="glove",
    title="GloVe 6B word vectors, 50 numbers a word (model data)",
    papers=("rfedavg",),
    citation="Pennington, Socher, Manning: GloVe, global vectors for word representation, 2014",
    licence="PDDL 1.0",
    redistributable=True,
    shape="[50] a word",
    classes=0,
    upstream="https://nlp.stanford.edu/projects/glove/",
    editions={
        "full": Edition(
            "real", "GloVe 6B", (File("glove/glove.6B.50d.txt", forms=(ARCHIVE,)),), {"words": 400000}
        ),
        "top40000": Edition(
            "subset",
            "the 40,000 most frequent words of GloVe 6B",
            (
                File(
                    "glove/glove.6B.50d.top40000.txt",
                    "12e42e58036bc1217e9d468b268292184a4f59f856366fbbf3024f5b8033b140",
                    17089413,
                    forms=(
                        Form(
                            "glove.6B.50d.top40000.txt.gz",
                            "sha256:05913e2d0e1ce7b8532511c03c2208beaaef59c6335ac72c960d6eba4f7da60c",
                        ),
                    ),
                ),
            ),
            {"words": 40000},
        ),
    },
)


def vectors(edition: str, source: Source) -> tuple[list[str], NDArray[np.float32]]:
    """Return the words, most frequent first, and their vectors [words, 50].

    Raises:
        DataError: the file is missing, damaged or malformed.
    """
    paths = fetch.obtain(DECLARATION, edition, source)
    arrays = cache.derived(source, f"glove-{edition}-1", paths, lambda: _parse(*paths.values()))
    return arrays["words"].tobytes().decode().split("\n"), arrays["vectors"]


def counts(edition: str, source: Source) -> dict[str, int]:
    """Return the number of words."""
    return {"words": len(vectors(edition, source)[0])}


def _parse(path: Path) -> dict[str, NDArray[Any]]:
    words, numbers = [], []
    with path.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            word, *values = line.rstrip("\n").split(" ")
            words.append(word)
            numbers.append(values)
    try:
        found = np.array(numbers, np.float32)
    except ValueError:
        found = np.empty(0, np.float32)
    if found.shape != (len(words), WIDTH) or not np.isfinite(found).all():
        raise DataError(f"{path}: expected a word and {WIDTH} numbers a line")
    return {"words": np.frombuffer("\n".join(words).encode(), np.uint8), "vectors": found}


ENTRY = Entry(DECLARATION, counts)
