"""Batches as a leader writes them to its log: data with or without a producer, and the markers of a
coordinator.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.log_writer.producer_table import ABORT, COMMIT, MARKER_KEY, MARKER_VALUE
from tests.twins.encoding import encode_batch
from winnow.wire.batch import ATTRIBUTES_AT, CRC_AT, NO_PRODUCER, Codec
from winnow.wire.buffers import as_bytes
from winnow.wire.crc import crc32c
from winnow.wire.plain import Record

_CRC = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Producer:
    """An idempotent or transactional producer."""

    producer_id: int
    epoch: int = 0


NOBODY = Producer(NO_PRODUCER, -1)
"""Neither idempotent nor transactional."""


def data_batch(
    records: Sequence[Record],
    *,
    base_offset: int,
    leader_epoch: int,
    codec: Codec,
    producer: Producer,
    base_sequence: int,
    transactional: bool,
    log_append_time: int | None,
) -> bytes:
    """One batch; `records` get offsets from `base_offset` on, whatever theirs were."""
    batch = encode_batch(
        [
            replace(record, offset=offset)
            for offset, record in enumerate(records, start=base_offset)
        ],
        leader_epoch=leader_epoch,
        codec=codec,
        log_append_time=log_append_time,
        transactional=transactional,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=base_sequence,
        crc=0,
    )
    # `encode_batch` would take its time for it.
    crc = crc32c(as_bytes(batch), ATTRIBUTES_AT, len(batch))
    return batch[:CRC_AT] + _CRC.pack(int(crc)) + batch[ATTRIBUTES_AT:]


def marker_batch(
    producer: Producer,
    *,
    commit: bool,
    offset: int,
    leader_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
) -> bytes:
    """The control batch that ends a producer's transaction (S2.3)."""
    key = MARKER_KEY.pack(0, COMMIT if commit else ABORT)
    return encode_batch(
        [Record(offset, timestamp, key, MARKER_VALUE.pack(0, coordinator_epoch))],
        leader_epoch=leader_epoch,
        transactional=True,
        control=True,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
    )
