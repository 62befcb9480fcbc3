"""Split what can't be cleaned as it is, before the round (S6.5).

Kafka's cleaner does it when it gets there, gives up the round, and cleans the partition another time. Here it is known
beforehand which segments span too many offsets; they are split, and the partition is looked at again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from winnow.engine import report
from winnow.engine.compaction import Failure, failure
from winnow.engine.keep import kept_by
from winnow.engine.prepare import LeftAlone, Prepared, Request, Undertaking, look_again
from winnow.engine.result import PartitionResult
from winnow.engine.waves import free_bytes
from winnow.errors import NoSpaceError, WinnowError
from winnow.logdir.names import STAGING_PREFIX
from winnow.logdir.split import StagedSplit, stage_split, swap_split
from winnow.logdir.staging import remove_staging
from winnow.logdir.state import Segment
from winnow.storage.local import LocalStorage

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    number: int
    directory: str
    staging: str
    segment: Segment
    index_interval_bytes: int
    segment_index_bytes: int


def split_first(
    sc: SparkContext, prepared: Sequence[Prepared], request: Request, *, run_id: str
) -> Mapping[int, Prepared | PartitionResult]:
    """By number in `prepared`, the partitions that had something to split, as they are afterwards.

    Or what is to be told of one that could not be split.
    """
    chosen = {number: item for number, item in enumerate(prepared) if isinstance(item, Undertaking) and item.overflowed}
    if not chosen or request.stop.reason is not None:
        return {}
    staged: dict[int, list[StagedSplit | Failure]] = {number: [] for number in chosen}
    works: list[_Work] = []
    for number, undertaking in chosen.items():
        try:
            request.storage.mkdir(_staging(undertaking, run_id))
            works += _works(number, undertaking, run_id)
        except OSError as error:
            staged[number].append(failure(error))
    try:
        for number, outcome in sc.parallelize(works, len(works) or 1).map(_stage).collect():
            staged[number].append(outcome)
    except (Py4JError, PySparkException) as error:  # the job itself: nothing of it is part of a log
        _log.exception("the Spark job failed")
        what = str(error).strip().partition("\n")[0]
        staged = {number: [Failure(f"the Spark job failed: {what}", WinnowError.exit_code)] for number in chosen}
    results: dict[int, Prepared | PartitionResult] = {
        number: _commit(item, staged[number], request, run_id=run_id) for number, item in chosen.items()
    }
    done = [number for number, item in results.items() if isinstance(item, Undertaking)]
    again = look_again(sc, [chosen[number] for number in done], request)
    for number, item in zip(done, again, strict=True):
        results[number] = item if isinstance(item, LeftAlone) else replace(item, overflowed=chosen[number].overflowed)
    return results


def _works(number: int, item: Undertaking, run_id: str) -> list[_Work]:
    return [
        _Work(
            number=number,
            directory=item.state.directory,
            staging=_staging(item, run_id),
            segment=segment,
            index_interval_bytes=item.config.index_interval_bytes,
            segment_index_bytes=item.config.segment_index_bytes,
        )
        for segment in item.state.segments
        if segment.base_offset in item.overflowed
    ]


def _staging(item: Undertaking, run_id: str) -> str:
    return f"{item.state.directory}/{STAGING_PREFIX}{run_id}-split"


def _stage(work: _Work) -> tuple[int, StagedSplit | Failure]:
    room = free_bytes(work.directory)
    if work.segment.log_bytes > room:
        message = (
            f"not enough space: {work.segment.log_bytes} bytes are written before as many are removed, and "
            f"{max(room, 0)} are free"
        )
        return work.number, Failure(message, NoSpaceError.exit_code)
    try:
        return work.number, stage_split(
            LocalStorage(),
            work.directory,
            work.segment,
            work.staging,
            index_interval_bytes=work.index_interval_bytes,
            segment_index_bytes=work.segment_index_bytes,
        )
    except (WinnowError, OSError) as error:
        return work.number, failure(error)


def _commit(
    item: Undertaking, staged: Sequence[StagedSplit | Failure], request: Request, *, run_id: str
) -> Undertaking | PartitionResult:
    """One split after the other, ascending: no two may be half done (S6.4)."""
    storage, directory = request.storage, item.state.directory
    why = next((outcome for outcome in staged if isinstance(outcome, Failure)), None)
    stopped = request.stop.reason
    try:
        if why is None and stopped is None:
            with kept_by(request, item.state, run_id=run_id):
                for split in staged:
                    if isinstance(split, StagedSplit):
                        swap_split(storage, directory, split)
        remove_staging(storage, _staging(item, run_id))
    except (WinnowError, OSError) as error:
        return report.interrupted(item, failure(error))
    if stopped is not None:
        return report.stopped(item, stopped)
    return item if why is None else report.failed(item, why)
