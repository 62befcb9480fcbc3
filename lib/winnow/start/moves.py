"""Replicas that a broker was moving between its log directories when it ended.

A broker goes on with a move when it starts: the `-future` log gets what it lacks, and then takes
the place of the current log. The controller learns of the new directory before that. So from 3.7
on, a `-future` log in the directory that the controller means takes that place at once, whatever it
has (`LogManager.recoverAbandonedFutureLogs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from winnow.errors import CorruptLogError
from winnow.logdir.names import PARTITION_METADATA, DirectoryKind
from winnow.start.loaded import LogToLoad
from winnow.start.small_files import topic_id_or_problem
from winnow.start.values import Fate, KnownTopics, LogStart
from winnow.storage.contract import Storage, read_if_there


@dataclass(frozen=True, slots=True)
class Move:
    """`future` takes the place of `current`: at once if the controller means its directory, else as
    soon as it has all records.
    """

    future: LogToLoad
    current: LogToLoad
    at_once: bool
    zookeeper: bool
    """The controller does not know the directories. If it does, the broker does not begin a move
    within one.
    """

    @property
    def problem(self) -> str | None:
        """Why the broker can't finish it: no directory can be renamed over another one."""
        if self.future.log_dir != self.current.log_dir or not (self.at_once or self.zookeeper):
            return None
        does = "ends" if self.at_once else "takes the log directory offline"
        return (
            f"{self.future.directory} is to take the place of {self.current.name} in the same log "
            f'directory: the broker {does} when it renames it ("Directory not empty"). Compare '
            "what they hold, then move one of them elsewhere"
        )


def moves_in(
    storage: Storage,
    logs: Sequence[LogToLoad],
    topics: KnownTopics,
    *,
    node_id: int | None,
    directory_ids: Mapping[str, str | None],
) -> Iterator[Move]:
    """Yield the moves that the broker goes on with. `directory_ids`: of its log directories, by
    path.
    """
    current = {log.topic_partition: log for log in logs if log.kind is DirectoryKind.CURRENT}
    for log in logs:
        at = log.topic_partition
        if log.kind is not DirectoryKind.FUTURE or at not in current or log.error is not None:
            continue
        data = None
        with suppress(OSError, CorruptLogError):  # the log has that as its fate
            data = read_if_there(storage, f"{log.directory}/{PARTITION_METADATA}")
        topic_id = None if data is None else topic_id_or_problem(data)
        meant = None
        if isinstance(topic_id, str) and node_id is not None:
            meant = topics.directories.get(topic_id, {}).get(at.partition, {}).get(node_id)
        at_once = meant is not None and meant == directory_ids.get(log.log_dir)
        yield Move(log, current[at], at_once, zookeeper=topics.replicas is None)


def after_move(start: LogStart, move: Move, future: LogStart) -> LogStart:
    """Return what happens to the current log, which the broker deletes."""
    end, other = start.log_end_offset, future.log_end_offset
    if not start.fate.is_harmless or move.problem is not None or not move.at_once:
        return start
    if end is None or other is None or other >= end:
        return start
    words = (
        f"the controller means {future.log_dir}/{future.name}, which takes its place and ends at "
        f"offset {other}; this log ends at {end}"
    )
    return replace(start, fate=Fate.LOSES, reason=words)


def set_moved(starts: Mapping[str, list[LogStart]], move: Move) -> None:
    """Set what happens to the current log of a move, if both logs were looked at."""
    own = starts.get(move.current.log_dir, [])
    in_future = starts.get(move.future.log_dir, [])
    futures = [start for start in in_future if start.name == move.future.name]
    for number, start in enumerate(own):
        for future in futures if start.name == move.current.name else ():
            own[number] = after_move(start, move, future)
            if move.problem is not None and not move.at_once and start.fate.is_harmless:
                own[number] = replace(start, fate=Fate.OFFLINE, reason=move.problem)
