"""What a cleaning does about damage, as asked for with `--on-corrupt`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from winnow.engine import report
from winnow.engine.clean import carry_out
from winnow.engine.compaction import Failure
from winnow.engine.prepare import LeftAlone, Prepared, Request, prepare
from winnow.engine.progress import Progress
from winnow.engine.quarantine import Quarantined, quarantine_partition
from winnow.engine.result import PartitionResult
from winnow.errors import CorruptLogError, WinnowError
from winnow.logdir.listing import LogDir
from winnow.logdir.state import TopicPartition

if TYPE_CHECKING:
    from pyspark import SparkContext


def damaged_first(prepared: Sequence[Prepared], request: Request) -> list[PartitionResult] | None:
    """With `fail`, the results of a run that does nothing because some partition is known to be damaged."""
    damaged = [item for item in prepared if isinstance(item, LeftAlone) and item.error is not None]
    if request.on_corrupt != "fail" or not damaged:
        return None
    why = Failure(f"not begun, for {damaged[0].place.topic_partition} is damaged", WinnowError.exit_code)
    return [report.left_alone(item) if isinstance(item, LeftAlone) else report.failed(item, why) for item in prepared]


def carry_out_with_quarantine(
    sc: SparkContext,
    log_dirs: Sequence[LogDir],
    prepared: Sequence[Prepared],
    request: Request,
    *,
    run_id: str,
    progress: Progress,
) -> list[PartitionResult]:
    """As `carry_out`. With `quarantine` what is found damaged loses its damage and is cleaned afterwards."""
    results = carry_out(sc, prepared, request, run_id=run_id, progress=progress)
    if request.on_corrupt != "quarantine":
        return results
    homes = {log_dir.path: log_dir for log_dir in log_dirs}
    for number, result in enumerate(results):
        if result.error is None or result.error_code != CorruptLogError.exit_code:
            continue
        topic_partition = TopicPartition(result.topic, result.partition)
        home = replace(homes[result.log_dir], partitions=(topic_partition,))
        try:
            moved = quarantine_partition(sc, home, topic_partition, request, run_id=run_id)
        except (WinnowError, OSError) as error:
            results[number] = replace(result, error=f"{result.error}; nothing was quarantined: {error}")
            continue
        if moved is not None:
            progress.stage(f"cleaning {topic_partition}, quarantined")
            again = carry_out(sc, prepare(sc, [home], request), request, run_id=run_id, progress=progress)
            results[number] = _together(result, moved, again[0])
    return results


def _together(before: PartitionResult, moved: Quarantined, after: PartitionResult) -> PartitionResult:
    return replace(
        after,
        quarantined_bytes=moved.bytes,
        reason=f"{moved}; {after.reason}",
        bytes_before=before.bytes_before,
        segments_before=before.segments_before,
    )
