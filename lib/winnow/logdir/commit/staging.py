"""Directories inside a partition directory where Winnow prepares what is not part of the log yet."""

from __future__ import annotations

import errno
import uuid

from winnow.errors import NO_SPACE
from winnow.storage.contract import Storage

_GONE = ".gone"


def move_aside(storage: Storage, path: str, staging: str) -> None:
    """Makes a directory part of a staging directory, to be removed with it; on stable storage when
    it returns.
    """
    storage.rename(path, f"{staging}/{uuid.uuid4().hex}")
    storage.fsync_dir(staging)
    storage.fsync_dir(path.rpartition("/")[0])


def remove_staging(storage: Storage, path: str) -> None:
    """Removes a staging directory and all that is in it; content with one that is gone.

    A task may still write there: one that was cancelled lives for a moment, one that runs twice
    ends when it likes. Under its new name the directory is out of reach for them.
    """
    if not storage.exists(path):
        return
    found = storage.entry(path)
    if found.is_link:  # not of our making, nor what it leads to
        storage.unlink(path)
    elif found.is_dir:
        gone = path if path.endswith(_GONE) else path + _GONE
        if gone != path:
            try:
                storage.rename(path, gone)
            except OSError as error:
                if error.errno not in {*NO_SPACE, errno.EOPNOTSUPP}:
                    raise
                # On a full disk a longer name may have no room, and what is in there takes some.
                # Where a directory is no more than the names in it, a late task's file is a
                # leftover for the next run.
                gone = path
        _remove_tree(storage, gone)


def _remove_tree(storage: Storage, path: str) -> None:
    for entry in storage.list_dir(path):
        if entry.is_dir and not entry.is_link:
            _remove_tree(storage, f"{path}/{entry.name}")
        else:
            storage.unlink(f"{path}/{entry.name}")
    storage.rmdir(path)
