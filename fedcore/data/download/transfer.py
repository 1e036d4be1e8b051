"""Downloads over HTTP: resumed, retried, with checksum, under a temporary name until whole."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tqdm import tqdm

from fedcore.base.errors import DataError
from fedcore.base.files import sha256_text
from fedcore.base.lazy import pooch, requests

CHUNK = 1 << 16
NO_CONNECTION = "no connection (is there a network?)"


@dataclass(frozen=True)
class Policy:
    """How patient a download is: seconds to connect and between bytes, attempts, first pause between them."""

    connect: float = 10.0
    read: float = 60.0
    attempts: int = 4
    pause: float = 1.0


class NotThere(DataError):
    """The server answers that it has no such file."""


class Unreachable(DataError):
    """No connection could be made: no network, no such host, or nobody listens."""


def download(
    url: str, target: Path, digest: str = "", policy: Policy | None = None, progress: bool = False
) -> Path:
    """Download ``url`` to ``target``, which appears only when complete and (with ``digest``) verified.

    A download that broke off goes on from the ``.part`` file beside it, where the server allows ranges.

    Args:
        url: http or https address.
        target: where the file goes; its folder is made.
        digest: ``sha256:...`` or ``md5:...`` of the bytes, or empty.
        policy: patience.
        progress: draw a progress bar on stderr.

    Raises:
        NotThere: 404 or 410.
        Unreachable: no connection at all.
        DataError: a stall, too short a file, another status, or the wrong checksum.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    part = target.with_name(f"{target.name}.{sha256_text(url)[:8]}.part")
    downloader = _Resuming(part, policy or Policy(), progress)
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("ERROR")
    try:
        pooch.retrieve(url, digest or None, fname=target.name, path=target.parent, downloader=downloader)
    except ValueError as error:
        part.unlink(missing_ok=True)
        if "hash" not in str(error):
            raise DataError(f"{url}: {error}") from None
        raise DataError(f"{url}: what was downloaded does not have the checksum {digest}") from None
    finally:
        logger.setLevel(level)
    return target


class _Resuming:
    """A pooch downloader that keeps the arrived bytes in ``part`` and continues from there."""

    def __init__(self, part: Path, policy: Policy, progress: bool) -> None:
        self.part, self.policy, self.progress = part, policy, progress

    def __call__(self, url: str, output_file: str | IO[bytes], _pooch: Any) -> None:
        problem = ""
        for attempt in range(self.policy.attempts):
            if attempt:
                time.sleep(self.policy.pause * 2 ** (attempt - 1))
            try:
                problem = self._go_on(url)
            except requests.RequestException as error:
                problem = _short(error)
                if problem == NO_CONNECTION and attempt:
                    raise Unreachable(f"{url}: {problem}") from None
            if not problem:
                self.part.replace(str(output_file))
                return
        raise DataError(f"{url}: {problem} (tried {self.policy.attempts} times)")

    def _go_on(self, url: str) -> str:
        """Fetch what is missing; return the problem, or nothing when the file is complete."""
        have = self.part.stat().st_size if self.part.exists() else 0
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        limits = (self.policy.connect, self.policy.read)
        with requests.get(url, stream=True, timeout=limits, headers=headers) as response:
            status = response.status_code
            if status in {404, 410}:
                raise NotThere(f"{url}: not there (HTTP {status})")
            if status == 416:
                self.part.unlink(missing_ok=True)
                return "the server refused to resume"
            if status not in {200, 206}:
                return f"HTTP {status}"
            resumed = status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
            length = int(response.headers.get("Content-Length") or 0)
            got = self._store(response, "ab" if resumed else "wb", length)
        return "" if not length or got == length else f"got {got:,} of {length:,} bytes"

    def _store(self, response: Any, mode: str, length: int) -> int:
        got = 0
        bar = tqdm(
            total=length or None, unit="B", unit_scale=True, desc=self.part.stem, disable=not self.progress
        )
        with bar, self.part.open(mode) as handle:
            for chunk in response.iter_content(CHUNK):
                handle.write(chunk)
                got += len(chunk)
                bar.update(len(chunk))
        return got


def _short(error: Exception) -> str:
    """Say in a few words why a request failed."""
    stalled = isinstance(error, requests.ReadTimeout) or "timed out" in str(error)
    if stalled and not isinstance(error, requests.ConnectTimeout):
        return "the server stalled"
    if isinstance(error, requests.exceptions.ChunkedEncodingError) or "aborted" in str(error):
        return "the connection broke off"
    if isinstance(error, requests.ConnectionError):
        return NO_CONNECTION
    return str(error).split("\n", 1)[0] or type(error).__name__
