"""Make the first room on a full disk: remove the indexes of segments that a cleaning replaces
(docs/decisions/0012).

A cleaning removes these segments, and their indexes with them. After an unclean shutdown, a broker
rebuilds the indexes of all segments from the recovery point on, and Winnow does not read them. So
these indexes may be removed before anything is written.
"""

from __future__ import annotations

from dataclasses import replace

from winnow.cleaning.plan.rounds import Round
from winnow.cleaning.request import Request
from winnow.logdir.commit.unchanged import check_unchanged
from winnow.logdir.names import INDEX, TIMEINDEX, segment_file
from winnow.scan.job import PartitionJob
from winnow.state import Segment
from winnow.storage.contract import Storage

_BLOCK_BYTES = 4_096
"""A file takes whole blocks. If they are smaller, the round fails for space before it writes."""


def seed_bytes(made: Round, request: Request) -> int:
    """Return the bytes on disk of the indexes that may be removed before the round."""
    if made.begun or request.keep_replaced or request.max_extra_space is not None:
        return 0
    sizes = (
        size or 0
        for segment in _rebuilt(made.job)
        for size in (segment.index_bytes, segment.timeindex_bytes)
    )
    return sum(-(-size // _BLOCK_BYTES) * _BLOCK_BYTES for size in sizes)


def remove_indexes(storage: Storage, made: Round) -> Round:
    """Remove the indexes that `seed_bytes` counts. Return the round without them.

    Its decisions keep the timestamps that the indexes held. Raises CorruptLogError, before anything
    is removed, if a source has changed.
    """
    directory, sources = made.job.directory, _rebuilt(made.job)
    check_unchanged(storage, directory, sources)
    with storage.changing(directory):
        for segment in sources:
            sizes = {INDEX: segment.index_bytes, TIMEINDEX: segment.timeindex_bytes}
            for suffix in (suffix for suffix, size in sizes.items() if size is not None):
                storage.unlink(f"{directory}/{segment_file(segment.base_offset, suffix)}")
        storage.fsync_dir(directory)
    bare = {
        segment.base_offset: replace(segment, index_bytes=None, timeindex_bytes=None)
        for segment in sources
    }

    def changed(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
        return tuple(bare.get(segment.base_offset, segment) for segment in segments)

    item = made.item
    return replace(
        made,
        item=replace(item, state=replace(item.state, segments=changed(item.state.segments))),
        job=replace(
            made.job,
            groups=tuple(
                replace(group, segments=changed(group.segments)) for group in made.job.groups
            ),
        ),
        journal=replace(
            made.journal,
            groups=tuple(
                replace(group, sources=changed(group.sources)) for group in made.journal.groups
            ),
        ),
    )


def _rebuilt(job: PartitionJob) -> list[Segment]:
    """Return the sources whose indexes a broker rebuilds."""
    segments = (segment for group in job.groups for segment in group.segments)
    return [segment for segment in segments if segment.rebuilt is not None]
