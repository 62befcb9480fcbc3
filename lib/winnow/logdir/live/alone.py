"""Keep two runs of Winnow off one log directory where the broker's lock does not: `prepare` runs
beside a broker (S8.12).
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import ExitStack

from winnow.errors import LogDirInUseError
from winnow.storage.guarded import naming, open_dir


def alone_on(log_dir: str, *, needed: bool) -> ExitStack:
    """Keep other preparations, and runs that change the logs, away from a log directory until
    `close()` or the end of the `with` block. Raises LogDirInUseError if there is one.

    The lock leaves no file, brokers do not look at it, and it ends with the process. `needed`:
    raise OSError where the file system has no such lock, as NFS has none on directories.
    """
    descriptor = open_dir(log_dir)
    lock = ExitStack()
    lock.callback(os.close, descriptor)
    try:
        with naming(log_dir):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno == errno.EWOULDBLOCK:
            lock.close()
            raise LogDirInUseError(
                "another run of Winnow prepares or changes this log directory",
                where=log_dir,
                hint="Wait until that run has ended, or stop it.",
            ) from None
        if needed:
            lock.close()
            raise
    return lock
