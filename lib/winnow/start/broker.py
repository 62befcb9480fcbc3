"""What happens if the broker of some log directories starts now: the answer that every verb uses
before it advises or promises anything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from pyspark import SparkContext

from winnow.errors import FAILS_ONE_PARTITION, CorruptLogError, UsageError, failure_of
from winnow.logdir.metadata import METADATA_DIR
from winnow.logdir.names import (
    LOG,
    METADATA_TOPIC,
    OFFSET_CHECKPOINTS,
    REMOTE_INDEX_CACHE,
    DirectoryKind,
    parse_partition_dir,
)
from winnow.logdir.survey import LogDir
from winnow.policy.sources import Settings
from winnow.runtime.failure import Failure
from winnow.runtime.progress import Progress, Silence
from winnow.runtime.spread import spread
from winnow.start.loaded import LoadedLog, LogToLoad
from winnow.start.log import LogQuestion, start_of_log
from winnow.start.metadata_choice import choose_metadata
from winnow.start.metadata_log import start_of_metadata_log
from winnow.start.node_files import meta_problems
from winnow.start.rights import why_not_used
from winnow.start.small_files import checkpoint_problem
from winnow.start.values import BrokerStart, Fate, KnownTopics, LogDirStart, LogStart, worst
from winnow.state import PartitionState
from winnow.storage.contract import Storage, Volume, read_if_there
from winnow.storage.places import Places
from winnow.storage.urls import is_remote
from winnow.words import counted, first_few, size

_OFFSET_WORDS = 3
_MOST = 5
_FEW, _FEW_BYTES = 4, 16 << 20
"""Logs, and their bytes, that are read in less time than it takes to start tasks."""
_EACH_BYTES = 1 << 20
"""The cost of a log besides its bytes."""
_LEAST_FREE = 64 << 20
"""Below it, a recovery may run out of space: each active segment gets indexes of 10 MiB."""
_LOADED_BEFORE_TOPICS = KnownTopics(replicas=None)


def expected_starts(
    sc: SparkContext | None,
    log_dirs: Sequence[LogDir],
    settings: Settings,
    *,
    now: int,
    known: Mapping[str, PartitionState | LoadedLog] | None = None,
    wanted: Callable[[str], bool] | None = None,
    progress: Progress | None = None,
) -> tuple[BrokerStart, ...]:
    """Return what happens if the brokers of these log directories start now, in the order of their
    node ids' first directories. Changes nothing.

    `settings`: with those of the metadata log. `now`: the brokers' clock, ms. `known`: partitions
    that were listed or loaded without a problem, by directory. Their logs are not read again.
    `wanted`: whether the logs of a topic are looked at; the others are only counted. Without `sc`,
    all is read in this thread.
    """
    by_node = defaultdict[int | None, list[LogDir]](list)
    for log_dir in log_dirs:
        if not is_remote(log_dir.path):
            by_node[log_dir.meta.node_id].append(log_dir)
    return tuple(
        _expected_start(sc, node_id, own, settings, now, known or {}, wanted, progress or Silence())
        for node_id, own in by_node.items()
    )


def _expected_start(
    sc: SparkContext | None,
    node_id: int | None,
    log_dirs: Sequence[LogDir],
    settings: Settings,
    now: int,
    known: Mapping[str, PartitionState | LoadedLog],
    wanted: Callable[[str], bool] | None,
    progress: Progress,
) -> BrokerStart:
    storage = Places()
    fate, reasons, topics, home = Fate.LOADS, list[str](), _LOADED_BEFORE_TOPICS, None
    if any(log_dir.meta.version > 0 for log_dir in log_dirs):
        reasons += meta_problems(storage, [log_dir.path for log_dir in log_dirs])
        fate = Fate.STOPS if reasons else fate
    home, problem = _metadata_home(storage, log_dirs, settings, node_id)
    if problem is not None:
        fate = Fate.STOPS
        reasons.append(problem)
    elif home is not None:
        metadata = start_of_metadata_log(storage, home, node_id=node_id, now=now)
        fate, topics = worst(fate, metadata.fate), metadata.topics
        reasons += [metadata.reason] if metadata.reason else []
    logs = [log for log_dir in log_dirs for log in logs_to_load(storage, log_dir, settings, now)]
    anew = _made_anew(storage, node_id, log_dirs, logs, topics, settings)
    if anew:
        reasons.append(
            f"{first_few(anew, _MOST)}: no directory, and no other node has a replica. "
            "The broker makes it anew, without a record"
        )
    questions = [
        LogQuestion(log, topics, node_id, known.get(log.directory))
        for log in logs
        if wanted is None or wanted(log.topic_partition.topic)
    ]
    starts = defaultdict[str, list[LogStart]](list)
    for start in _starts(sc, questions, progress):
        starts[start.log_dir].append(start)
    aside = {
        f"{start.log_dir}/{start.name}"
        for start in chain.from_iterable(starts.values())
        if start.fate is Fate.SET_ASIDE
    }
    if doubled := _doubled([log for log in logs if log.directory not in aside]):
        fate = Fate.STOPS
        reasons += doubled
    found = tuple(_log_dir_start(storage, one, starts[one.path], settings) for one in log_dirs)
    offline = [one.path for one in found if one.is_offline]
    if offline and (len(offline) == len(found) or home in offline):
        fate = worst(fate, Fate.STOPS)
        reasons.append(f"{home or offline[0]} goes offline, and a broker can't do without it")
    # Where a broker stops at one log directory, it has no use for the others either.
    fate = worst(fate, *(one.fate for one in found if one.fate is Fate.STOPS))
    return BrokerStart(
        node_id=node_id,
        fate=worst(fate, *(one.fate for one in found)),
        of_broker=fate,
        reasons=tuple(reasons),
        log_dirs=found,
        left_out=len(logs) - len(questions),
        made_anew=tuple(anew),
    )


def _made_anew(
    storage: Storage,
    node_id: int | None,
    log_dirs: Sequence[LogDir],
    logs: Sequence[LogToLoad],
    topics: KnownTopics,
    settings: Settings,
) -> list[str]:
    """Return the partitions whose only replica this broker has, and no directory for. That is known
    only if all log directories of its server.properties are here.
    """
    server = settings.server_of(node_id)
    given = {log_dir.path for log_dir in log_dirs}
    named = set(map(storage.canonical, server.log_dirs)) if server is not None else set()
    if not named or not named <= given:
        return []
    found = {
        (log.topic_partition.topic, log.topic_partition.partition)
        for log in logs
        if log.kind in {DirectoryKind.CURRENT, DirectoryKind.FUTURE}
    }
    return sorted(
        f"{topics.names[topic_id]}-{partition}"
        for topic_id, partitions in (topics.replicas or {}).items()
        for partition, nodes in partitions.items()
        if nodes == {node_id} and (topics.names[topic_id], partition) not in found
    )


def _metadata_home(
    storage: Storage, log_dirs: Sequence[LogDir], settings: Settings, node_id: int | None
) -> tuple[str | None, str | None]:
    """Return the log directory with the metadata log that the broker uses, None if it uses none or
    that is unknown; and why it does not start with what it finds, if that is so.
    """
    having = [one.path for one in log_dirs if storage.exists(f"{one.path}/{METADATA_DIR}")]
    old = any(one.meta.version == 0 for one in log_dirs)
    server = settings.server_of(node_id)
    named = None if server is None else server.metadata_place
    home = None if named is None or not named.startswith("/") else storage.canonical(named)
    if old and not having:
        return None, None  # with ZooKeeper
    if old or len(having) > 1 or not {home, *having} <= {home, None}:
        choice = choose_metadata(settings, storage, log_dirs)
        if choice.zookeeper:
            return None, None
        stopped = next((unused.why for unused in choice.unused if unused.stops_broker), None)
        return choice.log_dir or home or having[0], stopped
    return home or next(iter(having), None), None


def logs_to_load(
    storage: Storage, log_dir: LogDir, settings: Settings, now: int
) -> Iterator[LogToLoad]:
    """Yield the logs that a broker loads from a log directory, with what its checkpoints say.

    Replicas that are being moved, deleted, or set aside are loaded as well. The metadata log is
    not: see `start.metadata_log`.
    """
    checkpoints = log_dir.checkpoints
    for entry in storage.list_dir(log_dir.path):
        if not (entry.is_dir or entry.leads_to_dir) or entry.name == REMOTE_INDEX_CACHE:
            continue
        try:
            kind = parse_partition_dir(entry.name).kind
        except UsageError:
            continue  # see `LogDir.strangers`
        plain = entry.name.rpartition(".")[0] if kind is not DirectoryKind.CURRENT else entry.name
        key = parse_partition_dir(plain).topic_partition
        if key is None or key.topic == METADATA_TOPIC:
            continue
        error, log_bytes = None, 0
        if not entry.is_dir:
            error = "it is a symbolic link, which Winnow does not follow"
        else:
            try:
                files = storage.list_dir(f"{log_dir.path}/{entry.name}")
                log_bytes = sum(file.size for file in files if file.name.endswith(LOG))
            except FAILS_ONE_PARTITION as failed:
                error = failure_of(failed)
        yield LogToLoad(
            log_dir=log_dir.path,
            name=entry.name,
            kind=kind,
            topic_partition=key,
            log_start_checkpoint=checkpoints.log_start.get(key, 0),
            recovery_point=checkpoints.recovery_point.get(key, 0),
            config=settings.resolve_for_any_policy(key.topic, node_id=log_dir.meta.node_id),
            now=now,
            bytes=log_bytes,
            error=error,
            clean_shutdown=log_dir.clean_shutdown,
            high_watermark=checkpoints.high_watermark.get(key, 0),
            one_byte_versions=settings.kafka.rules.one_byte_versions,
        )


def _starts(
    sc: SparkContext | None, questions: Sequence[LogQuestion], progress: Progress
) -> Iterator[LogStart]:
    one = partial(start_of_log, Places())
    to_read = [question for question in questions if question.state is None]
    log_bytes = sum(question.log.bytes for question in to_read)
    if sc is None or (len(to_read) <= _FEW and log_bytes <= _FEW_BYTES):
        yield from map(one, questions)
        return
    yield from (one(question) for question in questions if question.state is not None)
    found = spread(
        sc,
        one,
        to_read,
        weights=[question.log.bytes for question in to_read],
        each=_EACH_BYTES,
        name=f"finding out what a broker does with {counted(len(to_read), 'log')}",
        progress=progress,
    )
    for question, start in zip(to_read, found, strict=True):
        if isinstance(start, Failure):
            log = replace(question.log, error=start.message)
            yield one(replace(question, log=log))
        else:
            yield start


def _doubled(logs: Sequence[LogToLoad]) -> list[str]:
    """Return why the broker does not start: partitions in two of its directories. `logs`: without
    those that it sets aside before it compares.
    """
    current = [log for log in logs if log.kind is DirectoryKind.CURRENT]
    counts = Counter(log.topic_partition for log in current)
    return [
        f"{partition} is in {count} directories: "
        + " and ".join(log.directory for log in current if log.topic_partition == partition)
        for partition, count in counts.items()
        if count > 1
    ]


def _log_dir_start(
    storage: Storage, log_dir: LogDir, logs: Sequence[LogStart], settings: Settings
) -> LogDirStart:
    volume = storage.volume(log_dir.path)
    reasons: dict[str, Fate] = {
        **{
            stranger.words(log_dir.path): Fate.STOPS if stranger.stops_broker else Fate.OFFLINE
            for stranger in log_dir.strangers
        },
        **dict.fromkeys(_unreadable_checkpoints(storage, log_dir.path), Fate.OFFLINE),
    }
    if forbidden := why_not_used(log_dir.path):
        reasons[forbidden] = Fate.OFFLINE
    if volume.read_only:
        reasons[f"{log_dir.path} is on a file system that is read-only"] = Fate.OFFLINE
    full = not log_dir.clean_shutdown and (
        volume.free_bytes < _LEAST_FREE or volume.free_files == 0
    )
    if full and not volume.read_only:
        reasons[_on_full_disk(log_dir.path, volume, settings)] = Fate.LOSES
    fates = [*reasons.values(), *(log.fate for log in logs)]
    return LogDirStart(
        path=log_dir.path,
        fate=worst(*fates),
        reasons=(*reasons,),
        logs=(*logs,),
        is_offline=Fate.OFFLINE in fates,
        frees_first=full,
    )


def _unreadable_checkpoints(storage: Storage, path: str) -> Iterator[str]:
    for name in OFFSET_CHECKPOINTS:
        try:
            data = read_if_there(storage, f"{path}/{name}")
            problem = None if data is None else checkpoint_problem(data, words=_OFFSET_WORDS)
        except CorruptLogError as error:
            problem = error.what
        if problem is not None:
            yield f"{path}/{name} can't be read: {problem}"


def _on_full_disk(path: str, volume: Volume, settings: Settings) -> str:
    free = volume.free_bytes
    left = "no file can be made" if volume.free_files == 0 else f"{size(free)} are free"
    what = (
        "Where a write fails while a segment is recovered, Kafka empties the segment and deletes "
        "all later ones, in the metadata log as well"
        if settings.kafka.rules.empties_on_failed_recovery
        else "Kafka can't recover its logs without free space"
    )
    return f"the file system of {path} is full ({left}). {what}"
