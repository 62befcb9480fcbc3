"""Read what may be missing. Only ENOENT and ENOTDIR mean that it is."""

from __future__ import annotations

from winnow.storage.contract import Entry, Storage


def read_if_there(storage: Storage, path: str) -> bytes | None:
    """Return a whole small file, or None if there is none. Raises any other error: a file that
    can't be read is not absent.
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
