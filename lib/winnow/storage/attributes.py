"""Set owner, group and mode of files that this process made, through their descriptors.

The owner of the directory can replace a file that was just made. Setting a mode or an owner by name
would then change the other file. So only a file that this process made is changed.
"""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from contextlib import suppress

from winnow.errors import CorruptLogError
from winnow.storage.guarded import held, kind_of, open_guarded
from winnow.storage.permissions import may_stand_in

_REMEMBERED = 4096
_made: OrderedDict[str, tuple[int, int]] = OrderedDict()
"""Device and inode of the files that this process made most recently, by path."""


def remember_made(path: str, descriptor: int) -> None:
    """Remember a file that was just created: `give_attributes` accepts no other one at its path."""
    _made[path] = _identity(os.fstat(descriptor))
    while len(_made) > _REMEMBERED:
        with suppress(KeyError):  # another thread was faster
            _made.popitem(last=False)


def give_attributes(path: str, wanted: os.stat_result, *, like: str) -> None:
    """Give the file that this process made at `path` the owner, group and permission bits of
    `wanted`. `like` is the path that they come from.

    A process that may not change owners keeps its own where a broker of this user would have put
    its file, too (`winnow.storage.permissions`). Raises CorruptLogError if the file is another one
    by now or has other names: then it may be anybody's.
    """
    with held(open_guarded(path, os.O_RDONLY), path) as descriptor:
        have = os.fstat(descriptor)
        _check_ours(path, have)
        mode = stat.S_IMODE(wanted.st_mode)
        # A user who may not change owners can still write files that already have the right owner.
        if (wanted.st_uid, wanted.st_gid) != (have.st_uid, have.st_gid):
            try:
                os.fchown(descriptor, wanted.st_uid, wanted.st_gid)
            except PermissionError as error:
                if not may_stand_in(like, wanted):
                    owner = f"{wanted.st_uid}:{wanted.st_gid}, the owner of {like}"
                    what = (
                        f"{error.strerror}: it must belong to {owner}; run as that user, or as root"
                    )
                    raise PermissionError(error.errno, what, path) from None
                mode = _mode_without_group(descriptor, wanted)
        # After fchown, which clears set-id bits.
        os.fchmod(descriptor, mode)


def _mode_without_group(descriptor: int, wanted: os.stat_result) -> int:
    """Keep the group if that is allowed, and return the mode. In another group, members may do only
    what everybody may: nobody gets access who had none.
    """
    mode = stat.S_IMODE(wanted.st_mode)
    if os.fstat(descriptor).st_gid != wanted.st_gid:
        try:
            os.fchown(descriptor, -1, wanted.st_gid)
        except PermissionError:
            mode &= ~stat.S_IRWXG | (mode & stat.S_IRWXO) << 3
    return mode & ~(stat.S_ISUID | stat.S_ISGID)


def _check_ours(path: str, have: os.stat_result) -> None:
    is_file = stat.S_ISREG(have.st_mode)
    if is_file and have.st_nlink <= 1 and _made.get(path) == _identity(have):
        return
    raise CorruptLogError(
        "a file is not the one that Winnow created",
        expected="a regular file with one name",
        found=kind_of(have)
        if not is_file
        else f"one with {have.st_nlink} names"
        if have.st_nlink > 1
        else "another",
        where=path,
        hint="Something else is writing to this directory. Stop it and run again.",
    )


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
