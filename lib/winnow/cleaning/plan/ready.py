"""Turn a plan into a job: everything that the tasks of one cleaning round need (S5.1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from winnow.cleaning.plan.partitions import PlannedPartition
from winnow.cleaning.request import Request
from winnow.cleaning.space import most_index_bytes, most_log_bytes
from winnow.cleaning.staged import StagedPartition
from winnow.cleaning.summaries.store import place_for, read_list
from winnow.java_long import clamped
from winnow.logdir.commit.journal import Journal, JournalGroup, Rest
from winnow.logdir.names import STAGING_PREFIX
from winnow.policy.cleanable import segments_between
from winnow.policy.config import LONG_MAX
from winnow.policy.plan import CompactionPlan, PartitionPlan
from winnow.policy.producers import last_records
from winnow.policy.survival import emptied_end
from winnow.policy.transactions import Carried
from winnow.scan.job import GroupJob, PartitionJob
from winnow.scan.prefetch import with_usable_keys
from winnow.survey.transactions import Transactions


@dataclass(frozen=True, slots=True)
class ReadyPartition:
    """A partition that is ready to be staged."""

    item: PlannedPartition
    job: PartitionJob
    """All groups of this run."""
    staged: StagedPartition
    """What is in place so far. Nothing is staged."""


def make_ready(item: PlannedPartition, request: Request) -> ReadyPartition:
    """Return the round for a partition whose batch headers have all been walked."""
    state, config, transactions = item.state, item.config, item.transactions
    plan = item.plan.compaction
    if transactions is None or plan is None:
        raise ValueError("a plan was made without a walk")
    if item.goes_on:
        staging, journal = item.goes_on.staging, item.goes_on.journal
    else:
        staging = f"{state.directory}/{STAGING_PREFIX}{request.run_id}"
        journal = _new_journal(item, plan, transactions, request)
    walks = {walk.base_offset: walk for walk in item.walks or ()}
    splits = with_usable_keys(
        [s for base, walk in walks.items() if base < plan.end_offset for s in walk.splits],
        first_dirty_offset=plan.first_dirty_offset,
    )
    numbers = defaultdict[int, list[int]](list)
    for number, split in enumerate(splits):
        numbers[split.base_offset].append(number)
    legacy = {base for base, walk in walks.items() if walk.legacy}
    from_journal = {group.base_offset: group for group in journal.groups}
    groups = []
    for group in plan.groups:
        base, log_bytes = group[0].base_offset, most_log_bytes(group, legacy)
        known = from_journal[base]
        groups.append(
            GroupJob(
                group,
                tuple(number for s in group for number in numbers[s.base_offset]),
                Carried(frozenset(known.open_producers), frozenset(known.lingering)),
                most_log_bytes=log_bytes,
                most_index_bytes=most_index_bytes(group, log_bytes, config),
                stays=walks[base].stays,
            )
        )
    rest = journal.rest
    if rest is None:
        raise ValueError("a journal lacks the values that its groups are rewritten with")
    place, preparing = place_for(state, request), request.preparing
    # A tombstone that is met first is kept for a consumer that has read an older value. It could
    # read that value until the commit (S8.12).
    later_ms = 0 if preparing is None else preparing.most_age_ms
    keep_free = None
    if preparing is not None:
        keep_free = preparing.kept_free(request.storage.volume(state.directory))
    job = PartitionJob(
        topic=state.topic_partition.topic,
        directory=state.directory,
        staging=staging,
        first_dirty_offset=plan.first_dirty_offset,
        end_offset=plan.end_offset,
        delete_retention_ms=min(config.delete_retention_ms + later_ms, LONG_MAX),
        keep_free=keep_free,
        delete_horizons=rest.delete_horizons,
        legacy_delete_horizon_ms=rest.legacy_delete_horizon_ms,
        converts=rest.converts,
        emptied_end=rest.emptied_end,
        index_interval_bytes=config.index_interval_bytes,
        segment_index_bytes=config.segment_index_bytes,
        max_decompressed_bytes=config.max_decompressed_message_bytes,
        last_records={producer: (offset, epoch) for producer, offset, epoch in rest.last_records},
        splits=splits,
        groups=tuple(groups),
        aborted=transactions.aborted,
        summaries=place,
        unique_keys=place is not None
        and item.goes_on is None
        and read_list(place).has_unique_keys(state, plan.first_dirty_offset),
        least_summed_up=request.least_summed_up,
    )
    staged = StagedPartition(
        directory=job.directory,
        staging=job.staging,
        journal=journal,
        begun=item.goes_on is not None,
        total_groups=len(job.groups),
        summaries=job.summaries,
        unique_keys=job.unique_keys,
    )
    return ReadyPartition(item, job.part(0, len(job.groups)), staged)


def _new_journal(
    item: PlannedPartition, plan: CompactionPlan, transactions: Transactions, request: Request
) -> Journal:
    state, rules = item.state, item.config.rules
    number = {segment.base_offset: at for at, segment in enumerate(state.segments)}
    clean = segments_between(state.segments, 0, plan.first_dirty_offset)
    return Journal(
        run_id=request.run_id,
        now=request.now,
        end_offset=plan.end_offset,
        checkpoint_before=state.cleaner_checkpoint,
        groups=tuple(
            JournalGroup(
                sources=group,
                open_producers=tuple(sorted(carried.open_producers)),
                lingering=tuple(sorted(carried.lingering)),
                output=None,
            )
            for group in plan.groups
            for carried in [transactions.carried[number[group[0].base_offset]]]
        ),
        rest=Rest(
            first_dirty_offset=plan.first_dirty_offset,
            # From the age of the last segment cleaned before (S5.1). A file's time may be before
            # 1970. Java's difference then overflows, and Kafka drops all such tombstones.
            legacy_delete_horizon_ms=clamped(
                clean[-1].log_mtime_ms - item.config.delete_retention_ms
            )
            if clean
            else 0,
            delete_horizons=rules.delete_horizons,
            converts=rules.converts_old_formats,
            emptied_end=emptied_end(
                rules, end_offset=plan.end_offset, high_watermark=state.high_watermark
            ),
            last_records=tuple(
                (producer, offset, epoch)
                for producer, (offset, epoch) in last_records(transactions.producers).items()
            ),
        ),
    )


def dirtiest_first(plans: Mapping[int, PartitionPlan]) -> list[int]:
    """Return the keys, in the order in which a broker picks the partitions (S3.4)."""
    return sorted(plans, key=lambda number: -(plans[number].dirty_ratio or 0.0))
