"""What prints the structure of the packages."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from structure import back_up, cycles, layers

STACK = {"top": frozenset({"middle", "low"}), "middle": frozenset({"low"}), "low": frozenset[str]()}
RING = STACK | {"low": frozenset({"middle"})}


def test_a_layer_is_the_longest_chain_below_it() -> None:
    assert layers(STACK) == {"top": 3, "middle": 2, "low": 1}
    assert not cycles(STACK)
    assert back_up(STACK) == 0


def test_packages_of_a_cycle_share_a_layer_and_their_imports_do_not_lead_down() -> None:
    assert layers(RING) == {"top": 2, "middle": 1, "low": 1}
    assert cycles(RING) == [frozenset({"middle", "low"})]
    assert back_up(RING) == 2
