"""Find the store behind a path or URL."""

from __future__ import annotations

import re

from winnow.errors import UsageError
from winnow.extras import HDFS, S3, how_to_install
from winnow.storage.store import Store
from winnow.storage.store_local import LocalStore

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def is_remote(path: str) -> bool:
    """Return whether it is a URL of a scheme other than `file`."""
    scheme = _SCHEME.match(path)
    return scheme is not None and scheme[1].lower() != "file"


def open_store(path: str) -> Store:
    """Return the store of a path or URL. UsageError for a scheme without a store."""
    if not is_remote(path):
        return LocalStore("/" + path[5:].lstrip("/") if _SCHEME.match(path) else path)
    scheme = path.partition(":")[0].lower()
    try:
        if scheme in {"s3", "s3a"}:
            from winnow.storage.s3.store import S3Store  # noqa: PLC0415 - only who needs it has to have obstore

            return S3Store(path)
        if scheme == "hdfs":
            from winnow.storage.hdfs.store import HdfsStore  # noqa: PLC0415 - likewise hdfs-native

            return HdfsStore(path)
    except ImportError as missing:
        raise not_installed(scheme, missing) from None
    raise UsageError(
        "unsupported URL scheme", expected="a directory, s3:// or hdfs://", found=f"{scheme}://"
    )


def not_installed(scheme: str, missing: ImportError) -> UsageError:
    return UsageError(
        f"{scheme}:// needs a package that is not installed",
        found=str(missing),
        hint=f"Run {how_to_install(HDFS if scheme == 'hdfs' else S3)}",
    )
