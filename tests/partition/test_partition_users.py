"""Natural clients of several users each: grouped at random, in equal numbers, every row kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from partition_toys import split_data, toy_data
from wording import one_line

from fedcore.base.errors import SpecError
from fedcore.base.options import validate
from fedcore.partitions.natural import PLUGINS, grouped

USERS = np.repeat(np.arange(40), 3)
DATA = toy_data(np.arange(120) % 2, USERS)


def test_six_users_become_three_clients_by_hand() -> None:
    """The generator's permutation of six deals the users out, two to a client."""
    users = [np.array([10 * user, 10 * user + 1]) for user in range(6)]
    order = np.random.default_rng(5).permutation(6)
    clients = grouped(users, 3, np.random.default_rng(5))
    for client, rows in enumerate(clients):
        first, second = order[2 * client : 2 * client + 2]
        assert rows.tolist() == [10 * first, 10 * first + 1, 10 * second, 10 * second + 1]


@settings(deadline=None)
@given(clients=st.integers(1, 40), more=st.integers(0, 39), seed=st.integers(0, 5), shuffled=st.booleans())
def test_users_are_dealt_out_whole_and_evenly(clients: int, more: int, seed: int, shuffled: bool) -> None:
    users = min(40, clients + more)
    split = split_data(DATA, "natural", seed, clients=clients, users=users, shuffled=shuffled)
    held = np.concatenate(split.clients)
    assert len(split.clients) == clients
    assert len(held) == len(set(held)) == 3 * users
    assert len(held) + len(split.dropped) == 120
    again = split_data(DATA, "natural", seed, clients=clients, users=users, shuffled=shuffled)
    assert all(np.array_equal(a, b) for a, b in zip(split.clients, again.clients, strict=True))
    if not shuffled:
        counts = [len(set(USERS[rows])) for rows in split.clients]
        assert sum(counts) == users, "a user is whole on one client"
        assert max(counts) - min(counts) <= 1
        alone = split_data(DATA, "natural", seed, clients=users)
        assert set(np.concatenate(alone.clients)) == set(held), (
            "the users are those of a split without groups"
        )


def test_the_note_says_how_many_users_became_how_many_clients() -> None:
    split = split_data(DATA, "natural", users=6, clients=3)
    assert split.note == "6 natural clients grouped into 3; 102 rows of clients left out"
    mixed = split_data(DATA, "natural", users=6, clients=3, shuffled=True)
    assert mixed.note.startswith("6 natural clients grouped into 3, rows shuffled between them; 102 rows")


def test_as_many_users_as_clients_is_the_split_without_groups() -> None:
    plain = validate(PLUGINS[0].options, {"clients": 7}, "partition")
    same = validate(PLUGINS[0].options, {"clients": 7, "users": 7}, "partition")
    assert same.model_dump() == plain.model_dump()
    assert "users" not in same.model_dump()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"users": 5}, "partition: users: got 5, expected clients, and no fewer users than clients"),
        ({"users": 5, "clients": 6}, "users: got 5, expected clients, and no fewer users than clients"),
        ({"users": 41, "clients": 6}, "partition.users: got 41, expected at most 40"),
        ({"users": 0, "clients": 6}, "partition.users: got 0, expected a number greater than 0"),
    ],
)
def test_users_that_do_not_fit_are_one_line(options: dict[str, int], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        split_data(DATA, "natural", **options)
    assert said in str(caught.value)
    one_line(caught.value)
