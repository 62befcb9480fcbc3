"""What a start does with one log: the steps of `UnifiedLog`'s creation, in Kafka's order."""

from __future__ import annotations

from dataclasses import dataclass, replace

from winnow.errors import (
    FAILS_ONE_PARTITION,
    CorruptLogError,
    OversizedBatchError,
    UnpredictedLoadError,
    failure_of,
)
from winnow.logdir.batches import find_next
from winnow.logdir.commit.recovery import preview
from winnow.logdir.names import (
    LEADER_EPOCHS,
    LOG,
    MAX_LONG,
    PARTITION_METADATA,
    DirectoryKind,
    segment_file,
)
from winnow.policy.config import TopicConfig
from winnow.policy.sources import Unknown
from winnow.start.loader import load_log
from winnow.start.small_files import Problem, checkpoint_problem, topic_id_or_problem
from winnow.start.values import Fate, KnownTopics, LoadedLog, LogStart, LogToLoad
from winnow.storage.contract import Storage, read_if_there
from winnow.words import counted, size

_EPOCH_WORDS = 2


@dataclass(frozen=True, slots=True)
class LogQuestion:
    """A log, and what the broker knows when it loads it."""

    log: LogToLoad
    topics: KnownTopics
    node_id: int | None


def start_of_log(storage: Storage, question: LogQuestion) -> LogStart:
    """Return what a broker that starts does with this log. Reads what its loader reads: after an
    unclean shutdown, all batches from the recovery point on.
    """
    log = question.log
    start = LogStart(
        log_dir=log.log_dir, name=log.name, topic_partition=log.topic_partition, fate=Fate.LOADS
    )
    if log.error is not None:
        return replace(start, fate=Fate.UNKNOWN, reason=log.error)
    if isinstance(log.config, Unknown):
        return replace(start, fate=Fate.UNKNOWN, reason=log.config.reason)
    try:
        return _start(storage, question, log.config, start)
    except (UnpredictedLoadError, OversizedBatchError) as error:
        return replace(start, fate=Fate.UNKNOWN, reason=str(error))
    except CorruptLogError as error:
        return replace(start, fate=Fate.STOPS, reason=str(error))
    except FAILS_ONE_PARTITION as error:
        return replace(start, fate=Fate.OFFLINE, reason=failure_of(error))


def _start(
    storage: Storage, question: LogQuestion, config: TopicConfig, start: LogStart
) -> LogStart:
    log = question.log
    epochs = read_if_there(storage, f"{log.directory}/{LEADER_EPOCHS}")
    malformed = None if epochs is None else checkpoint_problem(epochs, words=_EPOCH_WORDS)
    if malformed is not None:
        words = f"{LEADER_EPOCHS} can't be read: {malformed}"
        return replace(start, fate=Fate.OFFLINE, reason=words)
    if preview(storage, log.directory).renamed:
        words = "the start finishes an interrupted swap; its outcome is not predicted"
        return replace(start, fate=Fate.RECOVERS, reason=words)
    loaded = load_log(storage, log, config)
    start = _with_loaded(storage, log, loaded, start)
    metadata = read_if_there(storage, f"{log.directory}/{PARTITION_METADATA}")
    topic_id = None if metadata is None else topic_id_or_problem(metadata)
    if isinstance(topic_id, Problem):
        return replace(start, fate=topic_id.fate, reason=topic_id.words)
    if log.kind in {DirectoryKind.DELETE, DirectoryKind.STRAY}:
        return start
    aside = why_set_aside(question, topic_id)
    return start if aside is None else replace(start, fate=Fate.SET_ASIDE, reason=aside)


def why_set_aside(question: LogQuestion, topic_id: str | None) -> str | None:
    """Return why the broker renames the log to `-stray` (`LogManager.isStrayKraftReplica`), or
    None if it keeps it.
    """
    topics, partition = question.topics, question.log.topic_partition.partition
    if topics.replicas is None:
        return None
    if topic_id is None:
        return "it has no partition.metadata, and so no topic id"
    found = topics.replicas.get(topic_id)
    if found is None:
        return f"{topics.log} has no topic with its id {topic_id}"
    nodes = found.get(partition)
    if nodes is None:
        return f"{topics.log} has no partition {partition} of its topic"
    if question.node_id is not None and question.node_id not in nodes:
        return (
            f"its replicas are on {counted(len(nodes), 'node')} "
            f"({', '.join(map(str, sorted(nodes)))}), not on this node {question.node_id}"
        )
    return None


def _with_loaded(storage: Storage, log: LogToLoad, loaded: LoadedLog, start: LogStart) -> LogStart:
    change, end = loaded.truncation, loaded.log_end_offset
    start = replace(
        start,
        fate=Fate.RECOVERS if loaded.recovered_bytes else Fate.LOADS,
        recovered_bytes=loaded.recovered_bytes,
        cut_bytes=change.cut_bytes,
        log_start_offset=loaded.log_start_offset,
        log_end_offset=end,
    )
    if change.created_segment is not None and change.removed:
        words = (
            f"its log start offset is {loaded.log_start_offset}, above its end: "
            f"all {size(change.cut_bytes)} are deleted"
        )
        return replace(start, fate=Fate.LOSES, reason=words)
    if any(segment.bytes for segment in change.removed):
        words = (
            f"segment {change.cuts[-1].base_offset if change.cuts else end} is cut at offset {end}"
            f", and {counted(len(change.removed), 'later segment')} go with it: "
            f"{size(change.cut_bytes)}"
        )
        return replace(start, fate=Fate.LOSES, reason=words)
    for cut in change.cuts:
        path = f"{log.directory}/{segment_file(cut.base_offset, LOG)}"
        behind = find_next(storage, path, cut.size, cut.before, cut.next_offset, MAX_LONG)
        if behind is not None:
            words = (
                f"{cut.why}: cut at offset {cut.next_offset}, and whole batches from offset "
                f"{behind[1]} on go with it: {size(cut.bytes)}"
            )
            return replace(start, fate=Fate.LOSES, reason=words)
    if log.clean_shutdown and end < log.high_watermark:
        words = f"it ends at offset {end}, below its high watermark {log.high_watermark}"
        return replace(start, already_lost=words)
    return start
