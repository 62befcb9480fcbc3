"""Staging directories inside a partition directory, for files that are not part of the log yet."""

from __future__ import annotations

import errno
import uuid

from winnow.errors import NO_SPACE
from winnow.logdir.names import GONE, STAGING_PREFIX
from winnow.storage.contract import Storage, entry_if_there


def staging_run_id(name: str, suffix: str) -> str | None:
    """Return the run id in the name of a staging directory with this suffix, else None."""
    if name.startswith(STAGING_PREFIX) and name.endswith(suffix):
        return name.removeprefix(STAGING_PREFIX).removesuffix(suffix)
    return None


def move_aside(storage: Storage, path: str, staging: str) -> None:
    """Move a directory, durably, into a staging directory, to be removed with it."""
    storage.rename(path, f"{staging}/{uuid.uuid4().hex}")
    storage.fsync_dir(staging)
    storage.fsync_dir(path.rpartition("/")[0])


def remove_staging(storage: Storage, path: str) -> None:
    """Remove a staging directory and everything in it. A missing one is fine.

    A task may still write there: a cancelled task lives on for a moment, and a duplicate one ends
    at any time. After the rename they cannot reach the directory.
    """
    found = entry_if_there(storage, path)
    if found is None:
        return
    if found.is_link:  # Winnow makes no links: remove it, not its target
        storage.unlink(path)
    elif found.is_dir:
        renamed = path if path.endswith(GONE) else path + GONE
        if renamed != path:
            try:
                storage.rename(path, renamed)
            except OSError as error:
                if error.errno not in {*NO_SPACE, errno.EOPNOTSUPP}:
                    raise
                # On a full disk a longer name may not fit, and the files inside take space. Where a
                # directory is only a prefix of the names in it, a late task's file becomes a
                # leftover for the next run.
                renamed = path
        _remove_tree(storage, renamed)


def _remove_tree(storage: Storage, path: str) -> None:
    left = [path]  # somebody may have made more levels than Python can call itself
    while left:
        here, below = left[-1], []
        for entry in storage.list_dir(here):
            if entry.is_dir and not entry.is_link:
                below.append(f"{here}/{entry.name}")
            else:
                storage.unlink(f"{here}/{entry.name}")
        if not below:
            storage.rmdir(left.pop())
        left += below
