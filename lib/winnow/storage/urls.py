"""Tell a local path from a URL."""

from __future__ import annotations

import re

from winnow.errors import UsageError
from winnow.extras import HDFS, S3, how_to_install

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def is_remote(path: str) -> bool:
    """Return whether it is a URL of a scheme other than `file`."""
    scheme = _SCHEME.match(path)
    return scheme is not None and scheme[1].lower() != "file"


def local_path(path: str) -> str:
    """Return the local path of a path or a `file:` URL."""
    return "/" + path[5:].lstrip("/") if _SCHEME.match(path) else path


def not_installed(scheme: str, missing: ImportError) -> UsageError:
    return UsageError(
        f"{scheme}:// needs a package that is not installed",
        found=str(missing),
        hint=f"Run {how_to_install(HDFS if scheme == 'hdfs' else S3)}",
    )


def unsupported(scheme: str) -> UsageError:
    return UsageError(
        "unsupported URL scheme", expected="a directory, s3:// or hdfs://", found=f"{scheme}://"
    )
