"""From a plan to a job: everything that the tasks of one cleaning round are told (S5.1)."""

from __future__ import annotations

from dataclasses import dataclass

from winnow.engine.compaction import Failure
from winnow.engine.job import GroupJob, PartitionJob
from winnow.engine.prepare import Undertaking
from winnow.engine.waves import free_bytes
from winnow.errors import NoSpaceError
from winnow.logdir.names import STAGING_PREFIX
from winnow.logdir.state import PartitionState
from winnow.policy.cleanable import segments_between
from winnow.policy.config import TopicConfig
from winnow.policy.plan import CompactionPlan
from winnow.policy.producers import last_records

_GROWTH = 3
"""A segment of v0 or v1 becomes so much larger at most: the least record, of 26 bytes, is a batch of 77 with a horizon.
"""


@dataclass(frozen=True, slots=True)
class Round:
    """A partition, ready to be compacted."""

    item: Undertaking
    job: PartitionJob
    run_id: str


def make_round(item: Undertaking, plan: CompactionPlan, *, run_id: str) -> Round | Failure:
    """The job for an undertaking whose every batch header was walked; a Failure if it can't be done here and now."""
    state, config = item.state, item.config
    transactions = item.transactions
    if transactions is None:
        message = "a plan was made without a walk"
        raise ValueError(message)
    room = free_bytes(state.directory)
    legacy = {walk.base_offset for walk in item.walks or () if walk.legacy}
    needed = sum(segment.log_bytes * (_GROWTH if segment.base_offset in legacy else 1) for segment in plan.segments)
    if needed > room:
        return Failure(
            f"not enough space: up to {needed} bytes are written before as many are removed, and {max(room, 0)} are "
            "free. Free some first, for example with `clean --only retention`",
            NoSpaceError.exit_code,
        )
    splits = tuple(split for walk in item.walks or () if walk.base_offset < plan.end_offset for split in walk.splits)
    numbers: dict[int, list[int]] = {}
    for number, split in enumerate(splits):
        numbers.setdefault(split.base_offset, []).append(number)
    open_producers = dict(zip((s.base_offset for s in state.segments), transactions.open_producers, strict=True))
    groups = tuple(
        GroupJob(
            group,
            tuple(number for segment in group for number in numbers.get(segment.base_offset, ())),
            open_producers[group[0].base_offset],
        )
        for group in plan.groups
    )
    job = PartitionJob(
        topic=state.topic_partition.topic,
        directory=state.directory,
        staging=f"{state.directory}/{STAGING_PREFIX}{run_id}",
        first_dirty_offset=plan.first_dirty_offset,
        end_offset=plan.end_offset,
        delete_retention_ms=config.delete_retention_ms,
        legacy_delete_horizon_ms=_legacy_delete_horizon_ms(state, plan, config),
        index_interval_bytes=config.index_interval_bytes,
        segment_index_bytes=config.segment_index_bytes,
        max_decompressed_bytes=config.max_decompressed_message_bytes,
        last_records=last_records(transactions.producers),
        splits=splits,
        groups=groups,
        aborted=transactions.aborted,
        most_bytes=needed,
    )
    return Round(item, job, run_id)


def _legacy_delete_horizon_ms(state: PartitionState, plan: CompactionPlan, config: TopicConfig) -> int:
    """By the age of the last segment that was cleaned before (S5.1); 0 if there is none."""
    clean = segments_between(state.segments, 0, plan.first_dirty_offset)
    return clean[-1].log_mtime_ms - config.delete_retention_ms if clean else 0
