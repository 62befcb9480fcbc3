"""Compact what retention has made dirty enough, in the same run (S3.5).

Retention deletes clean segments, so the dirty ratio of the rest rises. A broker's cleaner finds
such a log at its next check. Without this, a second run at the same clock would change it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from winnow.clean.commit.split import split_first
from winnow.clean.plan.prepare import look_again
from winnow.clean.plan.prepared import PartitionWork, Prepared
from winnow.clean.request import Request
from winnow.clean.result import RETAINED, PartitionResult
from winnow.errors import StoppedError
from winnow.policy.decide import after_retention

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)


def compacted_next(
    sc: SparkContext,
    items: Sequence[Prepared | PartitionResult],
    results: Mapping[int, PartitionResult],
    request: Request,
    *,
    run_id: str,
) -> dict[int, Prepared | PartitionResult]:
    """Return, by number in `items`, the partitions to compact after retention, in their current
    state.

    `results`: of partitions that retention changed, and of others.
    """
    chosen = {
        number: _with_checkpoint(item, results[number])
        for number, item in enumerate(items)
        if isinstance(item, PartitionWork)
        and number in results
        and RETAINED in results[number].actions
        and results[number].error is None
        and after_retention(item.plan, now=request.now, only=request.only) is not None
    }
    if not chosen or request.stop.reason is not None:
        return {}
    try:
        again: list[Prepared] = look_again(sc, list(chosen.values()), request)
    except StoppedError:
        return {}
    except (Py4JError, PySparkException):  # the next run does the rest
        _log.exception("the Spark job failed")
        return {}
    split = split_first(sc, again, request, run_id=run_id)
    found = {number: split.get(at, again[at]) for at, number in enumerate(chosen)}
    return {
        number: item
        for number, item in found.items()
        if not isinstance(item, PartitionWork) or item.plan.compaction
    }


def _with_checkpoint(item: PartitionWork, result: PartitionResult) -> PartitionWork:
    """Raise the cleaner checkpoint in `item` as retention did: to the log start offset, if there is
    an entry (S7.6).
    """
    checkpoints, topic_partition = item.log_dir.checkpoints, item.place.topic_partition
    before, start = checkpoints.cleaner.get(topic_partition), result.log_start_offset_after
    if item.plan.checkpoint_reset is not None:
        before = item.plan.checkpoint_reset
    if before is None or start is None:
        return replace(item, finished=None)
    cleaner = {**checkpoints.cleaner, topic_partition: max(before, start)}
    log_dir = replace(item.log_dir, checkpoints=replace(checkpoints, cleaner=cleaner))
    return replace(item, log_dir=log_dir, finished=None)
