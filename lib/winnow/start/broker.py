"""What happens if the broker of some log directories starts now: the answer that every verb uses
before it advises or promises anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from winnow.logdir.survey import LogDir
from winnow.policy.sources import Settings
from winnow.runtime.failure import Failure
from winnow.runtime.progress import Progress, Silence
from winnow.runtime.spread import spread
from winnow.start.beside import (
    links_in,
    metadata_place_problems,
    undecided,
    unseen,
    why_nothing_is_written,
)
from winnow.start.copies import copies_known
from winnow.start.files import ListingCache
from winnow.start.homes import (
    Present,
    doubled_in,
    with_topic_ids,
    without_directory,
    without_leader,
)
from winnow.start.loaded import LoadedLog, LogToLoad
from winnow.start.log import LogQuestion, start_of_log
from winnow.start.logs import directories_of_later_versions, logs_to_load
from winnow.start.moves import moves_in, set_moved
from winnow.start.node_files import MetaProblem
from winnow.start.nodes.node import Node, refused_by
from winnow.start.rights import why_not_used
from winnow.start.small_files import unreadable_checkpoints
from winnow.start.values import BrokerStart, Fate, KnownTopics, LogDirStart, LogStart, worst
from winnow.state import PartitionState
from winnow.storage.contract import Storage
from winnow.storage.places import Places
from winnow.storage.urls import is_remote
from winnow.words import counted, size

if TYPE_CHECKING:
    from pyspark import SparkContext

_MOST = 5
_FEW, _FEW_BYTES = 4, 16 << 20
"""Logs, and their bytes, that are read in less time than it takes to start tasks."""
_EACH_BYTES = 1 << 20
"""The cost of a log besides its bytes."""
_FILES_BESIDES, _FILES_EACH = 16, 4
"""Inodes that a recovery takes at most, besides and for each log: snapshots, indexes, and
checkpoints until they are renamed.
"""
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
    nodes = {
        node_id: Node.of(Places(), node_id, own, settings, now) for node_id, own in by_node.items()
    }
    return tuple(
        _expected_start(sc, node, nodes, settings, now, known or {}, wanted, progress or Silence())
        for node in nodes.values()
    )


def _expected_start(
    sc: SparkContext | None,
    node: Node,
    nodes: Mapping[int | None, Node],
    settings: Settings,
    now: int,
    known: Mapping[str, PartitionState | LoadedLog],
    wanted: Callable[[str], bool] | None,
    progress: Progress,
) -> BrokerStart:
    storage = Places()
    topics, needs_quorum = _LOADED_BEFORE_TOPICS, False
    node_id, named, home, problem = node.node_id, node.named, node.home, node.problem
    kraft, given = node.kraft, [log_dir.path for log_dir in node.log_dirs]
    refused, log_dirs = refused_by(node)
    reasons = [one.words for one in refused if one.fate is Fate.STOPS]
    reasons += [*named.problems, *([] if problem is None else [problem])]
    reasons += metadata_place_problems(storage, home, given)
    fate = Fate.STOPS if reasons else Fate.LOADS
    lost = [one for one in refused if one.fate is not Fate.STOPS and one.log_dir not in given]
    reasons += [one.words for one in lost]
    fate = worst(fate, *(one.fate for one in lost))
    others = node.others(nodes)
    metadata = node.start_of_metadata_log(others)
    if metadata is not None:
        fate, topics = worst(fate, metadata.fate), metadata.topics
        reasons += [metadata.reason] if metadata.reason else []
        needs_quorum = metadata.needs_quorum
    not_seen = tuple(
        unseen(
            storage,
            log_dirs,
            named,
            registered=() if node_id is None else topics.log_dirs.get(node_id, ()),
            without_metadata=kraft and home is None and problem is None,
            refused={one.log_dir for one in refused},
        )
    )
    if not_seen:
        reasons += not_seen
        fate = worst(fate, Fate.UNKNOWN)
    used = [log_dir for log_dir in log_dirs if not log_dir.in_doubt]
    elsewhere = {node_id: other.present(topics) for node_id, other in others.items()}
    cache = ListingCache(storage)
    questions = _questions(cache, used, topics, node_id, settings, now, known, elsewhere)
    logs, found_starts = _starts(sc, cache, questions, wanted, progress)
    starts = defaultdict[str, list[LogStart]](list)
    for start in with_topic_ids(storage, [] if kraft else logs, found_starts):
        starts[start.log_dir].append(start)
    moves = moves_in(
        storage,
        logs,
        topics,
        node_id=node_id,
        directory_ids={log_dir.path: log_dir.meta.directory_id for log_dir in used},
    )
    for move in moves:
        if move.problem is not None and move.at_once:
            fate = Fate.STOPS
            reasons.append(move.problem)
        set_moved(starts, move)
    if words := without_leader(chain.from_iterable(starts.values())):
        fate = worst(fate, Fate.NOT_SERVED)
        reasons.append(words)
    aside = {
        f"{start.log_dir}/{start.name}"
        for start in chain.from_iterable(starts.values())
        if start.fate is Fate.SET_ASIDE
    }
    if doubled := doubled_in([log for log in logs if log.directory not in aside]):
        fate = Fate.STOPS
        reasons += doubled
    found = tuple(
        _in_doubt(one, refused)
        if one.in_doubt
        else _log_dir_start(storage, one, starts[one.path], settings, refused, home)
        for one in log_dirs
    )
    offline = [one.path for one in found if one.is_offline]
    if offline and (len(offline) == len(found) or home in offline):
        fate = worst(fate, Fate.STOPS)
        reasons.append(f"{home or offline[0]} goes offline, and a broker can't do without it")
    without = without_directory(
        storage,
        node_id,
        log_dirs,
        topics,
        named,
        node.present(topics),
        elsewhere,
        offline=offline,
    )
    reasons += without.words()
    fate = worst(fate, without.fate)
    # Where a broker stops at one log directory, it has no use for the others either.
    fate = worst(fate, *(one.fate for one in found if one.fate is Fate.STOPS))
    return BrokerStart(
        node_id=node_id,
        fate=worst(fate, *(one.fate for one in found)),
        of_broker=fate,
        reasons=tuple(reasons),
        log_dirs=found,
        left_out=len(logs) - len(found_starts),
        made_anew=without.made_anew,
        needs_quorum=needs_quorum,
        is_controller=all(log_dir.is_of_controller for log_dir in log_dirs),
        caveat="" if metadata is None else metadata.caveat,
        unseen=(
            *not_seen,
            *without.unknown,
            *links_in(storage, log_dirs, home),
            *undecided(logs, starts),
        ),
    )


def _questions(
    storage: Storage,
    log_dirs: Sequence[LogDir],
    topics: KnownTopics,
    node_id: int | None,
    settings: Settings,
    now: int,
    known: Mapping[str, PartitionState | LoadedLog],
    elsewhere: Mapping[int, Present],
) -> Iterator[LogQuestion]:
    """Yield a question for each log, right after the directory of the log was listed."""
    for log_dir in log_dirs:
        for log in logs_to_load(storage, log_dir, settings, now):
            at = log.topic_partition
            lost = [node for node, present in elsewhere.items() if at not in present.found]
            copies = copies_known(at, settings, log_dirs, node_id, lost=lost)
            yield LogQuestion(log, topics, node_id, copies, known.get(log.directory))


def _starts(
    sc: SparkContext | None,
    cache: ListingCache,
    questions: Iterator[LogQuestion],
    wanted: Callable[[str], bool] | None,
    progress: Progress,
) -> tuple[list[LogToLoad], list[LogStart]]:
    """Return all logs, and what a start does with those that are wanted."""
    logs, starts, to_read = list[LogToLoad](), list[LogStart](), list[LogQuestion]()
    for question in questions:
        logs.append(question.log)
        if wanted is not None and not wanted(question.log.topic_partition.topic):
            continue
        if sc is None or question.state is not None:
            starts.append(start_of_log(cache, question))
        else:
            to_read.append(question)
    read = partial(start_of_log, Places())
    log_bytes = sum(question.log.bytes for question in to_read)
    if sc is None or (len(to_read) <= _FEW and log_bytes <= _FEW_BYTES):
        return logs, [*starts, *map(read, to_read)]
    found = spread(
        sc,
        read,
        to_read,
        weights=[question.log.bytes for question in to_read],
        each=_EACH_BYTES,
        name=f"finding out what a broker does with {counted(len(to_read), 'log')}",
        progress=progress,
    )
    for question, start in zip(to_read, found, strict=True):
        if isinstance(start, Failure):
            log = replace(question.log, error=start.message)
            starts.append(read(replace(question, log=log)))
        else:
            starts.append(start)
    return logs, starts


def _in_doubt(log_dir: LogDir, refused: Sequence[MetaProblem]) -> LogDirStart:
    """Its logs are not looked at."""
    own = [one for one in refused if one.log_dir == log_dir.path]
    fate = worst(*(one.fate for one in own), Fate.UNKNOWN)
    words = tuple(one.words for one in own if one.fate is not Fate.STOPS)
    offline = fate is Fate.OFFLINE
    return LogDirStart(path=log_dir.path, fate=fate, reasons=words, logs=(), is_offline=offline)


def _log_dir_start(
    storage: Storage,
    log_dir: LogDir,
    logs: Sequence[LogStart],
    settings: Settings,
    refused: Sequence[MetaProblem],
    home: str | None,
) -> LogDirStart:
    volume = storage.volume(log_dir.path)
    reasons: dict[str, Fate] = {
        **{
            one.words: one.fate
            for one in refused
            if one.log_dir == log_dir.path and one.fate is not Fate.STOPS
        },
        **{
            stranger.words(log_dir.path): Fate.STOPS if stranger.stops_broker else Fate.OFFLINE
            for stranger in log_dir.strangers
        },
        **dict(directories_of_later_versions(log_dir, settings.kafka)),
        **dict(unreadable_checkpoints(storage, log_dir.path, settings.kafka)),
    }
    if forbidden := why_not_used(log_dir.path):
        reasons[forbidden.words] = forbidden.fate
    if volume.read_only:
        reasons[f"{log_dir.path} is on a file system that is read-only"] = Fate.OFFLINE
    elif words := why_nothing_is_written(storage, log_dir.path):
        reasons[words] = Fate.OFFLINE if log_dir.path == home else Fate.UNKNOWN
    least_files = _FILES_BESIDES + _FILES_EACH * len(logs)
    short_of_files = volume.free_files is not None and volume.free_files < least_files
    full = not log_dir.clean_shutdown and (volume.free_bytes < _LEAST_FREE or short_of_files)
    if full and not volume.read_only:
        left = f"{size(volume.free_bytes)} are free"
        if short_of_files:
            left = "hardly any inode is free"
        reasons[_on_full_disk(log_dir.path, left, settings)] = Fate.LOSES
    if Fate.NOT_SERVED in reasons.values():
        words = "its high watermark can't be read"
        not_served = [replace(log, fate=Fate.NOT_SERVED, reason=words) for log in logs]
        logs = [
            max(pair, key=lambda log: log.fate.harm) for pair in zip(logs, not_served, strict=True)
        ]
    fates = [*reasons.values(), *(log.harm for log in logs)]
    return LogDirStart(
        path=log_dir.path,
        fate=worst(*fates),
        reasons=(*reasons,),
        logs=(*logs,),
        is_offline=Fate.OFFLINE in fates,
        frees_first=full,
    )


def _on_full_disk(path: str, left: str, settings: Settings) -> str:
    what = (
        "Where a write fails while a segment is recovered, Kafka empties the segment and deletes "
        "all later ones, in the metadata log as well"
        if settings.kafka.rules.empties_on_failed_recovery
        else "Kafka can't recover its logs without free space"
    )
    return f"the file system of {path} is full ({left}). {what}"
