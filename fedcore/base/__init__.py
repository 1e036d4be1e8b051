"""What all of fedcore needs: errors, files, random streams, options, YAML and the registry."""

from collections.abc import Iterable
from functools import reduce
from operator import add

__version__ = "0.3.0"
MIRROR = "FEDCORE_MIRROR"  # the variable that names a folder or URL of upstream's data files


def sum_in_order(values: Iterable[float]) -> float:
    """Add numbers one after another; from Python 3.12 on the function ``sum`` rounds in another way."""
    return reduce(add, values, 0.0)
