"""Remember what follows from a paper's parameters: they are frozen, but hold mappings, which have no hash."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from pipeline.schema import PaperParams

Rest = ParamSpec("Rest")
Found = TypeVar("Found")
Asked = Callable[Concatenate[PaperParams, Rest], Found]


def once(function: Asked[Rest, Found]) -> Asked[Rest, Found]:
    """Let a function of parameters and of values with a hash be computed once for each of them.

    Equal parameters that are two objects count as two.
    """
    known: dict[object, tuple[PaperParams, Found]] = {}

    @wraps(function)
    def remembered(params: PaperParams, *rest: Rest.args, **named: Rest.kwargs) -> Found:
        key = (id(params), rest, tuple(sorted(named.items())))
        if key not in known:
            known[key] = (params, function(params, *rest, **named))  # held, so that its id stays its own
        return known[key][1]

    return remembered
