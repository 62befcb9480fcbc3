"""A real HTTP server on loopback that records its requests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
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
def listening(status: int = 200) -> Iterator[Heard]:
    class Handler(BaseHTTPRequestHandler):
        def _hear(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            heard.requests.append((self.command, self.path, body))
            heard.authorized.append(self.headers["Authorization"])
            self.send_response(status)
            self.end_headers()

        do_POST = do_PUT = _hear  # noqa: N815 - http.server's names

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
