"""Partitions that have no directory, several, or one of another topic: what that means for the
broker as a whole.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from winnow.advice import while_another_leads
from winnow.errors import CorruptLogError
from winnow.logdir.copies import renamed_copies, words_of_renamed
from winnow.logdir.names import PARTITION_METADATA, DirectoryKind
from winnow.logdir.survey import LogDir
from winnow.start.beside import partitions_in, registered_besides
from winnow.start.loaded import LogToLoad
from winnow.start.named import Named
from winnow.start.small_files import topic_id_or_problem
from winnow.start.values import Fate, KnownTopics, LogStart
from winnow.state import TopicPartition
from winnow.storage.contract import Storage, read_if_there
from winnow.storage.live.read_view import view_of
from winnow.words import first_few, nodes_named

_MOST = 5


@dataclass(frozen=True, slots=True)
class WithoutDirectory:
    """Partitions without a directory that this broker may lead. At most one of the first two is
    set.
    """

    made_anew: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """Nothing shows whether the broker has other log directories."""
    followed: bool = False
    """Other nodes have replicas of some of those without a member in `in_sync`."""
    in_sync: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """The other members of the ISR, which may have the records, by partition. A partition without
    an entry has no other member.
    """
    renamed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Partition -> its directories under another name."""

    @property
    def fate(self) -> Fate:
        """That of the broker, which starts anyway: see `BrokerStart.is_safe`."""
        return Fate.UNKNOWN if self.unknown else Fate.LOADS

    def words(self) -> Iterator[str]:
        every = [*self.made_anew, *self.unknown]
        groups = defaultdict[frozenset[int], list[str]](list)
        for partition in every:
            groups[self.in_sync.get(partition, frozenset())].append(partition)
        for members, partitions in sorted(groups.items(), key=lambda item: sorted(item[0])):
            yield f"{first_few(partitions, _MOST)}: {self._what(members)}"
        for partition in every:
            if directories := self.renamed.get(partition):
                yield f"{partition}{words_of_renamed(partition, directories)}"

    def _what(self, members: frozenset[int]) -> str:
        """`members`: the other members of the ISR, which may have the records."""
        what = "no directory, and no other node has a replica that is in sync"
        cut = ". Followers of such a leader cut their logs, too" if self.followed else ""
        if members:
            what = f"no directory, and the ISR has this node, besides {nodes_named(members)}"
            cut = ", and the others cut their logs, too"
        does = (
            f"{'If it leads, it' if members else 'The broker'} makes it anew, without a record{cut}"
        )
        if self.unknown:
            does = (
                "Nothing shows whether the broker has log directories besides those that were "
                "given. If it has not, it makes such a partition anew, without a record"
                f"{' where it leads' if members else ''}{cut}. Give all of its log directories, "
                "and its --server-properties FILE"
            )
        return f"{what}. {does}. {while_another_leads()}" if members else f"{what}. {does}"


@dataclass(frozen=True, slots=True)
class Present:
    """The partitions that have a directory on a node."""

    found: frozenset[TopicPartition]
    is_listed: bool
    """All directories of the node that are known could be listed."""
    is_all: bool
    """All of its log directories are known, and can be used."""
    given: frozenset[str]
    """Their `directory.id`."""

    def lacks(self, at: TopicPartition, meant: str | None) -> bool:
        """Return whether the node has lost this partition. `meant`: where the controller means it
        to be.
        """
        return at not in self.found and (self.is_all or meant in self.given)


def present_on(
    storage: Storage, log_dirs: Sequence[LogDir], named: Named, registered: Sequence[str]
) -> Present:
    """`registered`: `directory.id` of each log directory with which the node started last."""
    given = {d.path for d in log_dirs}
    usable = [d for d in log_dirs if not d.in_doubt]
    paths = [*(d.path for d in usable), *(path for path in named.log_dirs if path not in given)]
    listed = [partitions_in(storage, path) for path in paths]
    known = bool(named.log_dirs) and not named.unclear
    all_given = known or _are_all(log_dirs, registered)
    return Present(
        found=frozenset(at for found in listed for at in found or ()),
        is_listed=None not in listed,
        is_all=None not in listed and len(usable) == len(log_dirs) and all_given,
        given=frozenset(own for d in usable if (own := d.meta.directory_id) is not None),
    )


def without_directory(
    storage: Storage,
    node_id: int | None,
    log_dirs: Sequence[LogDir],
    topics: KnownTopics,
    named: Named,
    own: Present,
    others: Mapping[int, Present],
    *,
    offline: Collection[str],
) -> WithoutDirectory:
    """Return the partitions that this broker has no directory for, and may lead: it is in their
    ISR. That others are, too, is no help: the broker that the metadata log has as the leader goes
    on to lead when it starts, and followers cut their logs to its end.

    What the broker does is known only if it is known which log directories it has, and all of them
    can be listed: its server.properties names them, or the metadata log has the `directory.id` of
    each (`_are_all`). With log directories that are `offline`, a broker makes a partition anew if
    the controller means one that is not (`Partition.createLogInAssignedDirectoryId`). `others`: the
    other nodes that were given.

    Beside a running broker, nothing is returned: it creates the directory of a new partition soon
    after the record in the metadata log.
    """
    views = (view_of(log_dir.path) for log_dir in log_dirs)
    if any(view is not None and view.program for view in views):
        return WithoutDirectory()
    lost = {log_dir.path for log_dir in log_dirs if log_dir.in_doubt or log_dir.path in offline}
    usable = {d.meta.directory_id for d in log_dirs if d.path not in lost} - {None}
    usable_paths = [d.path for d in log_dirs if d.path not in lost]
    missing, followed = dict[str, tuple[str, int]](), False
    members = dict[str, frozenset[int]]()
    for topic_id, partitions in (topics.replicas or {}).items():
        name = topics.names[topic_id]
        for partition, nodes in partitions.items():
            at = TopicPartition(name, partition)
            if node_id not in nodes or at in own.found:
                continue
            if lost and _meant(topics, topic_id, partition, node_id) not in usable:
                continue
            in_sync = topics.in_sync.get(topic_id, {}).get(partition, frozenset())
            if in_sync and node_id not in in_sync:
                continue  # it follows
            missing[str(at)] = topic_id, partition
            whole = {
                node
                for node in in_sync - {node_id}
                if node not in others
                or not others[node].lacks(at, _meant(topics, topic_id, partition, node))
            }
            if whole:
                members[str(at)] = frozenset(whole)
            else:
                followed = followed or len(nodes) > 1
    found = tuple(sorted(missing))
    copies = renamed_copies(storage, usable_paths) if missing else {}
    renamed = {name: copies[key] for name, key in missing.items() if key in copies}
    registered = () if node_id is None else topics.log_dirs.get(node_id, ())
    if named.unclear or not own.is_listed:
        return WithoutDirectory()  # `unseen` has them
    if named.log_dirs or _are_all(log_dirs, registered):
        return WithoutDirectory(
            made_anew=found, followed=followed, in_sync=members, renamed=renamed
        )
    if registered_besides(log_dirs, registered):
        return WithoutDirectory()  # `unseen` has the others
    return WithoutDirectory(unknown=found, followed=followed, in_sync=members, renamed=renamed)


def _are_all(log_dirs: Sequence[LogDir], registered: Sequence[str]) -> bool:
    """Return whether these are all the log directories with which the broker started last."""
    return bool(registered) and {*registered} <= {one.meta.directory_id for one in log_dirs}


def _meant(topics: KnownTopics, topic_id: str, partition: int, node_id: int | None) -> str | None:
    """Return the `directory.id` that the controller means."""
    meant = topics.directories.get(topic_id, {}).get(partition, {})
    return None if node_id is None else meant.get(node_id)


def doubled_in(logs: Sequence[LogToLoad]) -> list[str]:
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


def without_leader(starts: Iterable[LogStart]) -> str | None:
    """Return why partitions may have no leader whose own logs are sound, or None.

    A broker makes leaders one after the other, in the order of a hash. At a log with the id of
    another topic it ends with that ("Tried to assign topic ID"), so later ones never come.
    """
    names = [start.name for start in starts if start.fate is Fate.NOT_SERVED]
    if not names:
        return None
    return (
        f'at {first_few(names, _MOST)} the broker gives up making leaders ("Tried to assign topic '
        'ID ... to log"): other partitions that it leads stay without a leader, too, possibly all'
    )


def with_topic_ids(
    storage: Storage, logs: Sequence[LogToLoad], starts: Sequence[LogStart]
) -> Iterator[LogStart]:
    """Yield what a start does with each log of a broker with ZooKeeper. It is unknown if the topic
    id is also that of another topic, or if the topic has several: a broker serves no partition with
    another topic id than ZooKeeper has, and only ZooKeeper knows it. `logs`: all of the broker.
    `starts`: of those that were looked at.
    """
    ids = {
        (log.log_dir, log.name): topic_id
        for log in logs
        if log.kind is DirectoryKind.CURRENT
        and (topic_id := _topic_id(storage, log.directory)) is not None
    }
    topics, ids_of = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for log in logs:
        if topic_id := ids.get((log.log_dir, log.name)):
            topics[topic_id].add(log.topic_partition.topic)
            ids_of[log.topic_partition.topic].add(topic_id)
    for start in starts:
        topic, own = start.topic_partition.topic, ids.get((start.log_dir, start.name))
        others = topics[own] - {topic} if own is not None else set[str]()
        several = own is not None and len(ids_of[topic]) > 1
        if not start.fate.is_harmless or not (others or several):
            yield start
            continue
        words = "the directories of its topic have several topic ids"
        if others:
            words = f"its topic id is also that of {first_few(sorted(others), _MOST)}"
        words += ": the broker serves only those with the id that ZooKeeper has"
        yield replace(start, fate=Fate.UNKNOWN, reason=words)


def _topic_id(storage: Storage, directory: str) -> str | None:
    with suppress(OSError, CorruptLogError):  # the log has that as its fate
        data = read_if_there(storage, f"{directory}/{PARTITION_METADATA}")
        topic_id = None if data is None else topic_id_or_problem(data)
        return topic_id if isinstance(topic_id, str) else None
    return None
