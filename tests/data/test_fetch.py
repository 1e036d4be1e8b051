from __future__ import annotations

import bz2
import errno
import gzip
import hashlib
import io
import lzma
import multiprocessing
import os
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import numpy as np
import pytest
from faulty_server import Served, serving
from wording import one_line

from fedcore.base.errors import DataError
from fedcore.data import Source
from fedcore.data.download import Declaration, Edition, File, Form, cache, fetch
from fedcore.data.download.cache import rows_sha256

TEXT = b"1 1:0.5 2:7 \n-1 2:3 \n" * 4000


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"CONNECT": 1.0, "READ": 0.4, "ATTEMPTS": 2, "PAUSE": 0.01}.items():
        monkeypatch.setattr(fetch, name, value)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def declare(*files: File, terms: str = "", how: str = "", **others: Edition) -> Declaration:
    editions = {"full": Edition("real", "toy", files, terms=terms, how=how), **others}
    return Declaration("toy", "Toy", (), "", "", True, "", 2, editions)


def toy(path: str = "toys/toy.txt", *forms: Form, **facts: str) -> File:
    fields = {"sha256": sha256(TEXT), **facts}
    return File(path, fields["sha256"], len(TEXT), fields.get("rows_sha256", ""), forms)


def archive(kind: str, *names: str, content: bytes = TEXT) -> bytes:
    out = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(out, "w") as writer:
            for name in names:
                writer.writestr(name, content)
    else:
        mode: Any = f"w:{kind}"
        with tarfile.open(fileobj=out, mode=mode) as writer:
            for name in names:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                writer.addfile(info, io.BytesIO(content))
    return out.getvalue()


@pytest.fixture
def server() -> Iterator[Served]:
    with serving() as served:
        yield served


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    folder = tmp_path / "mirror"
    (folder / "toys").mkdir(parents=True)
    return folder


@pytest.fixture
def source(tmp_path: Path, mirror: Path) -> Source:
    return Source(tmp_path / "data", str(mirror), offline=True)


def get(declaration: Declaration, source: Source) -> Path:
    return next(iter(fetch.obtain(declaration, "full", source).values()))


@pytest.mark.parametrize("folder", ["", "toys/"])
@pytest.mark.parametrize(
    ("suffix", "pack"),
    [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)],
)
def test_a_mirror_may_hold_a_file_plain_or_compressed_in_a_folder_or_not(
    mirror: Path, source: Source, folder: str, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    (mirror / f"{folder}toy.txt{suffix}").write_bytes(pack(TEXT))
    assert get(declare(toy()), source).read_bytes() == TEXT


@pytest.mark.parametrize(("kind", "name"), [("gz", "toy.tar.gz"), ("bz2", "toy.tar.bz2"), ("zip", "toy.zip")])
def test_a_member_of_an_archive_is_taken_and_nothing_else_is_unpacked(
    mirror: Path, source: Source, tmp_path: Path, kind: str, name: str
) -> None:
    (mirror / name).write_bytes(archive(kind, "../../evil.txt", "/evil.txt", "inside/toy.txt"))
    path = get(declare(toy("toys/toy.txt", Form(name, member="inside/toy.txt"))), source)
    assert path.read_bytes() == TEXT
    assert not list(tmp_path.rglob("evil*"))
    with pytest.raises(DataError, match=r"no gone\.txt in this archive"):
        get(declare(toy("toys/gone.txt", Form(name, member="gone.txt"))), source)


@pytest.mark.parametrize("path", ["../outside.txt", "/tmp/outside.txt", "toys/../../outside.txt"])
def test_no_path_leads_out_of_the_cache(source: Source, path: str) -> None:
    with pytest.raises(DataError, match="leads out of"):
        get(declare(toy(path)), source)
    with pytest.raises(DataError, match="leads out of"):
        fetch.demo_file(source, path)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_truncated_file_is_refused(mirror: Path, source: Source, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(os.urandom(40000))
    (mirror / "toy.txt").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(DataError, match=r"cannot get toy\.txt: .*damaged or truncated.*data\.mirror"):
        get(declare(toy()), source)
    assert not cache.place(toy(), source).exists()


def test_a_wrong_file_is_refused_by_checksum(mirror: Path, source: Source) -> None:
    (mirror / "toy.txt").write_bytes(TEXT[:-1] + b"!")
    with pytest.raises(DataError, match=f"expected {sha256(TEXT)}"):
        get(declare(toy()), source)
    assert not cache.place(toy(), source).exists()


def test_a_file_much_longer_than_declared_is_not_unpacked_to_its_end(mirror: Path, source: Source) -> None:
    (mirror / "toy.txt.xz").write_bytes(lzma.compress(b"0" * (50 << 20)))
    with pytest.raises(DataError, match="much longer than the 84,000 bytes expected"):
        get(declare(toy()), source)


def test_a_file_without_a_declared_size_has_a_bound_too(
    mirror: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "LARGEST", 1 << 20)
    (mirror / "toy.txt.xz").write_bytes(lzma.compress(b"0" * (50 << 20)))
    with pytest.raises(DataError, match="much longer than the 1,048,576 bytes expected"):
        get(declare(replace(toy(), bytes=0)), source)


def test_a_full_disk_is_no_damaged_file(
    mirror: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    (mirror / "toy.txt").write_bytes(TEXT)

    def full(path: Path) -> AbstractContextManager[BinaryIO]:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(fetch, "atomic", full)
    with pytest.raises(DataError, match=r"toy\.txt: cannot write to the cache \(No space left on device\)"):
        get(declare(toy()), source)


def test_a_mirror_that_is_no_folder_is_named(tmp_path: Path) -> None:
    gone = Source(tmp_path / "data", str(tmp_path / "gone"), offline=True)
    with pytest.raises(DataError, match=r"cannot get toy\.txt: .*gone: no such folder, so no mirror"):
        get(declare(toy()), gone)


def test_a_mirror_s_address_may_be_quoted(mirror: Path, source: Source) -> None:
    place = mirror.rename(mirror.with_name("my data"))
    (place / "toy.txt").write_bytes(TEXT)
    assert get(declare(toy()), replace(source, mirror=f"file://{quote(str(place))}")).read_bytes() == TEXT


def test_a_copy_with_other_line_ends_counts_as_the_same_rows(mirror: Path, source: Source) -> None:
    rows = rows_sha256(TEXT.splitlines())
    (mirror / "toy.txt").write_bytes(TEXT.replace(b" \n", b"\r\n").rstrip())
    assert get(declare(toy(rows_sha256=rows)), source).is_file()
    assert cache.holds(toy(rows_sha256=rows), source)
    (mirror / "toy.txt").write_bytes(TEXT.replace(b"0.5", b"0.6"))
    cache.place(toy(), source).unlink()
    with pytest.raises(DataError, match="sha256 of the content"):
        get(declare(toy(rows_sha256=rows)), source)


def test_a_cached_file_is_hashed_once_and_again_when_it_changes(
    mirror: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    (mirror / "toy.txt").write_bytes(TEXT)
    path = get(declare(toy()), source)
    hashed: list[Path] = []

    def noted(path: Path) -> str:
        hashed.append(path)
        return sha256(path.read_bytes())

    monkeypatch.setattr(cache, "sha256_file", noted)
    get(declare(toy()), source)
    assert hashed == []
    path.write_bytes(TEXT.replace(b"7", b"8", 1))
    assert get(declare(toy()), source).read_bytes() == TEXT
    assert hashed


def test_a_damaged_cache_without_a_mirror_says_so(mirror: Path, source: Source) -> None:
    (mirror / "toy.txt").write_bytes(TEXT)
    path = get(declare(toy()), source)
    (mirror / "toy.txt").unlink()
    os.truncate(path, 100)
    with pytest.raises(DataError, match="the cached copy is damaged"):
        get(declare(toy()), source)


def test_a_changed_declaration_is_not_satisfied_by_an_old_marker(mirror: Path, source: Source) -> None:
    (mirror / "toy.txt").write_bytes(TEXT)
    get(declare(toy()), source)
    assert not cache.holds(toy(sha256=sha256(b"other")), source)


def test_another_edition_under_upstreams_name_is_named(mirror: Path, source: Source) -> None:
    (mirror / "toy.txt").write_bytes(TEXT)
    rebuilt = Edition("rebuilt", "toy", (toy("toys/rebuilt/toy.txt", Form("toy.txt")),))
    with pytest.raises(fetch.OtherEdition, match="the edition 'rebuilt'"):
        get(declare(toy(sha256=""), rebuilt=rebuilt), source)


def test_a_file_known_by_its_packed_form_alone_is_verified_by_it(mirror: Path, source: Source) -> None:
    packed = gzip.compress(TEXT)
    form = Form("toy.txt.gz", f"md5:{hashlib.md5(packed).hexdigest()}")
    (mirror / "toy.txt").write_bytes(TEXT)
    with pytest.raises(DataError, match=r"can only be verified as toy\.txt\.gz"):
        get(declare(toy("toys/toy.txt", form, sha256="")), source)
    (mirror / "toy.txt.gz").write_bytes(packed)
    assert get(declare(toy("toys/toy.txt", form, sha256="")), source).read_bytes() == TEXT
    assert cache.holds(toy("toys/toy.txt", form, sha256=""), source)


def test_rows_are_counted_where_there_is_no_checksum(mirror: Path, source: Source) -> None:
    file = File("toys/toy.txt", rows=8000)
    (mirror / "toy.txt").write_bytes(b"<html>please log in</html>")
    with pytest.raises(DataError, match="1 rows, expected 8,000"):
        get(declare(file), source)
    assert not cache.place(file, source).exists()
    (mirror / "toy.txt").write_bytes(TEXT)
    assert get(declare(file), source).read_bytes() == TEXT


def test_nothing_to_be_had_is_one_line_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError) as raised:
        get(declare(toy(), how="ask the librarian"), Source(tmp_path / "data", offline=True))
    text = str(raised.value)
    one_line(text)
    assert text.startswith("toy (full): cannot get toy.txt: not in the cache; ask the librarian")
    with pytest.raises(DataError, match=r"no edition 'ful' .did you mean 'full'"):
        fetch.obtain(declare(toy()), "ful", Source(tmp_path))


def test_a_url_mirror_comes_before_upstream(server: Served, tmp_path: Path) -> None:
    server.files["mirror/toys/toy.txt.xz"] = lzma.compress(TEXT)
    server.files["upstream/toy.txt.gz"] = gzip.compress(TEXT)
    file = toy("toys/toy.txt", Form("toy.txt.gz", urls=(f"{server.url}/upstream/toy.txt.gz",)))
    assert get(declare(file), Source(tmp_path / "a", f"{server.url}/mirror")).read_bytes() == TEXT
    assert all(name.startswith("mirror/") for name, _ in server.asked)
    assert get(declare(file), Source(tmp_path / "b", f"{server.url}/empty/")).read_bytes() == TEXT
    assert server.asked[-1][0] == "upstream/toy.txt.gz"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("garbage", "sha256 of the content is"),
        ("truncate", "tried 2 times"),
        ("stall", "stalled"),
        ("500", "HTTP 500"),
    ],
)
def test_a_faulty_server_gives_one_clear_line_and_the_next_address_is_tried(
    server: Served, tmp_path: Path, fault: str, message: str
) -> None:
    server.files |= {"a/toy.txt": TEXT, "b/toy.txt": TEXT}
    server.faults["a/toy.txt"] = [fault] * 2
    server.ranges = False
    urls = (f"{server.url}/a/toy.txt", f"{server.url}/b/toy.txt")
    with pytest.raises(DataError, match=message) as raised:
        get(declare(toy("toys/toy.txt", Form("toy.txt", urls=urls[:1]))), Source(tmp_path / "a"))
    one_line(raised.value)
    server.faults["a/toy.txt"] = [fault] * 2
    path = get(declare(toy("toys/toy.txt", Form("toy.txt", urls=urls))), Source(tmp_path / "b"))
    assert path.read_bytes() == TEXT


def test_upstream_without_the_file_is_said(server: Served, tmp_path: Path) -> None:
    file = toy("toys/toy.txt", Form("toy.txt", urls=(f"{server.url}/gone.txt",)))
    with pytest.raises(DataError, match=r"gone\.txt: not there .HTTP 404"):
        get(declare(file), Source(tmp_path))


def test_an_unreachable_mirror_is_asked_once(tmp_path: Path) -> None:
    with serving() as gone:
        url = gone.url
    with pytest.raises(DataError, match="no connection") as raised:
        get(declare(toy()), Source(tmp_path, url))
    assert str(raised.value).count("no connection") == 1


def test_an_archive_of_several_files_is_downloaded_once(server: Served, tmp_path: Path) -> None:
    body = archive("gz", "in/a.txt", "in/b.txt")
    server.files["all.tar.gz"] = body

    def member(name: str) -> File:
        form = Form("all.tar.gz", f"sha256:{sha256(body)}", (f"{server.url}/all.tar.gz",), f"in/{name}")
        return toy(f"toys/{name}", form)

    paths = fetch.obtain(declare(member("a.txt"), member("b.txt")), "full", Source(tmp_path))
    assert [path.read_bytes() for path in paths.values()] == [TEXT, TEXT]
    assert len(server.asked) == 1
    assert not list(tmp_path.rglob("*.tar.gz"))


def test_an_archive_outlives_an_interruption_while_it_is_unpacked(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = server.files["all.zip"] = archive("zip", "a.txt")
    form = Form("all.zip", f"sha256:{sha256(body)}", (f"{server.url}/all.zip",), "a.txt")

    def interrupted(*arguments: Any) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(fetch, "_unpack", interrupted)
        with pytest.raises(KeyboardInterrupt):
            get(declare(toy("toys/a.txt", form)), Source(tmp_path))
    assert get(declare(toy("toys/a.txt", form)), Source(tmp_path)).read_bytes() == TEXT
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "kept",
    [b"\x1f\x8b garbage", archive("gz", "in/b.txt"), archive("gz", "in/a.txt", content=b"")],
    ids=["garbage", "another file", "an empty file"],  # an archive's bytes hold the time
)
@pytest.mark.parametrize("known", [False, True], ids=["no checksum", "its checksum"])
def test_a_kept_archive_that_fails_is_downloaded_once_more(
    server: Served, tmp_path: Path, kept: bytes, known: bool
) -> None:
    body = server.files["all.tar.gz"] = archive("gz", "in/a.txt")
    digest = f"sha256:{sha256(body)}" if known else ""
    file = toy("toys/a.txt", Form("all.tar.gz", digest, (f"{server.url}/all.tar.gz",), "in/a.txt"))
    archived = tmp_path / "fetched" / "toys" / ".all.tar.gz"
    archived.parent.mkdir(parents=True)
    archived.write_bytes(kept)
    assert get(declare(file), Source(tmp_path)).read_bytes() == TEXT
    assert len(server.asked) == 1


def test_data_sets_that_share_an_archive_wait_for_each_other(server: Served, tmp_path: Path) -> None:
    server.files["all.zip"] = archive("zip", "a.txt", "b.txt")
    at_work: list[Path] = []
    most = []

    def unpack(*arguments: Any) -> str:
        at_work.append(arguments[1])
        most.append(len(at_work))
        time.sleep(0.2)
        assert arguments[1].is_file()
        at_work.pop()
        return unpacked(*arguments)

    def fetched(name: str) -> bytes:
        form = Form("all.zip", urls=(f"{server.url}/all.zip",), member=name)
        return get(declare(toy(f"toys/{name}", form)), Source(tmp_path)).read_bytes()

    unpacked = fetch._unpack
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr(fetch, "_unpack", unpack)
        assert list(pool.map(fetched, ("a.txt", "b.txt"))) == [TEXT, TEXT]
    assert max(most) == 1


def test_a_cache_may_be_read_only(mirror: Path, source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    (mirror / "toy.txt").write_bytes(TEXT)
    path = get(declare(toy()), source)
    os.utime(path, (1, 1))

    def refused(*_: object) -> None:
        raise OSError(errno.EROFS, "read-only")

    monkeypatch.setattr(cache, "write_json", refused)
    assert get(declare(toy()), source) == path


def test_terms_stand_before_a_download_until_they_are_accepted(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(fetch.ACCEPT, raising=False)
    server.files["toy.txt"] = TEXT
    declared = declare(toy("toys/toy.txt", Form("toy.txt", urls=(f"{server.url}/toy.txt",))), terms="be kind")
    with pytest.raises(DataError, match="be kind: to accept, run `fedcore data fetch toy"):
        get(declared, Source(tmp_path / "a"))
    assert server.asked == []
    fetch.accept_terms(declared, Source(tmp_path / "a"))
    assert get(declared, Source(tmp_path / "a")).read_bytes() == TEXT
    monkeypatch.setenv(fetch.ACCEPT, "other,toy")
    assert get(declared, Source(tmp_path / "b")).read_bytes() == TEXT


def _get_at_once(root: str, url: str) -> bytes:
    file = toy("toys/toy.txt", Form("toy.txt.gz", urls=(f"{url}/toy.txt.gz",)))
    return get(declare(file), Source(Path(root))).read_bytes()


def test_parallel_jobs_fetch_a_file_once_and_all_see_it_whole(server: Served, tmp_path: Path) -> None:
    server.files["toy.txt.gz"] = gzip.compress(TEXT)
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        contents = pool.starmap(_get_at_once, [(str(tmp_path), server.url)] * 6)
    assert set(contents) == {TEXT}
    assert len(server.asked) == 1


def test_a_cache_that_cannot_be_written_is_said(mirror: Path, tmp_path: Path) -> None:
    (mirror / "toy.txt").write_bytes(TEXT)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "fetched").write_text("a file where a folder should be")
    with pytest.raises(DataError, match="cannot write to the cache"):
        get(declare(toy()), Source(tmp_path / "data", str(mirror), offline=True))


def test_a_damaged_or_unlisted_demo_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(tmp_path)
    monkeypatch.setattr(fetch, "PACKAGED", tmp_path / "package")
    monkeypatch.setattr(fetch, "CHECKOUT", tmp_path / "checkout")
    with pytest.raises(DataError, match="no demo data there"):
        fetch.demo_file(source, "toy.npz")
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "toy.npz").write_bytes(TEXT)
    (tmp_path / "demo" / "MANIFEST.json").write_text('{"files": {"toy.npz": {"sha256": "0"}}}')
    with pytest.raises(DataError, match=r"checksum differs from MANIFEST\.json"):
        fetch.demo_file(source, "toy.npz")
    with pytest.raises(DataError, match="demo file is missing"):
        fetch.demo_file(source, "other.npz")


def test_without_demo_data_in_the_data_folder_the_package_s_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "mnist/mnist.npz"
    assert fetch.demo_file(Source(tmp_path), name) == fetch.CHECKOUT / name
    packaged = tmp_path / "package"
    packaged.mkdir()
    (packaged / "MANIFEST.json").write_bytes((fetch.CHECKOUT / "MANIFEST.json").read_bytes())
    monkeypatch.setattr(fetch, "PACKAGED", packaged)
    with pytest.raises(DataError, match="not in the installed package; name a checkout's data folder"):
        fetch.demo_file(Source(tmp_path), name)
    (packaged / "mnist").mkdir()
    (packaged / name).write_bytes((fetch.CHECKOUT / name).read_bytes())
    assert fetch.demo_file(Source(tmp_path), name) == packaged / name


def test_derived_arrays_are_kept_and_follow_their_files(source: Source, tmp_path: Path) -> None:
    path, texts = tmp_path / "raw.txt", []

    def make() -> dict[str, np.ndarray]:
        texts.append(path.read_text())
        return {"x": np.array([len(path.read_text())])}

    path.write_text("abc")
    assert cache.derived(source, "toy-1", {"raw": path}, make)["x"] == 3
    assert cache.derived(source, "toy-1", {"raw": path}, make)["x"] == 3
    assert texts == ["abc"]
    path.write_text("abcd")
    assert cache.derived(source, "toy-1", {"raw": path}, make)["x"] == 4
    for kept in (source.root / "fetched" / "derived").iterdir():
        os.truncate(kept, 50)
    assert cache.derived(source, "toy-1", {"raw": path}, make)["x"] == 4
    assert len(texts) == 3
