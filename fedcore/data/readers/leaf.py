"""LEAF's json: ``users``, ``num_samples`` and ``user_data[user]`` with lists x and y."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedcore.base.errors import DataError, reason


def read_leaf(paths: Iterable[Path]) -> dict[str, tuple[list[Any], list[Any]]]:
    """Read files into user -> (x, y), users in the files' order; a user in two files gets both parts.

    ``num_samples`` is not used: LEAF itself writes counts that differ from what is there.

    Raises:
        DataError: a file is no JSON or not laid out like this, or x and y differ in length.
    """
    found: dict[str, tuple[list[Any], list[Any]]] = {}
    for path in paths:
        try:
            values = json.loads(path.read_bytes())
            users, data = values["users"], values["user_data"]
            for user in users:
                x, y = data[user]["x"], data[user]["y"]
                if not isinstance(x, list) or not isinstance(y, list) or len(x) != len(y):
                    raise DataError(f"{path}: user {user!r} has no lists x and y of one length")
                known = found.setdefault(str(user), ([], []))
                known[0].extend(x)
                known[1].extend(y)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataError(f"{path}: not LEAF json ({type(error).__name__}: {reason(error)})") from None
    return found
