"""Read the ledger: as a DataFrame, and as the values that `history` shows."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

from winnow.arguments import checked, time_ms
from winnow.clock import EPOCH
from winnow.errors import UsageError, WinnowError
from winnow.ledger.delta import provide_delta
from winnow.ledger.place import ERASURES, TABLE, table_url
from winnow.logdir.topic_globs import check_globs
from winnow.runtime.progress import Progress, Silence, watched
from winnow.words import redacted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_ANOTHER = "If this is not a ledger, choose another place with --ledger."
_SETTINGS = {
    # The table is read by path, without a catalog. So the caller's session needs neither Delta's
    # catalog nor its parser.
    "spark.databricks.delta.requiredSparkConfsCheck.enabled": "false",
    # A ledger is small. Its state in fifty partitions would take ten times as long.
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.debug.maxToStringFields": "1000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A run, with sums over the partitions that were asked for. Times are in ms since the epoch."""

    run_id: str
    user: str
    host: str
    started: int
    ended: int
    status: str
    partitions: int
    cleaned: int
    """Number of partitions that were changed."""
    left_alone: int
    freed_bytes: int
    kept_bytes: int
    """Bytes replaced or deleted as well, but still on the disk for an undo when the run ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPartition:
    """A partition over all runs that were asked for. Times are in ms since the epoch."""

    topic: str
    partition: int
    host: str
    log_dir: str
    runs: int
    freed_bytes: int
    last_cleaned: int | None
    """End of the last run that changed it; None if no run did."""
    last_run: int
    """End of the last run that looked at it."""
    left_alone: str | None
    """Why the last run left it unchanged; None if it did not."""
    due: int | None
    """When `max.compaction.lag.ms` requires compaction of what the last run left dirty. None: no
    limit, or nothing is known to be dirty.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PastErasure:
    """An erasure, with sums over the partitions that were asked for. Times are in ms since the
    epoch.
    """

    run_id: str
    user: str
    host: str
    started: int
    ended: int
    status: str
    proven: bool | None
    """True if a second reading found none of the keys in what an erasure reaches. None if there was
    nothing to read.
    """
    keys: int
    keys_found: int
    partitions: int
    records_erased: int
    records_left: int
    """Records with one of the keys that no erasure reaches."""
    freed_bytes: int


@dataclass(frozen=True, slots=True)
class History:
    """Runs and erasures, newest first, and partitions by name. The same partition of another host
    or log directory is another replica and has its own line.
    """

    ledger: str
    runs: tuple[PastRun, ...]
    partitions: tuple[PastPartition, ...]
    erasures: tuple[PastErasure, ...] = ()

    @property
    def freed_bytes(self) -> int:
        return sum(run.freed_bytes for run in self.runs)


@checked
def read_ledger(spark: SparkSession, ledger: str, table: str = TABLE) -> DataFrame:
    """Return all rows of a table. That of cleanings has one for each partition of each run, and the
    columns `winnow.ledger.schema.LEDGER`.

    Raises UsageError if the table does not exist.
    """
    provide_delta(spark.sparkContext)
    session = spark.newSession()
    for key, value in _SETTINGS.items():
        session.conf.set(key, value)
    try:
        return session.read.format("delta").load(table_url(ledger, table))
    except AnalysisException as error:
        kind = error.getCondition() or ""
        if kind.startswith(
            ("DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE", "PATH_NOT_FOUND", "DELTA_PATH")
        ):
            raise UsageError(
                "there is no ledger", where=ledger, hint="The first `clean` creates it."
            ) from error
        raise WinnowError(
            "the ledger can't be read",
            found=str(error).partition("\n")[0],
            where=ledger,
            hint=_ANOTHER,
        ) from error
    except Py4JJavaError as error:  # what Delta does not expect in its own log
        raise WinnowError(
            "the ledger can't be read",
            found=str(error.java_exception).partition("\n")[0],
            where=ledger,
            hint=_ANOTHER,
        ) from error


@checked
def read_history(
    spark: SparkSession,
    ledger: str,
    *,
    since: int | None = None,
    topics: Sequence[str] = (),
    progress: Progress | None = None,
) -> History:
    """Return what the runs in a ledger did, and when each partition was last cleaned.

    `since`: only runs that ended then or later, in ms since the epoch. `topics`: globs. Empty: all
    topics. `progress` counts tables, then tasks.

    Raises UsageError if there is no ledger, and for a glob that matches no topic in it.
    """
    if since is not None:
        time_ms(since, "since")
    progress = progress or Silence()
    progress.stage("opening the ledger", total_tasks=2)
    tables: list[DataFrame | None] = [None, None]
    for number, name in enumerate((TABLE, ERASURES)):
        with suppress(UsageError):  # no run has written to it yet
            tables[number] = read_ledger(spark, ledger, name)
        progress.advance(1)
    cleanings, erasures = tables
    if cleanings is None and erasures is None:
        read_ledger(spark, ledger)  # raises if there is none
    runs: tuple[PastRun, ...] = ()
    partitions: tuple[PastPartition, ...] = ()
    try:
        with watched(spark.sparkContext, progress, "reading the ledger"):
            if topics:
                known = _topics(cleanings, erasures)
                check_globs(topics, known, option="--topics", of="the ledger")
            if cleanings is not None:
                rows = _asked_for(cleanings, since, topics)
                runs, partitions = _runs(rows), _partitions(rows)
            erased = () if erasures is None else _erasures(erasures, since, topics)
    except Py4JJavaError as error:
        what = str(error.java_exception.getMessage()).partition("\n")[0]
        raise WinnowError(
            "the ledger can't be read", found=what, where=ledger, hint=_ANOTHER
        ) from error
    return History(ledger=redacted(ledger), runs=runs, partitions=partitions, erasures=erased)


def _topics(cleanings: DataFrame | None, erasures: DataFrame | None) -> set[str]:
    columns = [] if cleanings is None else [cleanings.select("topic")]
    if erasures is not None:
        columns.append(erasures.select(f.explode("partitions.topic").alias("topic")))
    found = (row.topic for column in columns for row in column.distinct().collect())
    return {topic for topic in found if topic is not None}


def _asked_for(rows: DataFrame, since: int | None, topics: Sequence[str]) -> DataFrame:
    if since is not None:
        rows = rows.where(f.col("ended_at") >= f.lit(EPOCH + timedelta(milliseconds=since)))
    patterns = (f"^{fnmatch.translate(glob)}" for glob in topics)
    wanted = reduce(or_, (f.col("topic").rlike(pattern) for pattern in patterns), f.lit(False))
    return rows.where(wanted) if topics else rows


def _freed_for_good() -> Column:
    """Return the bytes freed for good. Kept files include indexes, so they may be larger than the
    bytes that the logs have lost.
    """
    kept = f.coalesce(f.col("kept_bytes"), f.lit(0))
    freed = f.col("bytes_before") - f.col("bytes_after") - kept
    return f.coalesce(
        f.sum(f.when(kept > 0, f.greatest(freed, f.lit(0))).otherwise(freed)), f.lit(0)
    )


def _runs(rows: DataFrame) -> tuple[PastRun, ...]:
    summed = rows.groupBy("run_id", "user", "host", "started_at", "ended_at", "status").agg(
        f.count("topic").alias("partitions"),
        f.count_if(~f.array_contains("actions", "none")).alias("cleaned"),
        f.count_if(f.col("left_alone") | f.col("error").isNotNull()).alias("left_alone"),
        _freed_for_good().alias("freed_bytes"),
        f.coalesce(f.sum("kept_bytes"), f.lit(0)).alias("kept_bytes"),
    )
    found = (PastRun(**row.asDict()) for row in _with_ms(summed).collect())
    return tuple(sorted(found, key=lambda run: (-run.ended, run.run_id)))


def _partitions(rows: DataFrame) -> tuple[PastPartition, ...]:
    def of_last(column: Column) -> Column:
        return f.max_by(column, f.col("ended_at"))

    acted = f.when(~f.array_contains("actions", "none"), f.col("ended_at"))
    alone = f.when(f.col("left_alone") | f.col("error").isNotNull(), f.coalesce("error", "reason"))
    summed = (
        rows.where(f.col("topic").isNotNull())
        .groupBy("topic", "partition", "host", "log_dir")
        .agg(
            f.count_distinct("run_id").alias("runs"),
            _freed_for_good().alias("freed_bytes"),
            f.unix_millis(f.max(acted)).alias("last_cleaned"),
            f.unix_millis(f.max("ended_at")).alias("last_run"),
            of_last(alone).alias("left_alone"),
            of_last(
                f.try_add(f.unix_millis(f.col("oldest_dirty_at")), f.col("max_compaction_lag_ms"))
            ).alias("due"),
        )
    )
    found = (PastPartition(**row.asDict()) for row in summed.collect())
    return tuple(sorted(found, key=lambda p: (p.topic, p.partition, p.host, p.log_dir)))


def _erasures(rows: DataFrame, since: int | None, topics: Sequence[str]) -> tuple[PastErasure, ...]:
    who_and_when = ("run_id", "user", "host", "started_at", "ended_at")
    of_run = (*who_and_when, "status", "proven", "keys", "keys_found")
    each = _asked_for(
        rows.select(*of_run, f.explode_outer("partitions").alias("p")).select(*of_run, "p.*"),
        since,
        topics,
    )
    summed = each.groupBy(*of_run).agg(
        f.count("topic").alias("partitions"),
        f.coalesce(f.sum("records_erased"), f.lit(0)).alias("records_erased"),
        f.coalesce(
            f.sum(f.col("left_active") + f.col("left_above_high_watermark")), f.lit(0)
        ).alias("records_left"),
        f.coalesce(f.sum(f.col("bytes_before") - f.col("bytes_after")), f.lit(0)).alias(
            "freed_bytes"
        ),
    )
    found = (PastErasure(**row.asDict()) for row in _with_ms(summed).collect())
    return tuple(sorted(found, key=lambda run: (-run.ended, run.run_id)))


def _with_ms(rows: DataFrame) -> DataFrame:
    times = (
        f.unix_millis(f.col("started_at")).alias("started"),
        f.unix_millis(f.col("ended_at")).alias("ended"),
    )
    return rows.select("*", *times).drop("started_at", "ended_at")
