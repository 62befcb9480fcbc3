"""Whether the kernel lets a file system be changed, as Linux lists its mounts.

`statvfs` knows a mount that is read-only. Since Linux 6.18, it does not know an ext4 that became
read-only after an error: only the list of mounts says so.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_NO_CHANGES = {"ro", "emergency_ro", "shutdown"}
"""Options of a mount or of its file system under which every change fails. ext4 shows the last two
after an error.
"""
_PROC = Path("/proc/self")
_OPTIONS = 5
"""Which field of a line has the options of the mount."""


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
