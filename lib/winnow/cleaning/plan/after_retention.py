"""Which partitions a run compacts after it has applied their retention (S3.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from winnow.cleaning.plan.partitions import Planned, PlannedPartition
from winnow.cleaning.plan.planning import decide_again
from winnow.cleaning.request import Request
from winnow.cleaning.result import RETAINED, PartitionResult
from winnow.policy.decide import after_retention
from winnow.runtime.cancel import attempted
from winnow.runtime.failure import Failure

if TYPE_CHECKING:
    from pyspark import SparkContext


def compacted_next(
    sc: SparkContext,
    items: Mapping[int, PlannedPartition],
    results: Mapping[int, PartitionResult],
    request: Request,
) -> dict[int, Planned]:
    """Return, by number in `items`, the partitions to compact after the retention in `results`."""
    chosen = {
        number: _with_checkpoint(item, results[number])
        for number, item in items.items()
        if RETAINED in results[number].actions
        and results[number].error is None
        and after_retention(item.plan, now=request.now, only=request.only) is not None
    }
    if not chosen:
        return {}
    again = attempted(lambda: decide_again(sc, list(chosen.values()), request), request.stop)
    if isinstance(again, Failure):  # the next run does the rest
        return {}
    return {
        number: item
        for number, item in zip(chosen, again, strict=True)
        if not isinstance(item, PlannedPartition) or item.plan.compaction
    }


def _with_checkpoint(item: PlannedPartition, result: PartitionResult) -> PlannedPartition:
    """Raise the cleaner checkpoint in `item`, if any, to the log start, as retention did (S7.6)."""
    before = item.log_dir.checkpoints.cleaner.get(item.place.topic_partition)
    start = result.log_start_offset_after
    if item.plan.checkpoint_reset is not None:
        before = item.plan.checkpoint_reset
    if before is not None and start is not None:
        item = item.cleaned_to(max(before, start))
    return replace(item, finished=None)
