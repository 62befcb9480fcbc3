"""`--on-corrupt=quarantine`: move damaged batches out of partitions, then clean these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark import SparkContext

from winnow.cleaning.clean import Cleaned, clean
from winnow.cleaning.commit.quarantine import commit, stage_quarantine
from winnow.cleaning.plan.partitions import Planned
from winnow.cleaning.plan.planning import plan_partitions
from winnow.cleaning.request import Request
from winnow.cleaning.result import PartitionResult
from winnow.errors import FAILS_ONE_PARTITION, CorruptLogError, failure_of
from winnow.logdir.survey import LogDir
from winnow.state import TopicPartition

_UNKNOWN: dict[str, Any] = {"segments_after": None, "bytes_after": None}


def clean_with_quarantine(
    sc: SparkContext, log_dirs: Sequence[LogDir], planned: Sequence[Planned], request: Request
) -> Cleaned:
    """Clean the partitions. With `on_corrupt="quarantine"`, then quarantine the damaged batches of
    partitions that failed because of them, and clean these partitions again.
    """
    done = clean(sc, planned, request)
    if request.on_corrupt != "quarantine":
        return done
    results, peak = list(done.partitions), done.peak_bytes
    homes = {log_dir.path: log_dir for log_dir in log_dirs}
    for number, result in enumerate(results):
        damaged = result.error is not None and result.error_code == CorruptLogError.exit_code
        if damaged and request.stop.reason is None:
            results[number], more = _quarantine(sc, homes[result.log_dir], result, request)
            peak = max(peak, more)
    return Cleaned(results, peak)


def _quarantine(
    sc: SparkContext, log_dir: LogDir, result: PartitionResult, request: Request
) -> tuple[PartitionResult, int]:
    """Return the new result of a partition, and the most bytes beside the log."""
    topic_partition = TopicPartition(result.topic, result.partition)
    home = replace(log_dir, partitions=(topic_partition,))
    request.progress.stage(f"looking for damage in {topic_partition}")
    try:
        state, staged = stage_quarantine(sc, home, topic_partition, request)
    except FAILS_ONE_PARTITION as error:
        what = f"{result.error}; nothing was quarantined: {failure_of(error)}"
        return replace(result, error=what), 0
    try:
        moved, meaning = commit(state, staged, request)
    except FAILS_ONE_PARTITION as error:
        cut_short = "its quarantine was interrupted; the next run finishes or undoes it"
        what = f"{result.error}; {cut_short}: {failure_of(error)}"
        return replace(result, error=what, **_UNKNOWN), 0
    request.progress.stage(f"cleaning {topic_partition}, quarantined")
    try:
        again = clean(sc, plan_partitions(sc, [home], request), request)
        (after,), peak = again.partitions, again.peak_bytes
    except FAILS_ONE_PARTITION as error:
        what = f"not cleaned afterwards: {str(error).strip().partition(chr(10))[0]}"
        after, peak = replace(result, error=what, bytes_before=None, **_UNKNOWN), 0
    # The sizes are those from before the quarantine.
    before = None if after.bytes_before is None else after.bytes_before + moved
    reason = f"{meaning}; {after.reason}"
    return replace(after, quarantined_bytes=moved, reason=reason, bytes_before=before), peak
