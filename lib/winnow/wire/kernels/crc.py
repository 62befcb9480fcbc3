"""Checksums of batches: CRC-32C for v2, CRC-32 for v0 and v1 (S2.1, S2.2).

CRC-32C uses the host CPU's instructions: carry-less multiplication
(`winnow.wire.kernels.crc_folding`), else the one for CRC-32C (8 bytes at once), else eight tables.
It is chosen automatically; `CRC32C_BY` reports which.
"""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from winnow.compiled import njit, target_features
from winnow.wire.buffers import Bytes
from winnow.wire.kernels.crc_folding import FEATURES, folded_by, step_bytes, widest_folding
from winnow.wire.kernels.memory import load_byte, load_word

_POLYNOMIAL = 0x82F63B78
_POLYNOMIAL_IEEE = 0xEDB88320


def _tables(polynomial: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    tables = np.zeros((8, 256), np.uint32)
    for i in range(256):
        crc = i
        for _ in range(8):
            crc = crc >> 1 ^ (polynomial if crc & 1 else 0)
        tables[0, i] = crc
    for k in range(1, 8):
        tables[k] = tables[k - 1] >> np.uint32(8) ^ tables[0, tables[k - 1] & 0xFF]
    return tables


_TABLES = _tables(_POLYNOMIAL)
_TABLES_IEEE = _tables(_POLYNOMIAL_IEEE)

_FEATURES = target_features()
_FOLDED_WORDS = widest_folding(_FEATURES)


def _instruction() -> str:
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64") and _FEATURES.get("sse4.2"):
        return "folding" if _FOLDED_WORDS else "sse4.2"
    if machine in ("aarch64", "arm64") and _FEATURES.get("crc"):
        return "aarch64"
    return "tables"


CRC32C_BY = _instruction()
"""`folding`, `sse4.2`, `aarch64` or `tables`."""


_function: Any = cgutils.get_or_insert_function


def _word_step(typingctx: Any, crc: Any, word: Any) -> Any:
    del typingctx, crc, word

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del context, signature
        i32, i64 = ir.IntType(32), ir.IntType(64)
        if CRC32C_BY != "aarch64":
            kind = ir.FunctionType(i64, [i64, i64])
            step = _function(builder.module, kind, "llvm.x86.sse42.crc32.64.64")
            return builder.call(step, args)
        kind = ir.FunctionType(i32, [i32, i64])
        step = _function(builder.module, kind, "llvm.aarch64.crc32cx")
        return builder.zext(builder.call(step, [builder.trunc(args[0], i32), args[1]]), i64)

    return types.uint64(types.uint64, types.uint64), codegen


_crc_word: Any = intrinsic(_word_step)


@njit(cache=True, nogil=True)
def _by_tables(
    tables: np.ndarray[tuple[int, int], np.dtype[np.uint32]],
    crc: np.uint64,
    buf: Bytes,
    pos: int,
    end: int,
) -> np.uint32:
    short = np.uint32(crc)
    byte = np.uint64(0xFF)
    while pos + 8 <= end:
        word = load_word(buf, pos) ^ np.uint64(short)
        short = (
            tables[7, word & byte]
            ^ tables[6, (word >> np.uint64(8)) & byte]
            ^ tables[5, (word >> np.uint64(16)) & byte]
            ^ tables[4, (word >> np.uint64(24)) & byte]
            ^ tables[3, (word >> np.uint64(32)) & byte]
            ^ tables[2, (word >> np.uint64(40)) & byte]
            ^ tables[1, (word >> np.uint64(48)) & byte]
            ^ tables[0, word >> np.uint64(56)]
        )
        pos += 8
    while pos < end:
        short = tables[0, (short ^ np.uint32(load_byte(buf, pos))) & np.uint32(0xFF)] ^ (
            short >> np.uint32(8)
        )
        pos += 1
    return short ^ np.uint32(0xFFFFFFFF)


@njit(cache=True, nogil=True)
def _advanced_by_tables(crc: np.uint64, buf: Bytes, pos: int, end: int) -> np.uint32:
    return _by_tables(_TABLES, crc, buf, pos, end)


@njit(cache=True, nogil=True, forceinline=True)
def _advanced_by_instruction(crc: np.uint64, buf: Bytes, pos: int, end: int) -> np.uint32:
    while pos + 8 <= end:
        crc = _crc_word(crc, load_word(buf, pos))
        pos += 8
    short = np.uint32(crc)
    while pos < end:
        short = _TABLES[0, (short ^ np.uint32(load_byte(buf, pos))) & np.uint32(0xFF)] ^ (
            short >> np.uint32(8)
        )
        pos += 1
    return short ^ np.uint32(0xFFFFFFFF)


_folded = folded_by(_FOLDED_WORDS or min(FEATURES))
_STEP_BYTES = step_bytes(_FOLDED_WORDS or min(FEATURES))


@njit(cache=True, nogil=True, forceinline=True)
def _advanced_by_folding(crc: np.uint64, buf: Bytes, pos: int, end: int) -> np.uint32:
    steps = (end - pos) // _STEP_BYTES
    if steps > 0:
        crc = _folded(crc, buf, pos, steps)
    return _advanced_by_instruction(crc, buf, pos + steps * _STEP_BYTES, end)


_advanced: Any = {"folding": _advanced_by_folding, "tables": _advanced_by_tables}.get(
    CRC32C_BY, _advanced_by_instruction
)
"""Continue a CRC-32C with buf[pos:end]. The state is in the lower 32 bits; the others are 0."""


@njit(cache=True, nogil=True)
def crc32c(buf: Bytes, start: int, end: int) -> np.uint32:
    """Return the CRC-32C of buf[start:end]. The caller has checked 0 <= start <= end <= size."""
    return _advanced(np.uint64(0xFFFFFFFF), buf, start, end)  # type: ignore[no-any-return]


@njit(cache=True, nogil=True)
def crc32_part(buf: Bytes, start: int, end: int) -> np.uint32:
    """Return the CRC-32 (IEEE) of buf[start:end]. The caller has checked these bounds."""
    return _by_tables(_TABLES_IEEE, np.uint64(0xFFFFFFFF), buf, start, end)


@njit(cache=True, nogil=True)
def extended(crc: np.uint32, buf: Bytes, start: int, end: int) -> np.uint32:
    """Return the CRC-32C of some bytes, whose own is `crc`, followed by buf[start:end]."""
    return _advanced(np.uint64(crc ^ np.uint32(0xFFFFFFFF)), buf, start, end)  # type: ignore[no-any-return]
