"""Find the records whose timestamps in the future keep newer segments, so that a reason can name
them. Logs are read only where such a segment keeps others.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.lookup import Segments
from winnow.policy.plan import PartitionPlan
from winnow.policy.retention import blocked_at
from winnow.policy.timestamps import Blocking
from winnow.state import PartitionState
from winnow.storage.contract import Storage


def blocking_of(plan: PartitionPlan, now: int) -> tuple[Blocking, ...]:
    """Return the segments whose timestamps in the future end what the plan does: of its retention,
    and of its compaction.
    """
    retained = blocked_at(plan.state, plan.config, now, first=len(plan.deleted))
    compacted = None if plan.cleanable is None else plan.cleanable.blocking
    return tuple(one for one in (retained, compacted) if one is not None)


def with_future_offsets(storage: Storage, plan: PartitionPlan, now: int) -> PartitionState:
    """Return the state of the plan with the offset of each record with a timestamp in the future
    that keeps newer segments. One that can't be read stays unknown.
    """
    state, found = plan.state, dict(plan.state.future)
    for one in blocking_of(plan, now):
        segment = one.segment
        if not one.kept or segment.last_timeindex_timestamp < 0 or segment.base_offset in found:
            continue
        with suppress(FAILS_ONE_PARTITION):
            record = Segments(storage, state.directory).find_in_segment(
                segment.base_offset, segment.largest_timestamp
            )
            if record is not None:
                found[segment.base_offset] = record.offset
    return replace(state, future=tuple(sorted(found.items())))
