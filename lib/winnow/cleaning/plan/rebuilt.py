"""Ask a broker's loader which transaction indexes it rebuilds after an unclean shutdown (S8.2).

A crash may lose a transaction index, or leave what no longer belongs to the log. A broker rebuilds
the indexes of the segments that it recovers from the batches and from the producer snapshots. So
those on the disk are not read there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from winnow.cleaning.plan.partitions import SelectedPartition
from winnow.cleaning.request import Request
from winnow.logdir.commit.truncation import Truncation
from winnow.logdir.listing import SegmentListing
from winnow.logdir.names import DirectoryKind
from winnow.policy.config import TopicConfig
from winnow.policy.plan import Reason
from winnow.runtime.failure import Failure
from winnow.runtime.spread import spread
from winnow.start.loaded import LoadedLog, LogToLoad
from winnow.start.loader import load_log
from winnow.state import PartitionState, Segment
from winnow.storage.places import Places
from winnow.survey.place import ListedPartition
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark import SparkContext

NOT_REBUILT = Reason(
    "S8.2",
    "the broker was not shut down cleanly, and its cleanup.policy did not compact when this plan "
    "was made, so the transaction indexes were not rebuilt. Plan again with compact from the start",
)


def with_rebuilt(
    sc: SparkContext,
    found: Sequence[tuple[SelectedPartition, ListedPartition | Failure]],
    request: Request,
) -> list[tuple[SelectedPartition, ListedPartition | Failure]]:
    """Return the listed partitions with the transaction indexes that a broker rebuilds, and the
    producers that it then knows. Only partitions that may be compacted are read, and only where
    these may differ from what lies on the disk: retention does not need them.
    """
    result = list(found)
    to_load = {
        number: _to_load(known, listed.listing, request)
        for number, (known, listed) in enumerate(found)
        if isinstance(listed, ListedPartition)
        and known.config.cleanup_compact
        and (any(map(lacks_txnindex, listed.listing.segments)) or _forgets(known, listed.listing))
    }
    loaded = spread(
        sc,
        _load,
        [*to_load.values()],
        weights=[log.bytes for log, _ in to_load.values()],
        name=f"rebuilding the transaction indexes of {counted(len(to_load), 'partition')}",
        progress=request.progress,
    )
    for number, log in zip(to_load, loaded, strict=True):
        known, listed = result[number]
        if isinstance(log, Failure):
            result[number] = known, log
        elif isinstance(listed, ListedPartition):
            result[number] = known, replace(listed, listing=_with_loaded(listed.listing, log))
    return result


def _forgets(known: SelectedPartition, listing: SegmentListing) -> bool:
    """Return whether a broker forgets producers that snapshots on the disk have: it removes the
    snapshots of what it recovers, and reads the log from its start offset on.
    """
    if listing.recovered is None or not listing.segments:
        return False
    start = known.log_dir.checkpoints.log_start.get(known.place.topic_partition, 0)
    return start > listing.segments[0].base_offset


def lacks_txnindex(segment: Segment) -> bool:
    """Return whether a broker rebuilds a transaction index here that is not known yet."""
    return segment.rebuilt is not None and segment.rebuilt_txnindex is None


def are_known(state: PartitionState) -> bool:
    """Return whether the transaction indexes that a broker uses are known."""
    return not any(map(lacks_txnindex, state.segments))


def _to_load(
    known: SelectedPartition, listing: SegmentListing, request: Request
) -> tuple[LogToLoad, TopicConfig]:
    place, checkpoints = known.place, known.log_dir.checkpoints
    key = place.topic_partition
    log = LogToLoad(
        log_dir=place.log_dir,
        name=str(key),
        kind=DirectoryKind.CURRENT,
        topic_partition=key,
        log_start_checkpoint=checkpoints.log_start.get(key, 0),
        recovery_point=checkpoints.recovery_point.get(key, 0),
        config=known.config,
        now=request.now,
        bytes=sum(segment.log_bytes for segment in listing.segments),
        error=None,
        users=(),
        high_watermark=checkpoints.high_watermark.get(key, 0),
        one_byte_versions=known.config.rules.one_byte_versions,
    )
    return log, known.config


def _load(asked: tuple[LogToLoad, TopicConfig]) -> LoadedLog:
    """Return what a loader knows, without the files that it would write: they are not needed."""
    return replace(load_log(Places(), *asked), truncation=Truncation())


def _with_loaded(listing: SegmentListing, log: LoadedLog) -> SegmentListing:
    recovered = listing.recovered
    if recovered is None:
        return listing
    return replace(
        listing,
        segments=tuple(
            replace(one, rebuilt_txnindex=log.txnindexes.get(one.base_offset, b""))
            if lacks_txnindex(one)
            else one
            for one in listing.segments
        ),
        recovered=replace(recovered, producers=log.producers),
    )
