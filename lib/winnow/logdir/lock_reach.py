"""Which hosts see the lock on a log directory. On some network mounts only this host does."""

from __future__ import annotations

import os
from collections.abc import Iterable

from winnow.errors import CorruptLogError
from winnow.storage.guarded import status_of

_MOUNTS = "/proc/self/mountinfo"
_LOCAL_ONLY = {
    "nfs": frozenset({"nolock", "local_lock=all", "local_lock=posix"}),
    "nfs4": frozenset({"nolock", "local_lock=all", "local_lock=posix"}),
    "cifs": frozenset({"nobrl", "forcemandatorylock"}),
    "smb3": frozenset({"nobrl", "forcemandatorylock"}),
}
"""File system type -> mount options with which only the host that takes a record lock sees it."""


def why_seen_here_only(path: str) -> str | None:
    """Return a warning if other hosts do not see the lock on this log directory, else None. None
    also if that cannot be found out.
    """
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as mounts:
            found = local_only(mounts, status_of(path).st_dev)
    except (CorruptLogError, OSError):  # no Linux, or no /proc
        return None
    if found is None:
        return None
    return (
        f"only this host sees the lock on {path} ({found}). A broker on another host is "
        "neither kept out nor detected. Make sure that there is none"
    )


def local_only(mounts: Iterable[str], device: int) -> str | None:
    """Return type and option of the device's mount if its locks are local. `mounts`: mountinfo."""
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts:
        mount, _, system = line.partition(" - ")
        mount_words, system_words = mount.split(), system.split()
        if len(mount_words) < 6 or len(system_words) < 3 or mount_words[2] != number:
            continue
        options = {*mount_words[5].split(","), *system_words[2].split(",")}
        local = _LOCAL_ONLY.get(system_words[0], frozenset()) & options
        if local:
            return f"{system_words[0]} mounted with {', '.join(sorted(local))}"
    return None
