"""Run kernels that read and write out of bounds, in a process of its own, under
NUMBA_BOUNDSCHECK=1. Prints the names of those that raised IndexError. Nothing is cached, so all are
compiled with the same setting.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import config, njit

from winnow.wire.buffers import Bytes
from winnow.wire.kernels.memory import copy_bytes, load_be32, load_byte, store_be16

INSIDE = 4
"""The last position at which four bytes of eight can be read."""

kernel: Any = njit(nogil=True, _nrt=False)
inlined: Any = njit(nogil=True, _nrt=False, forceinline=True)


@kernel
def index(buf: Bytes, at: int) -> int:
    return int(buf[at])


@kernel
def load(buf: Bytes, at: int) -> int:
    return load_be32(buf, at)  # type: ignore[no-any-return]


@inlined
def _inner(buf: Bytes, at: int) -> int:
    return load_byte(buf, at)  # type: ignore[no-any-return]


@kernel
def load_inlined(buf: Bytes, at: int) -> int:
    return _inner(buf, at + 3)  # type: ignore[no-any-return]


@kernel
def store(buf: Bytes, at: int) -> int:
    store_be16(buf, at + 2, 1)
    return 0


@kernel
def copy_out(buf: Bytes, at: int) -> int:
    copy_bytes(buf, 0, buf, at, 4)
    return 0


@kernel
def copy_in(buf: Bytes, at: int) -> int:
    copy_bytes(buf, at, buf, 0, 4)
    return 0


@kernel
def copy_nothing_backwards(buf: Bytes, at: int) -> int:
    copy_bytes(buf, 0, buf, 4, INSIDE - at)
    return 0


def raises(function: Callable[[Bytes, int], int], at: int) -> bool:
    try:
        function(np.zeros(8, np.uint8), at)
    except IndexError:
        return True
    return False


def main() -> None:
    if not config.BOUNDSCHECK:
        sys.exit("only under NUMBA_BOUNDSCHECK=1: without it, this writes where it must not")
    for function in (index, load, load_inlined, store, copy_out, copy_in, copy_nothing_backwards):
        if not raises(function, INSIDE) and raises(function, 8):
            sys.stdout.write(f"{function.__name__}\n")


if __name__ == "__main__":
    main()
