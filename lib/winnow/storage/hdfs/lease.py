"""The lease on a log directory in HDFS.

The holder renews it by setting its modification time. Another run takes it over by renaming it
aside, which only one of two can do. It then looks at the renamed file: if it was renewed in the
meantime, it is put back. Until that is decided, the renamed file lies beside the lease. A run that
finds such a file does not take a lease that seems to be free.
"""

from __future__ import annotations

import errno
import secrets
import time
from contextlib import suppress

from winnow.storage.contract import os_error
from winnow.storage.hdfs.storage import HdfsStorage
from winnow.storage.lease_file import LEASE, LeaseFile, Seen

_MS = 10**6


class HdfsLeaseFile(LeaseFile):
    """A version is a name and a modification time in ns."""

    def __init__(self, log_dir: str) -> None:
        self._directory = log_dir
        self._storage = HdfsStorage(log_dir)

    def look(self) -> Seen | None:
        for name in (LEASE, *self._displaced()):
            with suppress(FileNotFoundError):
                return self._look_at(name)
        return None

    def renew(self, mine: Seen, data: bytes) -> Seen:
        del data
        later = max(time.time_ns(), _mtime_ns(mine) + _MS)
        self._storage.set_mtime_ns(self._at(LEASE), later)
        # Check afterwards: a lease never returns once somebody else's is there. So if this lease is
        # there now, it is the one that was touched. Otherwise another one is a moment younger,
        # which does no harm.
        seen = self._look_at(LEASE)
        if seen.data != mine.data:
            raise FileNotFoundError(errno.ENOENT, "somebody else holds the lease", self._at(LEASE))
        return seen

    def take(self, data: bytes, expired: Seen | None) -> Seen:
        if expired is None:
            return self._create(data, displaced=None)
        name, lease = expired.version.rpartition(" ")[0], self._at(LEASE)
        if name == LEASE:
            name = f"{LEASE}.{secrets.token_hex(8)}"
            try:
                self._storage.move(lease, self._at(name))
            except FileNotFoundError:
                raise os_error(errno.EEXIST, lease) from None
            if self._storage.entry(self._at(name)).mtime_ns != _mtime_ns(expired):
                with suppress(FileExistsError):
                    self._storage.move(self._at(name), lease)
                raise os_error(errno.EEXIST, lease)
        elif name not in self._displaced():
            raise os_error(errno.EEXIST, lease)
        try:
            return self._create(data, displaced=name)
        finally:  # it has expired, whoever is next
            with suppress(FileNotFoundError):
                self._storage.unlink(self._at(name))

    def remove(self, mine: Seen) -> None:
        with suppress(FileNotFoundError):
            if self._look_at(LEASE).data == mine.data:
                self._storage.unlink(self._at(LEASE))

    def _create(self, data: bytes, *, displaced: str | None) -> Seen:
        """Create the lease. `displaced`: a renamed file that is known to have expired."""
        self._storage.create(self._at(LEASE), data)
        try:
            seen = Seen(data, self._look_at(LEASE).version)
        except FileNotFoundError:  # a run that wanted the one before has moved it, and puts it back
            raise os_error(errno.EEXIST, self._at(LEASE)) from None
        if not self._displaced() <= {displaced}:
            self.remove(seen)
            raise os_error(errno.EEXIST, self._at(LEASE))
        return seen

    def _displaced(self) -> set[str | None]:
        try:
            names = [entry.name for entry in self._storage.list_dir(self._directory)]
        except FileNotFoundError:  # there is no directory either
            return set()
        return {name for name in names if name.startswith(f"{LEASE}.")}

    def _look_at(self, name: str | None) -> Seen:
        path = self._at(name)
        mtime_ns = self._storage.entry(path).mtime_ns
        return Seen(self._storage.read_bytes(path), f"{name} {mtime_ns}")

    def _at(self, name: str | None) -> str:
        return f"{self._directory}/{name}"


def _mtime_ns(seen: Seen) -> int:
    return int(seen.version.rpartition(" ")[2])
