"""Keep memory that a worker has freed for its next task, within bounds."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # glibc's `mallopt`
_NEVER = 256 * 2**20
_GROWTH_BYTES = 64 * 2**20
_HELD_BYTES = 144 * 2**20
"""A worker has two thirds of it before its first task."""


def keep_freed_memory() -> None:
    """Return freed large arrays to glibc's heap, not to the system, which would map them again page
    by page.

    Each split needs arrays of the same sizes as the previous one. Other C libraries are left
    unchanged.
    """
    if (mallopt := _of_glibc("mallopt")) is not None:
        mallopt(_TRIM_THRESHOLD, _NEVER)
        mallopt(_MMAP_THRESHOLD, _NEVER)
        mallopt(_TOP_PAD, _GROWTH_BYTES)


def give_back_freed_memory() -> None:
    """Return what this process has freed to the system if it holds more than most tasks need."""
    if (trim := _of_glibc("malloc_trim")) is not None and _held_bytes() > _HELD_BYTES:
        trim(0)


def _held_bytes() -> int:
    """Return how much memory of its own this process has, or shares with those it was forked
    from. Not that of mapped files.
    """
    _, resident, shared, *_ = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGESIZE")


def _of_glibc(name: str) -> ctypes._NamedFuncPointer | None:
    found: ctypes._NamedFuncPointer | None = getattr(ctypes.CDLL(None), name, None)
    return found
