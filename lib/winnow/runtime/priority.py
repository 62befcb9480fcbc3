"""The priority of Spark's Python workers beside a running broker (S8.11)."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from functools import cache

_NICE = 10
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
"""Numbers of the system call."""
_THIS_THREAD = 1
_IDLE = 3 << 13
"""I/O class: only when no other process needs the disk."""


@cache
def lower_priority() -> None:
    """Set `nice 10` and the idle I/O class for the rest of this process."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, max(_NICE, os.getpriority(os.PRIO_PROCESS, 0)))
    number = _IOPRIO_SET.get(os.uname().machine)
    if number is not None:
        ctypes.CDLL(None).syscall(number, _THIS_THREAD, 0, _IDLE)
