"""Tell a local path from a URL."""

from __future__ import annotations

import re

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def is_remote(path: str) -> bool:
    """Return whether it is a URL of a scheme other than `file`."""
    scheme = None if path.startswith("/") else _SCHEME.match(path)
    return scheme is not None and scheme[1].lower() != "file"


def local_path(path: str) -> str:
    """Return the local path of a `file:` URL, and anything else as it is."""
    if is_remote(path) or not _SCHEME.match(path):
        return path
    return "/" + path[5:].lstrip("/")
