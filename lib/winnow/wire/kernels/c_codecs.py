"""Find C functions in the codecs' packages, which kernels call without Python between two batches.

Packages don't promise to export them. If one does not, its kernels are not used. The Python
functions that it does promise do all of the work then (docs/decisions/0033).
"""

from __future__ import annotations

import ctypes
import importlib.util
import threading
from functools import cache

from winnow.wire.batch import Codec
from winnow.wire.codecs import ZSTD_LEVEL

_EXPORTED: dict[tuple[int, bool], tuple[str, str]] = {
    (Codec.LZ4, False): ("lz4.block._block", "LZ4_decompress_safe"),
    (Codec.LZ4, True): ("lz4.block._block", "LZ4_compress_default"),
    (Codec.ZSTD, False): ("zstandard._cffi", "ZSTD_decompressDCtx"),
    (Codec.ZSTD, True): ("zstandard._cffi", "ZSTD_compress2"),
}
"""By codec and whether it compresses: a module, and its C function."""
_COMPRESSION_LEVEL, _CONTENT_SIZE = 100, 200  # of `ZSTD_cParameter`
_local = threading.local()


def c_function(codec: int, *, compresses: bool) -> tuple[int, int]:
    """Return the addresses of a function and of its context; 0 for none.

    lz4: `int f(source, destination, source size, room)`. It returns less than 0 on failure, or 0
    if it compresses. zstd: `size_t f(context, destination, room, source, source size)`, below 0 on
    failure.
    """
    library, function = _exported(codec, compresses)
    if library is None or codec == Codec.LZ4:
        return function, 0
    return function, _context(library, "CCtx" if compresses else "DCtx")


@cache
def _exported(codec: int, compresses: bool) -> tuple[ctypes.CDLL | None, int]:
    """Return a function's library and address; None and 0 if it is unavailable."""
    try:
        module, name = _EXPORTED[codec, compresses]
        library = _library(module)
        return library, ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    except (KeyError, ImportError, OSError, AttributeError):
        return None, 0


def _library(module: str) -> ctypes.CDLL:
    """Load the file of an extension module as the C library that is linked into it."""
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(module)
    return ctypes.CDLL(found.origin)


def _context(library: ctypes.CDLL, kind: str) -> int:
    """Return this thread's context of zstd, which is expensive to make. One that compresses has
    ZSTD_LEVEL, and writes no size and no checksum.
    """
    if not hasattr(_local, kind):
        context = _Context(library, kind)
        if kind == "CCtx":
            for parameter, value in ((_COMPRESSION_LEVEL, ZSTD_LEVEL), (_CONTENT_SIZE, 0)):
                library.ZSTD_CCtx_setParameter(ctypes.c_void_p(context.address), parameter, value)
        setattr(_local, kind, context)
    return int(getattr(_local, kind).address)


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
