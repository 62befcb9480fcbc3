"""Unaligned loads, stores and copies for kernels, one machine instruction each.

None of them checks bounds: the caller has done so. Under NUMBA_BOUNDSCHECK=1, with which the tests
run once, a missing check raises an IndexError. All integers are int64 or uint64, because numba
turns a mix of the two into a float.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_memcpy: Any = cgutils.raw_memcpy
_if_unlikely: Any = cgutils.if_unlikely
_LITTLE = sys.byteorder == "little"


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, pos: Any, bits: int) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [pos]), ir.IntType(bits).as_pointer())


def check_bounds(
    context: Any, builder: Any, array_type: Any, array: Any, pos: Any, size: Any
) -> None:
    """Check `size` bytes from `pos` on, if numba is told to check bounds."""
    if not context.enable_boundscheck:
        return
    room = builder.sub(context.make_array(array_type)(context, builder, array).nitems, pos)
    zero = ir.Constant(ir.IntType(64), 0)
    outside = builder.or_(builder.icmp_signed("<", pos, zero), builder.icmp_signed("<", size, zero))
    outside = builder.or_(outside, builder.icmp_signed(">", size, room))
    with _if_unlikely(builder, outside):
        context.call_conv.return_user_exc(builder, IndexError, ("bytes are out of bounds",))


def _bytes_of(bits: int) -> Any:
    return ir.Constant(ir.IntType(64), bits // 8)


def _swapped(builder: Any, word: Any, bits: int, *, big_endian: bool) -> Any:
    return builder.bswap(word) if bits > 8 and big_endian == _LITTLE else word


def _load(bits: int, *, big_endian: bool, signed: bool = False) -> Callable[..., Any]:
    def load(typingctx: Any, buf: Any, pos: Any) -> Any:
        del typingctx, pos

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            check_bounds(context, builder, signature.args[0], args[0], args[1], _bytes_of(bits))
            pointer = _pointer(context, builder, signature.args[0], args[0], args[1], bits)
            word = _swapped(builder, builder.load(pointer, align=1), bits, big_endian=big_endian)
            widened = builder.sext if signed else builder.zext
            return word if bits == 64 else widened(word, ir.IntType(64))

        return (types.uint64 if bits == 64 else types.int64)(buf, types.int64), codegen

    return load


def _store(bits: int, *, big_endian: bool = True) -> Callable[..., Any]:
    def store(typingctx: Any, buf: Any, pos: Any, value: Any) -> Any:
        del typingctx, pos, value

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            check_bounds(context, builder, signature.args[0], args[0], args[1], _bytes_of(bits))
            pointer = _pointer(context, builder, signature.args[0], args[0], args[1], bits)
            word = args[2] if bits == 64 else builder.trunc(args[2], ir.IntType(bits))
            builder.store(_swapped(builder, word, bits, big_endian=big_endian), pointer, align=1)
            return context.get_dummy_value()

        return types.void(buf, types.int64, types.int64), codegen

    return store


def _copy(typingctx: Any, out: Any, at: Any, buf: Any, pos: Any, size: Any) -> Any:
    del typingctx, at, pos, size

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        check_bounds(context, builder, signature.args[0], args[0], args[1], args[4])
        check_bounds(context, builder, signature.args[2], args[2], args[3], args[4])
        into = _pointer(context, builder, signature.args[0], args[0], args[1], 8)
        source = _pointer(context, builder, signature.args[2], args[2], args[3], 8)
        _memcpy(builder, into, source, args[4], ir.Constant(ir.IntType(64), 1))
        return context.get_dummy_value()

    return types.void(out, types.int64, buf, types.int64, types.int64), codegen


def _address(typingctx: Any, buf: Any, pos: Any, size: Any) -> Any:
    del typingctx, pos, size

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        check_bounds(context, builder, signature.args[0], args[0], args[1], args[2])
        return builder.ptrtoint(
            _pointer(context, builder, signature.args[0], args[0], args[1], 8), ir.IntType(64)
        )

    return types.int64(buf, types.int64, types.int64), codegen


load_byte: Any = intrinsic(_load(8, big_endian=False))
"""load_byte(buf, pos) -> int64 in 0..255."""
load_word: Any = intrinsic(_load(64, big_endian=False))
"""load_word(buf, pos) -> uint64, little-endian."""
load_be16: Any = intrinsic(_load(16, big_endian=True))
load_be32: Any = intrinsic(_load(32, big_endian=True))
"""load_be32(buf, pos) -> int64 in 0..2^32-1."""
load_int16: Any = intrinsic(_load(16, big_endian=True, signed=True))
load_int32: Any = intrinsic(_load(32, big_endian=True, signed=True))
"""load_int32(buf, pos) -> int64 in -2^31..2^31-1: Kafka's int32."""
load_le32: Any = intrinsic(_load(32, big_endian=False))
load_be64: Any = intrinsic(_load(64, big_endian=True))
"""load_be64(buf, pos) -> uint64."""
store_byte: Any = intrinsic(_store(8))
"""store_byte(out, at, value): the low byte of an int64."""
store_be16: Any = intrinsic(_store(16))
store_be32: Any = intrinsic(_store(32))
store_be64: Any = intrinsic(_store(64))
store_le32: Any = intrinsic(_store(32, big_endian=False))
copy_bytes: Any = intrinsic(_copy)
"""copy_bytes(out, at, buf, pos, size): `memcpy`; the two must not overlap."""
address_of: Any = intrinsic(_address)
"""address_of(buf, pos, size): address of the `size` bytes from `pos` on, for C functions."""
