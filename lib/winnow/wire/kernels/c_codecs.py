"""Find C functions in the codecs' packages, which kernels call without Python between two batches.

Packages don't promise to export them. If one does not, its kernels are not used. The Python
functions that it does promise do all of the work then (docs/decisions/0033).
"""

from __future__ import annotations

import ctypes
import importlib.util
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from winnow.wire.codecs import ZSTD_LEVEL

_COMPRESSION_LEVEL, _CONTENT_SIZE = 100, 200  # of `ZSTD_cParameter`
_local = threading.local()


@dataclass(frozen=True, slots=True)
class Lz4:
    """Addresses of `int f(source, destination, source size, room)`. The result is negative on
    failure; `compress` returns 0 instead.
    """

    decompress: int
    compress: int


@dataclass(frozen=True, slots=True)
class Zstd:
    """Addresses of `size_t f(context, destination, room, source, source size)`; below 0: failed."""

    library: ctypes.CDLL
    decompress: int
    compress: int

    def decompressor(self) -> int:
        """Return this thread's context for `decompress`, which is expensive to make."""
        if not hasattr(_local, "decompressor"):
            _local.decompressor = _Context(self.library, "DCtx")
        return int(_local.decompressor.address)

    def compressor(self) -> int:
        """Return this thread's context for `compress`: ZSTD_LEVEL, no size, no checksum."""
        if not hasattr(_local, "compressor"):
            context = _Context(self.library, "CCtx")
            for parameter, value in ((_COMPRESSION_LEVEL, ZSTD_LEVEL), (_CONTENT_SIZE, 0)):
                self.library.ZSTD_CCtx_setParameter(
                    ctypes.c_void_p(context.address), parameter, value
                )
            _local.compressor = context
        return int(_local.compressor.address)


class _Context:
    """Memory that belongs to the library and is returned to it at the end."""

    def __init__(self, library: ctypes.CDLL, kind: str) -> None:
        create, self._free = library[f"ZSTD_create{kind}"], library[f"ZSTD_free{kind}"]
        create.restype = ctypes.c_void_p
        self.address = create()
        if self.address is None:
            raise MemoryError("no memory for a context of zstd")

    def __del__(self) -> None:
        self._free(ctypes.c_void_p(self.address))


@cache
def lz4_functions() -> Lz4 | None:
    """None if unavailable."""
    try:
        library = _library("lz4.block._block")
        return Lz4(_address(library.LZ4_decompress_safe), _address(library.LZ4_compress_default))
    except (ImportError, OSError, AttributeError):
        return None


@cache
def zstd_functions() -> Zstd | None:
    """None if unavailable."""
    try:
        library = _library("zstandard._cffi")
        return Zstd(
            library, _address(library.ZSTD_decompressDCtx), _address(library.ZSTD_compress2)
        )
    except (ImportError, OSError, AttributeError):
        return None


def _library(module: str) -> ctypes.CDLL:
    """Load the file of an extension module as the C library that is linked into it."""
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(module)
    return ctypes.CDLL(found.origin)


def _address(function: Callable[..., object]) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]
