from __future__ import annotations

import gzip
import lzma
import os
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fedcore.base.errors import DataError
from fedcore.base.registry import find, plugins
from fedcore.cli.data import app
from fedcore.data import Source
from fedcore.data.datasets import images, libsvm
from fedcore.data.download import inventory

DATA = Path(__file__).parents[2] / "data"
MIRROR = os.environ.get("FEDCORE_MIRROR", "")
needs_mirror = pytest.mark.skipif(
    not MIRROR, reason="needs the full data: set FEDCORE_MIRROR to their folder"
)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})


def test_list_names_every_plugin_with_files_and_the_model_data() -> None:
    lines = {line.split()[0] for line in call("list").stdout.splitlines()}
    with_files = {
        name for name, plugin in plugins("data").items() if "edition" in plugin.options.model_fields
    }
    assert with_files | {"glove", "mobilenetv2", "name"} == lines


def test_every_edition_that_a_specification_can_name_is_declared_and_the_other_way_round() -> None:
    for name, entry in inventory.entries().items():
        if name in plugins("data"):
            schema = find("data", name).options.model_json_schema()["properties"]["edition"]
            assert set(schema.get("enum", [schema.get("const")])) == set(entry.declaration.editions), name
            assert entry.declaration.editions["full"].state == "real"


def test_info_prints_checksums_addresses_and_how_to_get_what_cannot_be_downloaded() -> None:
    text = call("info", "mnist").stdout
    assert images.DECLARATIONS["mnist"].edition("full").files[0].sha256 in text
    assert "https://ossci-datasets.s3.amazonaws.com/mnist/train-images-idx3-ubyte.gz" in text
    assert "CC BY-SA 3.0" in text
    assert "PhysioNet with credentials" in call("info", "eicu").stdout
    assert isinstance(call("info", "mnits").exception, DataError)
    assert "did you mean 'mnist'" in str(call("info", "mnits").exception)


def test_the_environment_may_name_the_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDCORE_MIRROR", str(tmp_path / "mirror"))
    (tmp_path / "mirror").mkdir()
    message = str(call("fetch", "splice", "--edition", "rebuilt", "--root", str(tmp_path / "data")).exception)
    assert f"mirror {tmp_path / 'mirror'}" in message


def test_fetch_fills_the_cache_from_a_mirror_and_verify_counts_it(tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    train_x, train_y, test_x, test_y = libsvm.raw(
        inventory.entry("vehicle").declaration, "demo", Source(DATA)
    )
    rows = [
        " ".join([str(label), *(f"{i}:{v:g}" for i, v in enumerate(row, 1) if v)])
        for x, y in ((train_x, train_y), (test_x, test_y))
        for row, label in zip(x, y, strict=True)
    ]
    (mirror / "vehicle.scale.xz").write_bytes(lzma.compress("\n".join(rows).encode()))
    result = call("fetch", "vehicle", "--root", str(tmp_path), "--mirror", str(mirror))
    assert "sha256 of the content" in str(result.exception)
    result = call("verify", "vehicle", "--root", str(tmp_path), "--mirror", str(mirror))
    assert result.exit_code == 1
    assert "wrong" in result.stdout
    result = call("verify", "vehicle", "--root", str(tmp_path))
    assert result.exit_code == 0
    assert "absent" in result.stdout


def test_verify_wants_a_name_or_all() -> None:
    assert "expected the name of a data set, or --all" in str(call("verify").exception)
    assert isinstance(call("verify", "mnist", "--all").exception, DataError)


def test_fetching_what_ships_with_the_code_says_so() -> None:
    assert "nothing to fetch" in call("fetch", "mnist", "--edition", "demo").stdout
    assert "no edition 'tiny'" in str(call("fetch", "mnist", "--edition", "tiny").exception)


def test_unclaimed_files_of_a_mirror_are_listed(tmp_path: Path) -> None:
    (tmp_path / "libsvm").mkdir()
    for name in ("libsvm/a1a", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "pendigits.gz").write_bytes(gzip.compress(b""))
    assert inventory.unclaimed(str(tmp_path)) == ["notes.txt"]


@pytest.mark.slow
@pytest.mark.timeout(900)
@needs_mirror
def test_all_that_a_full_mirror_holds_is_verified(tmp_path: Path) -> None:
    (tmp_path / "demo").symlink_to(DATA / "demo")
    result = call("verify", "--all", "--root", str(tmp_path), "--mirror", MIRROR)
    assert result.exit_code == 0, result.stdout
    lines = {tuple(line.split()[:2]): line for line in result.stdout.splitlines()}
    for key, counts in {
        ("mnist", "full"): "train=60,000 test=10,000",
        ("cifar10", "full"): "train=50,000 test=10,000",
        ("femnist", "sample"): "train=14,708 test=4,088 train_writers=105 test_writers=184",
        ("covertype", "subset92962"): "rows=92,962 class 1=33,894 class 2=45,328",
        ("shakespeare", "full"): "roles=572",
        ("shakespeare", "leaf"): "roles=10 train=41,990 test=3,881",
        ("sent140", "leaf_test"): "messages=8,692 users=7,086",
        ("usps", "rebuilt"): "train=7,291 test=2,007",
        ("letter", "full"): "train=15,000 test=5,000",
        ("glove", "top40000"): "words=40,000",
        ("mobilenetv2", "tflite"): "arrays=262 numbers=3,538,984",
    }.items():
        assert counts in lines[key]
        assert lines[key].split()[3] == "ok"


@pytest.mark.slow
@pytest.mark.timeout(900)
@needs_mirror
@pytest.mark.parametrize(("name", "seconds"), [("mnist", 1.5), ("cifar10", 4.0)])
def test_the_second_load_is_quick(name: str, seconds: float) -> None:
    plugin, source = find("data", name), Source(DATA, MIRROR, offline=True)
    plugin.build(plugin.options(), source)
    start = time.perf_counter()
    plugin.build(plugin.options(), source)
    assert time.perf_counter() - start < seconds
