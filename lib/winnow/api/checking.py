"""Read-only functions: `explain`, `doctor`, `verify` and `compare_replicas`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from glob import escape

from winnow.api.sources import Values, request_of
from winnow.arguments import checked, names
from winnow.cleaning.request import Only, Request, UncleanShutdown
from winnow.cleaning.run import opened
from winnow.errors import CorruptLogError
from winnow.logdir.live.read_view import view_notes
from winnow.logdir.lock import lock_to_read, read_views_of_brokers
from winnow.logdir.names import topic_partition_of
from winnow.logdir.survey import doubts_in, survey_log_dirs
from winnow.logdir.topic_globs import is_wanted
from winnow.policy.sources import Settings
from winnow.runtime.progress import Progress, Silence
from winnow.runtime.same_directories import same_directories
from winnow.runtime.session import WithContext, use_this_python
from winnow.runtime.throttle import limiting_io_beside_brokers
from winnow.start.values import BrokerStart
from winnow.storage.live.read_view import views
from winnow.storage.places import Places
from winnow.verbs.compare.compare import compare
from winnow.verbs.compare.values import CompareResult
from winnow.verbs.doctor.diagnose import diagnose
from winnow.verbs.doctor.values import Diagnosis
from winnow.verbs.explain.explain import check_question, explain_partition, home_of
from winnow.verbs.explain.values import Explanation
from winnow.verbs.starts import starts_beneath
from winnow.verbs.verify.directories import find_log_dirs
from winnow.verbs.verify.findings import Finding, seen_twice
from winnow.verbs.verify.verify import SweepResult, sweep
from winnow.wire.inflate import MAX_DECOMPRESSED_BYTES

_ATTEMPTS = 3
"""How often a result is checked again while a broker runs. A topic that is being created or deleted
is incomplete for a moment, and a start of the broker may seem harmful.
"""
_WAIT_S = 3


@checked
def explain(
    spark: WithContext,
    log_dirs: str | Sequence[str],
    partition: str,
    *,
    offset: int | None = None,
    key: str | bytes | None = None,
    settings: Settings | None = None,
    server_properties: str | Sequence[str] | None = None,
    topic_configs: str | None = None,
    sets: Values | None = None,
    topic_sets: Mapping[str, Values] | None = None,
    kafka_version: str | None = None,
    replace_cleaner: bool = False,
    now: int | None = None,
    only: Only | None = None,
    unclean_shutdown: UncleanShutdown = "read",
    progress: Progress | None = None,
) -> Explanation:
    """Explain why `clean` would or would not clean a partition, and what it would do with one
    record, or with all records of a key. Changes nothing.

    Args:
        spark: The session whose executors read the files.
        log_dirs: One path or URL, or all `log.dirs` of one broker.
        partition: TOPIC-PARTITION, the name of the partition's directory.
        offset: Explain the record at this offset. By default only the partition is explained.
        key: Explain all records with this key. Text is encoded as UTF-8. Excludes `offset`. By
            default only the partition is explained.
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
        only: `"retention"` or `"compaction"`: explain a cleaning that does only this. By default
            both.
        unclean_shutdown: As for `clean`. By default `"read"`.
        progress: Is called with the stages of the work. By default nothing is.

    Returns:
        The decision with its rule, its reason and its facts, and those on the records.

    Raises:
        UsageError: An argument can't be used, the partition does not exist, or a directory is not a
            Kafka log directory.
        LogDirInUseError: A log directory is locked by another run of Winnow.

    Example:
        >>> why = winnow.explain(
        ...     spark, "/var/lib/kafka", "c-tomb-0", offset=17, topic_configs="topic-configs.txt"
        ... )
        >>> why.actions, why.records[0].rule
        (('compacted',), 'S5.5')
    """
    request, paths = request_of(locals(), touch=False), names(log_dirs, "log_dirs")
    use_this_python(spark.sparkContext)
    question = offset, key.encode() if isinstance(key, str) else key
    check_question(*question)
    with opened(spark, paths, request, one_node="explain") as (dirs, request, notes):
        home = home_of(dirs, partition)
        request.progress.stage(f"looking at {partition}")
        answer = explain_partition(spark.sparkContext, home, request, *question)
    return replace(answer, notes=(*doubts_in(dirs), *notes))


@checked
def doctor(
    spark: WithContext,
    log_dirs: str | Sequence[str],
    *,
    settings: Settings,
    now: int,
    topics: str | Sequence[str] = (),
    deep: bool = False,
    progress: Progress | None = None,
) -> Diagnosis:
    """Report what is wrong with these log directories, what would free space, and which command to
    run next. Changes nothing. After an unclean shutdown it reads what a broker would recover.

    Args:
        spark: The session whose executors read the files.
        log_dirs: One path or URL, or all `log.dirs` of one or several brokers.
        settings: All settings, already parsed.
        now: The clock of every decision, in ms since 1970.
        topics: Globs of topics. By default all topics.
        deep: Read all records of compacted topics too, and report records without a key, and
            tombstones by age. By default only batch headers are read.
        progress: Is called with the stages of the work. By default nothing is.

    Returns:
        Disks, topics, troubles and advice.

    Raises:
        UsageError: An argument can't be used, or a directory is not a Kafka log directory.
        LogDirInUseError: A log directory is locked by another run of Winnow.

    Example:
        >>> from winnow.policy.sources import Settings
        >>> found = winnow.api.doctor(
        ...     spark, "/var/lib/kafka", settings=Settings(), now=1_795_300_000_000
        ... )
        >>> [topic.topic for topic in found.topics]
        ['c-none', 'd-time', 'c-tomb']
    """
    use_this_python(spark.sparkContext)
    asked = {"settings": settings, "topics": topics, "now": now, "progress": progress}
    given, paths = Request.of(asked, touch=False), names(log_dirs, "log_dirs")
    with opened(spark, paths, given) as (dirs, request, notes):
        diagnosis = diagnose(spark.sparkContext, dirs, request, deep=deep)
        diagnosis = replace(diagnosis, notes=(*notes, *diagnosis.notes))
        running = bool(views())
    # A partition is in trouble only if a second read view shows it (S8.11).
    for _ in range(_ATTEMPTS if running else 0):
        if diagnosis.exit_code != CorruptLogError.exit_code:
            break
        time.sleep(_WAIT_S)
        seen = {(one.log_dir, one.topic, one.partition) for one in diagnosis.troubles}
        with opened(spark, paths, given) as (dirs, request, notes):
            again = diagnose(spark.sparkContext, dirs, request, deep=deep)
        troubles = (t for t in again.troubles if (t.log_dir, t.topic, t.partition) in seen)
        diagnosis = replace(again, notes=(*notes, *again.notes), troubles=tuple(troubles))
        if diagnosis.troubles:
            break
    return diagnosis


@contextmanager
def found_to_read(
    spark: WithContext, log_dirs: str | Sequence[str]
) -> Iterator[tuple[Sequence[str], Sequence[Finding]]]:
    """Yield the log directories among these places, locked, and findings about the others. Tasks
    check that they have them.
    """
    use_this_python(spark.sparkContext)
    with ExitStack() as locks:
        found, others = find_log_dirs(Places(), names(log_dirs, "log_dirs"))
        locks.enter_context(read_views_of_brokers(found))
        for path in found:
            locks.enter_context(lock_to_read(path))
        locks.enter_context(same_directories(spark.sparkContext, found))
        locks.enter_context(limiting_io_beside_brokers(spark.sparkContext))
        yield found, others


@checked
def verify(
    spark: WithContext,
    log_dirs: str | Sequence[str],
    *,
    topics: str | Sequence[str] = (),
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    progress: Progress | None = None,
) -> SweepResult:
    """Read every batch, record, index and side file of these log directories, and report everything
    that is wrong. Changes nothing.

    Args:
        spark: The session whose executors read the files.
        log_dirs: One path or URL, or several.
        topics: Globs of topics. By default all topics, including Kafka's own.
        max_decompressed_bytes: A batch that decompresses to more is reported and not read. By
            default Kafka's default of `max.decompressed.message.bytes`.
        progress: Is called with the stages of the work. By default nothing is.

    Returns:
        What was read, and the findings.

    Raises:
        UsageError: An argument can't be used, or a directory is not a Kafka log directory.
        LogDirInUseError: A log directory is locked by another run of Winnow.

    Example:
        >>> winnow.verify(spark, "/var/lib/kafka", topics="c-*").status
        'sound'
    """
    progress, globs = progress or Silence(), names(topics, "topics")
    check = partial(
        sweep,
        spark.sparkContext,
        max_decompressed_bytes=max_decompressed_bytes,
        progress=progress,
    )
    with found_to_read(spark, log_dirs) as (found, others):
        swept, running = check(found, topics=globs), bool(views())
        result = replace(
            swept,
            findings=(*others, *swept.findings),
            notes=(*view_notes(), *swept.notes),
            starts=_starts(spark, found, others, globs, progress),
        )
    # A finding counts only if a second read view shows it (S8.11).
    for _ in range(_ATTEMPTS if running else 0):
        if not result.findings and not result.harmful_starts:
            break
        time.sleep(_WAIT_S)
        with found_to_read(spark, log_dirs) as (found, others):
            again = [*others]
            if some := _topics_again(result.findings, found, globs):
                again += check(found, topics=some).findings
            result = replace(result, findings=seen_twice(result.findings, again))
            if result.harmful_starts:
                starts = _starts(spark, found, others, globs, progress)
                result = replace(result, starts=starts)
        if result.findings:
            break
    return result


def _starts(
    spark: WithContext,
    found: Sequence[str],
    others: Sequence[Finding],
    globs: Sequence[str],
    progress: Progress,
) -> tuple[BrokerStart, ...]:
    every = [*found, *(other.log_dir for other in others)]
    return starts_beneath(spark.sparkContext, every, partial(is_wanted, globs=globs), progress)


def _topics_again(
    findings: Sequence[Finding], found: Sequence[str], globs: Sequence[str]
) -> Sequence[str]:
    """Return globs of the topics with findings that are still there; none: there are none."""
    topics = {finding.topic for finding in findings}
    if None in topics:
        return globs or ["*"]
    names_there = (entry.name for path in found for entry in Places().list_dir(path))
    there = {key.topic for key in map(topic_partition_of, names_there) if key is not None}
    return [escape(topic) for topic in sorted(filter(None, topics)) if topic in there]


@checked
def compare_replicas(
    spark: WithContext,
    log_dirs: str | Sequence[str],
    *,
    topics: str | Sequence[str] = (),
    progress: Progress | None = None,
) -> CompareResult:
    """Compare the replicas of each partition in these log directories, of several brokers or of
    copies of one. Report the first difference that a consumer could see (docs/decisions/0023).
    Changes nothing.

    Args:
        spark: The session whose executors read the files.
        log_dirs: At least two paths or URLs.
        topics: Globs of topics. By default all topics, including Kafka's own.
        progress: Is called with the stages of the work. By default nothing is.

    Returns:
        A comparison of each partition.

    Raises:
        UsageError: An argument can't be used, or a directory is not a Kafka log directory.
        LogDirInUseError: A log directory is locked by another run of Winnow.
        CorruptLogError: A checkpoint can't be read.

    Example:
        >>> winnow.api.compare_replicas(spark, ["/var/lib/kafka", "/mnt/copy"]).status
        'same'
    """
    globs = names(topics, "topics")
    with found_to_read(spark, log_dirs) as (found, others):
        # Survey directories one at a time: two with the same node.id are allowed here, since a
        # copy has the node.id of its original.
        dirs = [log_dir for path in found for log_dir in survey_log_dirs(Places(), [path])]
        result = compare(spark.sparkContext, dirs, topics=globs, progress=progress or Silence())
        result = replace(result, notes=(*view_notes(), *result.notes))
    left_out = (f"{other.log_dir}: {other.message}" for other in others)
    return replace(result, not_compared=(*result.not_compared, *left_out))
