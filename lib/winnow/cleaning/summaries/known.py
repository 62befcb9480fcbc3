"""Which segments of a partition are known, so that a cleaning may leave them unread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from winnow.cleaning.request import Request
from winnow.cleaning.summaries.store import opened, place_of
from winnow.logdir.survey import LogDir
from winnow.scan.values import SegmentSummary
from winnow.state import PartitionState
from winnow.storage.urls import is_remote
from winnow.wire.internal_topics import INTERNAL_TOPICS


@dataclass(frozen=True, slots=True)
class KnownSegments:
    """What is known of a partition that is about to be compacted."""

    place: str
    end_offset: int
    segments: Mapping[int, SegmentSummary]
    """By base offset, those that stay unless a dirty record has one of their keys."""
    unique: bool
    """See `Kept.has_unique_keys`."""


def place_for(state: PartitionState, request: Request) -> str | None:
    """Return the directory for the summaries of a partition, if there are any.

    Kafka's own topics are always read whole: a run counts the holders of their keys. So are remote
    segments: their files have no inode and no ctime.
    """
    internal = state.topic_partition.topic in INTERNAL_TOPICS
    if request.key_summaries is None or internal or is_remote(state.directory):
        return None
    return place_of(request.key_summaries, state.directory)


def with_summaries(request: Request, dirs: Sequence[LogDir]) -> Request:
    """Return the request with the secret of the summaries; without summaries if tasks run
    elsewhere, or if they can't be used.
    """
    where, found = request.key_summaries, None
    if where is not None and request.spool is not None:
        found = opened(where, {d.path: map(str, d.partitions) for d in dirs})
    if found is None:
        return replace(request, key_summaries=None)
    place, secret = found
    return replace(request, key_summaries=place, secret=secret)
