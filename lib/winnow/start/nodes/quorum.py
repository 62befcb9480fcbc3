"""The voters of a KRaft quorum, and what happens to a metadata log that a node has lost.

The controllers elect a leader by majority, and a voter chooses nobody whose log ends before its
own. So a node gets its log back only if a majority of the voters has it. If a majority has lost it,
they elect a leader without any topic, and all nodes take its log.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from winnow.advice import ONLY_WHILE
from winnow.logdir.metadata import METADATA_DIR
from winnow.logdir.names import META_PROPERTIES, QUORUM_STATE
from winnow.policy.server_properties import ServerProperties
from winnow.start.node_files import quorum_of, quorum_version, voters_of
from winnow.start.values import Fate, KnownTopics
from winnow.storage.contract import Storage
from winnow.words import listed, nodes_named

NO_TOPICS = KnownTopics(replicas={}, log=METADATA_DIR)
UNKNOWN_TOPICS = KnownTopics(replicas=None)


@dataclass(frozen=True, slots=True)
class MetadataStart:
    """What a start does with the metadata log."""

    directory: str
    fate: Fate
    reason: str
    topics: KnownTopics
    """What the broker knows when it loads the other logs."""
    lost: str = ""
    """Why the metadata log is missing or incomplete. Empty: it is complete."""
    is_empty: bool = False
    """No record is left."""
    is_new: bool = False
    """No broker has ever started there, so that no record was lost."""
    position: tuple[int, int] = (-1, -1)
    """Epoch and offset of its end."""
    needs_quorum: bool = False
    """The node takes the log from others, if a majority of the voters has it."""
    voters: Mapping[int, str] = field(default_factory=dict)
    """See `ClusterMetadata`."""
    caveat: str = ""
    """Why the broker may set other partitions aside than predicted. Empty: the prediction holds."""


@dataclass(frozen=True, slots=True)
class Quorum:
    """The voters, according to the files of a node."""

    node_id: int | None
    voters: frozenset[int] | None
    """None: no file says it."""
    doubt: str = ""
    """How the files differ. Empty: they agree."""
    is_controller: bool = True
    """Whether the node may be a controller."""
    can_change: bool = False
    """The metadata log itself has the voters (KIP-853)."""
    directory_id: str | None = None
    """Of the log directory with the metadata log."""
    keys: Mapping[int, str] = field(default_factory=dict)
    """The directory id of each voter, by node, where the metadata log has the voters."""

    def with_keys(self, keys: Mapping[int, str]) -> Quorum:
        """Return the quorum with the voters that the metadata log has, which count above all
        others. `keys`: see `keys`.
        """
        return replace(self, voters=frozenset(keys), keys=keys, doubt="") if keys else self

    @property
    def is_alone(self) -> bool | None:
        """Return whether this node is the only voter. None: no file says it."""
        if not self.is_controller:
            return False
        if self.voters is None or self.node_id is None:
            return None
        return self.voters == {self.node_id}

    @property
    def why_no_voter(self) -> str | None:
        """Return why the node is none of the voters that have its id, or None."""
        wanted = self.keys.get(self.node_id) if self.node_id is not None else None
        if wanted in {None, self.directory_id} or not self.is_controller:
            return None
        found = self.directory_id or "no directory.id"
        return (
            f"{METADATA_DIR} names node {self.node_id} with the directory.id {wanted} as a voter, "
            f"and {META_PROPERTIES} beside it has {found}: the node is another one for its quorum"
        )


def quorum_at(
    storage: Storage,
    directory: str,
    node_id: int | None,
    server: ServerProperties | None,
    *,
    directory_id: str | None,
) -> Quorum:
    """Return who votes, if the metadata log does not say it. The voters in a server.properties
    count above those of `quorum-state`, which a node may keep from an earlier quorum.
    `directory_id`: of the log directory with the metadata log.
    """
    stated = voters_of(storage, directory) or None
    if server is None:
        state = quorum_of(storage, directory)
        changes = state is not None and quorum_version(state) == 1
        return Quorum(node_id, stated, can_change=changes, directory_id=directory_id)
    named, doubt = server.voters, ""
    if named is not None and stated not in {None, named}:
        doubt = f"{QUORUM_STATE} names {_voters(stated)}, and {server.file} {_voters(named)}"
    elif not server.is_controller and node_id in (stated or ()):
        doubt = f"{QUORUM_STATE} names this node as a voter, and {server.file} no controller"
    state = quorum_of(storage, directory)
    changes = named is None if state is None else quorum_version(state) == 1
    is_controller = server.is_controller
    return Quorum(node_id, named or stated, doubt, is_controller, changes, directory_id)


def with_quorum(
    own: MetadataStart, quorum: Quorum, others: Mapping[int, MetadataStart]
) -> MetadataStart:
    """Return what a start does with the metadata log of a node in its quorum.

    `own`: what the node has. `others`: what the other nodes of the cluster have that were given, by
    their ids.
    """
    if not own.lost and own.fate is Fate.LOADS and quorum.why_no_voter is not None:
        return _as_another_voter(own, quorum, quorum.why_no_voter)
    if quorum.is_alone is False:
        return _among_others(own, quorum, others)
    if not own.is_empty:
        return own if quorum.is_alone or own.lost else _with_newest(own, others, decided=False)
    if quorum.is_alone is None and quorum.can_change:
        reason = (
            f"{own.lost}, and with it the voters of its quorum, which can change (KIP-853). The "
            "node fetches the log from another controller. If there is none, it does not start"
        )
        return replace(own, fate=Fate.UNKNOWN, reason=reason, topics=UNKNOWN_TOPICS)
    if quorum.is_alone and own.is_new:
        return replace(own, fate=Fate.LOADS, reason="", lost="")
    who = "a node that is its own quorum"
    if quorum.is_alone:
        who = "this node, the only voter of its quorum,"
    also = f" ({quorum.doubt})" if quorum.doubt else ""
    return replace(own, reason=f"{own.lost}: {who} starts without any topic{also}")


def _as_another_voter(own: MetadataStart, quorum: Quorum, why: str) -> MetadataStart:
    if len(quorum.keys) == 1:
        reason = f"{why}. It is the only voter, so no leader is ever elected"
        return replace(own, fate=Fate.STOPS, reason=reason)
    reason = (
        f"{why}. It does not vote, and starts only if a majority of the voters works without it"
    )
    return replace(own, fate=Fate.UNKNOWN, reason=reason, needs_quorum=True)


def _among_others(
    own: MetadataStart, quorum: Quorum, others: Mapping[int, MetadataStart]
) -> MetadataStart:
    if not own.lost and own.fate is not Fate.LOADS:
        return own  # it does not start with it, or nobody knows
    known = {node: found for node, found in others.items() if node in (quorum.voters or ())}
    if quorum.node_id is not None and quorum.node_id in (quorum.voters or ()):
        known[quorum.node_id] = own
    empty = [node for node, found in known.items() if found.is_empty]
    lost = [node for node, found in known.items() if found.lost]
    sound = {node: found for node, found in known.items() if found.fate is Fate.LOADS}
    need = len(quorum.voters or ()) // 2 + 1
    if quorum.voters and len(empty) >= need and not quorum.doubt:
        reason = (
            f"{METADATA_DIR} is lost on {nodes_named(empty)}, a majority of "
            f"{_voters(quorum.voters)}: they elect a leader without any topic, and every node "
            "takes its log from it"
        )
        return replace(own, fate=Fate.LOSES, reason=reason, topics=NO_TOPICS)
    if quorum.voters and len(lost) >= need and not own.lost:
        reason = (
            f"{METADATA_DIR} has lost records on {nodes_named(lost)}, a majority of "
            f"{_voters(quorum.voters)}: they may elect a leader that lacks them"
        )
        return replace(own, fate=Fate.UNKNOWN, reason=reason, needs_quorum=True)
    if not own.lost:
        decided = bool(quorum.voters) and len(sound) >= need and not quorum.doubt
        return _with_newest(own, others, decided=decided)
    if quorum.voters and len(sound) >= need and not quorum.doubt:
        newest = max(sound.values(), key=lambda found: found.position)
        reason = (
            f"{own.lost}: the node fetches it from {nodes_named(sound)}, a majority of "
            f"{_voters(quorum.voters)}. Start this broker {ONLY_WHILE}"
        )
        topics = replace(newest.topics, catches_up=True)
        return replace(own, fate=Fate.RECOVERS, reason=reason, topics=topics, needs_quorum=True)
    who = f"the voters {listed(quorum.voters)}" if quorum.voters else "its voters"
    why = f"{quorum.doubt}. " if quorum.doubt else ""
    reason = (
        f"{own.lost}. {why}The node fetches it from its quorum if a majority of {who} has it, "
        "which is not known. If a majority has lost it, all nodes set their partitions aside. "
        f"Give the log directories of the controllers, too. Start this broker {ONLY_WHILE}"
    )
    return replace(own, fate=Fate.UNKNOWN, reason=reason, topics=UNKNOWN_TOPICS, needs_quorum=True)


def _with_newest(
    own: MetadataStart, others: Mapping[int, MetadataStart], *, decided: bool
) -> MetadataStart:
    """Return what the node knows once it has fetched what the newest given log has: a broker does
    so before it sets partitions aside. `decided`: a majority of the voters was given, so no
    committed record is missing.
    """
    if own.fate is not Fate.LOADS:
        return own
    topics, position = own.topics, own.position
    for node, found in sorted(others.items()):
        if found.fate is Fate.LOADS and found.position > position:
            topics = replace(found.topics, log=f"{found.topics.log} of node {node}")
            position = found.position
    waits = own.topics.catches_up or topics is not own.topics
    caveat = ""
    if waits and not decided:
        caveat = (
            "other nodes vote in its quorum, and the broker first fetches what their metadata logs "
            "have besides: that decides which partitions it sets aside, such as those of topics "
            "that were deleted while it was down. To know it now, give the log directories of a "
            "majority of the controllers, too"
        )
    return replace(own, topics=replace(topics, catches_up=bool(caveat)), caveat=caveat)


def _voters(nodes: Collection[int] | None) -> str:
    return f"the voter{'s' if len(nodes or ()) > 1 else ''} {listed(nodes or ())}"
