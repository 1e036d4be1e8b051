"""Base of all option classes: frozen, strict about unknown keys, with errors that fit on one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedcore.errors import SpecError

T = TypeVar("T", bound=BaseModel)
SHOWN = 200


class Options(BaseModel):
    """A frozen set of named options. Unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)


def left_out(default: Any) -> Any:
    """Return a field that is not written while it holds its default.

    So a key that is added leaves the specifications, and their hashes, of runs without it as they were.
    """
    return Field(default=default, exclude_if=lambda value: value == default)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` for a near miss, else the empty string."""
    close = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.55)
    return f" (did you mean '{close[0]}'?)" if close else ""


def keys_of(model: type[BaseModel]) -> list[str]:
    """Return the keys a user writes for ``model``: aliases where there are any."""
    return [field.alias or name for name, field in model.model_fields.items()]


def shown(value: Any) -> str:
    """Return a wrong value as an error shows it: the beginning of a long one."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def validate(model: type[T], values: Any, where: str) -> T:
    """Validate ``values`` against ``model``.

    Raises:
        SpecError: one line naming the key (``where.key``), what was found and what was expected.
    """
    if not isinstance(values, dict):
        raise SpecError(f"{where}: expected keys and values, got {shown(values)}")
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise SpecError(describe(error, model, where)) from None


def describe(error: ValidationError, model: type[BaseModel], where: str = "") -> str:
    """Put the first problem of a pydantic error on one line, with a count of the rest."""
    problems = error.errors()
    first = problems[0]
    path = ".".join([where, *map(str, first["loc"])]).strip(".")
    if first["type"] == "extra_forbidden":
        key = str(first["loc"][-1])
        known = keys_of(_nested(model, first["loc"][:-1]))
        hint = nearest(key, known) or f"; known keys: {', '.join(known) or 'none'}"
        text = f"{path}: unknown key{hint}"
    elif first["type"] == "missing":
        text = f"{path}: missing, but required"
    else:
        message = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
        if first["type"] in {"value_error", "assertion_error"}:
            text = f"{path}: {message}"
        else:
            text = f"{path}: got {shown(first['input'])}, expected {message}"
    more = len(problems) - 1
    return text + (f" (and {more} more)" if more else "")


def _nested(model: type[BaseModel], path: tuple[int | str, ...]) -> type[BaseModel]:
    """Follow a path of keys to the innermost option class on it."""
    for step in path:
        field = model.model_fields.get(str(step))
        inner = [t for t in (field.annotation, *get_args(field.annotation)) if _is_model(t)] if field else []
        model = inner[0] if inner else model
    return model


def _is_model(candidate: Any) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, BaseModel)
