"""Requests to HTTP servers that the user named. Credentials and data go to that server only: a
redirect to another origin (scheme, host or port) is an error.
"""

from __future__ import annotations

import urllib.request
from http.client import HTTPException, HTTPMessage
from typing import IO
from urllib.error import HTTPError
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


class RedirectError(OSError):
    """The server sends the request elsewhere."""


def fetch(request: urllib.request.Request, *, timeout: float, most: int) -> bytes:
    """Return the answer of the server that the request names, at most `most` bytes of it. Raises
    OSError. `timeout`: seconds for each step on the network.

    A GET follows redirects within the origin. Another request follows none: urllib would make it a
    GET without its data, and the data would be lost without an error.
    """
    opener = urllib.request.build_opener(_SameOrigin)
    try:
        with opener.open(request, timeout=timeout) as answer:
            read: bytes = answer.read(most)
            return read
    except HTTPError as error:
        error.close()  # Python 3.14 warns of an answer that nobody closes
        raise
    except (HTTPException, ValueError) as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


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
        origin = _origin(newurl)
        if origin != _origin(req.full_url):
            fp.close()
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
