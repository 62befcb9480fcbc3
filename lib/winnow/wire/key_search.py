"""Find the records that have one of some keys: by hash first, then byte by byte, so that a
collision never decides.

The hashes are in a sorted array, indexed by their upper bits. Looking up an absent key takes two
accesses to memory, however many keys there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from winnow.wire.buffers import Bytes, Rows, as_bytes, read_only
from winnow.wire.kernels.blake2b import DIGEST_SIZE, hash_all
from winnow.wire.kernels.record import AHEAD, check_area, kernel, parse_record, prefetch, same_bytes
from winnow.wire.kernels.siphash import siphash
from winnow.wire.record_faults import Fault, check_fault
from winnow.wire.records import record_total

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from winnow.wire.inflate import RecordBlocks

_LEFT_OVER, _ORDER = int(Fault.LEFT_OVER), int(Fault.ORDER)
_MOST_BITS = 26
NOT_FOUND = -1
MOST_SECRET_BYTES = 64


@dataclass(frozen=True, slots=True)
class KeySet:
    """Keys, ascending by hash. Their numbers are their positions in this order."""

    secret: tuple[int, int]
    """Secret of the hash: two uint64."""
    hashes: NDArray[np.uint64]
    """First 64 bits of SipHash-1-3-128 of each key."""
    ends: NDArray[np.int64]
    """n + 1: key i is data[ends[i] : ends[i + 1]]."""
    data: Bytes
    buckets: NDArray[np.int32]
    """2^b + 1 items: keys whose hash begins with the bits of i are buckets[i] to buckets[i + 1]."""

    def __len__(self) -> int:
        return len(self.hashes)

    def __getitem__(self, number: int) -> bytes:
        return self.data[self.ends[number] : self.ends[number + 1]].tobytes()


@dataclass(frozen=True, slots=True)
class FoundKeys:
    """One item per record of some batches, in file order."""

    number: NDArray[np.int32]
    """Number of its key; NOT_FOUND if it has none of them."""
    size: NDArray[np.int32]
    """Bytes of the record, including its length field."""


def key_set(ends: NDArray[np.int64], data: Bytes, secret: tuple[int, int]) -> KeySet:
    """Return a set of n different keys: key i is data[ends[i] : ends[i + 1]]. Fewer than 2^31."""
    data, n = as_bytes(data), len(ends) - 1
    if n < 0 or n >= 2**31 or ends[0] < 0 or ends[-1] > len(data) or (np.diff(ends) < 0).any():
        raise ValueError(f"{n} keys don't lie in {len(data)} bytes")
    hashes = np.empty(n, np.uint64)
    _hash_all(data, read_only(ends), np.uint64(secret[0]), np.uint64(secret[1]), hashes)
    order = np.argsort(hashes, kind="stable")
    sizes = np.diff(ends)[order]
    sorted_ends = np.zeros(n + 1, np.int64)
    np.cumsum(sizes, out=sorted_ends[1:])
    sorted_data = np.empty(int(sorted_ends[-1]), np.uint8)
    _gather(data, read_only(ends[:-1][order]), read_only(sorted_ends), sorted_data)
    hashes = hashes[order]
    bits = min(max(1, int(n).bit_length() - 1), _MOST_BITS)
    firsts = np.arange(2**bits, dtype=np.uint64) << np.uint64(64 - bits)
    buckets = np.append(np.searchsorted(hashes, firsts), n).astype(np.int32)
    return KeySet(
        secret, read_only(hashes), read_only(sorted_ends), as_bytes(sorted_data), read_only(buckets)
    )


def key_set_of(keys: Sequence[bytes], secret: tuple[int, int]) -> KeySet:
    different = list(dict.fromkeys(keys))
    ends = np.cumsum([0, *map(len, different)], dtype=np.int64)
    return key_set(ends, as_bytes(b"".join(different)), secret)


def find_keys(blocks: RecordBlocks, keys: KeySet) -> FoundKeys:
    """Look up the keys of all records. A null key is never found.

    Raises CorruptLogError, naming the batch's position, for any record that violates S2.2.
    """
    rows = blocks.rows
    n = record_total(blocks)
    found = FoundKeys(np.empty(n, np.int32), np.empty(n, np.int32))
    result = _find(
        *blocks.areas,
        rows,
        np.uint64(keys.secret[0]),
        np.uint64(keys.secret[1]),
        read_only(keys.hashes),
        read_only(keys.ends),
        as_bytes(keys.data),
        read_only(keys.buckets),
        64 - (len(keys.buckets) - 1).bit_length() + 1,
        found.number,
        found.size,
    )
    check_fault(result, rows, blocks.begin)
    return found


def key_hashes(data: Bytes, ends: NDArray[np.int64], secret: bytes) -> NDArray[np.uint64]:
    """Return uint64[n, 2]: BLAKE2b-128 under `secret` of n strings. String i is
    data[ends[i] : ends[i + 1]]. `secret`: 1 to 64 bytes.
    """
    n = len(ends) - 1
    if n < 0 or ends[0] < 0 or ends[-1] > len(data) or (np.diff(ends) < 0).any():
        raise ValueError(f"{n} strings don't lie in {len(data)} bytes")
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
def _hash_all(
    data: Bytes, ends: NDArray[np.int64], k0: np.uint64, k1: np.uint64, out: NDArray[np.uint64]
) -> None:
    for i in range(out.size):
        first, _ = siphash(data, ends[i], ends[i + 1] - ends[i], k0, k1)
        out[i] = first


@kernel
def _gather(
    data: Bytes, starts: NDArray[np.int64], ends: NDArray[np.int64], out: NDArray[np.uint8]
) -> None:
    for i in range(starts.size):
        for at in range(ends[i + 1] - ends[i]):
            out[ends[i] + at] = data[starts[i] + at]


@kernel
def _find(
    raw: Bytes,
    inflated: Bytes,
    compressed: NDArray[np.bool_],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    batches: Rows,
    k0: np.uint64,
    k1: np.uint64,
    hashes: NDArray[np.uint64],
    ends: NDArray[np.int64],
    data: Bytes,
    buckets: NDArray[np.int32],
    shift: int,
    numbers: NDArray[np.int32],
    sizes: NDArray[np.int32],
) -> tuple[int, int, int]:
    """Return (fault, row of its batch, position in the area's array)."""
    n = 0
    for i in range(batches.size):
        area = inflated if compressed[i] else raw
        count = int(batches[i].record_count)
        last_delta = batches[i].last_offset - batches[i].base_offset
        pos, stop = begin[i], end[i]
        fault = check_area(area, pos, stop, count)
        if fault != 0:
            return fault, i, pos
        if n + count > numbers.size:
            return _ORDER, i, pos
        previous = -1
        for _ in range(count):
            prefetch(area, pos + AHEAD)
            fault, after, _, delta, key, key_size, _, _, _ = parse_record(area, pos, stop)
            if fault != 0:
                return fault, i, pos
            if delta <= previous or delta > last_delta:
                return _ORDER, i, pos
            previous = delta
            number = NOT_FOUND
            if key_size >= 0:
                first, _ = siphash(area, key, key_size, k0, k1)
                bucket = np.int64(first >> np.uint64(shift))
                for at in range(buckets[bucket], buckets[bucket + 1]):
                    same_hash = hashes[at] == first and ends[at + 1] - ends[at] == key_size
                    if same_hash and same_bytes(data, ends[at], area, key, key_size):
                        number = at
                        break
            numbers[n] = number
            sizes[n] = after - pos
            n += 1
            pos = after
        if pos != stop:
            return _LEFT_OVER, i, pos
    return 0, 0, 0
