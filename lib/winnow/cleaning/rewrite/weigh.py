"""Weigh: count what a rewrite would keep of one group, without writing it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from winnow.cleaning.rewrite.output import CleanedGroup, GroupOutput
from winnow.cleaning.rewrite.sum_up import counts_unread, sum_up
from winnow.logdir.indexes.index import last_timestamp_of
from winnow.logdir.names import TIMEINDEX, segment_file
from winnow.runtime.cores import Cores
from winnow.scan.job import GroupJob, PartitionJob
from winnow.scan.resolve import Survivors
from winnow.scan.topic_usage import Holdings, added, holdings_of
from winnow.state import Segment
from winnow.wire.batch import NO_TIMESTAMP
from winnow.wire.internal_topics import INTERNAL_TOPICS


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedGroup(CleanedGroup):
    """The segment with which a rewrite would replace a group."""

    segment: Segment
    """As a listing would find it, except for the timestamp of its first batch."""


def weigh_group(
    job: PartitionJob,
    group: GroupJob,
    survivors: Iterable[Survivors],
    *,
    now: int,
    split_done: Callable[[int], None] = lambda _: None,
    cores: Cores | None = None,
) -> Callable[[], WeighedGroup]:
    """Process the bytes of a group as `rewrite_group` does, without writing them. The rest of the
    work is nothing but the result.
    """
    if group.stays is not None:
        unread = WeighedGroup(**counts_unread(group, group.stays), segment=group.segments[0])
        return lambda: unread
    survivors = list(survivors)
    output = GroupOutput(job, group, survivors, now=now, cores=cores)
    held: list[Holdings | None] = []
    for number in group.splits:
        for data in output.of_split(number):
            if job.topic in INTERNAL_TOPICS:
                held.append(holdings_of(data, group.base_offset, job.topic))
            del data
        split_done(number)
    index, timeindex, txnindex = output.indexes()
    unchanged = output.source.is_all(index, timeindex, txnindex)
    path = f"{job.directory}/{segment_file(group.base_offset, TIMEINDEX)}"
    weighed = WeighedGroup(
        **output.counts(added(held) if job.topic in INTERNAL_TOPICS else None, unchanged=unchanged),
        summary=sum_up(job, group, output, survivors) if unchanged else None,
        # The output inherits the age of its last source (S5.9).
        segment=replace(
            group.segments[-1],
            base_offset=group.base_offset,
            log_bytes=output.log_bytes,
            index_bytes=len(index),
            timeindex_bytes=len(timeindex),
            txnindex_bytes=None if txnindex is None else len(txnindex),
            last_timeindex_timestamp=last_timestamp_of(timeindex, path, group.base_offset, None),
            first_batch_max_timestamp=NO_TIMESTAMP,
            log_stamp=(),
        ),
    )
    return lambda: weighed
