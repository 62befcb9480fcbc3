"""What an interrupted run left: as text where nothing may be changed, and as the rest of its
plan.
"""

from __future__ import annotations

from dataclasses import replace

from winnow.logdir.commit.journal import Journal
from winnow.logdir.commit.roll_forward import open_round
from winnow.logdir.listing import SegmentListing
from winnow.policy.plan import CompactionPlan, PartitionPlan
from winnow.storage.contract import Storage
from winnow.words import counted


def what_was_left(storage: Storage, listing: SegmentListing) -> str:
    """Describe what `clean` would repair."""
    left = f"an interrupted run left {counted(len(listing.leftovers), 'file')} here"
    interrupted = open_round(storage, listing.directory, storage.list_dir(listing.directory))
    if interrupted is None:
        return f"{left}; `clean` repairs that first"
    journal = interrupted.journal
    replaced = sum(not group.unchanged for group in journal.groups)
    return (
        f"{left}: {journal.run_id} was replacing {counted(replaced, 'group')} of "
        f"segments below offset {journal.end_offset}; `clean` finishes that first, "
        "or abandons it if something has changed since"
    )


def rest_of_round(plan: PartitionPlan, journal: Journal) -> PartitionPlan:
    """Return the plan with the rest of the round that an earlier run began at the same clock
    (docs/decisions/0012).

    A new plan would differ because of what is done already: other groups, another dirty ratio.
    """
    if journal.rest is None:
        return plan
    segments = {segment.base_offset: segment for segment in plan.state.segments}
    groups = tuple(
        tuple(segments[base] for base in group.source_bases) for group in journal.waiting
    )
    first_dirty = journal.rest.first_dirty_offset
    clean = sum(s.log_bytes for s in plan.state.segments if s.base_offset < first_dirty)
    compaction = CompactionPlan(
        first_dirty_offset=first_dirty,
        end_offset=journal.end_offset,
        clean_bytes=clean,
        cleanable_bytes=sum(segment.log_bytes for group in groups for segment in group),
        groups=groups,
    )
    reason = (
        f"continues the cleaning up to {journal.end_offset} that {journal.run_id} began: "
        f"{counted(len(groups), 'group')} of {len(journal.groups)}"
    )
    return replace(
        plan, compaction=compaction, reason=reason, rule="S5.1", first_dirty_offset=first_dirty
    )
