"""Mutated parameters, specifications and data files: one clear line, or the right values.

The quick suite tries hundreds of mutations; ``-m slow`` thousands.
"""

from __future__ import annotations

import bz2
import copy
import gzip
import hashlib
import io
import lzma
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wording import one_line

from fedcore.base.errors import DataError, FedcoreError, SpecError
from fedcore.data import Source
from fedcore.data.download import Declaration, Edition, File, fetch
from fedcore.spec import parse
from pipeline.catalogue.params import load

ROOT = Path(__file__).parents[2]
JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    10**30,
    0.5,
    float("nan"),
    float("inf"),
    "",
    "$(touch x)",
    "a'b\"c\n\x00",
    "../../etc",
    [],
    [[]],
    {},
    {"name": "fedavg"},
    {"": {}},
    [None],
)
KEYS = ("", "x", "name", "seeds", "lr", "mu", "rounds", "$(id)", "a b", "é", "__class__")
SPECS: tuple[dict[str, Any], ...] = tuple(
    {
        "data": {"name": "synthetic", "u": 0.5, "v": 0.5, "clients": 5},
        "partition": {"name": "natural"},
        "model": {"name": "logistic"},
        "algorithm": algorithm,
        "training": {"rounds": 2, "local_epochs": 1, "batch_size": 10, "lr": 0.1},
        "participation": {"fraction": 0.5},
        "evaluation": {"every": 1},
        "seed": 0,
    }
    for algorithm in (
        {"name": "fedprox", "mu": 0.1},
        {"name": "fedomw", "gamma": 0.1, "lr_p": 0.1, "steps_p": 1},
        {"name": "radfed_i", "redistributions": 2, "gamma": 0.5},
        {"name": "prox_yogi", "mu": 0.1, "server_lr": 0.1, "beta1": 0.9, "beta2": 0.99, "tau": 0.01},
    )
)


def examples(count: int) -> Callable[[Any], Any]:
    """Return settings for so many examples: a few are the same ones each time, thousands are new ones."""
    return settings(
        max_examples=count,
        derandomize=count < 1000,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value inside a nested one."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*at, key)
        yield from paths(inner, (*at, key))


def mutated(value: Any, path: tuple[Any, ...], how: str, junk: Any, key: str) -> tuple[Any, tuple[Any, ...]]:
    """Return a changed copy, and where it was changed."""
    changed = copy.deepcopy(value)
    place = changed
    for part in path[:-1]:
        place = place[part]
    last = path[-1]
    if how == "remove":
        del place[last]
    elif how == "replace":
        place[last] = junk
    elif isinstance(place, dict):
        old = place.pop(last) if how == "rename" else junk
        place[key] = old
        return changed, (*path, key)
    else:
        place.append(junk)
    return changed, path


HOW = st.sampled_from(["remove", "replace", "replace", "rename", "add"])


def refused_in_words(error: FedcoreError, path: tuple[Any, ...]) -> None:
    """An error is one line, and names the key, or the one that holds it."""
    text = one_line(str(error).replace(r"c\n\x00", "c"))  # as JUNK has it
    assert len(text) < 2000, text
    named = [str(part) for part in path if not isinstance(part, int)]
    assert any(part and part in text for part in named[-3:]), (text, path)


@pytest.mark.parametrize("count", [150, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.timeout(1800)
def test_mutated_parameters_are_refused_in_one_line_or_valid(
    count: int, record_property: Callable[[str, int], None]
) -> None:
    record_property("trials", count)
    config = yaml.safe_load((ROOT / "params.yaml").read_text())
    places = list(paths(config))
    refused: list[tuple[Any, ...]] = []

    @examples(count)
    @given(st.sampled_from(places), HOW, st.sampled_from(JUNK), st.sampled_from(KEYS))
    def check(path: tuple[Any, ...], how: str, junk: Any, key: str) -> None:
        changed, where = mutated(config, path, how, junk, key)
        try:
            load(changed)
        except SpecError as error:
            refused_in_words(error, where)
            refused.append(where)

    check()
    assert len(refused) > count // 3


@pytest.mark.parametrize("count", [400, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.timeout(1800)
def test_mutated_specifications_are_refused_in_one_line_or_valid(
    count: int, record_property: Callable[[str, int], None]
) -> None:
    record_property("trials", count)
    places = [(spec, path) for spec in SPECS for path in paths(spec)]
    refused: list[tuple[Any, ...]] = []

    @examples(count)
    @given(st.sampled_from(places), HOW, st.sampled_from(JUNK), st.sampled_from(KEYS))
    def check(place: tuple[dict[str, Any], tuple[Any, ...]], how: str, junk: Any, key: str) -> None:
        spec, path = place
        changed, where = mutated(spec, path, how, junk, key)
        try:
            parsed = parse(changed)
        except SpecError as error:
            refused_in_words(error, where)
            refused.append(where)
        else:
            again = parse(parsed.resolved())
            assert again.sha256() == parsed.sha256()

    check()
    assert len(refused) > count // 2


INNER = ("scales", "demo", "papers", "fedomw", "datasets", "usps")


@pytest.mark.parametrize(
    ("path", "junk", "expected"),
    [
        (INNER, 10**30, "got 1000000000000000000000000000000, expected a number below"),
        ((*INNER[:-1], "x", "y"), {"z": [1, 1e300]}, "z.1: got 1e+300, expected a number below"),
        (("papers", "fedomw", "regimes", "basic", "clients"), True, "got True, expected a number"),
        (("papers", "fedomw", "seeds"), [0, True], "seeds.1: got True, expected a number"),
    ],
)
def test_a_number_deep_inside_is_named_by_its_whole_path(
    path: tuple[str, ...], junk: Any, expected: str
) -> None:
    config = yaml.safe_load((ROOT / "params.yaml").read_text())
    place = config
    for part in path[:-1]:
        place = place.setdefault(part, {})
    place[path[-1]] = junk
    with pytest.raises(SpecError) as caught:
        load(config)
    assert str(caught.value).startswith(".".join(path))
    assert expected in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_key_beyond_use_is_named() -> None:
    schedule = {"name": "milestones", "milestones": {10**30: 0.1, 3: True}}
    spec = {**SPECS[0], "training": {**SPECS[0]["training"], "lr_schedule": schedule}}
    with pytest.raises(SpecError, match=r"^training.lr_schedule.milestones: got the name 10{30}, expected"):
        parse(spec)
    del schedule["milestones"][10**30]  # type: ignore[attr-defined]
    with pytest.raises(SpecError, match=r"^training.lr_schedule.milestones.3: got True, expected a number"):
        parse(spec)


def npz() -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, x=np.arange(60.0).reshape(20, 3), y=np.arange(20))
    return out.getvalue()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}


@pytest.mark.parametrize("count", [150, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.timeout(1800)
def test_a_damaged_file_with_a_known_checksum_is_never_believed(
    count: int, tmp_path: Path, record_property: Callable[[str, int], None]
) -> None:
    record_property("trials", count)
    plain = npz()
    file = File("toy/rows.npz", hashlib.sha256(plain).hexdigest(), len(plain))
    declaration = Declaration(
        "toy", "Toy", (), "", "", True, "", 2, {"full": Edition("real", "toy", (file,))}
    )
    trial = iter(range(10**6))
    reasons: list[re.Match[str] | None] = []

    def obtained(folder: Path, content: bytes, suffix: str) -> Path:
        (folder / "mirror").mkdir(parents=True)
        (folder / "mirror" / f"rows.npz{suffix}").write_bytes(content)
        source = Source(folder / "data", str(folder / "mirror"), offline=True)
        return fetch.obtain(declaration, "full", source)["rows.npz"]

    for suffix, pack in PACKERS.items():
        assert obtained(tmp_path / f"sound{suffix}", pack(plain), suffix).read_bytes() == plain

    @examples(count)
    @given(
        st.sampled_from(sorted(PACKERS)),
        st.sampled_from(["cut", "flip"]),
        st.floats(0, 1, exclude_max=True),
        st.integers(0, 7),
    )
    def check(suffix: str, how: str, share: float, bit: int) -> None:
        packed = PACKERS[suffix](plain)
        at = int(share * len(packed))
        damaged = (
            packed[:at] if how == "cut" else packed[:at] + bytes([packed[at] ^ 1 << bit]) + packed[at + 1 :]
        )
        folder = tmp_path / str(next(trial))
        try:
            got = obtained(folder, damaged, suffix)
        except DataError as error:
            refused_in_words(error, ("rows.npz",))
            reasons.append(re.search(r"damaged or truncated \(|sha256 of the content is ", str(error)))
            assert not list((folder / "data").rglob("rows.npz"))
        else:
            assert got.read_bytes() == plain

    check()
    assert len(reasons) > count // 2
    assert all(reasons)
