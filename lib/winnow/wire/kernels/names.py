"""Count records by the names in their keys: see `winnow.wire.names`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from winnow.wire.batch import CONTROL
from winnow.wire.buffers import Bytes, RecordBlocks
from winnow.wire.kernels.memory import load_be16
from winnow.wire.kernels.record import inlined, kernel, open_area, parse_record, same_bytes
from winnow.wire.kernels.siphash import siphash
from winnow.wire.record_faults import Fault

_NAME_AT = 4
"""Bytes of a key before the name: its type and the name's length, int16 each."""
_MOST_INT16 = 0x7FFF
FULL = -1
_NAMELESS, NOT_SEEN = -1, -2


class Table(NamedTuple):
    """What is known of names while they are counted."""

    seen: NDArray[np.uint64]
    """The names of keys that were seen lately. A row has two keys, the later one first: the lower
    half of its hash, then its name's number less NOT_SEEN. All zeros at first.
    """
    slots: NDArray[np.int32]
    """A hash table with the number of each name, -1 in free slots. Its size is a power of 2, and
    larger than the room for names.
    """
    where: NDArray[np.int64]
    """Where each name is in its first record: 1 if in `inflated`, else 0; its position; its size.
    """
    sums: NDArray[np.int64]
    """Records and bytes of each name."""


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
    blocks: RecordBlocks, table: Table, number: int, area: Bytes, name: int, size: int
) -> bool:
    """Return whether `size` bytes of `area` from `name` on are the name with this number."""
    if table.where[number, 2] != size:
        return False
    first = blocks.inflated if table.where[number, 0] != 0 else blocks.raw
    return same_bytes(first, table.where[number, 1], area, name, size)  # type: ignore[no-any-return]


@inlined
def _slot_of(
    blocks: RecordBlocks,
    table: Table,
    area: Bytes,
    name: int,
    size: int,
    k0: np.uint64,
    k1: np.uint64,
) -> np.uint64:
    """Return the slot of a name. It is free if the name is new."""
    mask = np.uint64(table.slots.size - 1)
    at = siphash(area, name, size, k0, k1)[0] & mask
    while table.slots[at] >= 0 and not _is_name(blocks, table, table.slots[at], area, name, size):
        at = (at + np.uint64(1)) & mask
    return at


@inlined
def _name_of_key(low: np.uint64, seen: NDArray[np.uint64]) -> int:
    """Return the number of the name; _NAMELESS without one, NOT_SEEN for a new key."""
    at = low & np.uint64(seen.shape[0] - 1)
    way = 0 if seen[at, 0] == low else 2
    return np.int64(seen[at, way + 1]) + NOT_SEEN if seen[at, way] == low else NOT_SEEN  # type: ignore[return-value]


@inlined
def _remember(low: np.uint64, number: int, seen: NDArray[np.uint64]) -> None:
    """Remember the name of a key, replacing the older one of two keys."""
    at = low & np.uint64(seen.shape[0] - 1)
    if seen[at, 0] != low:
        seen[at, 2], seen[at, 3] = seen[at, 0], seen[at, 1]
    seen[at, 0], seen[at, 1] = low, np.uint64(number - NOT_SEEN)


@inlined
def _add(
    table: Table, number: int, records: int, on_disk: int, part: int = 1, whole: int = 1
) -> None:
    """Add records that take `part` of the `whole` bytes in a batch, which has `on_disk` bytes."""
    if number >= 0:
        table.sums[number, 0] += records
        table.sums[number, 1] += on_disk * part // whole


@kernel
def count(  # noqa: C901, PLR0912 - one pass
    blocks: RecordBlocks,
    types: NDArray[np.bool_],
    k0: np.uint64,
    k1: np.uint64,
    hashes: NDArray[np.uint64],
    table: Table,
) -> tuple[int, int, int]:
    """Return (0, 0, names), or (fault, row of its batch, position in the area's array); FULL if
    names have no room left. `hashes`: of the keys, or none.
    """
    count, last_name = 0, 0  # neighbouring records often have the same name
    n = 0
    for i in range(blocks.rows.size):
        held = int(blocks.rows[i].record_count)
        if (blocks.rows[i].attributes & CONTROL) != 0:
            n += held
            continue
        fault, area, pos, stop = open_area(blocks, i)
        if fault != 0:
            return fault, i, pos
        whole, on_disk = stop - pos, np.int64(blocks.rows[i].size)
        if hashes.shape[0] != 0 and held > 0:
            number = _name_of_key(hashes[n, 0], table.seen)
            same = 1
            while same < held and _name_of_key(hashes[n + same, 0], table.seen) == number:
                same += 1
            if number != NOT_SEEN and same == held:
                _add(table, number, held, on_disk)
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
                if count == 0 or not _is_name(blocks, table, last_name, area, name, size):
                    slot = _slot_of(blocks, table, area, name, size, k0, k1)
                    if table.slots[slot] < 0:
                        if count >= table.where.shape[0]:
                            return FULL, i, pos
                        table.where[count, 0] = 1 if blocks.compressed[i] else 0
                        table.where[count, 1] = name
                        table.where[count, 2] = size
                        table.slots[slot] = count
                        count += 1
                    last_name = table.slots[slot]
                number = last_name
            if hashes.shape[0] != 0:
                _remember(hashes[n, 0], number, table.seen)
            if number != run_name:
                _add(table, run_name, run, on_disk, pos - begun, whole)
                run, run_name, begun = 0, number, pos
            run += 1
            pos = after
            n += 1
        if pos != stop:
            return Fault.LEFT_OVER, i, pos
        if held > 0:
            _add(table, run_name, run, on_disk, pos - begun, whole)
    return 0, 0, count
