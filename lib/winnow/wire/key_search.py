"""Find the records that have one of some keys: by hash first, then byte by byte, so that a
collision never decides.

The hashes are in a sorted array, indexed by their upper bits. Looking up an absent key takes two
accesses to memory, however many keys there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from winnow.wire.buffers import Bytes, RecordBlocks, as_bytes, read_only
from winnow.wire.kernels.blake2b import DIGEST_SIZE, hash_all
from winnow.wire.kernels.record import AHEAD, kernel, open_area, parse_record, prefetch, same_bytes
from winnow.wire.kernels.siphash import siphash
from winnow.wire.record_faults import Fault, check_fault
from winnow.wire.records import record_total

_MOST_BITS = 26
NOT_FOUND = -1
MOST_SECRET_BYTES = 64


class KeySet(NamedTuple):
    """Keys, ascending by hash. Their numbers are their positions in this order."""

    secret: tuple[np.uint64, np.uint64]
    """Secret of the hash."""
    hashes: NDArray[np.uint64]
    """First 64 bits of SipHash-1-3-128 of each key."""
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    """Key i is the sizes[i] bytes of `data` from starts[i] on."""
    data: Bytes
    buckets: NDArray[np.int32]
    """2^b + 1 items: keys whose hash begins with the bits of i are buckets[i] to buckets[i + 1]."""


class FoundKeys(NamedTuple):
    """One item per record of some batches, in file order."""

    number: NDArray[np.int32]
    """Number of its key; NOT_FOUND if it has none of them."""
    size: NDArray[np.int32]
    """Bytes of the record, including its length field."""


def key_set(ends: NDArray[np.int64], data: Bytes, secret: tuple[int, int]) -> KeySet:
    """Return a set of n different keys: key i is data[ends[i] : ends[i + 1]]. Fewer than 2^31."""
    n = _count_of(ends, data)
    k0, k1 = map(np.uint64, secret)
    starts, sizes = ends[:-1], np.diff(ends)
    hashes = np.empty(n, np.uint64)
    _hash_keys(as_bytes(data), read_only(ends), k0, k1, hashes)
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    bits = min(max(1, n.bit_length() - 1), _MOST_BITS)
    firsts = np.arange(2**bits, dtype=np.uint64) << np.uint64(64 - bits)
    buckets = np.append(np.searchsorted(ordered, firsts), n).astype(np.int32)
    return KeySet((k0, k1), ordered, starts[order], sizes[order], data, buckets)


@kernel
def _hash_keys(
    data: Bytes, ends: NDArray[np.int64], k0: np.uint64, k1: np.uint64, out: NDArray[np.uint64]
) -> None:
    """Write the first 64 bits of the hash of each key."""
    for i in range(out.size):
        out[i], _ = siphash(data, ends[i], ends[i + 1] - ends[i], k0, k1)


def _count_of(ends: NDArray[np.int64], data: Bytes) -> int:
    """Return the number of strings in `data`: string i is data[ends[i] : ends[i + 1]]."""
    n = len(ends) - 1
    if n < 0 or n >= 2**31 or ends[0] < 0 or ends[-1] > len(data) or (np.diff(ends) < 0).any():
        raise ValueError(f"{n} keys don't lie in {len(data)} bytes")
    return n


def key_set_of(keys: Sequence[bytes], secret: tuple[int, int]) -> KeySet:
    different = list(dict.fromkeys(keys))
    ends = np.cumsum([0, *map(len, different)], dtype=np.int64)
    return key_set(ends, as_bytes(b"".join(different)), secret)


def find_keys(blocks: RecordBlocks, keys: KeySet) -> FoundKeys:
    """Look up the keys of all records. A null key is never found.

    Raises CorruptLogError, naming the batch's position, for any record that violates S2.2.
    """
    n = record_total(blocks)
    found = FoundKeys(np.empty(n, np.int32), np.empty(n, np.int32))
    shift = 65 - (len(keys.buckets) - 1).bit_length()
    # Unpickled arrays are writable, and kernels are compiled for read-only ones.
    arrays: list[Any] = [read_only(array) for array in keys[1:]]
    result = _find(blocks, KeySet(keys.secret, *arrays), shift, found)
    check_fault(result, blocks.rows, blocks.begin)
    return found


def key_hashes(data: Bytes, ends: NDArray[np.int64], secret: bytes) -> NDArray[np.uint64]:
    """Return uint64[n, 2]: BLAKE2b-128 under `secret` of n strings. String i is
    data[ends[i] : ends[i + 1]]. `secret`: 1 to 64 bytes.
    """
    n = _count_of(ends, data)
    if not 1 <= len(secret) <= MOST_SECRET_BYTES:
        raise ValueError(f"a secret of {len(secret)} bytes, not of 1 to {MOST_SECRET_BYTES}")
    out = np.empty((n, 2), np.uint64)
    hash_all(as_bytes(data), read_only(ends), as_bytes(np.frombuffer(secret, np.uint8)), out)
    return out


def are_among(hashes: NDArray[np.uint64], wanted: Sequence[bytes]) -> NDArray[np.bool_]:
    """Return which of `hashes`, uint64[n, 2], are among `wanted`, of 16 bytes each."""
    table = np.frombuffer(b"".join(wanted), "<u8").reshape(-1, 2)
    if any(len(each) != DIGEST_SIZE for each in wanted):
        raise ValueError(f"a hash is not of {DIGEST_SIZE} bytes")
    found = np.isin(hashes[:, 0], table[:, 0])
    every = {*map(bytes, wanted)}
    for i in np.flatnonzero(found).tolist():
        found[i] = hashes[i].astype("<u8").tobytes() in every
    return found


@kernel
def _find(blocks: RecordBlocks, keys: KeySet, shift: int, found: FoundKeys) -> tuple[int, int, int]:
    """Return (fault, row of its batch, position in the area's array). `shift`: 64 less the bits
    that choose a bucket.
    """
    n = 0
    for i in range(blocks.rows.size):
        fault, area, pos, stop = open_area(blocks, i)
        if fault != 0:
            return fault, i, pos
        if n + blocks.rows[i].record_count > found.number.size:
            return Fault.CHANGED, i, pos
        for _ in range(blocks.rows[i].record_count):
            prefetch(area, pos + AHEAD)
            fault, after, _, _, key, key_size, _, _, _ = parse_record(area, pos, stop)
            if fault != 0:
                return fault, i, pos
            found.number[n] = NOT_FOUND
            found.size[n] = after - pos
            if key_size >= 0:
                first, _ = siphash(area, key, key_size, keys.secret[0], keys.secret[1])
                bucket = np.int64(first >> np.uint64(shift))
                for at in range(keys.buckets[bucket], keys.buckets[bucket + 1]):
                    same_hash = keys.hashes[at] == first and keys.sizes[at] == key_size
                    if same_hash and same_bytes(keys.data, keys.starts[at], area, key, key_size):
                        found.number[n] = at
                        break
            n += 1
            pos = after
        if pos != stop:
            return Fault.LEFT_OVER, i, pos
    return 0, 0, 0
