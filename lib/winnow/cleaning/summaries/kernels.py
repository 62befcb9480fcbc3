"""Pack and search a set of truncated keys: see `winnow.cleaning.summaries.truncated`."""

# ruff: noqa: ANN401 - kernels take and return arrays
from __future__ import annotations

from typing import Any

import numpy as np

from winnow.cleaning.summaries.truncated import REST_BITS
from winnow.compiled import njit

_REST = 2**REST_BITS - 1


@njit(cache=True, nogil=True)
def pack(keys: Any, first: int, unary: Any, rest: Any) -> None:
    one = np.uint64(1)
    shift = np.uint64(64 - first)
    cut = np.uint64(64 - first - REST_BITS)
    for i in range(keys.shape[0]):
        bit = np.int64(keys[i] >> shift) + i
        unary[bit >> 6] |= one << np.uint64(bit & 63)
        value = (keys[i] >> cut) & np.uint64(_REST)
        at = i * REST_BITS
        word, offset = at >> 6, at & 63
        rest[word] |= value << np.uint64(offset)
        if offset + REST_BITS > 64:
            rest[word + 1] |= value >> np.uint64(64 - offset)


@njit(cache=True, nogil=True)
def find(keys: Any, count: int, first: int, unary: Any, rest: Any, found: Any) -> int:
    """Mark the keys that are in the set. Return their number, -1 for a set that ends too early."""
    one = np.uint64(1)
    cut = np.uint64(64 - first - REST_BITS)
    bits = count + (1 << first)
    i = bit = hits = 0
    for j in range(keys.shape[0]):
        wanted = keys[j] >> cut
        at_it = False
        while i < count:
            while bit < bits and not (unary[bit >> 6] >> np.uint64(bit & 63)) & one:
                bit += 1
            if bit >= bits:
                return -1
            at = i * REST_BITS
            word, offset = at >> 6, at & 63
            value = rest[word] >> np.uint64(offset)
            if offset + REST_BITS > 64:
                value |= rest[word + 1] << np.uint64(64 - offset)
            value = (np.uint64(bit - i) << np.uint64(REST_BITS)) | (value & np.uint64(_REST))
            if value >= wanted:
                at_it = value == wanted
                break
            i += 1
            bit += 1
        found[j] = at_it
        hits += at_it
    return hits
