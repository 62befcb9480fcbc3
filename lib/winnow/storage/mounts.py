"""Whether the kernel lets a file system be changed, and whether other hosts see locks on it, as
Linux lists its mounts.

`statvfs` knows a mount that is read-only. Since Linux 6.18, it does not know an ext4 that became
read-only after an error: only the list of mounts says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from winnow.errors import CorruptLogError
from winnow.storage.guarded import status_of

_NO_CHANGES = {"ro", "emergency_ro", "shutdown"}
"""Options of a mount or of its file system under which every change fails. ext4 shows the last two
after an error.
"""
_PROC = Path("/proc/self")
_OPTIONS = 5
"""Which field of a line has the options of the mount."""
_LOCAL_ONLY = {
    "nfs": frozenset({"nolock", "local_lock=all", "local_lock=posix"}),
    "nfs4": frozenset({"nolock", "local_lock=all", "local_lock=posix"}),
    "cifs": frozenset({"nobrl", "forcemandatorylock"}),
    "smb3": frozenset({"nobrl", "forcemandatorylock"}),
}
"""File system type -> mount options with which only the host that takes a record lock sees it."""


def read_only(fd: int) -> bool:
    """Return whether the file system of an open file takes no change."""
    if os.fstatvfs(fd).f_flag & os.ST_RDONLY:
        return True
    try:
        info = (_PROC / "fdinfo" / str(fd)).read_text(encoding="ascii")
        # A mount point may have any bytes in its name; surrogates keep them.
        mounts = (_PROC / "mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return False  # not Linux, or /proc is not mounted
    found = re.search(r"^mnt_id:\s*(\d+)$", info, re.MULTILINE)
    return found is not None and bool(_NO_CHANGES & options(mounts, found[1]))


def options(mountinfo: str, mount_id: str) -> set[str]:
    """Return the options of a mount and of its file system; none if it is not listed.

    A line (`man 5 proc_pid_mountinfo`): its id, parent, device, root, mount point, options, any
    number of optional fields, `-`, type, source, the file system's options. Blanks in names are
    escaped.
    """
    for line in mountinfo.split("\n"):
        fields = line.split(" ")
        if fields[0] == mount_id and len(fields) > _OPTIONS and "-" in fields[_OPTIONS:]:
            after = fields[fields.index("-", _OPTIONS) + 1 :]
            return {*fields[_OPTIONS].split(","), *after[-1].split(",")} if after else set()
    return set()


def why_seen_here_only(path: str) -> str | None:
    """Return a warning if other hosts do not see the lock on this log directory, else None. None
    also if that cannot be found out.
    """
    try:
        with (_PROC / "mountinfo").open(encoding="utf-8", errors="surrogateescape") as mounts:
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
