"""`winnow.prepare` and `winnow.commit`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from winnow.api.sources import Values, asked_of, request_of
from winnow.arguments import checked, names
from winnow.cleaning.prepared.commit import commit_prepared
from winnow.cleaning.request import Only, Preparing, Request
from winnow.cleaning.result import RunResult
from winnow.clock import DAY_MS, now_ms
from winnow.policy.sources import Settings
from winnow.runtime.progress import Progress
from winnow.runtime.stop import Stop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@checked
def prepare(
    spark: SparkSession,
    log_dirs: str | Sequence[str],
    *,
    server_properties: str | Sequence[str] | None = None,
    topic_configs: str | None = None,
    sets: Values | None = None,
    topic_sets: Mapping[str, Values] | None = None,
    kafka_version: str | None = None,
    replace_cleaner: bool = False,
    now: int | None = None,
    topics: str | Sequence[str] = "*",
    exclude: str | Sequence[str] = (),
    only: Only | None = None,
    max_age_ms: int = DAY_MS,
    max_extra_space: int | None = None,
    keep_free: int | None = None,
    throttle: float | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> RunResult:
    """Stage the cleaning of log directories while their brokers run, for `commit`.

    Preparations of earlier runs that still hold are kept. No log is changed.

    Args:
        spark: The session whose executors read and write the files.
        log_dirs: One path, or all `log.dirs` of one or several brokers, of this machine.
        server_properties: Name of the broker's server.properties, or one name for each broker. By
            default none is read. `commit` reads this and the next file again.
        topic_configs: Name of a file with the output of `kafka-configs.sh --describe`, or with
            lines `TOPIC KEY=VALUE`. By default none is read.
        sets: Settings of the brokers, such as `{"log.retention.ms": 3_600_000}`. By default none.
        topic_sets: Topic configs by glob, such as `{"orders*": {"retention.ms": 1}}`. By default
            none.
        kafka_version: The version of Kafka whose rules apply, such as `"3.9"`. By default the
            version that the log directories show.
        replace_cleaner: Winnow is the cleaner of a broker whose `log.cleaner.enable` is false. By
            default the setting of the broker counts.
        now: The clock of every decision, in ms since 1970. By default the present.
        topics: Globs of topics. By default all topics.
        exclude: Globs of topics that are skipped, even if `topics` matches them. By default none.
        only: `"retention"` or `"compaction"`. By default both.
        max_age_ms: How old a preparation may be when it is committed. Tombstones are kept longer by
            as much. By default a day.
        max_extra_space: Most bytes that are staged. By default half of the free space.
        keep_free: Bytes that stay free on each disk. By default a tenth of it, at least 10 GiB.
        throttle: Bytes per second that all tasks together read and write. By default the brokers'
            `log.cleaner.io.max.bytes.per.second`, else 50 MiB.
        progress: Is called with the stages of the run. By default nothing is.
        stop: Lets another thread stop the run. By default none can.

    Returns:
        What a commit would leave of each partition.

    Raises:
        UsageError: An argument can't be used, or a directory is not a Kafka log directory.
        LogDirInUseError: Another run prepares a log directory.
        StoppedError: The run was stopped before it had a result.

    Example:
        >>> result = winnow.prepare(
        ...     spark, "/var/lib/kafka", topic_configs="topic-configs.txt", keep_free=0
        ... )
        >>> result.exit_code
        0
    """
    from winnow.cleaning.prepared import run  # noqa: PLC0415 - it loads numba

    given = {**locals(), "settings": None, "keep_free": None, "unclean_shutdown": None}
    asked = asked_of(given).for_later()
    given["preparing"] = Preparing(asked=asked, most_age_ms=max_age_ms, keep_free=keep_free)
    return run.prepare(spark, names(log_dirs, "log_dirs"), request_of(given, touch=False))


@checked
def commit(
    log_dirs: str | Sequence[str],
    *,
    topics: str | Sequence[str] = "*",
    exclude: str | Sequence[str] = (),
    keep_replaced: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> RunResult:
    """Install the preparations in the log directories of stopped brokers.

    What no longer holds is removed, and the partition is left alone, with the reason. Needs neither
    Spark nor compiled code.

    Args:
        log_dirs: One path, or all `log.dirs` of one or several stopped brokers.
        topics: Globs of topics. By default all topics.
        exclude: Globs of topics that are skipped, even if `topics` matches them. By default none.
        keep_replaced: Keep replaced and deleted files until `recover` undoes or purges the run of
            `prepare`. By default they are removed.
        dry_run: Only check which preparations hold. By default they are installed.
        progress: Is called with the stages of the run. By default nothing is.
        stop: Lets another thread stop the run. By default none can.

    Returns:
        What was done to each partition that had a preparation.

    Raises:
        UsageError: An argument can't be used, or a directory is not a Kafka log directory.
        LogDirInUseError: A broker is running on a log directory.

    Example:
        >>> winnow.commit("/var/lib/kafka").exit_code
        0
    """
    options = {"topics": topics, "exclude": exclude, "keep_replaced": keep_replaced}
    options |= {"settings": Settings(), "now": now_ms(), "progress": progress, "stop": stop}
    request = Request.of(options, touch=True)
    return commit_prepared(names(log_dirs, "log_dirs"), request, dry_run=dry_run)
