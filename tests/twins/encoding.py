"""Write v2 batches in the slow and obvious way: the source of logs in tests, and the twin of what
writes batches. Every rule here is one of S2.2.
"""

from __future__ import annotations

from tests.twins.crc import crc32c_plain
from winnow.wire.batch import (
    ATTRIBUTES_AT,
    CONTROL,
    CRC_AT,
    DELETE_HORIZON,
    FRAME_SIZE,
    HEADER_V2,
    HEADER_V2_SIZE,
    LOG_APPEND_TIME,
    MAX_MAGIC,
    NO_PRODUCER,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    Codec,
)
from winnow.wire.codecs import compress
from winnow.wire.plain import Record


def encode_batch(
    records: list[Record],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    log_append_time: int | None = None,
    transactional: bool = False,
    control: bool = False,
    delete_horizon: int | None = None,
    max_timestamp: int | None = None,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    crc: int | None = None,
) -> bytes:
    """Encode a v2 batch as Java writes it (S5.7).

    Defaults: the base offset is that of the first record, the last offset that of the last one, the
    base timestamp that of the first record, the largest timestamp that of all records, and the CRC
    is correct. `log_append_time` overrides both of these timestamps and those of the records,
    `delete_horizon` the base timestamp. Without records: codec none, base timestamp -1 (S5.6), and
    offsets must be given.
    """
    base = records[0].offset if base_offset is None else base_offset
    last = records[-1].offset if last_offset is None else last_offset
    stamps = [r.timestamp if log_append_time is None else log_append_time for r in records]
    base_timestamp = stamps[0] if stamps else NO_TIMESTAMP
    if delete_horizon is not None:
        base_timestamp = delete_horizon
    largest = max([NO_TIMESTAMP, *stamps]) if log_append_time is None else log_append_time
    area = bytearray()
    for record, timestamp in zip(records, stamps, strict=True):
        _write_record(area, record, record.offset - base, timestamp - base_timestamp)
    payload = compress(codec, bytes(area)) if records else b""
    attributes = int(codec if records else Codec.NONE)
    attributes |= LOG_APPEND_TIME if log_append_time is not None else 0
    attributes |= TRANSACTIONAL if transactional else 0
    attributes |= CONTROL if control else 0
    attributes |= DELETE_HORIZON if delete_horizon is not None else 0
    header = HEADER_V2.pack(
        base,
        HEADER_V2_SIZE + len(payload) - FRAME_SIZE,
        leader_epoch,
        MAX_MAGIC,
        0,
        attributes,
        last - base,
        base_timestamp,
        largest if max_timestamp is None else max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    body = header[ATTRIBUTES_AT:] + payload
    sealed = crc32c_plain(body) if crc is None else crc
    return header[:CRC_AT] + sealed.to_bytes(4, "big") + body


def _write_record(out: bytearray, record: Record, offset_delta: int, timestamp_delta: int) -> None:
    body = bytearray(1)  # attributes, unused
    write_varint(body, timestamp_delta)
    write_varint(body, offset_delta)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    write_varint(body, len(record.headers))
    for name, content in record.headers:
        _write_bytes(body, name)
        _write_bytes(body, content)
    write_varint(out, len(body))
    out += body


def _write_bytes(out: bytearray, data: bytes | None) -> None:
    write_varint(out, -1 if data is None else len(data))
    out += data or b""


def write_varint(out: bytearray, value: int) -> None:
    """Append `value`, an int32 or int64, in the shortest form, as Java does."""
    left = _zigzag(value)
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1
