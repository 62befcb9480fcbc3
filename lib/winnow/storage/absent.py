"""What is read if it is there. Only ENOENT and ENOTDIR say that it is not."""

from __future__ import annotations

from winnow.storage.contract import Entry, Storage


def read_if_there(storage: Storage, path: str) -> bytes | None:
    """A whole small file; None if there is none. Any other error is raised: a file that can't be
    read is not absent.
    """
    try:
        return storage.read_bytes(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def entry_if_there(storage: Storage, path: str) -> Entry | None:
    try:
        return storage.entry(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
