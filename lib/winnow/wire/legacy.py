"""Convert batches of message formats v0 and v1 to what the rest of `wire` reads: v2 records and v2
headers (S2.1). Filter them as Kafka before 4.0 does: what remains keeps its format (S5.7).

An entry of these formats is one record, or a wrapper whose value is a compressed run of such
entries. Both are normalised: the records become v2 records, and the row gets the values of a v2
header. Only `magic` is unchanged.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from winnow.errors import CorruptLogError
from winnow.wire.batch import (
    ATTRIBUTES_AT,
    BATCH,
    CODEC_MASK,
    CRC_AT,
    FRAME_SIZE,
    HEADER_V2,
    HEADER_V2_SIZE,
    LOG_APPEND_TIME,
    MAGIC_AT,
    MAX_MAGIC,
    NO_PRODUCER,
    NO_TIMESTAMP,
    Codec,
    is_wrapper,
)
from winnow.wire.buffers import Bytes, Rows, as_bytes, as_rows, copied
from winnow.wire.codecs import compress, decompress_into
from winnow.wire.crc import crc32, crc32c_extended
from winnow.wire.kernels.filter import COPY, DROP, EMPTY, REWRITE
from winnow.wire.kernels.legacy import KEY_V0_AT, KEY_V1_AT, LegacyFault, convert, thin_out
from winnow.wire.kernels.old_entries import join, write_entries
from winnow.wire.record_faults import Fault, check_fault, record_error
from winnow.wire.sink import Sink
from winnow.wire.walk import walk_batches

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from winnow.wire.inflate import RecordBlocks

_USUAL_RATIO = 4
_SAID = {
    LegacyFault.AREA: "entries inside the buffer",
    LegacyFault.SIZE: "an entry whose size holds its header and lies inside of the wrapper",
    LegacyFault.EMPTY: "a wrapper with at least one record",
    LegacyFault.WRAPPER_OFFSET: "a wrapper whose offset is its last record's or above, by less "
    "than 2^31",
    LegacyFault.MAGIC: "records of v0 or v1",
    LegacyFault.CRC: "a record that matches its CRC",
    LegacyFault.NESTED: "records in a wrapper that are not compressed themselves",
    LegacyFault.KEY: "a key length of -1 or more that lies inside the record",
    LegacyFault.VALUE: "a value length of -1 or more that ends with the record",
    LegacyFault.ORDER: "offsets that ascend",
    LegacyFault.OVERLAP: "offsets above those of the batch before",
}


def convert_legacy(
    raw: Bytes,
    batches: Rows,
    sink: Sink,
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    mixed: NDArray[np.bool_],
    *,
    limit: int,
    enough: int,
) -> Rows:
    """Append the records of all v0 and v1 batches to `sink`, as v2 records, and set `begin` and
    `end` to their places, and `mixed` where a wrapper holds an entry of the other format.

    `batches`: BATCH rows, all inside `raw`. `limit`: maximum decompressed bytes of each wrapper.
    Returns the rows with those of v0 and v1 normalised, up to the wrapper before which `enough`
    bytes had been decompressed. Raises CorruptLogError for a codec that they can't have (S2.1), for
    a wrapper without records or inside another, for offsets that do not ascend, and for wrong
    lengths and CRCs.
    """
    wrapped = is_wrapper(batches)
    inner = Sink(max(1, _USUAL_RATIO * int(batches["size"][wrapped].sum())))
    entries_begin = batches["position"].copy()
    entries_end = entries_begin + batches["size"]
    for i in np.flatnonzero(wrapped).tolist():
        if inner.used >= enough:
            batches, wrapped = batches[:i], wrapped[:i]
            entries_begin, entries_end = entries_begin[:i], entries_end[:i]
            break
        start = inner.used
        try:
            _unwrap(inner, raw, batches[i], limit)
        except CorruptLogError as error:
            raise batch_error(error, batches[i]) from error
        entries_begin[i], entries_end[i] = start, inner.used
    rows = copied(batches)
    starts = np.empty(len(batches) + 1, np.int64)
    legacy = batches["magic"] < MAX_MAGIC
    # Besides key and value, an entry takes 26 bytes and a record at most 32.
    room = int((entries_end - entries_begin)[legacy].sum()) * 5 // 4 + 1
    at = sink.used
    sink.begin_converted(room)
    out = np.frombuffer(sink.reserve(room), np.uint8)
    fault, i, position = convert(
        raw, inner.data(), wrapped, entries_begin, entries_end, batches, out, rows, starts, mixed
    )
    if fault:
        raise batch_error(_wrong(LegacyFault(fault), position - int(entries_begin[i])), batches[i])
    sink.commit(int(starts[-1]))
    begin[: len(rows)][legacy] = at + starts[:-1][legacy]
    end[: len(rows)][legacy] = at + starts[1:][legacy]
    return as_rows(rows)


def _unwrap(sink: Sink, raw: Bytes, row: np.void, limit: int) -> None:
    """Append the decompressed entries of a wrapper."""
    bits = int(row["attributes"]) & CODEC_MASK
    if bits >= Codec.ZSTD:
        raise CorruptLogError(
            "unknown codec", expected="0 to 3 before message format v2", found=str(bits)
        )
    start, end = int(row["position"]), int(row["position"] + row["size"])
    magic = int(raw[start + MAGIC_AT])
    key_at = start + (KEY_V1_AT if magic else KEY_V0_AT)
    _, value_at = _field(raw, key_at, end)
    value, after = _field(raw, value_at, end)
    if value is None or after != end:
        raise CorruptLogError(
            "compressed batch can't be read",
            expected="a value that ends with it",
            found="null" if value is None else f"{end - after} bytes more",
        )
    decompress_into(sink, Codec(bits), value, limit=limit, magic=magic)


def _field(raw: Bytes, at: int, end: int) -> tuple[Bytes | None, int]:
    """Return the bytes after the int32 length at `at` (None for -1), and their end."""
    size = struct.unpack_from(">i", raw.data, at)[0] if at + 4 <= end else -2
    if not -1 <= size <= end - at - 4:
        raise CorruptLogError(
            "compressed batch can't be read",
            expected="a length of -1 or more inside of it",
            found=str(size),
        )
    return (None, at + 4) if size < 0 else (raw[at + 4 : at + 4 + size], at + 4 + size)


def retained_only(
    inflated: Bytes,
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    batches: Rows,
    keep: NDArray[np.bool_],
    retention: NDArray[np.int8],
    *,
    retain_deletes: bool,
) -> tuple[Bytes, NDArray[np.int64], Rows, NDArray[np.bool_]]:
    """Return `inflated`, `end`, `batches` and `keep` anew, without the dropped records of
    normalised batches (S5.5).

    A rewritten v0 or v1 batch begins and ends with its retained records, unlike one of v2 (S5.7).
    """
    out, rows, ends = inflated.copy(), copied(batches), end.copy()
    kept = np.empty(len(keep), np.bool_)
    *found, n = thin_out(
        inflated, begin, end, batches, keep, retention, retain_deletes, out, rows, ends, kept
    )
    check_fault((found[0], found[1], found[2]), batches, begin)
    return as_bytes(out), ends, as_rows(rows), kept[:n]


def _wrong(fault: LegacyFault, position: int) -> CorruptLogError:
    return CorruptLogError(
        "records can't be read",
        expected=_SAID[fault],
        found=f"something else {position} bytes into its entries",
        hint="Winnow leaves the partition unchanged; kafka-dump-log.sh shows how brokers read it.",
    )


def batch_error(error: CorruptLogError, row: Any) -> CorruptLogError:  # noqa: ANN401 - a row has no type
    """Return the same error with the batch (a BATCH row) named."""
    where = f"batch at byte {row['position']}, base offset {row['base_offset']}"
    return error.at(where)


_DELETE, _RETAIN_EMPTY = 0, 2  # of filtering.Retention


class OldBatches:
    """What remains of some batches of v0 and v1 in their own format. All arrays have one item per
    batch.

    An entry without a codec is one record: it is copied or dropped. A wrapper that loses no record
    is copied, too, if all its entries are of its own format. Any other is compressed again, around
    entries of its own format: brokers of old wrote v0 entries inside a v1 wrapper (KAFKA-4298).
    """

    def __init__(
        self,
        blocks: RecordBlocks,
        keep: NDArray[np.bool_],
        retention: NDArray[np.int8],
        *,
        retain_deletes: bool,
    ) -> None:
        """`blocks` holds only such batches; `keep` and `retention` as for `filter_batches`. Raises
        CorruptLogError for a malformed record.
        """
        inflated, ends, rows, _ = retained_only(
            blocks.inflated,
            blocks.begin,
            blocks.end,
            blocks.rows,
            keep,
            retention,
            retain_deletes=retain_deletes,
        )
        self.retained = np.where(retention == _DELETE, 0, rows["record_count"])
        self.action = np.full(len(rows), DROP, np.int8)
        self.action[(self.retained == 0) & (retention == _RETAIN_EMPTY)] = EMPTY
        kept = self.retained > 0
        whole = (rows["record_count"] == blocks.rows["record_count"]) & ~blocks.mixed
        self.action[kept] = np.where(whole[kept], COPY, REWRITE)
        rebuilt = self.action == REWRITE
        starts = np.empty(len(rows) + 1, np.int64)
        self.tombstones = np.zeros(len(rows), np.int32)
        newest = np.empty(len(rows), np.int64)
        # A record takes at least 7 bytes, its entry at most 34 besides key and value.
        room = int((6 * (ends - blocks.begin))[rebuilt].sum())
        entries = np.empty(room, np.uint8)
        found = write_entries(
            *(inflated, blocks.begin, ends, rows, kept, rebuilt),
            *(entries, starts, self.tombstones, newest),
        )
        check_fault(found, rows, blocks.begin)
        made = {
            at: _wrapper(rows[at], as_bytes(entries[starts[at] : starts[at + 1]]), int(newest[at]))
            for at in np.flatnonzero(rebuilt).tolist()
        } | {at: _header(rows[at]) for at in np.flatnonzero(self.action == EMPTY).tolist()}
        self.data, self.rows = _joined(blocks.raw, rows, self.action, made)


def _wrapper(row: np.void, entries: Bytes, newest: int) -> bytes:
    """Return a compressed batch of v0 or v1 around these entries."""
    magic, bits = int(row["magic"]), int(row["attributes"])
    payload = compress(Codec(bits & CODEC_MASK), entries)
    attributes = bits & CODEC_MASK
    timestamp = b""
    if magic == 1:
        attributes |= bits & LOG_APPEND_TIME
        timestamp = struct.pack(">q", row["max_timestamp"] if bits & LOG_APPEND_TIME else newest)
    body = struct.pack(">BB", magic, attributes) + timestamp
    body += struct.pack(">ii", -1, len(payload)) + payload
    body = struct.pack(">I", crc32(body)) + body
    return struct.pack(">qi", row["last_offset"], len(body)) + body


def _header(row: np.void) -> bytes:
    """Return what is left of a batch that keeps no record but must be kept: Kafka throws (S5.6)."""
    base, last = int(row["base_offset"]), int(row["last_offset"])
    log_append = int(row["attributes"]) & LOG_APPEND_TIME
    header = HEADER_V2.pack(
        *(base, HEADER_V2_SIZE - FRAME_SIZE, -1, MAX_MAGIC, 0, log_append, last - base),
        *(NO_TIMESTAMP, int(row["max_timestamp"]), NO_PRODUCER, -1, -1, 0),
    )
    crc = crc32c_extended(0, header[ATTRIBUTES_AT:])
    return header[:CRC_AT] + crc.to_bytes(4, "big") + header[ATTRIBUTES_AT:]


def _joined(
    raw: Bytes, rows: Rows, action: NDArray[np.int8], made: dict[int, bytes]
) -> tuple[Bytes, Rows]:
    """Return the output, and the headers in it."""
    left = np.flatnonzero(action != DROP)
    positions = np.where(action[left] == COPY, rows["position"][left], -1)
    pieces = [made.get(at, b"") for at in left.tolist()]
    starts = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces], dtype=np.int64)])
    sizes = np.where(positions >= 0, rows["size"][left], np.diff(starts)).astype(np.int64)
    out = np.empty(int(sizes.sum()), np.uint8)
    headers = np.empty(len(left), BATCH)
    data = as_bytes(out)
    if not join(raw, positions, sizes, as_bytes(b"".join(pieces)), starts, out):
        raise record_error(Fault.CHANGED, rows[0], 0)
    count, _, _ = walk_batches(data, 0, 0, headers)
    if count != len(left):
        raise record_error(Fault.CHANGED, rows[0], 0)
    return data, as_rows(headers)
