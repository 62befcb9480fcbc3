"""From a plan to a job: everything that the tasks of one cleaning round are told (S5.1)."""

from __future__ import annotations

from dataclasses import dataclass

from winnow.engine.compaction import Failure
from winnow.engine.job import GroupJob, PartitionJob
from winnow.engine.prepare import Request, Undertaking
from winnow.engine.producers import known_producers
from winnow.engine.waves import free_bytes
from winnow.errors import CorruptLogError, NoSpaceError
from winnow.logdir.names import STAGING_PREFIX
from winnow.policy.plan import CompactionPlan
from winnow.policy.producers import last_records


@dataclass(frozen=True, slots=True)
class Round:
    """A partition, ready to be compacted."""

    item: Undertaking
    job: PartitionJob


def make_round(item: Undertaking, plan: CompactionPlan, request: Request, *, run_id: str) -> Round | Failure:
    """The job for an undertaking whose every batch header was walked; a Failure if it can't be done here and now."""
    state, config = item.state, item.config
    producers = known_producers(
        item.snapshot, item.walks or (), now=request.now, expiration_ms=config.producer_id_expiration_ms
    )
    if any(producer.current_txn_first_offset is not None for producer in producers.producers.values()):
        return Failure(
            "its producer snapshot names an open transaction, up to which this version can't clean yet",
            CorruptLogError.exit_code,
        )
    room = free_bytes(state.directory)
    needed = sum(segment.log_bytes for segment in plan.segments)
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
    groups = tuple(
        GroupJob(group, tuple(number for segment in group for number in numbers.get(segment.base_offset, ())))
        for group in plan.groups
    )
    job = PartitionJob(
        directory=state.directory,
        staging=f"{state.directory}/{STAGING_PREFIX}{run_id}",
        first_dirty_offset=plan.first_dirty_offset,
        end_offset=plan.end_offset,
        delete_retention_ms=config.delete_retention_ms,
        index_interval_bytes=config.index_interval_bytes,
        segment_index_bytes=config.segment_index_bytes,
        max_decompressed_bytes=config.max_decompressed_message_bytes,
        last_records=last_records(producers),
        splits=splits,
        groups=groups,
    )
    return Round(item, job)
