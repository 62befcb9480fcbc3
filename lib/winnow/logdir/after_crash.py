"""How much of a log a broker keeps when it starts after a crash (S8.2).

The broker reads everything above its recovery point, batch by batch. It cuts the log behind the
last whole batch: zeros of a preallocated file, a torn batch, a wrong CRC. It deletes the segments
after the cut. Until then a file is larger than its part of the log, so rules must not count its
size.
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
    """Read a `.log` up to the first byte that is not part of a whole batch, and return that end."""
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
    """Return how many bytes of the unread last segments of a log a broker will cut off or remove.

    `active`: the end of the last of these segments.
    """
    lost = 0
    for segment in unread:
        if lost:
            lost += segment.log_bytes
        else:
            end = active if segment is unread[-1] else whole_end(directory, segment)
            lost = segment.log_bytes - end.position
    return lost
