"""Group neighbouring segments that are cleaned into one (S5.2)."""

from __future__ import annotations

from collections.abc import Sequence

from winnow.state import Segment
from winnow.wire.batch import MAX_OFFSET_SPAN


def group_segments(
    segments: Sequence[Segment],
    *,
    max_log_bytes: int,
    max_index_bytes: int,
    end_offset: int,
    empty_spans: bool = False,
) -> tuple[tuple[Segment, ...], ...]:
    """Group greedily from the lowest segment, keeping their order (S5.2).

    `segments` ascend and end before `end_offset` (U' of S3.3), from which the last offset of the
    last one is estimated. Sizes are those before cleaning. A missing index counts as empty, as in
    Kafka, which would create one. The offset limit does not apply to empty segments: otherwise
    every 2^31 offsets would leave an empty file for ever. With `empty_spans`, as in Kafka 2.8, it
    does.
    """
    groups: list[list[Segment]] = []
    log_bytes = index_bytes = timeindex_bytes = 0
    for number, segment in enumerate(segments):
        log_bytes += segment.log_bytes
        used_index_bytes, used_timeindex_bytes = segment.used_index_bytes
        index_bytes += used_index_bytes
        timeindex_bytes += used_timeindex_bytes
        next_base = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
        if (
            groups
            and log_bytes <= max_log_bytes
            and max(index_bytes, timeindex_bytes) <= max_index_bytes
            and (
                (segment.log_bytes == 0 and not empty_spans)
                or next_base - 1 - groups[-1][0].base_offset <= MAX_OFFSET_SPAN
            )
        ):
            groups[-1].append(segment)
            continue
        groups.append([segment])
        log_bytes = segment.log_bytes
        index_bytes, timeindex_bytes = segment.used_index_bytes
    return tuple(tuple(group) for group in groups)
