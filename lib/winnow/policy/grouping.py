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
    most = (config.segment_bytes, config.segment_index_bytes, config.segment_index_bytes)
    total = [0, 0, 0]
    ends = [*(segment.base_offset for segment in segments[1:]), end_offset]
    for segment, end in zip(segments, ends, strict=False):
        sizes = [segment.log_bytes, *segment.used_index_bytes]
        total = [before + size for before, size in zip(total, sizes, strict=True)]
        fits = all(size <= limit for size, limit in zip(total, most, strict=True))
        joins_any = segment.log_bytes == 0 and not config.rules.empty_segment_spans
        if not (
            groups
            and fits
            and (joins_any or end - 1 - groups[-1][0].base_offset <= MAX_OFFSET_SPAN)
        ):
            groups.append([])
            total = sizes
        groups[-1].append(segment)
    return tuple(tuple(group) for group in groups)
