"""CRC-32C by carry-less multiplication, for x86-64: folds a long part into few words with the same
remainder.

The bytes are a polynomial; earlier bytes stand for higher powers of x. Bits that precede others by
D bits may be multiplied by x^D modulo the CRC's polynomial and added to them. That takes two
multiplications for each 128 bits, and many of them run at once. The instruction for CRC-32C waits
for its own result before each next word.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from winnow.wire.kernels.memory import check_bounds

_POLYNOMIAL = 0x1EDC6F41
"""Polynomial of CRC-32C, without x^32, higher powers first."""
_STREAMS = 4
"""Vectors in flight at once."""
_INSTRUCTIONS = {2: "llvm.x86.pclmulqdq", 4: "llvm.x86.pclmulqdq.256", 8: "llvm.x86.pclmulqdq.512"}
"""By words of 64 bits in a vector."""
FEATURES = {8: ("vpclmulqdq", "avx512f"), 4: ("vpclmulqdq", "avx2"), 2: ("pclmul", "sse4.2")}
"""LLVM's names of the CPU features that they need, the fastest first."""
_I8, _I64 = ir.IntType(8), ir.IntType(64)
_function: Any = cgutils.get_or_insert_function
_loop: Any = cgutils.for_range
_variable: Any = cgutils.alloca_once_value


def widest_folding(features: Mapping[str, bool]) -> int:
    """Return the words in the vectors that this CPU folds best; 0 if it can't fold."""
    return next(
        (words for words, needed in FEATURES.items() if all(features.get(one) for one in needed)), 0
    )


def step_bytes(words: int) -> int:
    """Return the bytes that one step folds, with vectors of `words` words."""
    return _STREAMS * words * 8


def folded_by(words: int) -> Any:
    """Return jitted `folded(crc, buf, pos, steps) -> crc`, both uint64.

    It continues the state of the CRC over `steps` > 0 steps of `step_bytes` from `pos` on. The
    caller has checked these bytes.
    """

    def fold(typingctx: Any, crc: Any, buf: Any, pos: Any, steps: Any) -> Any:
        del typingctx, crc, pos, steps

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            crc, buf, pos, steps = args
            size = builder.mul(steps, _I64(step_bytes(words)))
            check_bounds(context, builder, signature.args[1], buf, pos, size)
            data = context.make_array(signature.args[1])(context, builder, buf).data
            return _folded(builder, words, crc, builder.gep(data, [pos]), steps)

        return types.uint64(types.uint64, buf, types.int64, types.int64), codegen

    return intrinsic(fold)


def _folded(builder: Any, words: int, crc: Any, data: Any, steps: Any) -> Any:
    vector = ir.VectorType(_I64, words)

    def loaded(step: Any, stream: int) -> Any:
        at = builder.add(builder.mul(step, _I64(step_bytes(words))), _I64(stream * words * 8))
        return builder.load(builder.bitcast(builder.gep(data, [at]), vector.as_pointer()), align=1)

    streams = [loaded(_I64(0), stream) for stream in range(_STREAMS)]
    # A CRC of earlier bytes continues over later ones if it is added to their beginning.
    before = builder.insert_element(ir.Constant(vector, [0] * words), crc, ir.IntType(32)(0))
    streams[0] = builder.xor(streams[0], before)
    held = [_variable(builder, stream) for stream in streams]
    with _loop(builder, builder.sub(steps, _I64(1))) as loop:
        step = builder.add(loop.index, _I64(1))
        for number, one in enumerate(held):
            moved = _moved(builder, builder.load(one), _STREAMS * words * 64)
            builder.store(builder.xor(moved, loaded(step, number)), one)
    left = builder.load(held[0])
    for one in held[1:]:
        left = builder.xor(_moved(builder, left, words * 64), builder.load(one))
    state = _I64(0)
    step_crc = _function(
        builder.module, ir.FunctionType(_I64, [_I64, _I64]), "llvm.x86.sse42.crc32.64.64"
    )
    for word in range(words):
        state = builder.call(step_crc, [state, builder.extract_element(left, ir.IntType(32)(word))])
    return state


def _moved(builder: Any, vector: Any, bits: int) -> Any:
    """Return what may be added, instead of this vector, to the vector that many bits later."""
    kind = vector.type
    multiply = _function(
        builder.module, ir.FunctionType(kind, [kind, kind, _I8]), _INSTRUCTIONS[kind.count]
    )
    # A product of reflected words is reflected, except for one bit. Of the word for a power, 32
    # bits are zero.
    powers = ir.Constant(kind, [_power(bits + 31), _power(bits - 33)] * (kind.count // 2))
    return builder.xor(
        builder.call(multiply, [vector, powers, _I8(0x00)]),
        builder.call(multiply, [vector, powers, _I8(0x11)]),
    )


def _power(exponent: int) -> int:
    """Return x^exponent modulo the polynomial, reflected: bit 31 is that of x^0."""
    rest = 1
    for _ in range(exponent):
        rest <<= 1
        if rest >> 32:
            rest = rest & 0xFFFFFFFF ^ _POLYNOMIAL
    return int(f"{rest:032b}"[::-1], 2)
