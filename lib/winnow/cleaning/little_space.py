"""Where space is short: learn what each group keeps before anything of it is written
(docs/decisions/0012).

Before the records are read, only a limit of a group's output is known: the size of its sources.
Where that does not fit, the records are read once more and the exact size decides. If even that
does not fit, removing the indexes of the sources may make the first room. A cleaning removes these
segments, and their indexes with them. After an unclean shutdown, a broker rebuilds the indexes of
all segments from the recovery point on, and Winnow does not read them. So they may be removed
before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from winnow.cleaning.plan.ready import ReadyPartition
from winnow.cleaning.request import Request
from winnow.cleaning.rewrite.cleaned import CleanedGroup
from winnow.cleaning.rewrite.compaction import Estimate, Estimated
from winnow.cleaning.space import Room, needed_bytes, no_space
from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.commit.leftovers import check_unchanged
from winnow.logdir.names import INDEX, TIMEINDEX, segment_file
from winnow.policy.free import file_bytes
from winnow.runtime.failure import Failure, failure
from winnow.scan.job import PartitionJob
from winnow.state import Segment
from winnow.storage.contract import Storage


def with_exact_sizes(
    partitions: Mapping[int, ReadyPartition], estimate: Estimate, request: Request
) -> tuple[dict[int, Estimated], dict[int, ReadyPartition]]:
    """Read the records of these partitions. Return, by number, what was found of each, and the
    partitions that can be read with the exact sizes of their groups, the one that needs least space
    first. Writes nothing.
    """
    found = estimate([ready.job for ready in partitions.values()]) if partitions else []
    groups = dict(zip(partitions, found, strict=True))
    exact = [
        (number, _exact(partitions[number], outcome))
        for number, outcome in groups.items()
        if not isinstance(outcome, Failure)
    ]
    exact.sort(
        key=lambda one: (needed_bytes(one[1].job, request), one[1].item.place.topic_partition)
    )
    return groups, dict(exact)


def make_room(ready: ReadyPartition, room: Room, request: Request) -> ReadyPartition | Failure:
    """Return a round with exact sizes that fits, without the indexes of its sources if only that
    makes it fit.
    """
    needed, left = needed_bytes(ready.job, request), room.at(ready.job.directory)
    if needed <= left:
        return ready
    if needed > left + seed_bytes(ready, request):
        return no_space(needed, left, request)
    try:
        return remove_indexes(request.storage, ready)
    except FAILS_ONE_PARTITION as error:
        return failure(error)


def _exact(ready: ReadyPartition, estimated: Sequence[CleanedGroup]) -> ReadyPartition:
    groups = tuple(
        replace(
            group,
            most_log_bytes=one.bytes_after,
            most_index_bytes=file_bytes(one.segment) - one.bytes_after,
        )
        for group, one in zip(ready.job.groups, estimated, strict=True)
    )
    return replace(ready, job=replace(ready.job, groups=groups))


_BLOCK_BYTES = 4_096
"""A file takes whole blocks. If they are smaller, the round fails for space before it writes."""


def seed_bytes(made: ReadyPartition, request: Request) -> int:
    """Return the bytes on disk of the indexes that may be removed before the round."""
    if made.staged.begun or request.frees_nothing or request.max_extra_space is not None:
        return 0
    sizes = (
        size or 0
        for segment in _rebuilt(made.job)
        for size in (segment.index_bytes, segment.timeindex_bytes)
    )
    return sum(-(-size // _BLOCK_BYTES) * _BLOCK_BYTES for size in sizes)


def remove_indexes(storage: Storage, made: ReadyPartition) -> ReadyPartition:
    """Remove the indexes that `seed_bytes` counts. Return the round without them.

    Its decisions keep the timestamps that the indexes held. Raises CorruptLogError, before anything
    is removed, if a source has changed.
    """
    directory, sources = made.job.directory, _rebuilt(made.job)
    check_unchanged(storage, directory, sources)
    with storage.changing(directory):
        for segment in sources:
            sizes = {INDEX: segment.index_bytes, TIMEINDEX: segment.timeindex_bytes}
            for suffix in [suffix for suffix, size in sizes.items() if size is not None]:
                storage.unlink(f"{directory}/{segment_file(segment.base_offset, suffix)}")
        storage.fsync_dir(directory)
    bare = {
        segment.base_offset: replace(segment, index_bytes=None, timeindex_bytes=None)
        for segment in sources
    }

    def changed(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
        return tuple(bare.get(segment.base_offset, segment) for segment in segments)

    item, journal = made.item, made.staged.journal
    return replace(
        made,
        item=replace(item, state=replace(item.state, segments=changed(item.state.segments))),
        job=replace(
            made.job,
            groups=tuple(
                replace(group, segments=changed(group.segments)) for group in made.job.groups
            ),
        ),
        staged=replace(
            made.staged,
            journal=replace(
                journal,
                groups=tuple(
                    replace(group, sources=changed(group.sources)) for group in journal.groups
                ),
            ),
        ),
    )


def _rebuilt(job: PartitionJob) -> list[Segment]:
    """Return the sources whose indexes a broker rebuilds."""
    segments = (segment for group in job.groups for segment in group.segments)
    return [segment for segment in segments if segment.rebuilt is not None]
