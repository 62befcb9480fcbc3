"""Root without the rights of root, in this thread: it is let by modes and owners as any other user
is, and as the brokers here are.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

DAC_OVERRIDE, DAC_READ_SEARCH = 1, 2
_VERSION_3 = 0x20080522
_WORDS = 2


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Data(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


@contextmanager
def without_rights() -> Iterator[None]:
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, data = _Header(_VERSION_3, 0), (_Data * _WORDS)()
    _call(libc.capget, header, data)
    kept = data[0].effective
    data[0].effective = kept & ~(1 << DAC_OVERRIDE | 1 << DAC_READ_SEARCH)
    _call(libc.capset, header, data)
    try:
        yield
    finally:
        data[0].effective = kept
        _call(libc.capset, header, data)


def _call(function: object, header: _Header, data: ctypes.Array[_Data]) -> None:
    if function(ctypes.byref(header), data) != 0:  # type: ignore[operator]
        raise OSError(ctypes.get_errno(), "capabilities can't be changed")
