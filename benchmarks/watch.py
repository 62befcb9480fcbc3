"""When files are opened, by Linux's inotify: exact, without polling, and without slowing
anything.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

_IN_OPEN = 0x20
_EVENT = struct.Struct("iIII")
"""Watch, mask, cookie, length of the name that follows."""


class FirstOpen:
    """A context that watches `files`. Linux only; raises OSError elsewhere and for what can't be
    watched.
    """

    def __init__(self, files: Iterable[Path]) -> None:
        if not sys.platform.startswith("linux"):
            raise OSError("inotify is Linux's")
        self._files = list(files)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = -1

    def __enter__(self) -> Self:
        self._fd = self._checked(self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
        for file in self._files:
            self._checked(self._libc.inotify_add_watch(self._fd, os.fsencode(file), _IN_OPEN))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._fd)

    def wait(self, *, seconds: float) -> float | None:
        """`time.perf_counter()` of the first opening of any of the files; None if there is none in
        so many seconds.
        """
        if not select.select([self._fd], [], [], seconds)[0]:
            return None
        when = time.perf_counter()
        os.read(self._fd, 64 * (_EVENT.size + 256))
        return when

    def _checked(self, result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result
