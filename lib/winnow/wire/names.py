"""Count the groups and transactional ids of one of Kafka's own topics, by the names in keys."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from winnow.wire.buffers import RecordBlocks
from winnow.wire.internal_topics import key_types
from winnow.wire.record_faults import check_fault
from winnow.wire.records import record_total

_USUAL_NAMES = 1_024
_SEEN_PAIRS = 8_192
"""Rows of the table of seen keys, two keys in each. A power of 2."""


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
    from winnow.wire.kernels import names as kernel  # noqa: PLC0415 - with numba

    total = record_total(blocks)
    types = np.zeros(1 + max(key_types(topic)), np.bool_)
    types[list(key_types(topic))] = True
    if hashes is None:
        hashes = np.empty((0, 2), np.uint64)
    elif hashes.shape != (total, 2):
        raise ValueError(f"{len(hashes)} hashes of {total} records")
    room, fault = 0, kernel.FULL
    while fault == kernel.FULL:  # start with small tables, which fit the processor's cache
        room = min(total, 16 * room or _USUAL_NAMES)
        table = kernel.Table(
            np.zeros((_SEEN_PAIRS, 4), np.uint64),
            np.full(1 << (2 * room + 1).bit_length(), -1, np.int32),
            np.empty((room, 3), np.int64),
            np.zeros((room, 2), np.int64),
        )
        k0, k1 = (np.uint64(secrets.randbits(64)) for _ in range(2))
        fault, i, count = kernel.count(blocks, types, k0, k1, hashes, table)
    check_fault((fault, i, count), blocks.rows, blocks.begin)
    chosen = np.arange(count)
    if count > most:
        chosen = np.sort(np.argsort(-table.sums[:count, 1], kind="stable")[:most])
    names = []
    for inflated, at, size in table.where[chosen].tolist():
        area = blocks.inflated if inflated else blocks.raw
        names.append(area[at : at + size].tobytes())
    records, size = table.sums[chosen].T
    return NameCounts(names=tuple(names), records=records, bytes=size), count <= most
