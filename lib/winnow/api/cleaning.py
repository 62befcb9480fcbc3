"""`winnow.plan` and `winnow.clean`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from winnow.api.facts import Facts
from winnow.api.plans import Plan
from winnow.api.result import Result
from winnow.api.run import run_and_record
from winnow.api.sources import Values, request_of
from winnow.arguments import checked, names
from winnow.cleaning.request import OnCorrupt, Only, UncleanShutdown
from winnow.policy.sources import Settings
from winnow.runtime.progress import Progress
from winnow.runtime.session import use_this_python
from winnow.runtime.stop import Stop
from winnow.storage.live.read_view import views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@checked
def plan(
    spark: SparkSession,
    log_dirs: str | Sequence[str],
    *,
    settings: Settings | None = None,
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
    unclean_shutdown: UncleanShutdown = "read",
    on_corrupt: OnCorrupt = "leave",
    max_extra_space: int | None = None,
    keep_free: int | None = None,
    throttle: float | None = None,
    estimate: bool = False,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Plan:
    """Return what `clean` would do with these log directories, and why. Changes nothing in them.

    Args:
        spark: The session whose executors read the files.
        log_dirs: One path or URL, or all `log.dirs` of one or several brokers.
        settings: All settings, already parsed. By default the next six arguments have them.
        server_properties: Name of the broker's server.properties, or one name for each broker. By
            default none is read.
        topic_configs: Name of a file with the output of `kafka-configs.sh --describe`, or with
            lines `TOPIC KEY=VALUE`. By default none is read.
        sets: Settings of the brokers, such as `{"log.retention.ms": 3_600_000}`. They override
            server.properties, but not the topics' own configs. By default none.
        topic_sets: Topic configs by glob, such as `{"orders*": {"retention.ms": 1}}`. They
            override all other sources. By default none.
        kafka_version: The version of Kafka whose rules apply, such as `"3.9"`. By default the
            version that the log directories show.
        replace_cleaner: Winnow is the cleaner of a broker whose `log.cleaner.enable` is false, and
            cleans its compacted topics too. By default they are left unchanged.
        now: The clock of every decision, in ms since 1970. By default the present.
        topics: Globs of topics. By default all topics.
        exclude: Globs of topics that are skipped, even if `topics` matches them. By default none.
        only: `"retention"` or `"compaction"`. By default both.
        unclean_shutdown: What to do with a log directory whose broker was not shut down cleanly:
            `"read"` what a broker would recover (default), `"refuse"` the directory, or use only
            what lies `"below-recovery-point"`.
        on_corrupt: What to do with a damaged partition: `"leave"` it unchanged (default), `"fail"`
            before anything is done, or `"quarantine"` its damaged batches.
        max_extra_space: Peak temporary space in bytes. By default the free space.
        keep_free: Bytes that stay free on each disk. By default 64 KiB.
        throttle: Bytes per second that all tasks together read and write. By default the brokers'
            `log.cleaner.io.max.bytes.per.second`.
        estimate: Read all records of partitions that would be compacted, so that all figures are
            exact. By default only batch headers are read.
        progress: Is called with the stages of the run. By default nothing is.
        stop: Lets another thread stop the run. By default none can.

    Returns:
        A plan that displays itself, tries other settings, and can be executed.

    Raises:
        UsageError: An argument can't be used, or a directory is not a Kafka log directory.
        LogDirInUseError: A log directory is locked by another run of Winnow.
        StoppedError: The run was stopped before it had a result.

    Example:
        >>> plan = winnow.plan(spark, "/var/lib/kafka", topic_configs="topic-configs.txt")
        >>> [p.name for p in plan.partitions if p.acts]
        ['c-none-0', 'c-tomb-0', 'd-time-0']
    """
    # The records are read by what_if, which remembers the results.
    given = {**locals(), "estimate": False}
    use_this_python(spark.sparkContext)
    dirs, facts = names(log_dirs, "log_dirs"), list[Facts]()
    given["seen"] = lambda found, request: facts.append(
        Facts(spark, dirs, (*found,), request, views())
    )
    run = run_and_record(spark, dirs, request_of(given, touch=False))
    made = Plan(run, spark, facts[0].request, facts[0], estimated=estimate)
    return made.what_if() if estimate else made


@checked
def clean(
    spark: SparkSession,
    log_dirs: str | Sequence[str],
    *,
    settings: Settings | None = None,
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
    unclean_shutdown: UncleanShutdown = "read",
    on_corrupt: OnCorrupt = "leave",
    max_extra_space: int | None = None,
    keep_free: int | None = None,
    free_at_least: int | None = None,
    throttle: float | None = None,
    keep_replaced: bool = False,
    ledger: str | None = None,
    key_summaries: str | None = None,
    output: str | Sequence[str] = (),
    begin_again: bool = False,
    work_dir: str | None = None,
    work_space: int | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Result:
    """Apply each topic's cleanup policy to these log directories, as Kafka would: a plan and its
    execution in one.

    A partition that can't be understood, or whose policy is unknown, is left unchanged and
    reported. If the ledger can't be written, a note says so, and the run still succeeds.

    Args:
        spark: The session whose executors read and write the files.
        log_dirs: One path or URL, or all `log.dirs` of one or several stopped brokers.
        settings: All settings, already parsed. By default the next six arguments have them.
        server_properties: Name of the broker's server.properties, or one name for each broker. By
            default none is read.
        topic_configs: Name of a file with the output of `kafka-configs.sh --describe`, or with
            lines `TOPIC KEY=VALUE`. By default none is read.
        sets: Settings of the brokers, such as `{"log.retention.ms": 3_600_000}`. They override
            server.properties, but not the topics' own configs. By default none.
        topic_sets: Topic configs by glob, such as `{"orders*": {"retention.ms": 1}}`. They
            override all other sources. By default none.
        kafka_version: The version of Kafka whose rules apply, such as `"3.9"`. By default the
            version that the log directories show.
        replace_cleaner: Winnow is the cleaner of a broker whose `log.cleaner.enable` is false, and
            cleans its compacted topics too. By default they are left unchanged.
        now: The clock of every decision, in ms since 1970. By default the present.
        topics: Globs of topics. By default all topics.
        exclude: Globs of topics that are skipped, even if `topics` matches them. By default none.
        only: `"retention"` or `"compaction"`. By default both.
        unclean_shutdown: What to do with a log directory whose broker was not shut down cleanly:
            `"read"` what a broker would recover (default), `"refuse"` the directory, or use only
            what lies `"below-recovery-point"`.
        on_corrupt: What to do with a damaged partition: `"leave"` it unchanged (default), `"fail"`
            before anything is done, or `"quarantine"` its damaged batches.
        max_extra_space: Peak temporary space in bytes. By default the free space.
        keep_free: Bytes that stay free on each disk. By default 64 KiB.
        free_at_least: Only delete the oldest segments that retention allows, until this many bytes
            are freed. By default everything is cleaned.
        throttle: Bytes per second that all tasks together read and write. By default the brokers'
            `log.cleaner.io.max.bytes.per.second`.
        keep_replaced: Keep replaced and deleted files until `recover` undoes or purges the run. By
            default they are removed.
        ledger: Directory or URL of the ledger that records the run. By default none does.
        key_summaries: Directory in which runs keep what they found out about segments, so that
            later runs read less. By default all segments are read.
        output: One directory or URL for each log directory. The cleaned copies are written there,
            and the log directories are only read. By default they are cleaned in place.
        begin_again: First remove what an unfinished run left in `output`. By default the run
            continues there.
        work_dir: Directory of copies that can't be beside their output. By default that of
            temporary files.
        work_space: Bytes that are copied at a time, with `output`. By default half of the free
            space, or everything if the output is on this machine.
        progress: Is called with the stages of the run. By default nothing is.
        stop: Lets another thread stop the run. By default none can.

    Returns:
        What was done to each partition, and why. It displays itself.

    Raises:
        UsageError: An argument can't be used, a directory is not a Kafka log directory, or the
            ledger is inside a log directory.
        LogDirInUseError: A broker is running on a log directory.
        StoppedError: The run was stopped before it had a result.

    Example:
        >>> result = winnow.clean(
        ...     spark, "/var/lib/kafka", topic_configs="topic-configs.txt", ledger="winnow-ledger"
        ... )
        >>> result.freed_bytes > 0
        True
    """
    request = request_of(locals(), touch=True)
    use_this_python(spark.sparkContext)
    run = run_and_record(
        spark,
        names(log_dirs, "log_dirs"),
        request,
        ledger=ledger,
        output=names(output, "output"),
        begin_again=begin_again,
        work_dir=work_dir,
        work_space=work_space,
    )
    return Result(run, spark)
