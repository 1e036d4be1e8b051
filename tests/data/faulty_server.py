"""A local HTTP server that serves files from memory and fails on request."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Served:
    """What the server has, how it fails next (one fault a request, by path), and what was asked."""

    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, list[str]] = field(default_factory=dict)
    ranges: bool = True
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""


class Faulty(BaseHTTPRequestHandler):
    """Answers from what is served, with the faults that are due."""

    served: Served
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        name = self.path.lstrip("/")
        byte_range = self.headers.get("Range")
        self.served.asked.append((name, byte_range))
        faults = self.served.faults.get(name, [])
        fault = faults.pop(0) if faults else ""
        if fault == "500":
            self._answer(500, b"broken")
        elif name not in self.served.files:
            self._answer(404, b"<html>no such file</html>")
        elif fault == "garbage":
            self._answer(200, b"<html>please log in</html>")
        else:
            body, start = self.served.files[name], 0
            if byte_range and self.served.ranges:
                start = int(byte_range.removeprefix("bytes=").rstrip("-"))
            head = {"Content-Range": f"bytes {start}-{len(body) - 1}/{len(body)}"} if start else {}
            self._answer(206 if start else 200, body[start:], head, fault)

    def _answer(self, status: int, body: bytes, head: dict[str, str] | None = None, fault: str = "") -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **(head or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if fault in {"truncate", "stall"} else body)
        self.wfile.flush()
        if fault == "stall":
            time.sleep(1.5)
        if fault in {"truncate", "stall"}:
            self.close_connection = True


@contextmanager
def serving() -> Iterator[Served]:
    """Serve on a free port until the block ends."""
    served = Served()
    handler = type("Handler", (Faulty,), {"served": served})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
