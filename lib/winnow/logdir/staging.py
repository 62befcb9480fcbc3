"""Directories inside a partition directory where Winnow prepares what is not part of the log yet."""

from __future__ import annotations

import uuid

from winnow.storage.contract import Storage


def move_aside(storage: Storage, path: str, staging: str) -> None:
    """Makes a directory part of a staging directory, to be removed with it; on stable storage when it returns."""
    storage.rename(path, f"{staging}/{uuid.uuid4().hex}")
    storage.fsync_dir(staging)
    storage.fsync_dir(path.rpartition("/")[0])


def remove_staging(storage: Storage, path: str) -> None:
    """Removes a staging directory and all that is in it; content with one that is gone."""
    if not storage.exists(path):
        return
    for entry in storage.list_dir(path):
        if entry.is_dir:
            remove_staging(storage, f"{path}/{entry.name}")
        else:
            storage.unlink(f"{path}/{entry.name}")
    storage.rmdir(path)
