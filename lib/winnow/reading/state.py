"""The state of a topic at a point in time: the last record of each key up to that point, without
those that a tombstone deleted.

Cleaning removes records that a later one supersedes. So a point before the end of what a cleaner
has cleaned has no complete state any more, and that is found out here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from winnow.errors import UsageError
from winnow.kafka_log.layout import LogHome
from winnow.logdir.checkpoints import read_offset_checkpoint
from winnow.logdir.lookup import Segments
from winnow.logdir.names import CLEANER_CHECKPOINT, LOG_START_CHECKPOINT, MAX_LONG
from winnow.reading.bounds import Point
from winnow.storage.contract import Storage
from winnow.words import instant

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_NAMED = 5


def last_per_key(frame: DataFrame) -> DataFrame:
    """Return the last record of each key of each partition, without tombstones and records that
    have no key. Rows that only tell a problem are kept.
    """
    by = ["topic", "partition", "key", *(["problem"] if "problem" in frame.columns else [])]
    rest = [name for name in frame.columns if name not in by]
    problem = f.col("problem").isNotNull() if "problem" in by else f.lit(False)
    last = (
        frame.where(f.col("key").isNotNull() | problem)
        .groupBy(*by)
        .agg(f.max_by(f.struct(*rest), "offset").alias("last"))
        .where(f.col("last.value").isNotNull() | problem)
    )
    return last.select(*by, *(f.col(f"last.{name}").alias(name) for name in rest)).select(
        *frame.columns
    )


def check_complete(storage: Storage, homes: Sequence[LogHome], point: Point) -> None:
    """Raise UsageError if records that belong to the state have been removed since.

    A state is complete if the point is not before the first offset that no cleaner has cleaned
    (`cleaner-offset-checkpoint`), nor before the log start offset. Of a time it is taken that
    records are about in order of time.
    """
    late = [*_too_early(storage, homes, point)]
    if late:
        more = f" and {len(late) - _MOST_NAMED} more partitions" if len(late) > _MOST_NAMED else ""
        raise UsageError(
            "the state at this point is no longer complete: a cleaner has since removed records "
            "that belonged to it",
            expected="a point at or after " + ", ".join(late[:_MOST_NAMED]) + more,
            hint="allow_incomplete=True returns what is left of it.",
        )


def _too_early(storage: Storage, homes: Sequence[LogHome], point: Point) -> Iterator[str]:
    read = cache(partial(read_offset_checkpoint, storage))
    for home in homes:
        at, log_dir = home.topic_partition, home.log_dir
        if home.problem is not None:
            raise home.problem
        cleaned = read(f"{log_dir}/{CLEANER_CHECKPOINT}").get(at, 0)
        start = read(f"{log_dir}/{LOG_START_CHECKPOINT}").get(at, 0)
        segments = Segments(storage, home.directory)
        first = max(cleaned, start, segments.bases[0])
        if first <= 0:
            continue
        last = point.at
        if isinstance(last, Mapping):
            last = last.get(at.topic, {}).get(at.partition, MAX_LONG)
        if not point.is_time:
            if last < first - 1:
                yield f"offset {first - 1} of {at}"
            continue
        record = segments.first_data_record(first)
        if record is None:
            # Everything was cleaned. What was removed is older than the checkpoint that says so.
            changed = storage.entry(f"{log_dir}/{CLEANER_CHECKPOINT}").mtime_ns // 1_000_000
            if last < changed:
                yield f"{instant(changed)} of {at}"
        elif last < record.timestamp:
            yield f"{instant(record.timestamp)} of {at}"
