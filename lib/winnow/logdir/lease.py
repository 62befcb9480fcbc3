"""A lease on a log directory that has no locks. Its holder may change the directory as long as it
renews the lease.

The clocks of two hosts are never compared. A holder counts by its own clock, from before each
renewal, and gives up when three quarters of the length have passed without another one. A process
that finds a lease watches it by its own clock. If it is renewed, somebody holds it. If it does not
change for its whole length, it is taken over, and only one process can succeed
(`winnow.storage.lease_file`). The last quarter leaves time for writes that the holder had sent
before it gave up.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Self

from winnow.errors import CorruptLogError, LogDirInUseError
from winnow.storage.lease_file import LEASE, LeaseFile, Seen
from winnow.storage.own_json import JsonValue, parse_json
from winnow.storage.permissions import user_name
from winnow.storage.places import lift_fence, put_fence
from winnow.words import printable

LENGTH_S = 60.0
_SHORTEST_S, _LONGEST_S = 0.1, 3600.0
_MOST_BYTES = 4096
_LOOKS = 30
"""How often a watched lease is read in its length."""
_log = logging.getLogger(__name__)


def boot_clock() -> float:
    """Return seconds of a clock that nobody sets and that runs on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """A lease, renewed by a thread until `close()` or the end of the `with` block; a fence, too."""

    def __init__(
        self,
        log_dir: str,
        file: LeaseFile,
        *,
        length_s: float | None = None,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        """Take the lease. Raises LogDirInUseError, naming the holder, if somebody renews it."""
        self._log_dir, self._file, self._clock = log_dir, file, clock
        self._length_s = LENGTH_S if length_s is None else length_s
        self._renewals = 0
        self._fields: Mapping[str, object] = {
            "owner": user_name(os.geteuid()),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "token": secrets.token_hex(16),
            "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "seconds": self._length_s,
        }
        while True:
            expired = refuse_leased(log_dir, file, clock=clock)
            began = clock()
            with suppress(FileExistsError):  # another process was faster: the next look shows which
                self._seen = file.take(self._content(renewals=0), expired)
                break
        self._good_until = began + self._length_s * 3 / 4
        self._why_lost: str | None = None
        self._closed = threading.Event()
        put_fence(log_dir, self.check)
        self._thread = threading.Thread(target=self._keep, name=f"lease on {log_dir}", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise LogDirInUseError if the lease is lost. A lost lease is never regained."""
        if self._why_lost is None and self._clock() > self._good_until:
            self._why_lost = "it could not be renewed in time"
        if self._why_lost is not None:
            raise LogDirInUseError(
                f"the lease on {self._log_dir} is lost. Winnow changes nothing more there",
                found=self._why_lost,
                where=f"{self._log_dir}/{LEASE}",
                hint="Another process may be working there. `recover` repairs what this run left.",
            )

    def renew(self) -> bool:
        """Renew once. Return False if that failed, this time or for good."""
        began = self._clock()
        try:
            data = self._content(renewals=self._renewals + 1)
            self._seen = self._file.renew(self._seen, data)
        except FileNotFoundError:
            self._why_lost = "it was deleted, or somebody else holds it"
            return False
        except OSError as error:
            _log.warning("the lease on %s could not be renewed: %s", self._log_dir, error)
            return False
        self._renewals += 1
        if self._clock() <= self._good_until:  # else too late: it remains lost
            self._good_until = began + self._length_s * 3 / 4
        return True

    def close(self) -> None:
        """Release the lease unless it is lost. A failed removal is no error: the lease expires."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._thread.join(self._length_s)
        lift_fence(self._log_dir)
        try:
            self.check()
            self._file.remove(self._seen)
        except (LogDirInUseError, OSError) as error:
            _log.warning("the lease on %s could not be released: %s", self._log_dir, error)

    def _content(self, *, renewals: int) -> bytes:
        return json.dumps({**self._fields, "renewals": renewals}).encode() + b"\n"

    def _keep(self) -> None:
        wait = self._length_s / 3
        while not self._closed.wait(wait) and self._why_lost is None:
            wait = self._length_s / (3 if self.renew() else 12)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def refuse_leased(
    log_dir: str, file: LeaseFile, *, clock: Callable[[], float] = boot_clock
) -> Seen | None:
    """Return the expired lease, None if there is none. Raises LogDirInUseError if it is renewed."""
    first = file.look()
    if first is None:
        return None
    length_s = _length_s(first)
    _log.warning(
        "%s has a lease on %s: is it still renewed? It takes up to %g s",
        _holder(first),
        log_dir,
        length_s,
    )
    looked = clock()
    until = looked + length_s
    while looked < until:
        time.sleep(length_s / _LOOKS)
        seen, before, looked = file.look(), looked, clock()
        if looked - before > length_s / 4:  # while we could not look, the holder could not renew
            until = looked + length_s
        if seen is None:
            return None
        if seen.version != first.version:
            raise LogDirInUseError(
                f"the log directory {log_dir} is in use",
                found=f"its lease held by {_holder(seen)}",
                where=f"{log_dir}/{LEASE}",
                hint="Wait for that process to end, or stop it, and run again.",
            )
    return first


def _length_s(seen: Seen) -> float:
    with suppress(CorruptLogError):
        return _fields(seen, "seconds")[0].number(least=_SHORTEST_S, most=_LONGEST_S)
    return LENGTH_S


def _holder(seen: Seen) -> str:
    with suppress(CorruptLogError):
        told = [one.raw for one in _fields(seen, "owner", "pid", "host", "since")]
        if all(isinstance(one, str | int) for one in told):
            return printable("user {}, process {} on {}, since {}".format(*told))
    return "an unknown process"


def _fields(seen: Seen, *names: str) -> list[JsonValue]:
    """Return fields of the lease. Raises CorruptLogError if it is half written or damaged."""
    found = parse_json(seen.data, LEASE, most_bytes=_MOST_BYTES).fields(names, None)
    return [found[name] for name in names]
