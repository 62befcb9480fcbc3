"""Functions that only look: `explain`, `doctor`, `verify` and `compare_replicas`."""

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
from winnow.logdir.lock import lock_to_read
from winnow.logdir.look import notes_of_looks
from winnow.logdir.survey import doubts_in, survey_log_dirs
from winnow.logdir.topic_globs import is_wanted
from winnow.policy.sources import Settings
from winnow.runtime.guest import as_guest
from winnow.runtime.progress import Progress, Silence
from winnow.runtime.same_directories import same_directories
from winnow.runtime.session import WithContext, use_this_python
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
        settings: All settings, already parsed. By default the next five arguments have them.
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
        LogDirInUseError: Another run of Winnow holds the lock of a log directory.

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
        LogDirInUseError: Another run of Winnow holds the lock of a log directory.

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
        if not notes_of_looks() or diagnosis.exit_code != CorruptLogError.exit_code:
            return replace(diagnosis, notes=notes)
    # As in `verify`: what is wrong beside a running broker must be seen twice.
    time.sleep(_SECOND_LOOK_S)
    with opened(spark, paths, given) as (dirs, request, notes):
        again = diagnose(spark.sparkContext, dirs, request, deep=deep)
    before = {(one.log_dir, one.topic, one.partition) for one in diagnosis.troubles}
    troubles = (t for t in again.troubles if (t.log_dir, t.topic, t.partition) in before)
    return replace(again, notes=notes, troubles=tuple(troubles))


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
        for path in found:
            locks.enter_context(lock_to_read(path))
        locks.enter_context(same_directories(spark.sparkContext, found))
        locks.enter_context(as_guest(spark.sparkContext))
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
        LogDirInUseError: Another run of Winnow holds the lock of a log directory.

    Example:
        >>> winnow.verify(spark, "/var/lib/kafka", topics="c-*").status
        'sound'
    """
    progress, globs = progress or Silence(), names(topics, "topics")
    first = _verified(spark, log_dirs, globs, max_decompressed_bytes, progress)
    if not first.beside_brokers or first.status == "sound":
        return first
    # A broker is writing: what is wrong must be seen twice, some seconds apart (S8.11).
    time.sleep(_SECOND_LOOK_S)
    found_in = {finding.topic for finding in first.findings}
    every = first.harmful_starts or None in found_in
    some = globs if every else [escape(topic) for topic in found_in if topic is not None]
    second = _verified(spark, log_dirs, some, max_decompressed_bytes, progress)
    return replace(
        first,
        findings=seen_twice(first.findings, second.findings),
        starts=second.starts if first.harmful_starts else first.starts,
    )


_SECOND_LOOK_S = 3


def _verified(
    spark: WithContext,
    log_dirs: str | Sequence[str],
    globs: Sequence[str],
    max_decompressed_bytes: int,
    progress: Progress,
) -> SweepResult:
    with found_to_read(spark, log_dirs) as (found, others):
        swept = sweep(
            spark.sparkContext,
            found,
            topics=globs,
            max_decompressed_bytes=max_decompressed_bytes,
            progress=progress,
        )
        wanted = partial(is_wanted, globs=globs)
        every = [*found, *(other.log_dir for other in others)]
        return replace(
            swept,
            findings=(*others, *swept.findings),
            notes=(*notes_of_looks(), *swept.notes),
            beside_brokers=bool(notes_of_looks()),
            starts=starts_beneath(spark.sparkContext, every, wanted, progress),
        )


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
        LogDirInUseError: Another run of Winnow holds the lock of a log directory.
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
        result = replace(result, notes=(*notes_of_looks(), *result.notes))
    left_out = (f"{other.log_dir}: {other.message}" for other in others)
    return replace(result, not_compared=(*result.not_compared, *left_out))
