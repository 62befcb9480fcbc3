"""How much of a log a broker keeps when it starts after a crash (S8.2).

It reads what its recovery point does not cover, batch by batch, and cuts the log behind the last
whole one: zeros of a preallocated file, a torn batch, one with a wrong CRC. Segments after the cut
go. Until then a file is larger than its part of the log, and no rule may count with its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.logdir.damage import whole_rows
from winnow.logdir.names import LOG, segment_file
from winnow.state import Segment
from winnow.storage.segment_io import map_range, release
from winnow.wire.walk import first_bad_crc


@dataclass(frozen=True, slots=True)
class WholeEnd:
    """Where the whole batches of a segment end."""

    position: int
    next_offset: int


def whole_end(directory: str, segment: Segment) -> WholeEnd:
    """Reads all bytes of a `.log` up to the first that is not part of a whole batch."""
    path = f"{directory}/{segment_file(segment.base_offset, LOG)}"
    end = WholeEnd(0, segment.base_offset)
    with map_range(path, 0, segment.log_bytes, gradually=True) as buf:
        for rows in whole_rows(buf, 0, segment.base_offset):
            bad = first_bad_crc(buf, rows)
            whole = rows[: bad if bad >= 0 else len(rows)]
            if len(whole):
                last = whole[-1]
                end = WholeEnd(
                    int(last["position"]) + int(last["size"]), int(last["last_offset"]) + 1
                )
            if bad >= 0:
                break
            release(buf, end.position)
        del buf
    return end


def lost_bytes(directory: str, unread: Sequence[Segment], active: WholeEnd) -> int:
    """Of the last segments of a log, which nobody has looked into, the bytes that a broker will cut
    off or remove.

    `active`: the end of the last one of them.
    """
    lost = 0
    for segment in unread:
        if lost:
            lost += segment.log_bytes
        else:
            end = active if segment is unread[-1] else whole_end(directory, segment)
            lost = segment.log_bytes - end.position
    return lost
