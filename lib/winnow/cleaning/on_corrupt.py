"""Handle damage as `--on-corrupt` asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark import SparkContext

from winnow.cleaning.carry_out import CarriedOut, carry_out
from winnow.cleaning.commit.quarantine import commit, stage_quarantine
from winnow.cleaning.plan import outcomes as report
from winnow.cleaning.plan.prepare import prepare
from winnow.cleaning.plan.prepared import LeftAlone, Prepared
from winnow.cleaning.request import Request
from winnow.cleaning.result import PartitionResult
from winnow.errors import FAILS_ONE_PARTITION, CorruptLogError, WinnowError, failure_of
from winnow.logdir.survey import LogDir
from winnow.runtime.failure import Failure
from winnow.state import TopicPartition

_UNKNOWN: dict[str, Any] = {"segments_after": None, "bytes_after": None}
_CUT_SHORT = "its quarantine was interrupted; the next run finishes or undoes it"


def damaged_first(prepared: Sequence[Prepared], request: Request) -> list[PartitionResult] | None:
    """With `fail`, return the results of a run that does nothing because some partition is known to
    be damaged. Otherwise return None.
    """
    damaged = [item for item in prepared if isinstance(item, LeftAlone) and item.error is not None]
    if request.on_corrupt != "fail" or not damaged:
        return None
    why = Failure(
        f"not started: {damaged[0].place.topic_partition} is damaged", WinnowError.exit_code
    )
    return [
        report.left_alone(item) if isinstance(item, LeftAlone) else report.failed(item, why)
        for item in prepared
    ]


def carry_out_with_quarantine(
    sc: SparkContext,
    log_dirs: Sequence[LogDir],
    prepared: Sequence[Prepared],
    request: Request,
) -> CarriedOut:
    """Do as `carry_out`. With `quarantine`, move damage out of partitions, then clean them."""
    done = carry_out(sc, prepared, request)
    if request.on_corrupt != "quarantine":
        return done
    results, peak = list(done.partitions), done.peak_extra_bytes
    homes = {log_dir.path: log_dir for log_dir in log_dirs}
    for number, result in enumerate(results):
        damaged = result.error is not None and result.error_code == CorruptLogError.exit_code
        if damaged and request.stop.reason is None:
            again = _quarantine(sc, homes[result.log_dir], result, request)
            (results[number],), peak = again.partitions, max(peak, again.peak_extra_bytes)
    return CarriedOut(results, peak)


def _quarantine(
    sc: SparkContext, log_dir: LogDir, result: PartitionResult, request: Request
) -> CarriedOut:
    topic_partition = TopicPartition(result.topic, result.partition)
    home = replace(log_dir, partitions=(topic_partition,))
    request.progress.stage(f"looking for damage in {topic_partition}")
    try:
        state, staged = stage_quarantine(sc, home, topic_partition, request)
    except FAILS_ONE_PARTITION as error:
        what = f"{result.error}; nothing was quarantined: {failure_of(error)}"
        return CarriedOut([replace(result, error=what)], 0)
    try:
        moved, meaning = commit(state, staged, request)
    except FAILS_ONE_PARTITION as error:
        what = f"{result.error}; {_CUT_SHORT}: {failure_of(error)}"
        return CarriedOut([replace(result, error=what, **_UNKNOWN)], 0)
    request.progress.stage(f"cleaning {topic_partition}, quarantined")
    try:
        again = carry_out(sc, prepare(sc, [home], request), request)
        (after,), peak = again.partitions, again.peak_extra_bytes
    except FAILS_ONE_PARTITION as error:
        what = f"not cleaned afterwards: {str(error).strip().partition(chr(10))[0]}"
        after, peak = replace(result, error=what, bytes_before=None, **_UNKNOWN), 0
    # The sizes are those from before the quarantine.
    before = None if after.bytes_before is None else after.bytes_before + moved
    reason = f"{meaning}; {after.reason}"
    after = replace(after, quarantined_bytes=moved, reason=reason, bytes_before=before)
    return CarriedOut([after], peak)
