"""Count the groups and transactional ids of one of Kafka's own topics, by the names in keys."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from winnow.wire.batch import CONTROL
from winnow.wire.buffers import Bytes, Rows
from winnow.wire.internal_topics import key_types
from winnow.wire.kernels.memory import load_be16
from winnow.wire.kernels.record import check_area, inlined, kernel, parse_record, same_bytes
from winnow.wire.kernels.siphash import siphash
from winnow.wire.record_faults import Fault, record_error
from winnow.wire.records import record_total

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from winnow.wire.inflate import RecordBlocks

_LEFT_OVER = int(Fault.LEFT_OVER)
_NAME_AT = 4
"""Bytes of a key before the name: its type and the name's length, int16 each."""
_MOST_INT16 = 0x7FFF
_USUAL_NAMES = 1_024
_FULL = -1
_SEEN_PAIRS = 8_192
"""Rows of the table of seen keys, two keys in each. A power of 2."""
_NAMELESS, _NOT_SEEN = -1, -2


@dataclass(frozen=True, slots=True, kw_only=True)
class NameCounts:
    """One row per name, in the order of first occurrence."""

    names: tuple[bytes, ...]
    records: NDArray[np.int64]
    bytes: NDArray[np.int64]
    """On disk. A batch is shared among its runs of one name by their sizes, rounded down."""


def count_names(
    blocks: RecordBlocks,
    topic: str,
    *,
    most: int,
    hashes: NDArray[np.uint64] | None = None,
) -> tuple[NameCounts, bool]:
    """Count the records in one of INTERNAL_TOPICS. Records without a name are left out.

    `hashes`: of their keys, if they were scanned (`RecordColumns.hash`). Then a batch is not parsed
    if all its keys were seen shortly before with one name. Returns the `most` names with the most
    bytes, and whether these are all. Raises CorruptLogError for records that violate S2.2.
    """
    rows = blocks.rows
    total = record_total(blocks)
    types = np.zeros(1 + max(key_types(topic)), np.bool_)
    types[list(key_types(topic))] = True
    if hashes is None:
        hashes = np.empty((0, 2), np.uint64)
    elif hashes.shape != (total, 2):
        raise ValueError(f"{len(hashes)} hashes of {total} records")
    room, fault = 0, _FULL
    while fault == _FULL:  # start with small tables, which fit the processor's cache
        room = min(total, 16 * room or _USUAL_NAMES)
        seen = np.zeros((_SEEN_PAIRS, 4), np.uint64)
        slots = np.full(1 << (2 * room + 1).bit_length(), -1, np.int32)
        where = np.empty((room, 3), np.int64)
        sums = np.zeros((room, 2), np.int64)
        fault, i, count = _count(
            *blocks.areas,
            rows,
            types,
            np.uint64(secrets.randbits(64)),
            np.uint64(secrets.randbits(64)),
            hashes,
            seen,
            slots,
            where,
            sums,
        )
    if fault:
        raise record_error(Fault(fault), rows[i], count - int(blocks.begin[i]))
    chosen = np.arange(count)
    if count > most:
        chosen = np.sort(np.argsort(-sums[:count, 1], kind="stable")[:most])
    names = []
    for inflated, at, size in where[chosen].tolist():
        area = blocks.inflated if inflated else blocks.raw
        names.append(area[at : at + size].tobytes())
    counts = NameCounts(names=tuple(names), records=sums[chosen, 0], bytes=sums[chosen, 1])
    return counts, count <= most


@inlined
def _name_size(area: Bytes, key: int, key_size: int, types: NDArray[np.bool_]) -> int:
    """Return the size of the name in a key, or -1 if there is none."""
    if key_size < _NAME_AT:
        return -1
    kind, size = load_be16(area, key), load_be16(area, key + 2)
    if kind >= types.size or not types[kind] or size > _MOST_INT16 or size > key_size - _NAME_AT:
        return -1
    return size  # type: ignore[no-any-return]


@inlined
def _is_name(
    number: int,
    where: NDArray[np.int64],
    raw: Bytes,
    inflated: Bytes,
    area: Bytes,
    name: int,
    size: int,
) -> bool:
    """Return whether `size` bytes of `area` from `name` on are the name with this number."""
    if where[number, 2] != size:
        return False
    first = inflated if where[number, 0] != 0 else raw
    return same_bytes(first, where[number, 1], area, name, size)  # type: ignore[no-any-return]


@inlined
def _name_of_key(low: np.uint64, seen: NDArray[np.uint64]) -> int:
    """Return the number of the name; _NAMELESS without one, _NOT_SEEN for a new key."""
    at = low & np.uint64(seen.shape[0] - 1)
    way = 0 if seen[at, 0] == low else 2
    return np.int64(seen[at, way + 1]) + _NOT_SEEN if seen[at, way] == low else _NOT_SEEN  # type: ignore[return-value]


@inlined
def _remember(low: np.uint64, number: int, seen: NDArray[np.uint64]) -> None:
    """Remember the name of a key, replacing the older one of two keys."""
    at = low & np.uint64(seen.shape[0] - 1)
    if seen[at, 0] != low:
        seen[at, 2], seen[at, 3] = seen[at, 0], seen[at, 1]
    seen[at, 0], seen[at, 1] = low, np.uint64(number - _NOT_SEEN)


@kernel
def _count(  # noqa: C901, PLR0912, PLR0915 - one pass
    raw: Bytes,
    inflated: Bytes,
    compressed: NDArray[np.bool_],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    batches: Rows,
    types: NDArray[np.bool_],
    k0: np.uint64,
    k1: np.uint64,
    hashes: NDArray[np.uint64],
    seen: NDArray[np.uint64],
    slots: NDArray[np.int32],
    where: NDArray[np.int64],
    sums: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Return (0, 0, names), or (fault, row of its batch, position in the area's array); _FULL if
    names have no room left.

    `hashes`: of the keys, or none. `seen`: uint64[n, 4] of zeros; each row has the lower halves of
    two keys' hashes, the later first, and after each of them its name's number less _NOT_SEEN.
    `slots`: a table of -1, a power of 2 larger than the room for names. `where`: for each name's
    first record, whether it is in `inflated`, the name's position and its size. `sums`: records and
    bytes.
    """
    count, last = 0, 0  # `last`: the name of the previous record, which the next one often shares
    n = 0
    mask = np.uint64(slots.size - 1)
    known = hashes.shape[0] != 0
    for i in range(batches.size):
        held = batches[i].record_count
        if (batches[i].attributes & CONTROL) != 0:
            n += held
            continue
        area = inflated if compressed[i] else raw
        pos, stop = begin[i], end[i]
        whole, on_disk = stop - pos, np.int64(batches[i].size)
        fault = check_area(area, pos, stop, held)
        if fault != 0:
            return fault, i, pos
        if known and held > 0:
            number = _name_of_key(hashes[n, 0], seen)
            same = 1
            while same < held and _name_of_key(hashes[n + same, 0], seen) == number:
                same += 1
            if number != _NOT_SEEN and same == held:
                if number >= 0:
                    last = number
                    sums[last, 0] += held
                    sums[last, 1] += on_disk
                n += held
                continue
        run, run_name, begun = 0, _NAMELESS, pos
        for _ in range(held):
            fault, after, _, _, key, key_size, _, _, _ = parse_record(area, pos, stop)
            if fault != 0:
                return fault, i, pos
            size, name = _name_size(area, key, key_size, types), key + _NAME_AT
            number = _NAMELESS
            if size >= 0:
                if count == 0 or not _is_name(last, where, raw, inflated, area, name, size):
                    at = siphash(area, name, size, k0, k1)[0] & mask
                    while slots[at] >= 0 and not _is_name(
                        slots[at], where, raw, inflated, area, name, size
                    ):
                        at = (at + np.uint64(1)) & mask
                    if slots[at] < 0:
                        if count >= where.shape[0]:
                            return _FULL, i, pos
                        where[count, 0] = 1 if compressed[i] else 0
                        where[count, 1] = name
                        where[count, 2] = size
                        slots[at] = count
                        count += 1
                    last = slots[at]
                number = last
            if known:
                _remember(hashes[n, 0], number, seen)
            if number != run_name:
                if run_name >= 0:
                    sums[run_name, 0] += run
                    sums[run_name, 1] += on_disk * (pos - begun) // whole
                run, run_name, begun = 0, number, pos
            run += 1
            pos = after
            n += 1
        if pos != stop:
            return _LEFT_OVER, i, pos
        if run_name >= 0:
            sums[run_name, 0] += run
            sums[run_name, 1] += on_disk * (pos - begun) // whole
    return 0, 0, count
