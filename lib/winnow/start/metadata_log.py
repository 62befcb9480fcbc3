"""What a start does with the cluster's metadata log, and which topics the broker knows then.

A broker recovers `__cluster_metadata-0` at every start, whether its shutdown was clean or not
(`KafkaRaftLog`). Then it loads the newest snapshot and the log behind it. It sets aside every
partition whose topic is not among them.
"""

from __future__ import annotations

from dataclasses import replace

from winnow.errors import (
    FAILS_ONE_PARTITION,
    CorruptLogError,
    OversizedBatchError,
    UnpredictedLoadError,
    failure_of,
)
from winnow.logdir.files import files_in
from winnow.logdir.metadata import METADATA_DIR, read_cluster_metadata
from winnow.logdir.metadata_log import list_snapshots, read_snapshot
from winnow.logdir.names import (
    DELETED,
    LOG,
    METADATA_TOPIC,
    PARTITION_METADATA,
    SNAPSHOT,
    DirectoryKind,
    base_offset_of,
    has_no_broker,
    parse_snapshot_name,
)
from winnow.policy.known_version import supported_features
from winnow.policy.sources import Settings
from winnow.policy.versions import KnownVersion
from winnow.start.beside import check_metadata_log
from winnow.start.loaded import LogToLoad
from winnow.start.log import LogQuestion, start_of_log
from winnow.start.metadata_fit import MetadataFit
from winnow.start.node_files import bootstrap_problem, quorum_state_problem
from winnow.start.nodes.quorum import NO_TOPICS, UNKNOWN_TOPICS, MetadataStart, Quorum
from winnow.start.rights import users_of
from winnow.start.small_files import Problem, topic_id_or_problem
from winnow.start.values import Fate, KnownTopics, LogStart
from winnow.state import TopicPartition
from winnow.storage.contract import Storage, read_if_there
from winnow.words import first_few

_SHOWN = 3
METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def own_metadata_log(
    storage: Storage, log_dir: str, quorum: Quorum, *, kafka: KnownVersion, now: int
) -> MetadataStart:
    """Return what a start does with the metadata log of a KRaft node in this log directory, as if
    no other node had a metadata log.

    `kafka`: the versions that the node may be of. `now`: its clock, ms.
    """
    directory = f"{log_dir}/{METADATA_DIR}"
    if not storage.exists(directory):
        is_new = has_no_broker({entry.name for entry in storage.list_dir(log_dir)})
        return replace(_empty(directory, f"{log_dir} has no {METADATA_DIR}"), is_new=is_new)
    loaded = start_of_log(storage, _question(log_dir, now))
    fit = MetadataFit(supported_features(kafka.newest) if kafka.source else None)
    try:
        check_metadata_log(storage, log_dir)
        problem = _why_not_loaded(storage, directory, loaded)
        if problem is None:
            found = _known_topics(storage, directory, fit, quorum)
    except (UnpredictedLoadError, OversizedBatchError) as error:  # a broker may load it
        return MetadataStart(directory, Fate.UNKNOWN, str(error), UNKNOWN_TOPICS)
    except CorruptLogError as error:
        if loaded.log_end_offset == 0:
            return _empty(directory, f"{METADATA_DIR} is empty")
        problem = Problem(Fate.STOPS, str(error))
    if problem is None and fit.problem is not None:
        problem = _that_does_not_fit(
            quorum.with_keys(found.voters), f"{METADATA_DIR}: {fit.problem}"
        )
    if problem is not None:
        return MetadataStart(directory, problem.fate, problem.words, UNKNOWN_TOPICS)
    if loaded.fate is Fate.LOSES:
        lost = f"{METADATA_DIR}: {loaded.reason}"
        reason = f"{lost}. Changes of topics in it are lost"
        return replace(found, fate=Fate.LOSES, reason=reason, lost=lost)
    return _without_end(storage, found, loaded)


def _without_end(storage: Storage, found: MetadataStart, loaded: LogStart) -> MetadataStart:
    """Say that the log has lost its end, if its snapshots show it: a node writes those of its state
    and of its producers at an offset that its log has, and a truncation removes those above.
    """
    end, names = loaded.log_end_offset, files_in(storage, found.directory)
    reached = [offset for offset, _ in list_snapshots(storage, found.directory)]
    reached += [base_offset_of(name) for name in names if name.endswith(SNAPSHOT)]
    if found.lost or found.fate is not Fate.LOADS or end is None or end >= max(reached, default=0):
        return found
    lost = (
        f"{METADATA_DIR} ends at offset {end}, below its newest snapshot {max(reached)}: it has "
        "lost its end, and changes of topics and settings with it"
    )
    if deleted := [name for name in names if name.endswith(LOG + DELETED)]:
        lost += (
            f". {first_few(deleted, _SHOWN)} may have it: first copy {found.directory} elsewhere"
        )
    return replace(found, fate=Fate.LOSES, reason=lost, lost=lost)


def _empty(directory: str, why: str) -> MetadataStart:
    return MetadataStart(directory, Fate.LOSES, why, NO_TOPICS, lost=why, is_empty=True)


def _why_not_loaded(storage: Storage, directory: str, loaded: LogStart) -> Problem | None:
    words = _why_node_ends(storage, directory, loaded)
    if words is not None:
        return Problem(Fate.STOPS, words)
    return _newest_in_the_way(storage, directory, loaded)


def _why_node_ends(storage: Storage, directory: str, loaded: LogStart) -> str | None:
    if loaded.fate is Fate.UNKNOWN:
        raise UnpredictedLoadError(f"{METADATA_DIR}: {loaded.reason}")
    if not (loaded.fate.is_harmless or loaded.fate is Fate.LOSES):
        return f"{METADATA_DIR}: {loaded.reason}"
    data = read_if_there(storage, f"{directory}/{PARTITION_METADATA}")
    topic_id = None if data is None else topic_id_or_problem(data)
    if topic_id not in {None, METADATA_TOPIC_ID}:
        return (
            f"{METADATA_DIR}: its {PARTITION_METADATA} has the topic id {topic_id} of another log"
        )
    return (
        quorum_state_problem(storage, directory)
        or bootstrap_problem(storage, directory.rpartition("/")[0])
        or _name_in_the_way(storage, directory, loaded.log_start_offset or 0)
        or _snapshot_problem(storage, directory, loaded)
    )


def _that_does_not_fit(quorum: Quorum, problem: str) -> Problem:
    """A controller stops at such a record. A broker without that role skips the record."""
    ends = quorum.node_id in (quorum.voters or ())
    words = "The node" if ends else "A node that is a controller"
    fate = Fate.STOPS if ends else Fate.UNKNOWN
    return Problem(fate, f"{problem}. {words} ends there")


def _known_topics(
    storage: Storage, directory: str, fit: MetadataFit, quorum: Quorum
) -> MetadataStart:
    """Return the topics of a log that the node reads to its end, and whether records are missing
    in it.
    """
    state = read_cluster_metadata(storage, directory, unclean=True, as_broker=True, see=fit.see)
    if state.kraft_version and not state.voters:
        raise CorruptLogError(
            f"{METADATA_DIR} has kraft.version {state.kraft_version} and no voters",
            hint="A node does not start with it.",
        )
    quorum = quorum.with_keys(state.voters)
    topics = KnownTopics(
        replicas={topic.topic_id: topic.replicas for topic in state.topics.values()},
        in_sync={topic.topic_id: topic.in_sync for topic in state.topics.values()},
        directories={topic.topic_id: topic.directories for topic in state.topics.values()},
        log_dirs=state.log_dirs,
        names={topic.topic_id: name for name, topic in state.topics.items()},
        log=f"{METADATA_DIR} up to offset {state.end_offset - 1}",
        catches_up=quorum.is_alone is False,
    )
    missing, reason = state.end.missing, ""
    if missing is not None:
        reason = f"{METADATA_DIR} lacks {missing}: the node starts without the changes in them"
    return MetadataStart(
        directory,
        Fate.LOADS if missing is None else Fate.LOSES,
        reason,
        topics,
        position=(state.end.epoch, state.end.offset),
        voters=state.voters,
    )


def _question(log_dir: str, now: int) -> LogQuestion:
    log = LogToLoad(
        log_dir=log_dir,
        name=METADATA_DIR,
        kind=DirectoryKind.CURRENT,
        topic_partition=TopicPartition(METADATA_TOPIC, 0),
        log_start_checkpoint=0,
        recovery_point=0,
        config=Settings().resolve_for_any_policy(METADATA_TOPIC),
        now=now,
        bytes=0,
        error=None,
        users=users_of(log_dir),
    )
    return LogQuestion(log, UNKNOWN_TOPICS, None)


def _snapshot_problem(storage: Storage, directory: str, loaded: LogStart) -> str | None:
    """Return why the snapshots keep the node from starting, or None."""
    start = loaded.log_start_offset or 0
    usable = [(end, name) for end, name in list_snapshots(storage, directory) if end >= start]
    if not usable:
        if start == 0:
            return None
        return f"{METADATA_DIR} begins at offset {start}, and no snapshot holds what was before it"
    _, newest = usable[0]
    try:
        read_snapshot(storage, f"{directory}/{newest}", complete=False)
    except OversizedBatchError:
        raise
    except FAILS_ONE_PARTITION as error:
        return f"the newest snapshot of {METADATA_DIR} can't be loaded: {failure_of(error)}"
    return None


def _name_in_the_way(storage: Storage, directory: str, start: int) -> str | None:
    """Return why a node ends when it looks for snapshots (`KafkaRaftLog.recoverSnapshots`), or
    None. It looks at files and directories alike, and removes those that are not whole or end below
    `start`, the log start offset.
    """
    for entry in storage.list_dir(directory):
        try:
            found = parse_snapshot_name(entry.name)
        except ValueError:
            return f"{METADATA_DIR}: {_no_snapshot(entry.name)}"
        if found is None or not entry.is_dir or (found.is_whole and found.offset >= start):
            continue
        if storage.list_dir(f"{directory}/{entry.name}"):
            return (
                f"{METADATA_DIR}: {entry.name} is a directory that is not empty, in place of a "
                "snapshot that the node removes. It ends there. Move the directory elsewhere"
            )
    return None


def _newest_in_the_way(storage: Storage, directory: str, loaded: LogStart) -> Problem | None:
    """Return why a node can't load what it takes for its newest snapshot, or None. That is the name
    with the highest epoch, then the highest offset.
    """
    entries = {entry.name: entry for entry in storage.list_dir(directory)}
    read = ((name, parse_snapshot_name(name)) for name in entries)
    start, end = loaded.log_start_offset or 0, loaded.log_end_offset or 0
    whole = {name: at for name, at in read if at and at.is_whole and at.offset >= start}
    if not whole:
        return None
    name, newest = max(whole.items(), key=lambda item: (item[1].epoch, item[1].offset))
    there = entries.get(newest.file)
    fate, why = Fate.UNKNOWN, ""
    if there is None:
        fate = Fate.STOPS if newest.offset > end else Fate.UNKNOWN
        why = f"and there is no {newest.file}"
    elif not there.is_file:
        fate, why = Fate.STOPS, f"and it is {there.kind}"
    elif newest.offset < max(one.offset for one in whole.values()):
        why = "for its epoch, although another snapshot has later records, which may be lost"
    if not why:
        return None
    words = f"{METADATA_DIR}: the node takes {name} for its newest snapshot, {why}"
    first = (
        ". It deletes the log before it ends" if fate is Fate.STOPS and newest.offset > end else ""
    )
    return Problem(fate, f"{words}{first}. Move {name} elsewhere")


def _no_snapshot(name: str) -> str:
    return (
        f"a node ends at the name {name}. It reads the offset and the epoch of each name that ends "
        "in .checkpoint, .checkpoint.part or .checkpoint.deleted: expected 20 digits, a dash, and "
        "10 digits before the ending. Move the file elsewhere"
    )
