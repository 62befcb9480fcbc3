"""How far the lock on a log directory is seen: on some mounts of network file systems no farther
than this host.
"""

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
"""File system type -> options with which record locks, a broker's and ours, stay on the host that
takes them.
"""


def why_seen_here_only(path: str) -> str | None:
    """What is to be said of a log directory whose lock another host does not see. None: nothing is
    known against it.
    """
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as mounts:
            found = local_only(mounts, status_of(path).st_dev)
    except (CorruptLogError, OSError):  # no Linux, or no /proc
        return None
    if found is None:
        return None
    return (
        f"the lock on {path} is seen by this host only ({found}): a broker on another host is not kept out by it, nor "
        "found. Make sure that there is none"
    )


def local_only(mounts: Iterable[str], device: int) -> str | None:
    """Of the lines of mountinfo, type and option of the mount of this device if its locks are
    local.
    """
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
