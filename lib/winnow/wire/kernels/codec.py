"""Compress and decompress many batches of lz4 or zstd at once, with C functions called from jitted
code (S2.4).

The kernels accept only the usual case: one whole frame as Java writes it, within its limits. A
kernel stops at the first other batch. `winnow.wire.codecs` decides what that batch is and what to
report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from winnow.batch_memory import batch_budget
from winnow.wire.batch import Codec
from winnow.wire.buffers import Bytes
from winnow.wire.codecs import LZ4_BLOCK
from winnow.wire.kernels.c_codecs import c_function
from winnow.wire.kernels.memory import (
    address_of,
    copy_bytes,
    load_byte,
    load_le32,
    load_word,
    store_be32,
    store_le32,
)
from winnow.wire.kernels.record import inlined, kernel
from winnow.wire.sink import Sink

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LZ4 = int(Codec.LZ4)
_LZ4_MAGIC, _LZ4_START, _LZ4_STORED = 0x04224D18, 0x60408200, 0x80000000
_LZ4_HEADER = int.from_bytes(bytes.fromhex("04224d18604082"), "little")
_LZ4_HEADER_SIZE, _LZ4_HEADER_MASK = 7, np.uint64(2**56 - 1)
_LZ4_SMALLEST = _LZ4_HEADER_SIZE + 4
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_BLOCK = 128 * 1024
_ZSTD_LARGEST_WINDOW = 26
"""As a power of 2. Libraries refuse streams beyond the next power unless told otherwise."""
_ZSTD_RLE, _ZSTD_COMPRESSED = 1, 2
_ZSTD_SMALLEST = 9
"""Bytes of a frame with an empty block."""
_UNUSUAL = -1


def _c_function(result: int, *arguments: int) -> Any:
    """Generate a call of a function at an address. Arguments are integers of these bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del context, signature
        kind = ir.FunctionType(ir.IntType(result), [ir.IntType(bits) for bits in arguments])
        function = builder.inttoptr(args[0], kind.as_pointer())
        given = [
            arg if bits == 64 else builder.trunc(arg, ir.IntType(bits))
            for bits, arg in zip(arguments, args[1:], strict=True)
        ]
        got = builder.call(function, given)
        return got if result == 64 else builder.sext(got, ir.IntType(64))

    return types.int64(*[types.int64] * (1 + len(arguments))), codegen


def _lz4_call(typingctx: Any, function: Any, source: Any, into: Any, size: Any, room: Any) -> Any:
    del typingctx, function, source, into, size, room
    return _c_function(32, 64, 64, 32, 32)


def _zstd_call(
    typingctx: Any, function: Any, zstd: Any, into: Any, room: Any, source: Any, size: Any
) -> Any:
    del typingctx, function, zstd, into, room, source, size
    return _c_function(64, 64, 64, 64, 64, 64)


_call_lz4: Any = intrinsic(_lz4_call)
_call_zstd: Any = intrinsic(_zstd_call)


def decompress_many(
    sink: Sink,
    raw: Bytes,
    codecs: NDArray[np.int64],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    chosen: NDArray[np.int64],
    *,
    limit: int,
    enough: int,
) -> int:
    """Append the payloads of the leading `chosen` batches to `sink`, up to one that is not
    usual.

    `codecs`, `begin` and `end` have an item per batch. For finished batches, `begin` and `end`
    become positions in the sink. `limit`: bytes of one batch; `enough`: bytes in the sink after
    which no other batch is started. Returns how many are finished.
    """
    codec = int(codecs[chosen[0]])
    function, context = c_function(codec, compresses=False)
    if not function:
        return 0
    done, used = _decompress(
        raw,
        codecs,
        begin,
        end,
        chosen,
        sink.rest(),
        sink.used,
        min(limit, batch_budget()),
        enough,
        codec,
        function,
        context,
    )
    sink.commit(used)
    return int(done)


def compress_many(
    sink: Sink,
    records: Bytes,
    bounds: NDArray[np.int64],
    codecs: NDArray[np.int64],
    chosen: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> int:
    """Append payloads of the leading `chosen` batches to `sink`, while there is room for them.

    `codecs` and `sizes` have an item per batch; its records are those from `bounds[i]` to `bounds[i
    + 1]`. `sizes` is filled in for finished batches. Returns how many are finished.
    """
    codec = int(codecs[chosen[0]])
    function, context = c_function(codec, compresses=True)
    if not function:
        return 0
    done, used = _compress(
        records, bounds, codecs, chosen, sink.rest(), sizes, codec, function, context
    )
    sink.commit(used)
    return int(done)


@kernel
def _decompress(
    raw: Bytes,
    codecs: NDArray[np.int64],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    chosen: NDArray[np.int64],
    out: Bytes,
    before: int,
    limit: int,
    enough: int,
    codec: int,
    function: int,
    context: int,
) -> tuple[int, int]:
    """Return (batches finished, bytes filled of `out`). Stops before a batch of another codec."""
    used = 0
    for k in range(chosen.size):
        i = chosen[k]
        if codecs[i] != codec or before + used >= enough:
            return k, used
        most = min(limit, out.size - used)
        size = decompress_payload(
            codec, (function, context), raw, begin[i], end[i], out, used, most
        )
        if size < 0:
            return k, used
        begin[i] = before + used
        used += size
        end[i] = before + used
    return chosen.size, used


@inlined
def decompress_payload(
    codec: int,
    call: tuple[int, int],
    raw: Bytes,
    begin: int,
    end: int,
    out: Bytes,
    used: int,
    most: int,
) -> int:
    """Decompress bytes [begin, end) of `raw`, and write them to `out` from byte `used` on. At most
    `most` bytes are written. The caller checks both ranges.

    `call`: what `c_function` returns for lz4 or zstd. Return the number of decompressed bytes, or
    less than 0 for a payload that is not usual.
    """
    function, context = call
    if codec == _LZ4:
        return _lz4_frame(raw, begin, end, out, used, most, function)  # type: ignore[no-any-return]
    return _zstd_frame(raw, begin, end, out, used, most, function, context)  # type: ignore[no-any-return]


@inlined
def _lz4_frame(raw: Bytes, begin: int, end: int, out: Bytes, used: int, most: int, lz4: int) -> int:
    """Decompress a frame. Return its decompressed bytes, or _UNUSUAL."""
    if end - begin < _LZ4_SMALLEST or (load_word(raw, begin) & _LZ4_HEADER_MASK) != np.uint64(
        _LZ4_HEADER
    ):
        return _UNUSUAL
    at, size = begin + _LZ4_HEADER_SIZE, 0
    while at + 4 <= end:
        word = load_le32(raw, at)
        at += 4
        if word == 0:
            return size if at == end else _UNUSUAL
        length = word & ~_LZ4_STORED
        room = min(LZ4_BLOCK, most - size)
        if room <= 0 or length > LZ4_BLOCK or length > end - at:
            return _UNUSUAL
        if word == length:
            into = address_of(out, used + size, room)
            got = _call_lz4(lz4, address_of(raw, at, length), into, length, room)
        else:
            got = length if length <= room else _UNUSUAL
            copy_bytes(out, used + size, raw, at, max(got, 0))
        if got < 0:
            return _UNUSUAL
        size += got
        at += length
    return _UNUSUAL


@inlined
def _zstd_frame(
    raw: Bytes, begin: int, end: int, out: Bytes, used: int, most: int, zstd: int, context: int
) -> int:
    """Decompress a frame. Return its decompressed bytes, or less than 0."""
    room = min(most, _zstd_bound(raw, begin, end))
    if room < 0:
        return _UNUSUAL
    source = address_of(raw, begin, end - begin)
    return _call_zstd(zstd, context, address_of(out, used, room), room, source, end - begin)  # type: ignore[no-any-return]


@inlined
def _zstd_bound(raw: Bytes, begin: int, end: int) -> int:
    """Return the maximum decompressed bytes by its blocks' headers; _UNUSUAL if not one frame."""
    if end - begin < _ZSTD_SMALLEST or load_le32(raw, begin) != _ZSTD_MAGIC:
        return _UNUSUAL
    flags = load_byte(raw, begin + 4)
    if (flags & 0x0B) != 0:  # a reserved bit, or a dictionary
        return _UNUSUAL
    single, content = (flags & 0x20) != 0, flags >> 6
    at = begin + 5 + (1 << content if single or content != 0 else 0) + (0 if single else 1)
    window = 0 if single else (load_byte(raw, begin + 5) >> 3) + 10
    bound, last = 0, 0
    while last == 0:
        if at + 3 > end:
            return _UNUSUAL
        header = load_byte(raw, at) | (load_byte(raw, at + 1) << 8) | (load_byte(raw, at + 2) << 16)
        last, kind, size = header & 1, (header >> 1) & 3, header >> 3
        if size > _ZSTD_BLOCK or kind > _ZSTD_COMPRESSED:
            return _UNUSUAL
        bound += _ZSTD_BLOCK if kind == _ZSTD_COMPRESSED else size
        at += 3 + (1 if kind == _ZSTD_RLE else size)
    usual = (
        at + (flags & 0x04) == end
        and window <= _ZSTD_LARGEST_WINDOW
        and bound <= 1 << _ZSTD_LARGEST_WINDOW
    )
    return bound if usual else _UNUSUAL


@kernel
def _compress(
    records: Bytes,
    bounds: NDArray[np.int64],
    codecs: NDArray[np.int64],
    chosen: NDArray[np.int64],
    out: Bytes,
    sizes: NDArray[np.int64],
    codec: int,
    function: int,
    context: int,
) -> tuple[int, int]:
    """Return (batches finished, bytes filled of `out`). Stops before a batch of another codec."""
    used = 0
    for k in range(chosen.size):
        i = chosen[k]
        if codecs[i] != codec:
            return k, used
        size = compress_payload(
            codec, (function, context), records, bounds[i], bounds[i + 1], out, used
        )
        if size < 0:
            return k, used
        sizes[i] = size
        used += size
    return chosen.size, used


@inlined
def compress_payload(
    codec: int, call: tuple[int, int], records: Bytes, begin: int, end: int, out: Bytes, used: int
) -> int:
    """Compress bytes [begin, end) of `records`, and write them to `out` from byte `used` on. The
    caller checks the range.

    `call`: what `c_function` returns for lz4 or zstd. Return the number of compressed bytes, or
    less than 0 if `out` may be too small.
    """
    function, context = call
    if codec == _LZ4:
        return _to_lz4(records, begin, end, out, used, function)  # type: ignore[no-any-return]
    room = out.size - used
    into, source = address_of(out, used, room), address_of(records, begin, end - begin)
    return _call_zstd(function, context, into, room, source, end - begin)  # type: ignore[no-any-return]


@inlined
def _to_lz4(records: Bytes, begin: int, end: int, out: Bytes, used: int, lz4: int) -> int:
    """Write a frame. Return its bytes, or _UNUSUAL if there may not be room for it."""
    size = end - begin
    if out.size - used < _LZ4_SMALLEST + size + size // 255 + (size // LZ4_BLOCK + 1) * 32:
        return _UNUSUAL
    store_be32(out, used, _LZ4_MAGIC)
    store_be32(out, used + 4, _LZ4_START)  # and the first byte of what follows
    at = used + _LZ4_HEADER_SIZE
    while begin < end:
        length = min(LZ4_BLOCK, end - begin)
        room = length + length // 255 + 16
        got = _call_lz4(
            lz4, address_of(records, begin, length), address_of(out, at + 4, room), length, room
        )
        if got <= 0:
            return _UNUSUAL
        if got < length:
            store_le32(out, at, got)
        else:
            store_le32(out, at, length | _LZ4_STORED)
            copy_bytes(out, at + 4, records, begin, length)
            got = length
        at += 4 + got
        begin += length
    store_le32(out, at, 0)
    return at + 4 - used
