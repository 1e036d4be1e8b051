"""What a data set says about itself: its editions, their files, checksums, licence and how to get them.

Pure facts, read from the YAML file beside the module that loads the data: ``mnist.yaml`` stands beside
``mnist.py`` and maps names of data sets to the fields of ``Declaration``. ``fedcore data`` prints them,
``fedcore.data.download.fetch`` acts on them.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from fedcore.base import core_yaml
from fedcore.base.errors import DataError, SpecError
from fedcore.base.options import describe, nearest
from fedcore.data import Dataset, DataState, Rows, Size, Source


@dataclass(frozen=True)
class Form:
    """A form in which a file is handed out: as it is, compressed, or as a member of an archive."""

    name: str  # as stored, such as train-images-idx3-ubyte.gz, maybe with a mirror's folder
    digest: str = ""  # sha256:... or md5:... of the stored bytes (or their beginning), where it is known
    urls: tuple[str, ...] = ()  # upstream addresses, tried in order
    member: str = ""  # the file's name inside the archive, if the form is one


@dataclass(frozen=True)
class File:
    """One file in its plain form, as it lies in the cache.

    ``rows_sha256`` is of a text's words, with single spaces, one line per row, without blank lines. It
    accepts copies of the same rows that differ in spaces or line ends.
    """

    path: str  # below data/fetched and below a mirror, such as mnist/train-images-idx3-ubyte
    sha256: str = ""  # of the plain content, or empty where neither upstream nor we know it
    bytes: int = 0  # of the plain content, 0 if not known
    rows_sha256: str = ""
    forms: tuple[Form, ...] = ()  # that are known; a mirror may also hold it plain or compressed otherwise
    rows: int = 0  # lines of text, checked where there is no checksum to go by
    variables: tuple[str, ...] = ()  # of a table: columns, or names of measurements, that are taken from it

    @property
    def name(self) -> str:
        """The last part of ``path``."""
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Edition:
    """One version of a data set that an experiment can name."""

    state: DataState  # what a caption calls it
    note: str  # a short phrase for captions
    files: tuple[File, ...] = ()  # none of data that ship with the code or are generated
    counts: Mapping[str, int] = field(default_factory=dict)  # what loading must find, such as train: 60000
    terms: str = ""  # conditions that a user must accept before it is downloaded, if there are any
    how: str = ""  # how to get it where nothing can be downloaded
    extras: tuple[File, ...] = ()  # belong to it but are not needed; verified where they are present


@dataclass(frozen=True)
class Declaration:
    """Everything to know about a data set before it is loaded."""

    name: str  # as registered
    title: str  # what people call it
    papers: tuple[str, ...]  # keys of those that use it
    citation: str
    licence: str  # as far as known
    redistributable: bool | None  # whether copies may be handed on; None where no licence is stated
    shape: str  # of one sample, in words
    classes: int
    editions: Mapping[str, Edition]  # by name; demo ships with the code or is generated
    upstream: str = ""  # page that describes it

    def edition(self, name: str) -> Edition:
        """Return one edition, or raise DataError with the names of those that there are."""
        if name not in self.editions:
            names = ", ".join(self.editions)
            raise DataError(f"{self.name}: no edition '{name}'{nearest(name, self.editions)}; known: {names}")
        return self.editions[name]

    def size(self, edition: str, inputs: tuple[int, ...]) -> Size:
        """Return how large an edition is, with rows of this shape."""
        counts = self.edition(edition).counts
        return Size(sum(counts.values()), inputs, self.classes, test=counts.get("test"))

    def dataset(self, edition: str, train: Rows, test: Rows, detail: str = "", **more: Any) -> Dataset:
        """Return loaded rows with the name, classes, state and note that are declared of an edition.

        The note goes on with ``detail``; ``more`` are further fields of ``Dataset``, or other values.
        """
        known = self.edition(edition)
        note = f"{known.note}, {detail}" if detail else known.note
        return replace(Dataset(self.name, train, test, self.classes, known.state, note), **more)


@dataclass(frozen=True)
class Entry:
    """A declared data set and how to count what is there: a module's ``ENTRY``, or one of its ``ENTRIES``."""

    declaration: Declaration
    counts: Callable[[str, Source], dict[str, int]]  # what loading finds, under the keys of Edition.counts


DECLARATIONS = TypeAdapter(dict[str, Declaration], config=ConfigDict(extra="forbid"))


def declared(module: str) -> Mapping[str, Declaration]:
    """Return the data sets that the YAML file beside a module (its ``__file__``) declares, by name; raises
    SpecError where that can't be read, or a key is missing, unknown or has a wrong value.
    """
    path = Path(module).with_suffix(".yaml")
    try:
        return DECLARATIONS.validate_python(read_facts(path))
    except ValidationError as error:
        raise SpecError(f"{path}: {describe(error, dict[str, Declaration])}") from None


@functools.cache
def read_facts(path: Path) -> Any:
    """Return what a file of facts says, each set with its name."""
    facts = core_yaml.read(path, "file of facts")
    if not isinstance(facts, dict):
        raise SpecError(f"{path}: expected names of data sets, each with its facts")
    return {name: {"name": name, **its} if isinstance(its, dict) else its for name, its in facts.items()}
