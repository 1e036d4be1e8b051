"""Base of all option classes: frozen, strict about unknown keys, with errors that fit on one line."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from itertools import zip_longest
from types import UnionType
from typing import Annotated, Any, LiteralString, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from fedcore.base.errors import DIGITS, SHOWN, SpecError, shown

T = TypeVar("T", bound=BaseModel)
UNKNOWN = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
FLOAT, INTEGER = 3.4028234663852886e38, 2**31 - 1
EXPECTED: Mapping[str, LiteralString] = {
    "boolean": "a number, not a boolean",
    "beyond": "a number below 3.4e+38, a whole one below 2**31",
    "seed": f"at most {DIGITS} digits",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("dict_type", "model_type", "dataclass_type"), "keys and values"),
    **dict.fromkeys(("tuple_type", "list_type"), "a list"),
    "string_type": "text",
    "string_pattern_mismatch": "text of the form {pattern}",
    "string_too_short": "{min_length} or more characters",
    "too_short": "{min_length} or more values",
    "too_long": "{max_length} or fewer values",
    **dict.fromkeys(("greater_than", "greater_than_equal", "less_than", "less_than_equal"), "a number {msg}"),
}
Place = tuple[int | str, ...]
Clients = Annotated[int, Field(gt=0, le=1_000_000)]


@dataclass(frozen=True)
class _Walk:
    """A place of a value among nested options."""

    path: Place  # as a user writes it, without pydantic's names of the types that it tried
    choice: Place  # the place, or where it tried the first of these types, none of which took the value
    kind: Any  # the type at the place


class Options(BaseModel):
    """A frozen set of named options. Refuses unknown keys, booleans for numbers, and numbers beyond use."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)

    @model_validator(mode="wrap")
    @classmethod
    def _numbers(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        options = handler(values)
        written = values if isinstance(values, dict) else {}
        for name, field in cls.model_fields.items():
            if (held := getattr(options, name)) is None or isinstance(held, str | bool | BaseModel):
                continue
            if isinstance(held, float):
                options.__dict__[name] = held + 0.0  # -0.0 is 0.0
            key = name if name in written else field.alias or name
            for kind, place, value in _wrong(written.get(key), held, (key,)):
                custom = PydanticCustomError(kind, EXPECTED[kind])
                error = InitErrorDetails(type=custom, loc=place, input=value)
                raise ValidationError.from_exception_data(cls.__name__, [error])
        return options


def _wrong(written: Any, held: Any, place: Place) -> Iterator[tuple[LiteralString, Place, Any]]:
    """Yield booleans taken for numbers, and numbers beyond float32's range or 32 bits, with their places.

    A seed may be larger, as long as a file can hold it.
    """
    if isinstance(held, int | float):
        if isinstance(written, bool) and not isinstance(held, bool):
            yield "boolean", place, written
        elif abs(held) > (FLOAT if isinstance(held, float) else INTEGER) and "seed" not in place:
            yield "beyond", place, held
        elif abs(held) >= 10**DIGITS:
            yield "seed", place, held
    elif isinstance(held, Mapping):
        pairs = written.items() if isinstance(written, Mapping) else ()
        for (key, raw), (name, value) in zip_longest(pairs, held.items(), fillvalue=(None, None)):
            if not isinstance(name, str):
                yield from _wrong(key, name, (*place, "[key]"))
            yield from _wrong(raw, value, (*place, str(name)))
    elif isinstance(held, list | tuple):
        items = written if isinstance(written, list | tuple) else ()
        for index, (raw, value) in enumerate(zip_longest(items, held)):
            yield from _wrong(raw, value, (*place, index))


def omit_default(default: Any) -> Any:
    """Return a field that is not written while it holds its default.

    So a key that is added leaves the specifications, and their hashes, of runs without it as they were.
    """
    return Field(default=default, exclude_if=lambda value: value == default)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` for a near miss, else the empty string."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return how an error about an unknown name ends: with the nearest known one, else with all."""
    known = list(known)
    return nearest(name, known) or f"; known: {', '.join(known)}"


def keys_of(model: type[BaseModel]) -> list[str]:
    """Return the keys a user writes for ``model``: aliases where there are any."""
    return [field.alias or name for name, field in model.model_fields.items()]


def differences(found: Any, expected: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Return the keys at which two nested values differ, with what each has there (None for nothing)."""
    if not (isinstance(found, dict) and isinstance(expected, dict)):
        return [] if found == expected else [(path, found, expected)]
    keys = [*expected, *(key for key in found if key not in expected)]
    inner = [differences(found.get(key), expected.get(key), f"{path}.{key}".strip(".")) for key in keys]
    return [difference for part in inner for difference in part]


def validate(model: type[T], values: Any, where: str) -> T:
    """Return ``values`` as a ``model``; SpecError: the key (``where.key``), what is found and expected."""
    if not isinstance(values, Mapping):
        raise SpecError(f"{where}: expected keys and values, got {shown(values)}")
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise SpecError(describe(error, model, where)) from None


def describe(error: ValidationError, model: Any, where: str = "") -> str:
    """Put one problem of a pydantic error on one line, an unknown key first, with a count of the rest."""
    problems = error.errors()
    first = min(problems, key=lambda problem: problem["type"] not in UNKNOWN)
    choice = _walk(model, first["loc"]).choice
    alike = [problem for problem in problems if _walk(model, problem["loc"]).choice == choice]
    paths = [_walk(model, problem["loc"]).path for problem in alike]
    deepest = max(paths, key=len)
    reported = [problem for problem, path in zip(alike, paths, strict=True) if path == deepest]
    parts = (part if len(part) <= SHOWN else shown(part) for part in map(str, deepest))
    path = ".".join([where, *parts]).strip(".")
    more = len(problems) - len(alike)
    return _sentence(reported, model, path) + (f" (and {more} more)" if more else "")


def _sentence(reported: Sequence[ErrorDetails], model: Any, path: str) -> str:
    problem, expected = reported[0], " or ".join(dict.fromkeys(map(_expected, reported)))
    loc, found = problem["loc"], shown(problem["input"])
    if problem["type"] in UNKNOWN:
        known = list(_fields(_walk(model, loc[:-1]).kind))
        hint = nearest(str(loc[-1]), known) or f"; known keys: {', '.join(known) or 'none'}"
        return f"{path}: unknown key{hint}"
    if problem["type"] == "missing":
        words = (word for word in get_args(_walk(model, loc).kind) if isinstance(word, str))
        names = ", ".join(map(repr, words))  # a Literal's
        return f"{path}: missing, " + (f"expected one of {names}" if names else "but required")
    if problem["type"] in {"value_error", "assertion_error"}:
        return f"{path}: {expected}"
    if path.rpartition(".")[2] == "[key]":
        return f"{path.removesuffix('.[key]')}: got the name {found}, expected {expected}"
    return f"{path}: got {found}, expected {expected}"


def _expected(problem: ErrorDetails) -> str:
    """Return what was expected in a value's place; what a check of our own says stays as it is."""
    message = problem["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    return EXPECTED.get(problem["type"], "{msg}").format(msg=message, **problem.get("ctx", {}))


def _walk(model: Any, loc: Place) -> _Walk:
    kind, path, plain = _single(model), [], len(loc)
    for number, step in enumerate(loc):
        if get_origin(kind) in {Union, UnionType} and isinstance(step, str):  # a type's name, no place
            plain = min(plain, number)
            tried = (choice for choice in get_args(kind) if str(step).startswith(_name(_single(choice))))
            kind = _single(next(tried, None))
            continue
        path.append(step)
        inner = [argument for argument in get_args(kind) if argument is not ...]
        kind = _single(fields.get(str(step)) if (fields := _fields(kind)) else inner[-1] if inner else None)
    return _Walk(tuple(path), loc[:plain], kind)


def _single(kind: Any) -> Any:
    """Return a type without its constraints, and without None where that leaves one type."""
    while get_origin(kind) in {Annotated, Union, UnionType}:
        others = [argument for argument in get_args(kind) if argument is not type(None)]
        if get_origin(kind) is not Annotated and len(others) > 1:
            return kind
        kind = others[0]
    return kind


def _name(kind: Any) -> str:
    """Return a type's name, with which pydantic's name of it begins."""
    return str(getattr(get_origin(kind) or kind, "__name__", kind))


def _fields(kind: Any) -> dict[str, Any]:
    """Return the keys of a model or dataclass with their types; of any other type none."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {field.alias or name: field.annotation for name, field in kind.model_fields.items()}
    return get_type_hints(kind) if is_dataclass(kind) else {}
