"""Group neighbouring segments that are cleaned into one (S5.2)."""

from __future__ import annotations

from collections.abc import Sequence

from winnow.policy.config import TopicConfig
from winnow.state import Segment
from winnow.wire.batch import MAX_OFFSET_SPAN


def group_segments(
    segments: Sequence[Segment], config: TopicConfig, *, end_offset: int
) -> tuple[tuple[Segment, ...], ...]:
    """Group greedily from the lowest segment, keeping their order (S5.2).

    `segments` ascend and end before `end_offset` (U' of S3.3), from which the last offset of the
    last one is estimated. Sizes are those before cleaning. The offset limit does not apply to empty
    segments: otherwise every 2^31 offsets would leave an empty file for ever. In Kafka 2.8 it does.
    """
    groups: list[list[Segment]] = []
    log = index = timeindex = 0
    ends = [*(segment.base_offset for segment in segments[1:]), end_offset]
    for segment, end in zip(segments, ends, strict=False):
        used_index, used_timeindex = segment.used_index_bytes
        log += segment.log_bytes
        index += used_index
        timeindex += used_timeindex
        fits = log <= config.segment_bytes and max(index, timeindex) <= config.segment_index_bytes
        joins_any = segment.log_bytes == 0 and not config.rules.empty_segment_spans
        if not (
            groups
            and fits
            and (joins_any or end - 1 - groups[-1][0].base_offset <= MAX_OFFSET_SPAN)
        ):
            groups.append([])
            log, index, timeindex = segment.log_bytes, used_index, used_timeindex
        groups[-1].append(segment)
    return tuple(tuple(group) for group in groups)
