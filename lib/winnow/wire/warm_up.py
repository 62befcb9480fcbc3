"""Compile every kernel once at set-up to fill numba's cache, so that no task has to."""

from __future__ import annotations

import numpy as np

from winnow.wire.batch import BATCH
from winnow.wire.buffers import as_bytes
from winnow.wire.choice import Era, Retention
from winnow.wire.columns import gathered, header_places, record_places
from winnow.wire.control_records import decode_control
from winnow.wire.crc import crc32c_extended
from winnow.wire.digests import record_digests
from winnow.wire.filtering import filter_batches, filter_in_cache
from winnow.wire.inflate import closed, inflate
from winnow.wire.internal_topics import CONSUMER_OFFSETS
from winnow.wire.kernels.pattern_search import automaton, find_patterns
from winnow.wire.key_search import find_keys, key_set_of
from winnow.wire.names import count_names
from winnow.wire.record_checks import check_records, tally_records
from winnow.wire.records import scan_records
from winnow.wire.walk import find_batch, first_bad_crc, walk_batches

_V0 = bytes.fromhex("00000000000000000000000ea7ec68030000ffffffffffffffff")
"""Offset 0, no key, no value."""
_V2 = bytes.fromhex(
    "00000000000000010000004affffffff022b4038e100000000000100000000000000000000000000000000ff"
    "ffffffffffffffffffffffffff000000021c000000066b65790a76616c75650012000002066b65790100"
)
"""Offsets 1 and 2, key b"key": a value and a tombstone."""
_LZ4 = bytes.fromhex(
    "000000000000000300000059ffffffff02f58512bc00030000000100000000000000000000000000000000ff"
    "ffffffffffffffffffffffffff0000000204224d18604082190000801c000000066b65790a76616c75650012"
    "000002066b6579010000000000"
)
"""The same at offsets 3 and 4, compressed."""
_MARKER = bytes.fromhex(
    "000000000000000000000042ffffffff02eed31f7a00300000000000000000000000000000000000000000ff"
    "ffffffffffffffffffffffffff000000012000000008000000000c00000000000000"
)


def warm_up() -> None:
    """Run all of `wire` on tiny batches: some compressed, one of an old format, one dropped record
    in each.

    It calls the public functions, so it compiles exactly what they use later, including types for
    read-only arrays.
    """
    buf = as_bytes(_V0 + _V2 + _LZ4)
    rows = np.zeros(4, BATCH)
    count, _, _ = walk_batches(buf, 0, 0, rows)
    batches = rows[:count]
    first_bad_crc(buf, batches)
    crc32c_extended(0, buf)
    blocks = inflate(buf, batches)
    check_records(blocks)
    tally_records(blocks)
    find_batch(buf, 1, 0, 1)
    places = record_places(blocks)
    gathered(blocks, places.key)
    header_places(blocks, places.headers)
    record_digests(blocks, places, (1, 2))
    find_keys(blocks, key_set_of([b"key"], (1, 2)))
    find_patterns(blocks, automaton([b"key"]))
    columns = scan_records(blocks, (1, 2))
    retention = np.full(count, Retention.DELETE_EMPTY, np.int8)
    for era in (Era(), Era(converts=False)):
        filter_batches(
            blocks,
            columns.null_value,
            retention,
            now=1,
            delete_retention_ms=1,
            era=era,
        )
    lz4, its = as_bytes(_LZ4), np.zeros(1, BATCH)
    walk_batches(lz4, 0, 0, its)
    keep = np.array([False, True])
    how = keep, retention[:1]
    filter_in_cache(closed(lz4, its), *how, now=1, delete_retention_ms=1, limit=100)
    marker = as_bytes(_MARKER)
    count, _, _ = walk_batches(marker, 0, 0, rows)
    decode_control(inflate(marker, rows[:count]))
    count_names(blocks, CONSUMER_OFFSETS, most=1)
