"""Walk from batch to batch through a log, reading only headers (S2), check the batches'
checksums, and find the next batch after bytes that are not one.

A walk never reads beyond the given bytes and never fails: it stops and says why. `describe` turns
the reason into an error for callers to whom it is one. A torn tail, for example, is not an error in
an active segment (S2).
"""

from __future__ import annotations

from winnow.errors import CorruptLogError
from winnow.small_work import is_small, plain_ns, spend
from winnow.wire import plain
from winnow.wire.batch import (
    FRAME,
    FRAME_SIZE,
    HEADER_V2_SIZE,
    LAST_OFFSET_DELTA_AT,
    MAGIC_AT,
    MAX_MAGIC,
    MAX_OFFSET,
    RECORD_COUNT_AT,
    WalkStatus,
)
from winnow.wire.buffers import Buffer, Bytes, Rows, as_bytes, as_rows
from winnow.wire.record_faults import HINT

_WALK_NS, _CHECK_NS, _SEARCH_NS = 2_500, 1_200, 35
"""Time that a plain twin takes for a batch walked, for a batch checked, and for a byte searched."""
_CHECKED_PER_NS = 16
"""Bytes of a batch whose CRC-32C the library computes in a nanosecond."""


def walk_batches(
    buf: Buffer, start: int, least_offset: int, out: Rows
) -> tuple[int, int, WalkStatus]:
    """Fill `out` (BATCH rows) from byte `start` on. Return (rows filled, position of the next
    entry, why it stopped).

    `least_offset`: minimum for the first batch's base offset (v0, v1: offset). Each later batch
    must not begin below the next offset of the one before. If the status is neither FULL nor END,
    the position is that of the faulty entry.
    """
    data = as_bytes(buf)
    most = min(len(out), plain_ns() // _WALK_NS)
    walked = 0
    if most:
        walked, start, status = plain.walk_batches(data, start, least_offset, out[:most])
        spend(walked * _WALK_NS)
        if status is not WalkStatus.FULL or walked == len(out):
            return walked, start, status
        least_offset = int(out[walked - 1]["last_offset"]) + 1
    from winnow.wire.kernels.walk import walk  # noqa: PLC0415 - with numba

    count, position, status = walk(data, start, least_offset, out[walked:])
    return walked + count, position, status


def describe(
    status: WalkStatus, buf: Buffer, position: int, *, least_offset: int, file_name: str
) -> CorruptLogError:
    """Return the error for a walk's status other than FULL and END.

    `position`: where the walk stopped. `least_offset`: minimum of the entry's offset, i.e. the last
    offset of the last row + 1, or the argument of the walk. `file_name` is used only in the text.
    """
    data = as_bytes(buf)
    left = len(data) - position
    expected, found = {
        WalkStatus.TORN: ("a whole batch", f"{left} bytes up to the end"),
        WalkStatus.BAD_SIZE: (
            "a size that holds the header",
            _field(data, position + 8, 4, "size"),
        ),
        WalkStatus.BAD_MAGIC: (
            f"magic 0 to {MAX_MAGIC}",
            _field(data, position + MAGIC_AT, 1, "magic"),
        ),
        WalkStatus.BAD_COUNT: (
            "a record count and a last offset delta of 0 or more",
            " and ".join(
                (
                    _field(data, position + RECORD_COUNT_AT, 4, "count"),
                    _field(data, position + LAST_OFFSET_DELTA_AT, 4, "delta"),
                )
            ),
        ),
        WalkStatus.OUT_OF_ORDER: _out_of_order(data, position, least_offset),
    }[status]
    if status is WalkStatus.TORN and left >= FRAME_SIZE:
        expected += f" of {FRAME_SIZE + FRAME.unpack_from(data.data, position)[1]} bytes"
    return CorruptLogError(
        "batch can't be read",
        expected=expected,
        found=found,
        where=f"{file_name} at byte {position}",
        hint=HINT,
    )


def _out_of_order(data: Bytes, position: int, least_offset: int) -> tuple[str, str]:
    """Return the limit that is broken, and what was found."""
    first = last = int.from_bytes(data[position : position + 8].tobytes(), signed=True)
    if len(data) - position >= HEADER_V2_SIZE and data[position + MAGIC_AT] == MAX_MAGIC:
        at = position + LAST_OFFSET_DELTA_AT
        last += int.from_bytes(data[at : at + 4].tobytes(), signed=True)
    if first < least_offset:
        return f"an offset of {least_offset} or more", f"offset {first}"
    return f"offsets of {MAX_OFFSET} or less", f"offsets {first} to {last}"


def _field(data: Bytes, at: int, size: int, name: str) -> str:
    return f"{name} {int.from_bytes(bytes(data[at : at + size]), 'big', signed=True)}"


def first_bad_crc(buf: Buffer, batches: Rows) -> int:
    """Return the index of the first of `batches` that does not match its CRC, else -1 (S5.3)."""
    data, rows = as_bytes(buf), as_rows(batches)
    if plain_ns():
        summed = int(rows["size"].sum())
        if is_small(len(rows) * _CHECK_NS + summed // _CHECKED_PER_NS):
            return plain.first_bad_crc(data, rows)
    from winnow.wire.kernels import walk  # noqa: PLC0415 - with numba

    return int(walk.first_bad_crc(data, rows))


def find_batch(buf: Buffer, start: int, least_offset: int, end_offset: int) -> int:
    """Return the position of the first batch from `start` on that lies entirely in `buf` and
    matches its CRC; -1 for none.

    Its base offset (v0, v1: offset) is in [least_offset, end_offset). Without that bound, too many
    bytes look like a header.
    """
    data, start, least_offset = as_bytes(buf), max(start, 0), max(least_offset, 0)
    if is_small(max(0, len(data) - start) * _SEARCH_NS):
        return plain.find_batch(data, start, least_offset, end_offset)
    from winnow.wire.kernels import walk  # noqa: PLC0415 - with numba

    return int(walk.find_batch(data, start, least_offset, end_offset))
