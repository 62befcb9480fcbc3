"""Symbolic links, which Winnow reads but never follows to write."""

from __future__ import annotations

import os

from winnow.storage.guarded import parent_of


def link_target(path: str) -> str:
    """Return what a symbolic link on this machine says, as an absolute path that may not exist."""
    with parent_of(path) as (directory, name):
        return os.path.normpath(
            os.path.join(os.path.dirname(path), os.readlink(name, dir_fd=directory))
        )


def words_of_link(path: str) -> str:
    """Return what a symbolic link is, for a message about the partition or the file at `path`."""
    return f"it is a symbolic link to {link_target(path)}, which Winnow does not follow"
