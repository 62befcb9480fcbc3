"""The batches of a segment that a broker keeps when it recovers it: all before the first that is
torn, is invalid, or does not match its CRC (S8.2, S8.9).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from winnow.storage.segment_io import load
from winnow.wire.batch import (
    ATTRIBUTES_AT,
    BATCH,
    CRC_AT,
    FRAME,
    FRAME_SIZE,
    HEADER_V2_SIZE,
    MAGIC_AT,
    MAX_MAGIC,
    RECORD_OVERHEAD_V0,
)
from winnow.wire.buffers import Bytes, Rows
from winnow.wire.crc import crc32_part, crc32c
from winnow.wire.walk import WalkStatus, describe, first_bad_crc, walk_batches

READ_AT_ONCE = 8 << 20
"""Bytes whose headers are walked before their checksums: few enough for the caches."""
_ROWS = 4_096
_MAX_SIGNED = 127


def valid_batches(
    buf: Bytes, path: str, base_offset: int, *, as_loader: bool = False
) -> Iterator[Rows | str]:
    """Yield BATCH rows of valid batches in pieces, and at last the reason for a cut, if there is
    one.

    Raises CorruptLogError where a broker would not simply cut, before a batch whose CRC matches: if
    its offsets do not ascend, or are invalid. With `as_loader`, offsets may go back, and a magic
    above 2 counts as 2: a loader keeps such batches.
    """
    rows = np.empty(_ROWS, BATCH)
    position, window = 0, READ_AT_ONCE
    first = 0 if as_loader else base_offset
    least = first
    while position < len(buf):
        end = min(len(buf), position + window)
        load(buf, position, end)
        count, after, status = walk_batches(buf[:end], position, least, rows)
        found = rows[:count]
        bad = first_bad_crc(buf, found)
        if bad != 0 and count:
            valid = found[:bad] if bad > 0 else found
            yield valid
            least = int(valid["last_offset"][-1]) + 1
        if bad >= 0:
            at = int(found["position"][bad])
            yield f"the CRC of the batch at byte {at} does not match"
            return
        position = after
        if status in (WalkStatus.FULL, WalkStatus.END):
            window = READ_AT_ONCE
        elif status is WalkStatus.TORN and end < len(buf):
            window = READ_AT_ONCE if count else min(window * 2, len(buf))
        elif as_loader and status is WalkStatus.OUT_OF_ORDER and least > first:
            least = first
        else:
            unusual = _of_higher_magic(buf, path, position) if as_loader else None
            if unusual is None:
                yield _why_cut(buf, path, position, status, least)
                return
            yield unusual
            least = int(unusual["last_offset"][0]) + 1
            position += int(unusual["size"][0])


def _of_higher_magic(buf: Bytes, path: str, position: int) -> Rows | None:
    """Return the row of a batch whose magic is above 2. No CRC covers the magic, and a broker reads
    every magic from 2 to 127 as 2. None: it is no such batch, or its CRC does not match.
    """
    if len(buf) - position < HEADER_V2_SIZE:
        return None
    size = FRAME_SIZE + int(FRAME.unpack_from(buf.data, position)[1])
    if not MAX_MAGIC < buf[position + MAGIC_AT] <= _MAX_SIGNED:
        return None
    if not HEADER_V2_SIZE <= size <= len(buf) - position:
        return None
    load(buf, position, position + size)
    batch = np.array(buf[position : position + size])
    batch[MAGIC_AT] = MAX_MAGIC
    row = np.empty(1, BATCH)
    count, _, status = walk_batches(batch, 0, 0, row)
    if int.from_bytes(batch[CRC_AT:ATTRIBUTES_AT].tobytes()) != crc32c(batch, ATTRIBUTES_AT, size):
        return None
    if not count:
        raise describe(status, batch, 0, least_offset=0, file_name=path)
    row["position"] = position
    return row


def _why_cut(buf: Bytes, path: str, position: int, status: WalkStatus, least: int) -> str:
    """Return why a broker cuts the log before an entry that cannot be a batch.

    Raises CorruptLogError if the entry's CRC matches: a broker would not cut there.
    """
    if not buf[position : position + HEADER_V2_SIZE].any():
        return f"zeros follow from byte {position} on"
    left = len(buf) - position
    if status is WalkStatus.TORN:
        return f"the batch at byte {position} is not whole"
    _, length = FRAME.unpack_from(buf.data, position)
    size = FRAME_SIZE + length
    # To a broker the magic is a signed byte, and anything below 2 is an old format.
    modern = MAX_MAGIC <= buf[position + MAGIC_AT] <= _MAX_SIGNED
    if length < RECORD_OVERHEAD_V0 or (modern and size < HEADER_V2_SIZE):
        return f"the batch at byte {position} has a size of {size} bytes"
    if size > left:
        return f"the batch at byte {position} is not whole"
    crc_at, first = (CRC_AT, ATTRIBUTES_AT) if modern else (FRAME_SIZE, MAGIC_AT)
    crc = crc32c if modern else crc32_part
    load(buf, position, position + size)
    stored = int.from_bytes(buf[position + crc_at : position + crc_at + 4].tobytes())
    if stored != int(crc(buf, position + first, position + size)):
        return f"the CRC of the batch at byte {position} does not match"
    raise describe(status, buf, position, least_offset=least, file_name=path)
