"""The three versions of batch headers on disk, and the columns they are read into.

Every entry of a `.log` file begins the same way (S2):

    baseOffset           int64   v0, v1: the record's offset, or the last offset inside a wrapper
    length               int32   bytes that follow this field
    partitionLeaderEpoch int32   v2; v0 and v1 have the CRC-32 of the rest here
    magic                int8    0, 1 or 2: the only field at the same place in all versions

A v2 batch continues (S2.2):

    crc                  uint32  CRC-32C of everything from `attributes` to the end. The leader
                                 epoch is before it: a follower sets it without a new checksum
    attributes           int16   bits 0-2 codec, 3 log-append time, 4 transactional, 5 control,
                                 6 delete horizon
    lastOffsetDelta      int32   last offset minus base offset; after compaction not recordCount - 1
    baseTimestamp        int64   first record's timestamp, or the delete horizon if bit 6 is set
    maxTimestamp         int64
    producerId           int64   -1: none
    producerEpoch        int16   -1: none
    baseSequence         int32   -1: none
    recordCount          int32   0 is legal on disk: an empty batch, kept for its producer
    records              ...     one compressed block if a codec is set
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FRAME = struct.Struct(">qi")
"""baseOffset, length: the part that `length` does not count."""

HEADER_V2 = struct.Struct(">qiibIhiqqqhii")
"""baseOffset .. recordCount of a v2 batch, in the order of the table above."""

FRAME_SIZE = FRAME.size  # 12
HEADER_V2_SIZE = HEADER_V2.size  # 61
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 21
LAST_OFFSET_DELTA_AT = 23
BASE_TIMESTAMP_AT = 27
MAX_TIMESTAMP_AT = 35
PRODUCER_ID_AT = 43
PRODUCER_EPOCH_AT = 51
BASE_SEQUENCE_AT = 53
RECORD_COUNT_AT = 57

RECORD_OVERHEAD_V0 = 14
"""Minimum of `length` in any version: a v0 record with neither key nor value (S2)."""
RECORD_OVERHEAD_V1 = 22
CRC_V0_AT = FRAME_SIZE
ATTRIBUTES_V0_AT = MAGIC_AT + 1
TIMESTAMP_V1_AT = MAGIC_AT + 2
KEY_V0_AT = MAGIC_AT + 2
KEY_V1_AT = TIMESTAMP_V1_AT + 8
MAX_MAGIC = 2
SMALLEST_RECORD = 7
"""Bytes of a record without key, value and headers: length, attributes and five numbers."""
FRAME_TO_MAGIC = MAGIC_AT + 1
SIZE_V0 = FRAME_SIZE + RECORD_OVERHEAD_V0
SIZE_V1 = FRAME_SIZE + RECORD_OVERHEAD_V1

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
# Other bits mean nothing there (S2.1). They must not be read as those of v2.
BITS_V0 = CODEC_MASK
BITS_V1 = CODEC_MASK | LOG_APPEND_TIME
LEGACY = 1 << 16
"""Beside these bits: a batch of v0 or v1."""
EMPTY = 1 << 17
"""A v2 batch without records."""

NO_TIMESTAMP = -1
NO_PRODUCER = -1
MAX_OFFSET = 2**63 - 2
"""Largest offset of a record. The log then ends at 2^63-1. Kafka deletes a log that ends above."""
MOST_SUMMED = 32
"""Maximum bytes to checksum per byte searched for a batch: hostile bytes could require any number.
"""
MAX_OFFSET_SPAN = 2**31 - 1
"""Maximum distance of an offset from its segment's base that an index entry can hold (S1.6)."""


def out_of_reach(base_offset: int) -> int:
    """Return the first offset that no index entry of a segment can hold, at most 2^63-1."""
    return min(base_offset + MAX_OFFSET_SPAN + 1, 2**63 - 1)


class Codec(IntEnum):
    """Bits 0-2 of the attributes (S2.2)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class WalkStatus(IntEnum):
    """Why a walk over headers stopped."""

    FULL = 0
    """No row left in `out`; continue at the next position."""
    END = 1
    """Exactly at the end of the bytes."""
    TORN = 2
    """Fewer bytes left than the size in the entry, or too few to hold a size."""
    BAD_SIZE = 3
    BAD_MAGIC = 4
    BAD_COUNT = 5
    """A negative record count or last offset delta."""
    OUT_OF_ORDER = 6
    """Offsets do not ascend, or are not valid offsets."""


BATCH = np.dtype(
    [
        ("position", np.int64),  # byte in the file where the frame starts
        ("size", np.int64),  # bytes of the whole entry, frame included
        # v0/v1: equals last_offset (a wrapper's base needs decompression)
        ("base_offset", np.int64),
        ("last_offset", np.int64),
        # v0: -1; v1: the timestamp; v2: raw field (the horizon if bit 6 is set)
        ("base_timestamp", np.int64),
        ("max_timestamp", np.int64),  # v0: -1
        ("producer_id", np.int64),  # -1 for v0/v1
        ("leader_epoch", np.int32),  # -1 for v0/v1
        ("base_sequence", np.int32),  # -1 for v0/v1
        ("record_count", np.int32),  # -1 for v0/v1: not in the header
        ("crc", np.uint32),
        ("attributes", np.int16),
        ("producer_epoch", np.int16),  # -1 for v0/v1
        ("magic", np.int8),
    ]
)
"""One row per batch, as `winnow.wire.walk.walk_batches` reads it from the header."""


def has_producer(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows (of any dtype with `producer_id`) have a producer id. All other batches are
    outside of every transaction, whatever their attributes say: a client may set any of them
    (Kafka's `RecordBatch.hasProducerId`).
    """
    found: NDArray[np.bool_] = rows["producer_id"] > NO_PRODUCER
    return found


def is_wrapper(batches: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows are compressed batches of v0 and v1, whose headers lack a record count."""
    wrapper: NDArray[np.bool_] = (batches["magic"] < MAX_MAGIC) & (
        (batches["attributes"] & CODEC_MASK) != Codec.NONE
    )
    return wrapper


def bits_of(batches: NDArray[Any]) -> int:
    """Return the bits that any of the batches has in its attributes, and LEGACY and EMPTY if any is
    such a batch.
    """
    legacy = batches["magic"] < MAX_MAGIC
    bits = int(np.bitwise_or.reduce(batches["attributes"])) & 0xFFFF
    bits |= LEGACY if legacy.any() else 0
    return bits | (EMPTY if (~legacy & (batches["record_count"] < 1)).any() else 0)
