"""Read the ledger: as a DataFrame, as the values that `history` shows, and the hashes of keys."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as f

from winnow.arguments import checked, names, time_ms
from winnow.clock import EPOCH
from winnow.errors import UsageError, WinnowError
from winnow.ledger.delta import provide_delta
from winnow.ledger.foreign import check_files, check_inputs
from winnow.ledger.place import ERASURES, TABLE, default_ledger, table_url
from winnow.ledger.schema import SCHEMAS
from winnow.logdir.topic_globs import check_globs
from winnow.runtime.progress import Progress, Silence, watched
from winnow.verbs.erase.key_hashes import ErasedKeys, erased_keys, read_hash_key
from winnow.words import redacted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
_MISSING = ("DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE", "PATH_NOT_FOUND", "DELTA_PATH")
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
_NEEDED = ["run_id", "user", "host", "started_at", "ended_at", "status"]
_FREED = """
    if(kept_bytes > 0, greatest(bytes_before - bytes_after - kept_bytes, 0),
       bytes_before - bytes_after) AS freed
"""
"""Bytes freed for good. Kept files include indexes, so they may be larger than the bytes that the
logs have lost.
"""
_RUNS = """
    SELECT run_id, `user`, host, unix_millis(started_at) AS started,
        unix_millis(ended_at) AS ended, status, count(topic) AS partitions,
        count_if(NOT array_contains(actions, 'none')) AS cleaned,
        count_if(left_alone OR error IS NOT NULL) AS left_alone,
        coalesce(sum(freed), 0) AS freed_bytes, coalesce(sum(kept_bytes), 0) AS kept_bytes
    FROM {rows} GROUP BY ALL
"""
_PARTITIONS = """
    SELECT topic, partition, host, log_dir, count(DISTINCT run_id) AS runs,
        coalesce(sum(freed), 0) AS freed_bytes,
        unix_millis(max(ended_at) FILTER (WHERE NOT array_contains(actions, 'none')))
            AS last_cleaned,
        unix_millis(max(ended_at)) AS last_run,
        max_by(CASE WHEN left_alone OR error IS NOT NULL THEN coalesce(error, reason) END,
            ended_at) AS left_alone,
        max_by(try_add(unix_millis(oldest_dirty_at), max_compaction_lag_ms), ended_at) AS due
    FROM {rows} WHERE topic IS NOT NULL AND partition IS NOT NULL AND log_dir IS NOT NULL
    GROUP BY ALL
"""
_ERASURES = """
    SELECT run_id, `user`, host, unix_millis(started_at) AS started,
        unix_millis(ended_at) AS ended, status, proven, keys, keys_found,
        count(topic) AS partitions, coalesce(sum(records_erased), 0) AS records_erased,
        coalesce(sum(left_active + left_above_high_watermark), 0) AS records_left,
        coalesce(sum(bytes_before - bytes_after), 0) AS freed_bytes
    FROM {rows} GROUP BY ALL
"""
"""Times are in ms since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Past:
    """When and where something ran. Times are in ms since the epoch."""

    run_id: str
    user: str
    host: str
    started: int
    ended: int
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun(_Past):
    """A run, with sums over the partitions that were asked for."""

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
class PastErasure(_Past):
    """An erasure, with sums over the partitions that were asked for."""

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
def ledger_table(spark: SparkSession, ledger: str | None = None) -> DataFrame:
    """Return all cleanings in a ledger.

    Args:
        spark: A session. Delta's jars are added to it if it has none.
        ledger: Directory or URL of the ledger. By default that of the command line.

    Returns:
        One row for each partition of each run, with the columns `winnow.ledger.schema.LEDGER`.

    Raises:
        UsageError: There is no ledger.
        WinnowError: The ledger can't be read.

    Example:
        >>> winnow.ledger_table(spark, "winnow-ledger").count()
        3
    """
    return read_ledger(spark, default_ledger() if ledger is None else ledger)


@checked
def erasures(spark: SparkSession, ledger: str) -> DataFrame:
    """Return all erasures in a ledger.

    Args:
        spark: A session. Delta's jars are added to it if it has none.
        ledger: Directory or URL of the ledger.

    Returns:
        One row for each erasure, with the columns `winnow.ledger.schema.LEDGER_OF_ERASURES`.

    Raises:
        UsageError: There is no ledger, or no erasure in it.
        WinnowError: The ledger can't be read.

    Example:
        >>> winnow.api.erasures(spark, "winnow-ledger").count()
        1
    """
    return read_ledger(spark, ledger, ERASURES)


def read_ledger(spark: SparkSession, ledger: str, table: str = TABLE) -> DataFrame:
    """Return all rows of a table. Raises UsageError if it does not exist."""
    provide_delta(spark.sparkContext)
    check_files(ledger, table)
    session = spark.newSession()
    for key, value in _SETTINGS.items():
        session.conf.set(key, value)
    with _what_is_wrong(ledger):
        rows = session.read.format("delta").load(table_url(ledger, table))
        check_inputs(rows, ledger, table)
        return rows


@contextmanager
def _what_is_wrong(ledger: str) -> Iterator[None]:
    """Raise UsageError if there is no table, and WinnowError for what Delta can't read."""
    try:
        yield
    except AnalysisException as error:
        if (error.getCondition() or "").startswith(_MISSING):
            raise UsageError(
                "there is no ledger", where=ledger, hint="The first `clean` creates it."
            ) from error
        raise _unreadable(ledger, str(error)) from error
    except PySparkException as error:
        raise _unreadable(ledger, str(error)) from error
    except Py4JJavaError as error:  # what Delta does not expect in its own log
        why = error.java_exception.getMessage() or error.java_exception
        raise _unreadable(ledger, str(why)) from error


def _unreadable(ledger: str, why: str) -> WinnowError:
    return WinnowError(
        "the ledger can't be read",
        found=why.partition("\n")[0],
        where=ledger,
        hint="If this is not a ledger, choose another place with --ledger.",
    )


def erased_in_ledger(
    spark: SparkSession, ledger: str | None, run_id: str, hash_key: str | None
) -> ErasedKeys:
    """Return the keys of an erasure as hashes. `hash_key`: the file with its hash key.

    Raises UsageError for a run that is not in the ledger, and for another hash key.
    """
    if ledger is None or hash_key is None:
        raise UsageError(
            "a run needs a ledger and its hash key",
            expected="a certificate, or --hash-key FILE and a ledger",
            found=run_id,
        )
    rows = [row for row in read_ledger(spark, ledger, ERASURES).collect() if row.run_id == run_id]
    if not rows:
        raise UsageError(
            "there is no such erasure", expected="its run id", found=run_id, where=ledger
        )
    return erased_keys(
        rows[0].key_hashes,
        rows[0].keys_hash,
        read_hash_key(hash_key),
        topics={one.topic for one in rows[0].partitions if one.topic is not None},
        run_id=run_id,
    )


@checked
def history(
    spark: SparkSession,
    ledger: str,
    *,
    since: int | None = None,
    topics: str | Sequence[str] = (),
    progress: Progress | None = None,
) -> History:
    """Return what the runs in a ledger did, and when each partition was last cleaned.

    Args:
        spark: A session. Delta's jars are added to it if it has none.
        ledger: Directory or URL of the ledger.
        since: Only runs that ended at this time or later, in ms since 1970. By default all runs.
        topics: Globs of topics. By default all topics.
        progress: Is called with tables, then tasks. By default nothing is.

    Returns:
        Runs, erasures and partitions.

    Raises:
        UsageError: There is no ledger, or a glob matches no topic in it.
        WinnowError: The ledger can't be read.

    Example:
        >>> past = winnow.api.history(spark, "winnow-ledger", topics="c-*")
        >>> [p.topic for p in past.partitions]
        ['c-none', 'c-tomb']
    """
    if since is not None:
        time_ms(since, "since")
    progress, topics = progress or Silence(), names(topics, "topics")
    progress.stage("opening the ledger", total_tasks=2)
    tables: list[DataFrame] = []
    missing: list[UsageError] = []
    for name, schema in SCHEMAS.items():
        try:
            tables.append(read_ledger(spark, ledger, name))
        except UsageError as error:  # no run has written to it yet
            missing.append(error)
            tables.append(spark.createDataFrame([], schema))
        progress.advance(1)
    if len(missing) == len(tables):
        raise missing[0]
    with watched(spark.sparkContext, progress, "reading the ledger"), _what_is_wrong(ledger):
        # A row without a name or a time of its run can't be shown: no run writes such a row.
        cleanings, erased = (table.dropna(subset=_NEEDED) for table in tables)
        cleanings = cleanings.selectExpr("*", _FREED)
        erased = erased.select("*", f.explode_outer("partitions").alias("p"))
        erased = erased.select("*", "p.*")
        if topics:
            both = cleanings.select("topic").union(erased.select("topic")).distinct().collect()
            known = {row.topic for row in both if row.topic is not None}
            check_globs(topics, known, option="--topics", of="the ledger")
        rows = _asked_for(cleanings, since, topics)
        runs, partitions = _found(PastRun, _RUNS, rows), _found(PastPartition, _PARTITIONS, rows)
        past = _found(PastErasure, _ERASURES, _asked_for(erased, since, topics))
    return History(
        ledger=redacted(ledger),
        runs=tuple(sorted(runs, key=lambda run: (-run.ended, run.run_id))),
        partitions=tuple(
            sorted(partitions, key=lambda p: (p.topic, p.partition, p.host, p.log_dir))
        ),
        erasures=tuple(sorted(past, key=lambda run: (-run.ended, run.run_id))),
    )


def _asked_for(rows: DataFrame, since: int | None, topics: Sequence[str]) -> DataFrame:
    if since is not None:
        rows = rows.where(f.col("ended_at") >= f.lit(EPOCH + timedelta(milliseconds=since)))
    patterns = "|".join(f"^{fnmatch.translate(glob)}" for glob in topics)
    return rows.where(f.col("topic").rlike(patterns)) if topics else rows


def _found(kind: type[T], query: str, rows: DataFrame) -> list[T]:
    found = rows.sparkSession.sql(query, rows=rows).collect()
    return [kind(**row.asDict()) for row in found]
