"""What option classes refuse, and how they say it in one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError, model_validator

from fedcore.base.errors import SpecError, shown
from fedcore.base.options import (
    Options,
    describe,
    differences,
    keys_of,
    nearest,
    omit_default,
    validate,
)


class Inner(Options):
    steps: int = 1


@dataclass(frozen=True)
class Row:
    width: int = 1


class Model(Options):
    lr: float = 1.0
    rounds: int = 1
    seed: int = 0
    shuffled: bool = False
    word: Literal["one", "two"] = "one"
    batch: int | Literal["full"] = 1
    choice: Literal[1, 2] = 1
    maybe: Annotated[int, Field(ge=0)] | None = None
    steps: tuple[int, ...] = ()
    rates: dict[int, float] = Field(default={})
    free: dict[str, Any] = Field(default={})
    weight: float = Field(default=1.0, alias="lambda")
    inner: Inner = Inner()
    inners: tuple[Inner, ...] = ()
    named: dict[str, Inner] = Field(default={})
    either: Inner | None = None
    row: Row = Row()
    keyed: dict[Annotated[str, Field(pattern="^[a-z]+$")], int] = Field(default={})


class Needed(Options):
    given: int
    asked: int


BOOLEAN = "a number, not a boolean"
BEYOND = "a number below 3.4e+38, a whole one below 2**31"
KEYS = (
    "lr, rounds, seed, shuffled, word, batch, choice, maybe, steps, rates, free, lambda, "
    "inner, inners, named, either, row, keyed"
)


def refusal(values: Any, model: type[Options] = Model, where: str = "here") -> str:
    """Return what ``validate`` says against the values."""
    with pytest.raises(SpecError) as refused:
        validate(model, values, where)
    return str(refused.value)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"lr": True}, f"lr: got True, expected {BOOLEAN}"),
        ({"rounds": False}, f"rounds: got False, expected {BOOLEAN}"),
        ({"batch": True}, f"batch: got True, expected {BOOLEAN}"),
        ({"choice": True}, f"choice: got True, expected {BOOLEAN}"),
        ({"maybe": True}, f"maybe: got True, expected {BOOLEAN}"),
        ({"lambda": True}, f"lambda: got True, expected {BOOLEAN}"),
        ({"weight": True}, f"weight: got True, expected {BOOLEAN}"),
        ({"steps": [1, True]}, f"steps.1: got True, expected {BOOLEAN}"),
        ({"steps": (True, 1)}, f"steps.0: got True, expected {BOOLEAN}"),
        ({"rates": {1: 0.5, 2: True}}, f"rates.2: got True, expected {BOOLEAN}"),
        ({"rates": {True: 0.5}}, f"rates: got the name True, expected {BOOLEAN}"),
        ({"inner": {"steps": True}}, f"inner.steps: got True, expected {BOOLEAN}"),
        ({"lr": 3.5e38}, f"lr: got 3.5e+38, expected {BEYOND}"),
        ({"lr": -3.5e38}, f"lr: got -3.5e+38, expected {BEYOND}"),
        ({"rounds": 2**31}, f"rounds: got 2147483648, expected {BEYOND}"),
        ({"rounds": -(2**31)}, f"rounds: got -2147483648, expected {BEYOND}"),
        ({"steps": [1, 2, 2**31]}, f"steps.2: got 2147483648, expected {BEYOND}"),
        ({"rates": {2**31: 0.5}}, f"rates: got the name 2147483648, expected {BEYOND}"),
        ({"rates": {1: 0.5, 2: 1e39}}, f"rates.2: got 1e+39, expected {BEYOND}"),
        ({"free": {"a": {"b": [1, [2, 1e39]]}}}, f"free.a.b.1.1: got 1e+39, expected {BEYOND}"),
        ({"free": {"a": (0, 2**31)}}, f"free.a.1: got 2147483648, expected {BEYOND}"),
    ],
)
def test_booleans_for_numbers_and_numbers_beyond_use_are_refused(values: Any, said: str) -> None:
    assert refusal(values) == f"here.{said}"


def test_a_seed_may_have_300_digits() -> None:
    assert validate(Model, {"seed": 10**300 - 1}, "here").seed == 10**300 - 1
    assert validate(Model, {"free": {"seed": 2**40}}, "here").free == {"seed": 2**40}
    assert refusal({"seed": 10**300}).endswith("digits, expected at most 300 digits")
    assert refusal({"seed": -(10**300)}).startswith("here.seed: got an integer of some 300 digits")


@pytest.mark.parametrize(
    "values",
    [
        {"lr": 3.4028234663852886e38},
        {"lr": -3.4028234663852886e38},
        {"rounds": 2**31 - 1},
        {"rounds": 1 - 2**31},
        {"shuffled": True},
        {"maybe": None},
        {"batch": "full"},
        {"free": {"a": True, "b": [False], "c": None}},
        {"rates": {2**31 - 1: 3.4e38}},
    ],
)
def test_the_largest_numbers_and_booleans_where_they_belong_are_taken(values: dict[str, Any]) -> None:
    (key, value), *_ = values.items()
    assert getattr(validate(Model, values, "here"), key) == value


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"zzz": 1}, f".zzz: unknown key; known keys: {KEYS}"),
        ({"ronds": 1}, ".ronds: unknown key (did you mean 'rounds'?)"),
        ({"lr": "a", "ronds": 1, "rounds": "b"}, ".ronds: unknown key (did you mean 'rounds'?) (and 2 more)"),
        ({"inner": {"stepz": 1}}, ".inner.stepz: unknown key (did you mean 'steps'?)"),
        ({"inners": [{}, {"zzz": 1}]}, ".inners.1.zzz: unknown key; known keys: steps"),
        ({"named": {"k": {"zzz": 1}}}, ".named.k.zzz: unknown key; known keys: steps"),
        ({"either": {"zzz": 1}}, ".either.zzz: unknown key; known keys: steps"),
        ({"row": {"zzz": 1}}, ".row.zzz: unknown key; known keys: width"),
        ({"lr": "a"}, ".lr: got 'a', expected a number"),
        ({"lr": {"a": 1}, "rounds": []}, ".lr: got {'a': 1}, expected a number (and 1 more)"),
        ({"word": "six"}, ".word: got 'six', expected 'one' or 'two'"),
        ({"rates": {(): 1}}, ".rates.(): got the name (), expected a whole number"),
        ({"keyed": {"A": 1}}, ".keyed.A: got the name 'A', expected text of the form ^[a-z]+$"),
        ([1, "two"], ": expected keys and values, got [1, 'two']"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_place_what_was_found_and_what_was_expected(values: Any, said: str) -> None:
    assert refusal(values) == f"here{said}"


def test_a_missing_key_and_the_number_of_other_problems() -> None:
    assert refusal({}, Needed) == "here.given: missing, but required (and 1 more)"
    assert refusal({"given": 1}, Needed) == "here.asked: missing, but required"
    assert refusal({"given": 1}, Needed, "") == "asked: missing, but required"


def test_a_place_needs_no_name() -> None:
    with pytest.raises(ValidationError) as refused:
        Needed.model_validate({"given": "X"})
    assert describe(refused.value, Needed).startswith("given: got 'X', expected a whole number")
    assert refusal({"given": 1}, Needed, "X") == "X.asked: missing, but required"


def test_what_a_check_of_the_whole_says_is_all_that_is_said() -> None:
    class Checked(Options):
        low: int = 0
        high: int = 1

        @model_validator(mode="after")
        def _ordered(self) -> Checked:
            if self.low < 0:
                raise AssertionError("low is below 0")
            if self.low > self.high:
                raise ValueError("low is above high")
            return self

    assert refusal({"low": 2}, Checked) == "here: low is above high"
    assert refusal({"low": -1}, Checked) == "here: Assertion failed, low is below 0"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"size": "x"}, "size: got 'x', expected a whole number or 'full'"),
        ({"size": 0, "rate": "x"}, "size: got 0, expected a number greater than 0 or 'full' (and 1 more)"),
        ({"steps": [1, 0]}, "steps.1: got 0, expected a number greater than 0"),
        ({"steps": [[]]}, "steps.0: got [], expected a whole number"),
        ({"steps": "x"}, "steps: got 'x', expected a whole number or a list"),
        ({"deep": {"a": [1, {}]}}, "deep.a.1: got {}, expected text or a number"),
        ({"word": 3}, "word: got 3, expected text"),
        ({"word": ""}, "word: got '', expected 1 or more characters"),
        ({"pair": [1, 2, 3]}, "pair: got [1, 2, 3], expected 2 or fewer values"),
        ({"rate": "x"}, "rate: got 'x', expected a number"),
    ],
)
def test_a_choice_of_types_is_one_place_and_every_type_has_its_word(values: Any, said: str) -> None:
    class Choices(Options):
        size: Annotated[int, Field(gt=0)] | Literal["full"] = 1
        steps: Annotated[int, Field(gt=0)] | tuple[Annotated[int, Field(gt=0)], ...] | None = None
        deep: dict[str, int | list[str | float]] = Field(default={})
        word: Annotated[str, Field(min_length=1)] = "a"
        pair: tuple[int, int] = (1, 2)
        rate: float | None = None

    assert refusal(values, Choices) == f"here.{said}"


def test_an_options_class_without_keys_knows_none() -> None:
    assert refusal({"zzz": 1}, Options) == "here.zzz: unknown key; known keys: none"


def test_a_long_name_is_cut_in_its_place() -> None:
    message = refusal({"rates": {"x" * 300: 1}})
    assert message.startswith(f"here.rates.'{'x' * 199}...: got the name '{'x' * 199}..., expected")
    assert refusal({"named": {"k" * 200: 5}}).startswith(f"here.named.{'k' * 200}: got 5")


def test_keys_are_those_that_a_user_writes() -> None:
    assert keys_of(Model) == KEYS.split(", ")


def test_a_default_is_not_written_and_any_other_value_is() -> None:
    class Sparse(Options):
        plain: int = 1
        sparse: int = omit_default(1)

    assert Sparse().model_dump() == {"plain": 1}
    assert Sparse(sparse=2).model_dump() == {"plain": 1, "sparse": 2}


@pytest.mark.parametrize(
    ("found", "expected", "said"),
    [
        (1, 1, []),
        (1, 2, [("", 1, 2)]),
        ({}, {}, []),
        ({"a": 1}, 5, [("", {"a": 1}, 5)]),
        ({"X": 1}, {"X": 2}, [("X", 1, 2)]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, [("a.c", 2, 3)]),
        ({"a": 1, "new": 2}, {"gone": 0, "a": 3}, [("gone", None, 0), ("a", 1, 3), ("new", 2, None)]),
    ],
)
def test_differences_name_the_keys_with_what_each_side_has(found: Any, expected: Any, said: Any) -> None:
    assert differences(found, expected) == said


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sed", " (did you mean 'seed'?)"),
        ("speeds", " (did you mean 'seed'?)"),
        ("se", " (did you mean 'seed'?)"),  # 4 of 6 letters are in both
        ("set", ""),  # 4 of 7
        ("zzz", ""),
        (7, ""),
    ],
)
def test_a_near_miss_is_hinted_at(name: Any, hint: str) -> None:
    assert nearest(name, iter(["lr", "seed", "speech"][:2])) == hint


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, 2], "b": {}}, "{'a': [1, 2], 'b': {}}"),
        ([[], ["x", None], {2: ("y",)}], "[[], ['x', None], {2: ('y',)}]"),
        ("x" * 198, "'" + "x" * 198 + "'"),
        ("x" * 199, "'" + "x" * 199 + "..."),
        (b"x" * 300, "b'" + "x" * 198 + "..."),
        (list(range(100)), str(list(range(100)))[:200] + "..."),
        (2**799, str(2**799)[:200] + "..."),
        (2**800, "an integer of some 241 digits"),
        ([-(10**300)], "[an integer of some 300 digits]"),
        (True, "True"),
    ],
    ids=range(10),
)
def test_a_wrong_value_is_shown_as_python_writes_it_up_to_200_characters(value: Any, text: str) -> None:
    assert shown(value) == text


def test_a_long_value_is_shown_without_reading_its_end() -> None:
    class Unreadable:
        def __repr__(self) -> str:
            raise AssertionError("the end was read")

    assert shown(["x" * 250, Unreadable()]) == "['" + "x" * 198 + "..."
