"""What a paper declares: its tables and figures, as questions to the catalogue, and the runs that answer."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

from fedcore.base.files import digest, sha256_file, until_changed
from fedcore.base.registry import plugins
from fedcore.data.files import files_of
from fedcore.execution.integrity import PARTITION
from fedcore.parts import Recipe
from pipeline.catalogue import codehash
from pipeline.catalogue.schema import Layout, PaperParams

Cell = tuple[str, str]
Changes = tuple[tuple[str, Any], ...]
Asked = Mapping[Cell, "Query | tuple[Query, ...]"]
Needs = Literal["runs", "partitions"]
Best = Literal["largest", "smallest", "none"]
Test = Literal["t", "wilcoxon", "none"]
Kind = Literal["table", "words", "curves", "drawing"]
TABLE_FILES = ("csv", "md", "html", "tex", "standalone.tex")
FIGURE_FILES = ("csv", "svg", "pdf", "png", "tex", "caption.md")
RESULTS = "results"
TEMPLATES = Path(__file__).parents[1] / "reports" / "templates"


@dataclass(frozen=True)
class Query:
    """One setting and algorithm, by their keys in the paper's parameters; it gives a run for each seed.

    ``changes`` are laid over the parameters last: pairs of a dotted key of the specification and its value.
    ``seeds``: the paper's where None. ``place``: the setting's name where ``chosen`` has values for it.
    """

    regime: str
    dataset: str
    split: str
    algorithm: str
    changes: Changes = ()
    seeds: tuple[int, ...] | None = None
    place: str = ""

    @property
    def setting(self) -> str:
        """Readable name of the setting, shared by all its algorithms."""
        return f"{self.regime}-{self.dataset}-{self.split}"


class Variation(NamedTuple):
    """A row: its words, its method, and what is changed of it, as dotted keys of a specification."""

    label: str
    method: str
    changes: Changes = ()


@dataclass(frozen=True)
class PlannedRun:
    """One training run, with its resolved specification and the parts of its algorithm.

    ``method``: the algorithm's name and the hash of the specification without its seed; ``division``: data
    set, split and the hash of what decides on partitions.
    """

    paper: str
    scale: str
    setting: str
    dataset: str
    algorithm: str
    method: str
    seed: int
    spec: Mapping[str, Any]
    division: str
    recipe: Recipe = field(repr=False, compare=False)

    @cached_property
    def code(self) -> str:
        """The hash of the code that it executes, with that of the user's files."""
        names = {key: self.spec[key]["name"] for key in ("algorithm", "data", "model", "partition")}
        observers = tuple(sorted(self.spec["evaluation"].get("observe", ())))
        return _joined(codehash.of_run(**names, observers=observers), self.files)

    @cached_property
    def files(self) -> str:
        """The hash of the user's files that it reads, as far as they are here; empty without any."""
        return _hash_of_files(self.spec)

    @cached_property
    def spec_sha256(self) -> str:
        """The hash of its specification."""
        return digest(self.spec)

    @cached_property
    def folder(self) -> str:
        """Where its files go."""
        return f"{self.group}/seed{self.seed}"

    @cached_property
    def group(self) -> str:
        """The folder that it shares with the other seeds."""
        return f"{RESULTS}/{self.paper}/{self.scale}/{self.setting}/{self.method}"

    @cached_property
    def partition(self) -> str:
        """The folder of the partition that it uses."""
        return f"{RESULTS}/{self.paper}/{self.scale}/partitions/{self.division}/seed{self.seed}"

    def order(self) -> dict[str, Any]:
        """Return the arguments of ``fedcore run-batch``."""
        partition, provenance = f"{self.partition}/{PARTITION}", {"code": self.code}
        return {"spec": self.spec, "out": self.folder, "partition": partition, "provenance": provenance}


@dataclass(frozen=True)
class PlannedPartition:
    """One partition of one data set, shared by all algorithms of a setting: its folder and specification."""

    folder: str
    spec: Mapping[str, Any]

    @cached_property
    def code(self) -> str:
        """The hash of the code that makes it, with that of the user's files that it reads."""
        code = codehash.of_partition(self.spec["data"]["name"], self.spec["partition"]["name"])
        return _joined(code, _hash_of_files(self.spec))


def _joined(code: str, files: str) -> str:
    return digest([code, files]) if files else code


def _hash_of_files(spec: Mapping[str, Any]) -> str:
    """Return the hash of the user's files that a specification names; empty without any."""
    paths = [path for section in ("data", "model") for path in files_of(spec[section])]
    files = [(path.as_posix(), _hash_of(path)) for path in paths]
    return digest(files) if files else ""


_hash_of = until_changed(sha256_file)


@dataclass(frozen=True)
class Column:
    """A column of a table: ``key`` in files, ``label`` in print, under a ``group`` heading.

    ``decimals``, ``best`` and ``test`` take the place of the table's where they are given.
    """

    key: str
    label: str
    group: str = ""
    decimals: int | None = None
    best: Best | None = None
    test: Test | None = None

    @property
    def heading(self) -> str:
        """Its label after its group's."""
        return f"{self.group} {self.label}".strip()


@dataclass(frozen=True)
class Sources:
    """What a target is built from: declarations, the paper's parameters, and the runs of each (row, column).

    ``root`` holds results/; ``earlier`` is its csv as another sitting made it, for runs that aren't here, and
    None where all have to be.
    """

    paper: str
    name: str
    target: "Target"
    declared: "Paper"
    params: PaperParams
    scale: str
    cells: Mapping[Cell, tuple[PlannedRun, ...]]
    root: Path = Path()
    earlier: Path | None = None
    layout: Layout = field(default_factory=Layout)

    @property
    def kept_folder(self) -> Path | None:
        """The folder of kept runs that stand for those that aren't here; None where none do."""
        return self.earlier.parent if self.earlier else None

    @cached_property
    def runs(self) -> list[PlannedRun]:
        """Its runs, each once."""
        return list({run.folder: run for runs in self.cells.values() for run in runs}.values())

    @property
    def trained(self) -> list[PlannedRun]:
        """Its runs; none where only their partitions count."""
        return self.runs if self.target.needs == "runs" else []

    def build(self, outputs: Mapping[str, Path]) -> None:
        """Write the target's files, a path for each form."""
        self.target.build(self, outputs)

    @property
    def owners(self) -> list[str]:
        """The folders of what it is made of: of its runs, or only of their partitions."""
        return [run.folder if self.target.needs == "runs" else run.partition for run in self.runs]

    @property
    def plan(self) -> str:
        """A hash of what it shows and of the code that makes it, for rerunning."""
        known = plugins("algorithm")
        cells = [[*cell, [run.folder for run in runs]] for cell, runs in self.cells.items()]
        methods = (known[row] for row in sorted({row for row, _ in self.cells}) if row in known)
        looks = [[method.label, *method.pen] for method in methods]
        code = codehash.of_code(type(self.target).__module__, self.declared.code)
        shown = self.declared.shown if self.declared.numbers is None else sha256_file(self.declared.numbers)
        files = [sha256_file(path) for path in (*sorted(TEMPLATES.iterdir()), *self.target.basis)]
        return digest([cells, looks, code, [shown, *files], self.layout.model_dump()])[:16]


@dataclass(frozen=True, kw_only=True)
class Target(ABC):
    """A table or figure, which says what it needs and builds itself from that.

    Attributes:
        title: what it shows, the caption's first sentence without its full stop.
        published: its name in the paper.
        rows: label of each row by key, empty for one that is called as everywhere, given the paper's
            parameters; its algorithms unless given.
        columns: its columns, given the paper's parameters; none of a figure.
        queries: the runs of each (row, column), of one setting or of several, such as folds, given the
            paper's parameters; none of what follows from these alone.
        needs: what it is made of: finished runs, or partitions only.
        unit: of its numbers, where all have the same.
        scaled: whether what it shows changes with the scale.
        basis: files that decide what it shows, besides the published numbers.
        follows: the paper's reports whose numbers decide which runs it needs.
        partial: whether it can be made of some of its runs, as each table can.
        kind: what it is, in a word.
        kept: the forms that a reference keeps; none of a target that holds no measurement.
    """

    title: str
    published: str
    rows: Callable[[PaperParams], Mapping[str, str]] = lambda params: dict.fromkeys(params.algorithms, "")
    columns: Callable[[PaperParams], tuple[Column, ...]] = lambda params: ()
    queries: Callable[[PaperParams], Asked] = lambda params: {}
    needs: Needs = "runs"
    unit: str = ""
    scaled: bool = True
    basis: tuple[Path, ...] = ()
    follows: tuple[str, ...] = ()
    partial: bool = False
    kind: ClassVar[Kind]
    kept: ClassVar[tuple[str, ...]] = ()

    @property
    def drawn(self) -> bool:
        """Whether it is a figure."""
        return self.kind in {"curves", "drawing"}

    @property
    def files(self) -> tuple[str, ...]:
        """The endings of its files."""
        return FIGURE_FILES if self.drawn else TABLE_FILES

    def paths(self, folder: Path, name: str) -> dict[str, Path]:
        """Return the paths of its files, by form: ``csv``, ``standalone`` and so on."""
        return {ending.partition(".")[0]: folder / f"{name}.{ending}" for ending in self.files}

    def cells(self, params: PaperParams) -> Mapping[Cell, tuple[Query, ...]]:
        """Return the queries of each (row, column), in reading order."""
        queries = self.queries(params)
        return {cell: query if isinstance(query, tuple) else (query,) for cell, query in queries.items()}

    @abstractmethod
    def build(self, sources: Sources, outputs: Mapping[str, Path]) -> None:
        """Write its files, a path for each form, or raise DataError if a run can't be used."""

    def read_as(self, words: str, change: Callable[[Query], Query], **more: Any) -> Self:
        """Return it under another reading of the paper: words after its title, and changes of all queries."""

        def queries(params: PaperParams) -> Asked:
            return {cell: tuple(map(change, originals)) for cell, originals in self.cells(params).items()}

        return replace(self, title=f"{self.title}{words}", queries=queries, **more)

    def row_labels(self, params: PaperParams) -> Mapping[str, str]:
        """Return what rows that are no algorithms are called in print."""
        return {row: label for row, label in self.rows(params).items() if label}

    def column_labels(self, params: PaperParams) -> Mapping[str, str]:
        """Return what columns that are no data sets are called in print, each after its group."""
        return {column.key: column.heading for column in self.columns(params)}


@dataclass(frozen=True)
class Paper:
    """What a paper's folder declares, or a study's file.

    Attributes:
        citation: authors, venue and year; a study's file.
        datasets: label of each data set in print.
        targets: tables and figures by the name they have in reports/.
        numbers: the file of its published numbers; None for a study.
        code: the module whose code decides, beside the targets' own, what its reports show.
        shown: a hash of what else does.
    """

    title: str
    citation: str
    datasets: Mapping[str, str]
    targets: Mapping[str, Target]
    numbers: Path | None = Path("published.csv")
    code: str = ""
    shown: str = ""

    @property
    def is_study(self) -> bool:
        """Whether nobody has printed it yet."""
        return self.numbers is None
