"""Partition states as values, for tests of decisions about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from winnow.policy.config import TopicConfig, topic_config
from winnow.state import PartitionState, Segment, TopicPartition

NOW = 1_000_000_000_000
KAFKA_DEFAULTS = topic_config({})
"""The settings of a topic without overrides on a broker without settings."""


def config(policy: str = "compact", **values: object) -> TopicConfig:
    return replace(KAFKA_DEFAULTS, cleanup_policy=policy, **values)  # type: ignore[arg-type]


def segment(
    base: int, size: int = 100, *, last: int = NOW - 1000, first: int = -1, **values: int | None
) -> Segment:
    """`last`: time-index timestamp; `first`: first batch's maxTimestamp."""
    known = Segment(
        base_offset=base,
        log_bytes=size,
        log_mtime_ms=NOW,
        index_bytes=8,
        timeindex_bytes=12,
        txnindex_bytes=None,
        last_timeindex_timestamp=last,
        first_batch_max_timestamp=first,
    )
    return replace(known, **values)  # type: ignore[arg-type]


def partition(
    segments: Sequence[Segment],
    *,
    end: int,
    topic: str = "t",
    start: int = 0,
    checkpoint: int | None = None,
    high_watermark: int | None = None,
) -> PartitionState:
    return PartitionState(
        log_dir="/logs",
        topic_partition=TopicPartition(topic, 0),
        segments=tuple(segments),
        log_start_offset=start,
        log_end_offset=end,
        high_watermark=end if high_watermark is None else high_watermark,
        cleaner_checkpoint=checkpoint,
        log_start_checkpoint=start or None,
        snapshot_offsets=(),
        leader_epochs=(),
    )
