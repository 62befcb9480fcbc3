"""Find a place for `clean --output` on a disk with enough space."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from winnow.errors import FAILS_ONE_PARTITION
from winnow.storage.contract import Storage

_ON_DISKS = frozenset(("btrfs", "ext3", "ext4", "f2fs", "xfs", "zfs"))
_MOUNTS = Path("/proc/self/mounts")
_USUAL = ("/var/tmp", "/srv", "/mnt")  # noqa: S108 - places, not names of files
_NAME = "winnow-output"


def other_disk(storage: Storage, log_dirs: Sequence[str]) -> str | None:
    """Return the path of a directory to be made on the local disk with the most free space. It is
    on another disk than the log directories, and has room for all that is on their disks.

    None if there is no such place where this user may write.
    """
    own = [storage.volume(path) for path in log_dirs]
    needed = sum(volume.total_bytes for volume in {volume.key: volume for volume in own}.values())
    others = {volume.key for volume in own}
    found = []
    for place in (*_USUAL, *_mounts()):
        path = f"{place.rstrip('/')}/{_NAME}"
        try:
            volume = storage.volume(place)
            if volume.read_only or volume.key in others or storage.exists(path):
                continue
        except FAILS_ONE_PARTITION:
            continue
        if volume.free_bytes > needed and os.access(place, os.W_OK | os.X_OK):
            found.append((volume.free_bytes, path))
            others.add(volume.key)  # the first place of each disk, whatever others write meanwhile
    return max(found, key=lambda one: one[0], default=(0, None))[1]


def _mounts() -> list[str]:
    """Return where local disks are mounted, but not the root, where no data belongs."""
    try:
        lines = _MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    rows = [line.split() for line in lines]
    return [
        row[1]
        for row in rows
        if len(row) > 2 and row[2] in _ON_DISKS and row[1] != "/" and "\\" not in row[1]
    ]
