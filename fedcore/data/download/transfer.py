"""Downloads over HTTP: resumed, retried, with checksum, under a temporary name until whole."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcore.base.errors import DataError, reason
from fedcore.base.files import sha256_text
from fedcore.base.lazy import pooch, requests

CHUNK = 1 << 16
NO_CONNECTION = "no connection (is there a network?)"


@dataclass(frozen=True)
class Policy:
    """How a download is done.

    Attributes:
        connect, read: seconds to connect, and between bytes.
        attempts: how often it is tried.
        pause: seconds before the second attempt; the pause doubles with each.
        progress: draw a progress bar on standard error.
    """

    connect: float = 10.0
    read: float = 60.0
    attempts: int = 4
    pause: float = 1.0
    progress: bool = False


PATIENT = Policy()


class NotThere(DataError):
    """The server answers that it has no such file."""


class Unreachable(DataError):
    """No connection could be made: no network, no such host, or nobody listens."""


def download(url: str, target: Path, digest: str = "", policy: Policy = PATIENT) -> Path:
    """Download ``url`` to ``target``, which appears only when complete and (with ``digest``) verified.

    A download that broke off goes on from the ``.part`` file beside it, where the server allows ranges.
    ``digest`` is ``sha256:...`` or ``md5:...`` of the bytes (or their beginning).

    Raises:
        NotThere: 404 or 410.
        Unreachable: no connection at all.
        DataError: a stall, too short a file, another status, or the wrong checksum.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.{sha256_text(url)[:8]}.part")
    try:
        _complete(url, part, policy)
    finally:
        if part.exists() and not part.stat().st_size:
            part.unlink()
    kind, _, expected = digest.partition(":")
    if digest and not pooch.file_hash(str(part), kind).startswith(expected):
        part.unlink()
        raise DataError(f"{url}: what was downloaded does not have the checksum {digest}")
    return part.replace(target)


def _complete(url: str, part: Path, policy: Policy) -> None:
    """Fetch what is missing of ``part``, in as many attempts as the policy allows."""
    problem = ""
    for attempt in range(policy.attempts):
        if attempt:
            time.sleep(policy.pause * 2 ** (attempt - 1))
        try:
            return _go_on(url, part, policy)
        except requests.RequestException as error:
            problem = _why(error)
            if problem == NO_CONNECTION and attempt:
                raise Unreachable(f"{url}: {problem}") from None
    raise DataError(f"{url}: {problem} (tried {policy.attempts} times)")


def _go_on(url: str, part: Path, policy: Policy) -> None:
    """Append the rest of the file to ``part``, or write it anew where the server sends all of it."""
    with part.open("ab") as handle:
        have = handle.tell()

        def begin(response: Any, **_: object) -> None:
            status, sent = response.status_code, response.headers.get("Content-Range", "")
            if status in {404, 410}:
                raise NotThere(f"{url}: not there (HTTP {status})")
            if status in {200, 416} or (status == 206 and not sent.startswith(f"bytes {have}-")):
                handle.truncate(0)

        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        timeout = (policy.connect, policy.read)
        fetch = pooch.HTTPDownloader(
            policy.progress, CHUNK, timeout=timeout, headers=headers, hooks={"response": begin}
        )
        fetch(url, handle, None)


def _why(error: Exception) -> str:
    """Say in a few words why a request failed."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"HTTP {error.response.status_code}"
    stalled = isinstance(error, requests.ReadTimeout) or "timed out" in str(error)
    if stalled and not isinstance(error, requests.ConnectTimeout):
        return "the server stalled"
    if isinstance(error, requests.exceptions.ChunkedEncodingError) or "aborted" in str(error):
        return "the connection broke off"
    if isinstance(error, requests.ConnectionError):
        return NO_CONNECTION
    return reason(error)
