"""A real HTTP server on loopback that records its requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer


@dataclass
class Heard:
    url: str
    requests: list[tuple[str, str, bytes]] = field(default_factory=list)
    """Method, path, body."""
    authorized: list[str | None] = field(default_factory=list)
    """The Authorization header of each request."""


@contextmanager
def listening(
    status: int = 200, *, location: Callable[[str], str] | None = None, body: bytes = b""
) -> Iterator[Heard]:
    """`location`: returns the target of a redirect for a path."""

    class Handler(BaseHTTPRequestHandler):
        def _hear(self) -> None:
            received = self.rfile.read(int(self.headers["Content-Length"] or 0))
            heard.requests.append((self.command, self.path, received))
            heard.authorized.append(self.headers["Authorization"])
            self.send_response(status)
            if location is not None:
                self.send_header("Location", location(self.path))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = _hear  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    heard = Heard(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield heard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
