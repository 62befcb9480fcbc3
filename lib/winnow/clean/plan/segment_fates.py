"""What becomes of each segment of a partition."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from winnow.clean.result import Fate, SegmentFate
from winnow.state import PartitionState


def segment_fates(
    state: PartitionState,
    *,
    compacted: Collection[int] = (),
    deleted: Collection[int] = (),
    checksums: Mapping[int, int] | None = None,
) -> tuple[SegmentFate, ...]:
    """All segments of `state`. `compacted`, `deleted`: base offsets; what is in both was compacted
    and then went. `checksums`: of those that were compacted, by base offset.
    """
    fates: dict[int, Fate] = {
        **dict.fromkeys(compacted, "compacted"),
        **dict.fromkeys(deleted, "deleted"),
    }
    return tuple(
        SegmentFate(
            segment.base_offset,
            segment.log_bytes,
            segment.largest_timestamp,
            fates.get(segment.base_offset, "kept"),
            (checksums or {}).get(segment.base_offset),
        )
        for segment in state.segments
    )
