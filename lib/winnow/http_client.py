"""Requests to HTTP servers that the user named. Credentials and data go to that server only: a
redirect to another origin (scheme, host or port) is an error. A request has a deadline as a whole:
a server that sends a byte each second would meet any limit for a step.
"""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse
from threading import Thread
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


class RedirectError(OSError):
    """The server sends the request elsewhere."""


def fetch(request: urllib.request.Request, *, seconds: float, most: int) -> bytes:
    """Return the answer of the server that the request names, at most `most` bytes of it. Raises
    OSError, also if it is not there after `seconds`, from the look-up of the name to the last byte.

    A GET follows redirects within the origin. Another request follows none: urllib would make it a
    GET without its data, and the data would be lost without an error.
    """
    exchange = _Exchange(request, seconds, most)
    exchange.start()
    try:
        exchange.join(seconds)
        late = exchange.is_alive()
    finally:
        exchange.cut()
    if late:
        raise TimeoutError(f"no complete answer within {seconds:g} s")
    if exchange.error is not None:
        raise exchange.error
    return exchange.answer


class _Exchange(Thread):
    """A request and its answer, in a thread that nobody has to wait for."""

    def __init__(self, request: urllib.request.Request, seconds: float, most: int) -> None:
        super().__init__(name="winnow-http", daemon=True)
        self._request, self._seconds, self._most = request, seconds, most
        self._sockets: list[socket.socket] = []
        self._late = False
        self.answer = b""
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.answer = self._fetched()
        except HTTPError as error:
            error.close()  # Python 3.14 warns of an answer that nobody closes
            self.error = error
        except (HTTPException, ValueError) as error:
            self.error = OSError(f"{type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001 - whoever waits raises it
            self.error = error

    def _fetched(self) -> bytes:
        opener = urllib.request.build_opener(
            _SameOrigin, _Http(self._connected), _Https(self._connected)
        )
        with opener.open(self._request, timeout=self._seconds) as answer:
            read: bytes = answer.read(self._most)
            if len(read) < self._most and answer.length:
                raise OSError(f"the answer ended {answer.length} bytes too early")
            return read

    def _connected(self, to: socket.socket) -> None:
        self._sockets.append(to)
        if self._late:
            self.cut()

    def cut(self) -> None:
        """End the connections. The thread ends with them."""
        self._late = True
        for connected in self._sockets:
            with suppress(OSError):  # already closed
                # That of TLS is not thread-safe.
                socket.socket.shutdown(connected, socket.SHUT_RDWR)


class _Watched(urllib.request.AbstractHTTPHandler):
    """Calls `connected` with each socket."""

    def __init__(self, connected: Callable[[socket.socket], None]) -> None:
        super().__init__()
        self._connected = connected

    def do_open(
        self, http_class: Callable[..., Any], req: urllib.request.Request, **options: object
    ) -> HTTPResponse:
        def made(host: str, **more: object) -> HTTPConnection:
            connection: HTTPConnection = http_class(host, **more)
            connect = connection.connect

            def connect_and_tell() -> None:
                connect()
                self._connected(connection.sock)

            connection.connect = connect_and_tell  # type: ignore[method-assign]
            return connection

        return super().do_open(made, req, **options)


class _Http(_Watched, urllib.request.HTTPHandler):
    pass


class _Https(_Watched, urllib.request.HTTPSHandler):
    pass


class _SameOrigin(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        fp.close()  # urllib would read all of it
        origin = _origin(newurl)
        if origin != _origin(req.full_url):
            raise RedirectError(
                f"status {code}, a redirect to another server: {origin}. It was not followed, "
                "because the request may hold a password"
            )
        if req.get_method() not in {"GET", "HEAD"}:
            raise HTTPError(req.full_url, code, f"{msg}, a redirect", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _origin(url: str) -> str:
    """Return SCHEME://HOST:PORT of a URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return "a malformed URL"
    return f"{parts.scheme}://{parts.hostname or ''}:{port}"
