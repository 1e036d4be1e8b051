"""A study's rows and columns: its methods and its settings, each with the values of grids and variants."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from fedcore.base.errors import SpecError, shown
from fedcore.base.options import keys_of, suggestion
from fedcore.base.registry import find
from fedcore.spec import Participation, Training
from pipeline.catalogue.schema import LENGTHS, PaperParams, StudyParams
from pipeline.catalogue.targets import Changes, Query, Variation

ROWS = ("algorithm", "training")
COLUMNS = ("data", "partition", "model", "participation", "dtype", "precision")
WHOLE = ("dtype", "precision")
FIXED = {"training": keys_of(Training), "participation": keys_of(Participation), **dict.fromkeys(WHOLE, ())}
Known = Mapping[str, Collection[str]]
Cases = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Point:
    """One combination of values: its name in files, its name in print, and what it changes."""

    name: str = ""
    label: str = ""
    changes: Changes = ()


@dataclass(frozen=True)
class Setting:
    """A column: where methods are compared."""

    key: str
    regime: str
    dataset: str
    split: str
    group: str
    label: str
    changes: Changes

    def query(self, row: Variation, *changes: tuple[str, Any]) -> Query:
        """Return the runs of a method here."""
        all_changes = (*self.changes, *row.changes, *changes)
        return Query(self.regime, self.dataset, self.split, row.method, all_changes, place=self.key)


def rows(params: StudyParams) -> dict[str, Variation]:
    """Return a study's rows by key, or raise SpecError with a grid's or variant's key that no method has."""
    named: dict[str, Variation] = {}
    known = {
        name: {**FIXED, "algorithm": options_of("algorithm", method.name or name, f"algorithms.{name}")}
        for name, method in params.algorithms.items()
    }
    refuse_unknown(params.grid, params.variants, known.values(), "", ROWS + COLUMNS)
    grid, variants = _of(ROWS, params)
    for name, method in params.algorithms.items():
        refuse_unknown(method.grid, method.variants, [known[name]], f"algorithms.{name}.", ROWS + WHOLE)
        label = method_label(params, name)
        for point in points({**grid, **method.grid}, method.variants or variants, known[name]):
            _refuse_second(name + point.name, named)
            named[name + point.name] = Variation(label + point.label, name, point.changes)
    return named


def method_label(params: StudyParams, name: str) -> str:
    """Return what a study's method is called in print: as its file says, as its plug-in, or by its key."""
    plugin = find("algorithm", params.algorithms[name].name or name, f"algorithms.{name}.name")
    return params.report.labels.get(name) or (plugin.label if plugin.name == name else "") or name


def settings(params: StudyParams) -> dict[str, Setting]:
    """Return a study's columns by key: each split of each data set in each regime, and values of the grid.

    It raises SpecError with a grid's or variant's key that no setting has.
    """
    columns: dict[str, Setting] = {}
    labels, all_known = params.report.labels, []
    grid, variants = _of(COLUMNS, params)
    for regime, (dataset, section) in product(params.regimes, params.datasets.items()):
        for split in section.splits:
            known = setting_keys(params, dataset, split)
            all_known.append(known)
            over = (regime, dataset) if len(params.regimes) > 1 else (dataset,)
            group = ", ".join(labels.get(name, name) for name in reversed(over))
            for point in points(grid, variants, known):
                label = labels.get(split, split) + point.label
                key = "-".join((*over, split)) + point.name
                _refuse_second(key, columns)
                columns[key] = Setting(key, regime, dataset, split, group, label, point.changes)
    refuse_unknown(grid, variants, all_known, "", COLUMNS)
    return columns


def _refuse_second(key: str, known: Collection[str]) -> None:
    if key in known:
        raise SpecError(f"grid: got two combinations called '{key}', expected values that differ in print")


def setting_keys(params: PaperParams, dataset: str, split: str) -> dict[str, Collection[str]]:
    """Return the keys of a specification of runs on a data set's split, by section, but the method's."""
    section, where = params.datasets[dataset], f"datasets.{dataset}"
    return {
        **FIXED,
        "data": options_of("data", section.data.name, f"{where}.data"),
        "model": options_of("model", section.model.name, f"{where}.model"),
        "partition": options_of("partition", section.splits[split].name, f"{where}.splits.{split}"),
    }


def data_set(params: PaperParams, setting: Setting) -> str:
    """Return the data set of a setting, the unit of inference: its name, and the path of one's own."""
    data = params.datasets[setting.dataset].data
    paths = {"data.path": (data.model_extra or {}).get("path", ""), **dict(setting.changes)}
    return f"{data.name} {paths['data.path']}".strip()


def points(grid: Mapping[str, Iterable[Any]], variants: Cases, known: Known) -> list[Point]:
    """Return every combination of a grid's values and of one variant, as far as their keys are known.

    Combinations that change the same count once. A key in the grid and in a variant raises SpecError.
    """
    keys = [key for key in grid if _has(known, key)]
    if both := [key for key in keys if any({*alike(key)} & {*case} for case in variants.values())]:
        raise SpecError(f"'{both[0]}' is in grid and in variants, expected one of them")
    ends = [key.rpartition(".")[2] for key in keys]
    short = {key: end if ends.count(end) == 1 else key for key, end in zip(keys, ends, strict=True)}
    axes = [[_point(key, short[key], value) for value in grid[key]] for key in keys]
    if variants:
        axes.append([_variant(name, case, known) for name, case in variants.items()])
    combinations: dict[Changes, Point] = {}
    for parts in product(*axes):
        changes = tuple(dict(change for part in parts for change in part.changes).items())
        name, label = ("".join(getattr(part, field) for part in parts) for field in ("name", "label"))
        combinations.setdefault(changes, Point(name, label, changes))
    return list(combinations.values())


def alike(key: str) -> tuple[str, ...]:
    """Return the keys that exclude each other beside this one: steps and epochs."""
    lengths = tuple(f"training.{name}" for name in sorted(LENGTHS))
    return lengths if key in lengths else (key,)


def _point(key: str, short: str, value: Any) -> Point:
    return Point(f"-{short}_{word(value)}", f", {short} = {word(value)}", ((key, frozen(key, value)),))


def word(value: Any) -> str:
    """Return a value as names of rows and columns have it."""
    return "x".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _variant(name: str, case: Mapping[str, Any], known: Known) -> Point:
    if "model.name" in case:
        known = {**known, "model": options_of("model", case["model.name"], "model")}
    changes = known_changes(case, known)
    return Point(f"-{name}", f", {name}", changes) if changes else Point()


def known_changes(case: Mapping[str, Any], known: Known) -> Changes:
    """Return those of a variant's keys that are known, with values that a query can hold."""
    return tuple((key, frozen(key, value)) for key, value in case.items() if _has(known, key))


def refuse_unknown(
    grid: Mapping[str, Any], variants: Cases, known: Collection[Known], where: str, sections: Collection[str]
) -> None:
    """Refuse a key outside of these sections, or in one of them that none of the plug-ins has.

    ``known`` are the keys of each method, or of each setting; of sections that they lack nothing is said.
    ``where`` stands before the path of a key in the file.
    """
    keys_by_path = {f"{where}grid.{key}": (key, "") for key in grid}
    for name, case in variants.items():
        if len({_side({key: 0}) for key in case}) != 1:
            raise SpecError(
                f"{where}variants.{name}: got {', '.join(case) or 'no key'}, "
                f"expected keys of rows ({', '.join(ROWS)}) or keys of columns ({', '.join(COLUMNS)})"
            )
        model = case.get("model.name", "")
        keys_by_path |= {f"{where}variants.{name}.{key}": (key, model) for key in case}
    for path, (key, model) in keys_by_path.items():
        section, _, option = key.partition(".")
        if section not in sections or (not option) != (section in WHOLE):
            raise SpecError(f"{path}: expected a key of a specification in {', '.join(sections)}")
        if option == "name" and not model:
            raise SpecError(f"{path}: another {section} is an entry of its own, or a variant with model.name")
        options = [keys[section] for keys in known if section in keys]
        if model and section == "model":
            options = [options_of("model", model, "model")]
        allowed = {known_option for keys in options for known_option in keys}
        if options and not _has({section: allowed}, key):
            raise SpecError(f"{path}: no such key{suggestion(option, sorted(allowed - {'name'}))}")


def options_of(kind: str, name: str, where: str) -> list[str]:
    """Return the keys of a plug-in's section; ``where`` is its place, for the line that refuses its name."""
    return ["name", *keys_of(find(kind, name, f"{where}.name").options)]


def _has(known: Known, key: str) -> bool:
    section, _, option = key.partition(".")
    return not option or option.partition(".")[0] in known.get(section, ())


def _of(side: tuple[str, ...], params: StudyParams) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return those of a study's grid and variants whose keys belong to a side of its table."""
    grid = {key: values for key, values in params.grid.items() if key.partition(".")[0] in side}
    return grid, {key: case for key, case in params.variants.items() if _side(case) == side}


def _side(case: Mapping[str, Any]) -> tuple[str, ...]:
    return ROWS if next(iter(case), "").partition(".")[0] in ROWS else COLUMNS


def frozen(key: str, value: Any) -> Any:
    """Return a value as a query can hold it, or raise SpecError if it has keys of its own."""
    if isinstance(value, Mapping):
        raise SpecError(f"{key}: got {shown(value)}, expected a value; write its keys, such as {key}.name")
    return tuple(frozen(key, item) for item in value) if isinstance(value, list) else value
