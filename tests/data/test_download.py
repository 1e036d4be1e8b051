from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from faulty_server import Served, serving

from fedcore.base.errors import DataError
from fedcore.data.download import fetch
from fedcore.data.download.fetch import NotThere, Unreachable, download

BODY = bytes(range(256)) * 9000
DIGEST = "sha256:" + hashlib.sha256(BODY).hexdigest()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"CONNECT": 1.0, "READ": 0.4, "ATTEMPTS": 3, "PAUSE": 0.01}.items():
        monkeypatch.setattr(fetch, name, value)


@pytest.fixture
def server() -> Iterator[Served]:
    with serving() as served:
        served.files["data.bin"] = BODY
        yield served


def test_a_download_arrives_whole_and_leaves_nothing_beside_it(server: Served, tmp_path: Path) -> None:
    path = download(f"{server.url}/data.bin", tmp_path / "x" / "data.bin", DIGEST)
    assert path.read_bytes() == BODY
    assert [entry.name for entry in path.parent.iterdir()] == ["data.bin"]


@pytest.mark.parametrize("fault", ["truncate", "stall"])
def test_a_broken_download_goes_on_where_it_stopped(server: Served, tmp_path: Path, fault: str) -> None:
    server.faults["data.bin"] = [fault]
    path = download(f"{server.url}/data.bin", tmp_path / "data.bin", DIGEST)
    assert path.read_bytes() == BODY
    first, second = (byte_range for _, byte_range in server.asked)
    assert first is None
    assert second is not None
    assert 0.4 * len(BODY) < int(second.removeprefix("bytes=").rstrip("-")) <= 0.5 * len(BODY)


def test_a_server_without_ranges_sends_all_again(server: Served, tmp_path: Path) -> None:
    server.ranges = False
    server.faults["data.bin"] = ["truncate"]
    assert download(f"{server.url}/data.bin", tmp_path / "data.bin", DIGEST).read_bytes() == BODY


def test_a_download_that_never_ends_keeps_its_part_for_the_next_call(server: Served, tmp_path: Path) -> None:
    server.faults["data.bin"] = ["truncate"] * 3
    with pytest.raises(DataError, match=r"data\.bin: .* \(tried 3 times\)"):
        download(f"{server.url}/data.bin", tmp_path / "data.bin", DIGEST)
    assert not (tmp_path / "data.bin").exists()
    assert download(f"{server.url}/data.bin", tmp_path / "data.bin", DIGEST).read_bytes() == BODY
    assert server.asked[-1][1] is not None


def test_a_server_error_is_tried_again(server: Served, tmp_path: Path) -> None:
    server.faults["data.bin"] = ["500", "500"]
    assert download(f"{server.url}/data.bin", tmp_path / "data.bin", DIGEST).read_bytes() == BODY
    server.faults["data.bin"] = ["500"] * 3
    with pytest.raises(DataError, match="HTTP 500"):
        download(f"{server.url}/data.bin", tmp_path / "data.bin", DIGEST)


def test_a_missing_file_is_not_tried_again(server: Served, tmp_path: Path) -> None:
    with pytest.raises(NotThere, match="HTTP 404"):
        download(f"{server.url}/other.bin", tmp_path / "other.bin", DIGEST)
    assert len(server.asked) == 1


def test_garbage_is_refused_and_not_kept(server: Served, tmp_path: Path) -> None:
    server.faults["data.bin"] = ["garbage"]
    with pytest.raises(DataError, match=f"does not have the checksum {DIGEST}"):
        download(f"{server.url}/data.bin", tmp_path / "data.bin", DIGEST)
    assert list(tmp_path.iterdir()) == []


def test_no_network_is_said_at_once(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(Unreachable, match="no connection"):
        download(f"http://127.0.0.1:{port}/data.bin", tmp_path / "data.bin", DIGEST)
