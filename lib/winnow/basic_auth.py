"""A user and a password in the URL of a server: `https://USER:PASSWORD@HOST`."""

from __future__ import annotations

import base64
from urllib.parse import unquote, urlsplit, urlunsplit

from winnow.errors import UsageError


def split_off(url: str) -> tuple[str, dict[str, str]]:
    """Return the URL without them, which may be shown, and the header to send instead, if any.
    Raises UsageError for a malformed URL.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port  # it is parsed only now
    except ValueError as error:
        raise UsageError(
            "the URL can't be understood",
            expected="https://HOST:PORT/PATH",
            found=str(error),
            where=url,
        ) from None
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    if parts.username is None:
        return bare, {}
    user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return bare, {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}


def parse_url(text: str, *, option: str) -> str:
    """Return a path or a URL. Raises UsageError for a malformed URL."""
    del option
    if "://" in text:
        split_off(text)
    return text
