"""Find the file tree behind a path or URL."""

from __future__ import annotations

from winnow.storage.file_tree import FileTree
from winnow.storage.local_tree import LocalTree
from winnow.storage.urls import is_remote, local_path, not_installed, unsupported


def open_tree(path: str) -> FileTree:
    """Return the file tree of a path or URL. UsageError for a scheme without one."""
    if not is_remote(path):
        return LocalTree(local_path(path))
    scheme = path.partition(":")[0].lower()
    try:
        if scheme in {"s3", "s3a"}:
            from winnow.storage.s3.tree import S3Tree  # noqa: PLC0415 - only who needs it has to have obstore

            return S3Tree(path)
        if scheme == "hdfs":
            from winnow.storage.hdfs.tree import HdfsTree  # noqa: PLC0415 - likewise hdfs-native

            return HdfsTree(path)
    except ImportError as missing:
        raise not_installed(scheme, missing) from None
    raise unsupported(scheme)
