"""Compile every kernel once at set-up to fill numba's cache, so that no task has to."""

from __future__ import annotations

import numpy as np

from winnow.wire.batch import BATCH, Codec
from winnow.wire.buffers import as_bytes
from winnow.wire.columns import gathered, header_places, record_places
from winnow.wire.control_records import decode_control
from winnow.wire.digests import record_digests
from winnow.wire.filtering import Era, Retention, filter_batches
from winnow.wire.inflate import inflate
from winnow.wire.internal_topics import CONSUMER_OFFSETS
from winnow.wire.key_search import find_keys, key_set_of
from winnow.wire.names import count_names
from winnow.wire.plain import Record, encode_batch
from winnow.wire.record_checks import check_records
from winnow.wire.record_tally import tally_records
from winnow.wire.records import scan_records
from winnow.wire.walk import find_batch, first_bad_crc, walk_batches

_V0 = bytes.fromhex("00000000000000000000000ea7ec68030000ffffffffffffffff")
"""Offset 0, no key, no value."""


def warm_up() -> None:
    """Run all of `wire` on tiny batches: some compressed, one of an old format, one dropped record
    in each.

    It calls the public functions, so it compiles exactly what they use later, including types for
    read-only arrays.
    """
    records = [Record(1, 0, b"key", b"value"), Record(2, 0, b"key", None)]
    plain = encode_batch(records)
    later = [Record(r.offset + 2, r.timestamp, r.key, r.value) for r in records]
    buf = as_bytes(_V0 + plain + encode_batch(later, codec=Codec.LZ4))
    rows = np.zeros(4, BATCH)
    count, _, _ = walk_batches(buf, 0, 0, rows)
    batches = rows[:count]
    first_bad_crc(buf, batches)
    blocks = inflate(buf, batches)
    check_records(blocks)
    tally_records(blocks)
    find_batch(buf, 1, 0, 1)
    places = record_places(blocks, blocks.rows)
    gathered(blocks, places.key)
    header_places(blocks, places.headers)
    record_digests(blocks, places, (1, 2))
    find_keys(blocks, blocks.rows, key_set_of([b"key"], (1, 2)))
    columns = scan_records(blocks, blocks.rows, (1, 2))
    retention = np.full(count, Retention.DELETE_EMPTY, np.int8)
    for era in (Era(), Era(converts=False)):
        filter_batches(
            blocks,
            blocks.rows,
            columns.null_value,
            retention,
            now=1,
            delete_retention_ms=1,
            era=era,
        )
    marker = encode_batch([Record(0, 0, bytes(4), bytes(6))], control=True, transactional=True)
    count, _, _ = walk_batches(as_bytes(marker), 0, 0, rows)
    decode_control(inflate(marker, rows[:count]), rows[:count])
    count_names(blocks, blocks.rows, CONSUMER_OFFSETS, most=1)
