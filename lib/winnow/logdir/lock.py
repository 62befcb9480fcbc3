"""The lock on a log directory. It keeps brokers out and detects running ones (S8.1).

A broker holds Java's `FileChannel.tryLock` on `.lock`: on Linux a POSIX record lock over the whole
file. Winnow takes an open-file-description lock, which conflicts with a POSIX lock but belongs to
the descriptor. A POSIX lock would vanish as soon as anything in this process closed another
descriptor of the file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from glob import iglob
from types import MappingProxyType

from winnow.errors import NO_SPACE, CorruptLogError, LogDirInUseError, WinnowError
from winnow.logdir.lease import Lease, refuse_leased
from winnow.logdir.live.alone import alone_on
from winnow.logdir.live.broker import RunningBroker
from winnow.logdir.live.partition import IN_PROGRESS
from winnow.logdir.live.process import described, properties_file, start_ms
from winnow.logdir.live.read_view import open_read_views
from winnow.logdir.names import LOCK, META_PROPERTIES
from winnow.logdir.survey import LogDir, canonical_paths, survey_log_dirs
from winnow.runtime.no_space import FREE_INODES, lacks_inodes
from winnow.storage.creating import create_file
from winnow.storage.guarded import held, open_file, status_of
from winnow.storage.live.read_view import ReadView, view_of
from winnow.storage.permissions import user_name, why_unchangeable
from winnow.storage.places import Places, lease_file_of
from winnow.storage.urls import is_remote, local_path

_FLOCK = struct.Struct("hhqqi4x")
"""`struct flock` of 64-bit Linux: l_type, l_whence, l_start, l_len (0: to the end), l_pid."""


def lock_log_dir(log_dir: str) -> ExitStack | Lease:
    """Lock a log directory that is to be changed, until `close()` or the end of the `with` block.
    For a URL, take a lease.

    A local directory is locked as a broker locks it; `.lock` is created if it is missing. Raises
    LogDirInUseError if the lock is held, naming the process if it can be found. Raises WinnowError
    if this process may not write here or the file system has no locks.
    """
    return Lease(log_dir, lease_file_of(log_dir)) if is_remote(log_dir) else _lock(log_dir)


def lock_to_read(log_dir: str) -> AbstractContextManager[object]:
    """Lock a log directory for reading, as by `lock_log_dir`: a broker must not start meanwhile.
    Where the file system is mounted read-only, as a snapshot may be, the lock of a broker that
    stopped is shared. Where it is so full that there can be no `.lock`, no lock is taken: a broker
    can't take one there either. If a broker runs, no lock is taken, and the block reads through a
    read view (`winnow.logdir.live.read_view`).

    For a URL nothing is written. No broker runs there, so it is enough that nobody holds the lease
    at the start. Readers notice files that a run replaces meanwhile.
    """
    if is_remote(log_dir):
        return share_log_dir(log_dir) or nullcontext()
    if view_of(log_dir) is not None:
        return nullcontext()
    if (broker := broker_on(log_dir)) is not None:  # it has just started
        return open_read_views({log_dir: broker})
    try:
        return _lock(log_dir)
    except WinnowError as error:
        cause = error.__cause__
        number = cause.errno if isinstance(cause, OSError) else None
        if number == errno.EROFS and (lock := share_log_dir(log_dir)) is not None:
            return lock
        if number in NO_SPACE:
            return nullcontext()
        raise


def _lock(log_dir: str) -> ExitStack:
    path = f"{log_dir}/{LOCK}"
    try:
        while True:
            fd = _open_or_create(path)
            lock = _locked(log_dir, fd, fcntl.F_WRLCK)
            if _is_at(path, fd):
                return lock
            lock.close()
    except OSError as error:
        raise _no_lock(log_dir, error) from error


def _is_at(path: str, fd: int) -> bool:
    """Return whether an open file still has this name. A broker from 3.9 on removes its `.lock`
    when it stops. The next broker makes a new one, and does not see a lock on the old one.
    """
    with suppress(OSError):
        return os.path.samestat(status_of(path), os.fstat(fd))
    return False


def _locked(log_dir: str, fd: int, kind: int) -> ExitStack:
    """Lock an open file until the stack is closed. The file is kept. Raises LogDirInUseError if
    somebody holds the lock, else OSError.
    """
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _whole_file(kind))
    except (BlockingIOError, PermissionError):  # EAGAIN or EACCES: POSIX allows both
        holder = _describe_holder(fd)
        os.close(fd)
        raise LogDirInUseError(
            f"the log directory {log_dir} is in use",
            found=holder,
            where=f"{log_dir}/{LOCK}",
            hint="Stop the broker or other process, and run again. Beside a running broker, "
            "doctor, plan, explain, verify and inspect work.",
        ) from None
    except BaseException:
        os.close(fd)
        raise
    lock = ExitStack()
    lock.callback(os.close, fd)
    return lock


def _open_or_create(path: str) -> int:
    """Open a regular file, never the target of a link.

    A new file belongs to the owner of the directory: a broker must be able to write to it.
    """
    while True:
        with suppress(FileNotFoundError):
            return open_file(path, os.O_RDWR)
        with suppress(FileExistsError):  # another process was faster
            return create_file(path, flags=os.O_RDWR, shared=True)


def share_log_dir(log_dir: str) -> ExitStack | None:
    """Keep brokers out of a log directory that is only read, without writing anything there.

    Returns None if that is impossible: there is no `.lock`, this process may not read it, or the
    file system has no locks. Returns None for a URL once it is known that nobody holds its lease.
    Raises LogDirInUseError as `lock_log_dir` does. Several readers may share the lock.
    """
    if is_remote(log_dir):
        refuse_leased(log_dir, lease_file_of(log_dir))
        return None
    try:
        return _locked(log_dir, open_file(f"{log_dir}/{LOCK}"), fcntl.F_RDLCK)
    except OSError:
        return None


def broker_on(log_dir: str) -> RunningBroker | None:
    """Return the broker that runs on a local directory. None: there is none.

    It only asks: a lock that was taken for an instant would keep a broker from starting (S8.11).
    What holds an open-file-description lock is another run of Winnow, and no broker.
    """
    if is_remote(log_dir):
        return None
    try:
        fd = open_file(f"{log_dir}/{LOCK}")
    except (OSError, CorruptLogError):
        return None
    with held(fd, log_dir), suppress(OSError):
        pid = _asked_holder(fd, fcntl.F_RDLCK)
        if pid is not None and pid >= 0:
            if not pid:
                return RunningBroker(described(None))
            return RunningBroker(described(pid), start_ms(pid), properties_file(pid))
    return None


def _is_log_dir(path: str) -> bool:
    with suppress(OSError, CorruptLogError):  # readers report what is wrong
        return Places().exists(f"{path}/{META_PROPERTIES}")
    return False


@contextmanager
def live_read_views(paths: Sequence[str]) -> Iterator[None]:
    """Open read views of the log directories of running brokers, for these log directories,
    partitions and files, and read through the views inside the block. A file that a broker is about
    to rename or to delete is read as it is. Locks nothing.
    """
    wanted: dict[str, set[str] | None] = {}
    for given in map(local_path, paths):
        if is_remote(given) or given.endswith(IN_PROGRESS):
            continue
        path = Places().canonical(given)
        above, _, name = path.rpartition("/")
        top, _, partition = above.rpartition("/")
        for log_dir, directory in ((path, None), (above, name), (top, partition)):
            if _is_log_dir(log_dir):
                names = wanted.setdefault(log_dir, set())
                if directory is None or names is None:
                    wanted[log_dir] = None
                else:
                    names.add(directory)
                break
    only = {log_dir: names for log_dir, names in wanted.items() if names is not None}
    with read_views_of_brokers(wanted, only):
        yield


def read_views_of_brokers(
    log_dirs: Iterable[str], only: Mapping[str, Collection[str]] = MappingProxyType({})
) -> AbstractContextManager[tuple[ReadView, ...]]:
    """Open read views of those of these log directories on which a broker runs, all together. Locks
    nothing. `only`: see `open_read_views`.
    """
    found = ((log_dir, broker_on(log_dir)) for log_dir in log_dirs if not is_remote(log_dir))
    running = {log_dir: broker for log_dir, broker in found if broker is not None}
    return open_read_views(running, only=only)


def holder_of(log_dir: str) -> str | None:
    """Return what holds the lock of a local directory, in words. None: nothing, or it is unknown.
    Writes nothing.
    """
    try:
        lock = share_log_dir(log_dir)
    except LogDirInUseError as error:
        return error.found
    if lock is not None:
        lock.close()
    return None


def _no_lock(log_dir: str, error: OSError) -> WinnowError:
    """Return the error. Without the lock Winnow reads nothing: a broker may be writing."""
    attribute = why_unchangeable(log_dir) or why_unchangeable(f"{log_dir}/{LOCK}")
    if attribute is not None:
        hint = f"{attribute}."
    elif error.errno in (errno.EACCES, errno.EPERM):
        hint = "Run as the user that the directory belongs to, or as root."
        with suppress(OSError):
            hint = (
                f"The directory belongs to user {user_name(status_of(log_dir).st_uid)}: run as "
                "that user, or as root."
            )
    elif error.errno == errno.EROFS:
        hint = "The file system is mounted read-only; a broker would not start on it either."
    elif error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
        hint = (
            "The file system has no locks, so Winnow cannot keep a broker out. "
            "Copy the directory to a local disk."
        )
    else:
        hint = "A broker would not start on it either."
        if error.errno in NO_SPACE:
            hint = (
                "The lock is a new file, and the file system is full: first move a file that is no "
                f"part of a log elsewhere. {hint}"
            )
        with suppress(OSError):
            if error.errno in NO_SPACE and lacks_inodes(Places().volume(log_dir)):
                hint = f"{FREE_INODES}. {hint}"
    user = user_name(os.geteuid())
    return WinnowError(
        f"the log directory {log_dir} can't be locked by user {user}",
        found=error.strerror,
        where=f"{log_dir}/{LOCK}",
        hint=hint,
    )


def _whole_file(kind: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0)


def _describe_holder(fd: int) -> str:
    """Describe the process that holds the lock."""
    pid = _asked_holder(fd, fcntl.F_WRLCK)
    who = described(pid if pid is not None and pid > 0 else _ofd_holder(fd))
    process, colon, command = who.partition(": ")
    return f"{process} holds its lock{colon}{command}"


def _asked_holder(fd: int, kind: int) -> int | None:
    """Ask the kernel which process keeps a lock of this kind from being taken. 0: a process of
    another pid namespace; -1: an OFD lock; None: no process.
    """
    answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _whole_file(kind))
    found, _, _, _, pid = _FLOCK.unpack(answer)
    return None if found == fcntl.F_UNLCK else int(pid)


def _ofd_holder(fd: int) -> int | None:
    """Search all accessible processes for a descriptor of this file that owns a lock."""
    wanted = os.fstat(fd)
    for path in iglob("/proc/[0-9]*/fd/*"):
        with suppress(OSError):
            if os.path.samestat(os.stat(path), wanted):
                info = path.replace("/fd/", "/fdinfo/")
                with open(info, encoding="ascii", errors="replace") as lines:
                    if any(line.startswith("lock:") for line in lines):
                        return int(path.split("/")[2])
    return None


@contextmanager
def locked(
    log_dirs: Sequence[str], *, to_change: bool, beside_preparations: bool = False
) -> Iterator[Sequence[LogDir]]:
    """Lock the log directories and survey them again under the lock; see `winnow.logdir.lock`.

    Raises LogDirInUseError if another run prepares a directory that is to be changed, unless
    `beside_preparations`: what that run stages would remain.
    """
    storage = Places()
    with ExitStack() as locks:
        if not to_change:
            log_dirs = canonical_paths(storage, log_dirs)
            locks.enter_context(read_views_of_brokers(log_dirs))
        # Survey first without the lock: `.lock` is created only where a broker would create it.
        for log_dir in survey_log_dirs(storage, log_dirs, to_change=to_change):
            if log_dir.in_doubt:
                continue
            locks.enter_context(
                lock_log_dir(log_dir.path) if to_change else lock_to_read(log_dir.path)
            )
            if to_change:
                if not beside_preparations and not is_remote(log_dir.path):
                    locks.enter_context(alone_on(log_dir.path, needed=False))
                storage.settle(log_dir.path)
        surveyed = survey_log_dirs(storage, log_dirs, to_change=to_change)
        for log_dir in surveyed if to_change else ():
            _check_still_locked(log_dir)
        yield surveyed


def _check_still_locked(log_dir: LogDir) -> None:
    """Raise LogDirInUseError if a broker that was just ending has removed the `.lock` after it was
    locked here.
    """
    if not (
        is_remote(log_dir.path) or log_dir.in_doubt or Places().exists(f"{log_dir.path}/{LOCK}")
    ):
        raise LogDirInUseError(
            f"the log directory {log_dir.path} was in use until now",
            found=f"no {LOCK}, which a broker removes when it stops",
            hint="Run again.",
        )
