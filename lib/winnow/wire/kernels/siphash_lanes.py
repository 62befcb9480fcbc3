"""SipHash-1-3-128 of many keys at once, one in each lane of the processor's vectors.

Each round waits for the previous one, and a key of 16 bytes takes nine of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from winnow.compiled import target_features
from winnow.wire.buffers import Bytes
from winnow.wire.kernels.memory import check_bounds
from winnow.wire.kernels.record import inlined, kernel
from winnow.wire.kernels.siphash import FINAL_ROUNDS, INITIAL, LAST_TWEAK, TWEAK, siphash

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_WORD = 8
_function: Any = cgutils.get_or_insert_function
_loop: Any = cgutils.for_range
_variable: Any = cgutils.alloca_once_value


def lanes_of(features: Mapping[str, bool]) -> int:
    """Return the words of 64 bits in a vector of a CPU with these features (LLVM's names); 1 if
    vectors are no faster.

    The first CPUs with vectors of 512 bits are slower with them
    (benchmarks/results/what-was-tried.md); VBMI2 came with the next.
    """
    return 8 if features.get("avx512vbmi2") else 4 if features.get("avx2") else 1


LANES = lanes_of(target_features())


def hashed_in(lanes: int) -> Any:
    """Return jitted `hashed(buf, rows, row, k0, k1)`: like `hash_rows` for `lanes` rows. After each
    of their keys, `buf` must have one more word.
    """

    def hashed(typingctx: Any, buf: Any, rows: Any, row: Any, k0: Any, k1: Any) -> Any:
        del typingctx, row, k0, k1

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind, rows_kind = signature.args[:2]
            places = builder.gep(
                context.make_array(rows_kind)(context, builder, args[1]).data,
                [builder.mul(args[2], _I64(2))],
            )
            slots = [
                [builder.gep(places, [_I64(2 * lane + part)]) for lane in range(lanes)]
                for part in range(2)
            ]
            at, size = ([builder.load(slot) for slot in column] for column in slots)
            null = [builder.icmp_signed("<", one, _I64(0)) for one in size]
            size = [
                builder.select(none, _I64(0), one) for none, one in zip(null, size, strict=True)
            ]
            for one, length in zip(at, size, strict=True):
                check_bounds(context, builder, kind, args[0], one, builder.add(length, _I64(_WORD)))
            data = context.make_array(kind)(context, builder, args[0]).data
            results = _Lanes(builder, lanes).hashed(
                [builder.gep(data, [one]) for one in at], size, args[3], args[4]
            )
            for result, column in zip(results, slots, strict=True):
                for lane, slot in enumerate(column):
                    word = builder.extract_element(result, _I32(lane))
                    builder.store(builder.select(null[lane], _I64(0), word), slot)
            return context.get_dummy_value()

        return types.void(buf, rows, types.int64, types.uint64, types.uint64), codegen

    return intrinsic(hashed)


class _Lanes:
    """Builds instructions on vectors of `lanes` words."""

    def __init__(self, builder: Any, lanes: int) -> None:
        self._builder = builder
        self._lanes = lanes
        self._vector = ir.VectorType(_I64, lanes)

    def hashed(self, keys: list[Any], sizes: list[Any], k0: Any, k1: Any) -> tuple[Any, Any]:
        """Return both halves of the hashes. `keys`: pointers to bytes."""
        builder = self._builder
        size = self._gathered(sizes)
        words = builder.lshr(size, self._all(3))
        longest = _I64(0)
        for one in sizes:
            more = builder.lshr(one, _I64(3))
            longest = builder.select(builder.icmp_unsigned(">", more, longest), more, longest)
        state = [
            _variable(builder, builder.xor(self._same(key), self._all(first)))
            for key, first in zip((k0, k1, k0, k1), INITIAL, strict=True)
        ]
        with _loop(builder, builder.add(longest, _I64(1))) as loop:
            number = self._same(loop.index)
            # If the key ended earlier, any word will do.
            inside = builder.icmp_unsigned("<=", number, words)
            place = builder.select(inside, builder.shl(number, self._all(3)), self._all(0))
            word = self._loaded(keys, place)
            rest = builder.shl(builder.and_(size, self._all(_WORD - 1)), self._all(3))
            mask = builder.sub(builder.shl(self._all(1), rest), self._all(1))
            last = builder.or_(builder.and_(word, mask), builder.shl(size, self._all(56)))
            word = builder.select(builder.icmp_unsigned("==", number, words), last, word)
            before = [builder.load(one) for one in state]
            v0, v1, v2, v3 = self._round(
                before[0], before[1], before[2], builder.xor(before[3], word)
            )
            after = builder.xor(v0, word), v1, v2, v3
            for slot, new, old in zip(state, after, before, strict=True):
                builder.store(builder.select(inside, new, old), slot)
        v0, v1, v2, v3 = (builder.load(one) for one in state)
        v2 = builder.xor(v2, self._all(TWEAK))
        results = []
        for tweak in (0, LAST_TWEAK):
            v1 = builder.xor(v1, self._all(tweak))
            for _ in range(FINAL_ROUNDS):
                v0, v1, v2, v3 = self._round(v0, v1, v2, v3)
            results.append(builder.xor(builder.xor(v0, v1), builder.xor(v2, v3)))
        return results[0], results[1]

    def _round(self, v0: Any, v1: Any, v2: Any, v3: Any) -> tuple[Any, Any, Any, Any]:
        """One round, as in `winnow.wire.kernels.siphash`."""
        builder = self._builder
        v0 = builder.add(v0, v1)
        v1 = builder.xor(self._rotated(v1, 13), v0)
        v0 = self._rotated(v0, 32)
        v2 = builder.add(v2, v3)
        v3 = builder.xor(self._rotated(v3, 16), v2)
        v0 = builder.add(v0, v3)
        v3 = builder.xor(self._rotated(v3, 21), v0)
        v2 = builder.add(v2, v1)
        v1 = builder.xor(self._rotated(v1, 17), v2)
        return v0, v1, self._rotated(v2, 32), v3

    def _rotated(self, vector: Any, bits: int) -> Any:
        kind = ir.FunctionType(self._vector, [self._vector] * 3)
        rotate = _function(self._builder.module, kind, f"llvm.fshl.v{self._lanes}i64")
        return self._builder.call(rotate, [vector, vector, self._all(bits)])

    def _loaded(self, keys: list[Any], place: Any) -> Any:
        """Return the word `place` bytes after the beginning of each key."""
        builder = self._builder
        places = [
            builder.gep(key, [builder.extract_element(place, _I32(lane))])
            for lane, key in enumerate(keys)
        ]
        return self._gathered(
            [builder.load(builder.bitcast(one, _I64.as_pointer()), align=1) for one in places]
        )

    def _gathered(self, words: list[Any]) -> Any:
        vector = ir.Constant(self._vector, ir.Undefined)
        for lane, word in enumerate(words):
            vector = self._builder.insert_element(vector, word, _I32(lane))
        return vector

    def _same(self, word: Any) -> Any:
        return self._gathered([word] * self._lanes)

    def _all(self, number: int) -> Any:
        return ir.Constant(self._vector, [number] * self._lanes)


_hashed = hashed_in(LANES)


@inlined
def _place(rows: NDArray[np.uint64], row: int) -> Any:
    return np.int64(rows[row, 0]), np.int64(rows[row, 1])


@kernel
def hash_rows(
    buf: Bytes, rows: NDArray[np.uint64], row: int, end: int, k0: np.uint64, k1: np.uint64
) -> int:
    """Replace keys with hashes, for as many of `rows[row:end]` as fill vectors. Return the first
    remaining row.

    `rows` is uint64[n, 2], of keys that end in ascending order: where in `buf` each begins and its
    size. Size -1 means no key, which gets 0, 0. The caller has checked that the keys are inside.
    """
    while LANES > 1 and row + LANES <= end:
        at, size = _place(rows, row + LANES - 1)
        if at + max(size, 0) > buf.size - _WORD:
            break
        _hashed(buf, rows, row, k0, k1)
        row += LANES
    return row


@kernel
def hash_rest(
    buf: Bytes, rows: NDArray[np.uint64], row: int, end: int, k0: np.uint64, k1: np.uint64
) -> None:
    """Like `hash_rows`, but hash the remaining rows, too, one by one."""
    for left in range(hash_rows(buf, rows, row, end, k0, k1), end):
        at, size = _place(rows, left)
        if size < 0:
            rows[left, 0], rows[left, 1] = np.uint64(0), np.uint64(0)
        else:
            rows[left, 0], rows[left, 1] = siphash(buf, at, size, k0, k1)
