"""Find the bytes of a segment that are not batches (S2), and where the log is whole again.

Damage begins at the first entry whose header is invalid, whose offsets do not fit between its
neighbours, or whose CRC does not match. It ends where the size in this entry leads to a whole batch
or to the end of the segment. If that size cannot be trusted either, it ends at the next batch that
is provably one: its offsets fit, its CRC matches, and another batch or the end of the segment
follows it. The last condition matters: an entry with a damaged size may hold a record whose value
contains a batch, and that value must not pass for a batch of the log.

No CRC covers a base offset. If one is too high, the batches after it seem to be out of order, but
they are not the damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from winnow.logdir.batches import End, HeaderWalk, end_of, first_headers
from winnow.storage.segment_io import map_range
from winnow.wire.batch import FRAME, FRAME_SIZE, RECORD_OVERHEAD_V0
from winnow.wire.buffers import Bytes
from winnow.wire.walk import find_batch, first_bad_crc


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes [start, end) of a segment's log."""

    start: int
    end: int
    least_offset: int
    """The offset after the last batch before these bytes, else the segment's base offset."""
    end_offset: int
    """Base offset of the next batch, in this segment or another. The lost records lie below it."""

    @property
    def holds_offsets(self) -> bool:
        """Return whether there is an offset between the batches around these bytes. There is none
        if a whole batch there repeats the offsets of its neighbour.
        """
        return self.least_offset < self.end_offset


def find_damage(
    path: str, log_bytes: int, *, base_offset: int, end_offset: int
) -> tuple[Damage, ...]:
    """Return all damage in the log of a segment, ascending. `end_offset`: base offset of the next
    segment.

    Reads every byte. A batch whose CRC matches counts as whole; its records are not checked.
    """
    with map_range(path, 0, log_bytes) as buf:
        return tuple(damage_in(buf, base_offset=base_offset, end_offset=end_offset))


def damage_in(buf: Bytes, *, base_offset: int, end_offset: int) -> Iterator[Damage]:
    end = End(0, base_offset)
    while True:
        last, end = _sound(buf, end, end_offset)
        if end.position == len(buf):
            return
        if last is not None and _reaches_too_far(buf, last, end, end_offset):
            start, least, position = last.position, last.next_offset, end.position
        else:
            start, least = end.position, end.next_offset
            position = _whole_again(buf, start, least, end_offset)
        is_last = position == len(buf)
        below = end_offset if is_last else FRAME.unpack_from(buf.data, position)[0]
        yield Damage(start, position, least, below)
        end = End(position, least)


def _sound(buf: Bytes, begin: End, end_offset: int) -> tuple[End | None, End]:
    """Return where the last batch before the first damage begins (None for none), and ends."""
    last, end = None, begin
    for rows in HeaderWalk(buf, begin.next_offset, start=begin.position):
        beyond = np.flatnonzero(rows["last_offset"] >= end_offset)[:1].tolist()
        crc = first_bad_crc(buf, rows)
        sound = rows[: min([len(rows), *beyond, *([crc] if crc >= 0 else [])])]
        if len(sound):
            last = end_of(sound[-2]) if len(sound) > 1 else end
            end = end_of(sound[-1])
        if len(sound) < len(rows):
            break
    return last, end


def _reaches_too_far(buf: Bytes, last: End, end: End, end_offset: int) -> bool:
    """Return whether the batch between these two has wrong offsets, and not the next one.

    It has if the next batch would be in order without it and also ends where its own successor
    begins, or if both of these lie below the end of the batch.
    """
    rows = first_headers(buf, end.position, last.next_offset, most=2)
    if not len(rows) or first_bad_crc(buf, rows) >= 0 or int(rows["last_offset"][-1]) >= end_offset:
        return False
    following = int(rows["base_offset"][1]) if len(rows) > 1 else end_offset
    return following < end.next_offset or following == int(rows["last_offset"][0]) + 1


def _whole_again(buf: Bytes, start: int, least: int, end_offset: int) -> int:
    if start + FRAME_SIZE <= len(buf):
        _, length = FRAME.unpack_from(buf.data, start)
        next_entry = start + FRAME_SIZE + length
        if length >= RECORD_OVERHEAD_V0 and (
            next_entry == len(buf) or _is_whole(buf, next_entry, least, end_offset)
        ):
            return int(next_entry)
    position = start
    # The slice starts behind `position`, and the result counts from there.
    while (found := find_batch(buf[position + 1 :], 0, least, end_offset)) >= 0:
        position += 1 + found
        if _is_whole(buf, position, least, end_offset, followed=True):
            return position
    return len(buf)


def _is_whole(
    buf: Bytes, position: int, least: int, end_offset: int, *, followed: bool = False
) -> bool:
    """`followed`: another batch, or the end of the segment, must follow."""
    rows = first_headers(buf, position, least, most=2)
    fits = rows["last_offset"] < end_offset
    if not len(rows) or not fits[0] or first_bad_crc(buf, rows[:1]) >= 0:
        return False
    return not followed or bool(fits[1:].any()) or end_of(rows[0]).position == len(buf)
