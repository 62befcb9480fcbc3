"""Choose the `__cluster_metadata-0` that the brokers of some log directories use, if they use one
(S9.2, docs/reference/sources.md).

A broker with ZooKeeper uses none, although a migration to KRaft leaves one. A broker with KRaft
uses that of `metadata.log.dir`, else of the first of `log.dirs`. Where its server.properties was
not given, it may be that of any of its directories. Of several logs the newest counts: the brokers
of a cluster catch up with it. If that can't be known, none counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from winnow.errors import FAILS_ONE_PARTITION, UsageError
from winnow.logdir.meta import read_meta, was_shut_down_cleanly
from winnow.logdir.metadata import (
    METADATA_DIR,
    ClusterMetadata,
    read_cluster_metadata,
)
from winnow.logdir.metadata_log import MetadataValue
from winnow.logdir.survey import LogDir
from winnow.policy.known_version import METADATA_VERSION, never_with_zookeeper, why_on_zookeeper
from winnow.policy.server_properties import ServerProperties
from winnow.policy.sources import Settings
from winnow.start.named import Named, place_of
from winnow.storage.contract import Storage
from winnow.storage.links import words_of_link
from winnow.storage.urls import is_remote
from winnow.wire.metadata_records import MigrationRecord
from winnow.words import moment

_DOES_NOT_START = 'a broker with KRaft does not start then ("Found unexpected metadata location")'


@dataclass(frozen=True, slots=True)
class UnusedLog:
    """A metadata log that no broker uses."""

    log_dir: str
    why: str
    """A sentence that names it."""
    stops_broker: bool
    """A broker with KRaft refuses to start because of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataInUse:
    """What the brokers use. At most one of `metadata`, `problem` and `zookeeper` is set."""

    metadata: ClusterMetadata | None = None
    log_dir: str | None = None
    """Of `metadata`."""
    problem: str | None = None
    """Why no metadata log counts, although brokers use one: then their topics are unknown."""
    zookeeper: bool = False
    """All brokers keep their topics in ZooKeeper."""
    unused: tuple[UnusedLog, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Log:
    log_dir: str
    node_id: int | None
    metadata: ClusterMetadata | None
    error: str = ""

    @property
    def path(self) -> str:
        return f"{self.log_dir}/{METADATA_DIR}"

    @property
    def position(self) -> tuple[int, int]:
        """Return leader epoch and end offset. Of two logs, the one with the higher is newer."""
        end = None if self.metadata is None else self.metadata.end
        return (-1, -1) if end is None else (end.epoch, end.offset)

    def __str__(self) -> str:
        if self.metadata is None:
            return f"{self.path} (can't be read: {self.error})"
        end = self.metadata.end
        written = f", written {moment(end.timestamp)}" if end.timestamp >= 0 else ""
        return f"{self.path} (leader epoch {end.epoch}, end offset {end.offset}{written})"


@dataclass(slots=True)
class _Found:
    """What is found broker by broker."""

    used: list[_Log] = field(default_factory=list)
    unused: list[UnusedLog] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


_See: TypeAlias = Callable[[MetadataValue], None]


def _ignored(_: MetadataValue) -> None: ...


def choose_metadata(
    settings: Settings, storage: Storage, log_dirs: Sequence[LogDir], *, see: _See = _ignored
) -> MetadataInUse:
    """Return what the brokers use. The order of `log_dirs` does not matter. A metadata log in a
    directory in doubt is not used. `see`: is called with each record. If it raises, that log can't
    be read.
    """
    sound = [log_dir for log_dir in log_dirs if not log_dir.in_doubt]
    ordered = sorted(sound, key=lambda log_dir: log_dir.path)
    logs = [
        _read(storage, log_dir.path, log_dir.meta.node_id, see)
        for log_dir in ordered
        if storage.exists(f"{log_dir.path}/{METADATA_DIR}")
    ]
    by_node: dict[int | None, list[LogDir]] = {}
    for log_dir in ordered:
        by_node.setdefault(log_dir.meta.node_id, []).append(log_dir)
    readable = [log.metadata for log in logs if log.metadata is not None]
    on_zookeeper = {
        node: why
        for node, own in by_node.items()
        if (why := _why_on_zookeeper(settings.server_of(node), own, readable)) is not None
    }
    if on_zookeeper:
        unused = tuple(_left_of_a_migration(log, on_zookeeper) for log in logs)
        return MetadataInUse(
            zookeeper=len(on_zookeeper) == len(by_node),
            unused=unused,
            notes=tuple(each.why for each in unused),
        )
    found = _Found()
    for node, own in by_node.items():
        there = [log for log in logs if log.node_id == node]
        _look_for(found, settings, storage, settings.server_of(node), own, there)
    for log_dir in log_dirs:
        path = f"{log_dir.path}/{METADATA_DIR}"
        if log_dir.in_doubt and not found.used and has_metadata_log(storage, log_dir):
            found.problems.append(f"{path} is not used: {log_dir.error}")
    choice = _newest(found)
    return choice if choice.metadata is None else _with_doubt(choice, ordered)


def metadata_home(
    storage: Storage,
    log_dirs: Sequence[LogDir],
    settings: Settings,
    named: Named,
    *,
    kraft: bool,
) -> tuple[str | None, str | None]:
    """Return the log directory with the metadata log that the broker uses, None if it uses none or
    that is unknown; and why it does not start with what it finds, if that is so.
    """
    having = [one.path for one in log_dirs if has_metadata_log(storage, one)]
    if not kraft and not having:
        return None, None  # with ZooKeeper
    home = named.metadata
    if not kraft or len(having) > 1 or not {home, *having} <= {home, None}:
        choice = choose_metadata(settings, storage, log_dirs)
        if choice.zookeeper:
            return None, None
        stopped = next((unused.why for unused in choice.unused if unused.stops_broker), None)
        return choice.log_dir or home or next(iter(having), None), stopped
    return home or next(iter(having), None), None


def has_metadata_log(storage: Storage, log_dir: LogDir) -> bool:
    """False also for a directory that can't be looked into."""
    with suppress(OSError):
        return storage.exists(f"{log_dir.path}/{METADATA_DIR}")
    return False


def _why_on_zookeeper(
    server: ServerProperties | None, own: Sequence[LogDir], logs: Sequence[ClusterMetadata]
) -> str | None:
    return why_on_zookeeper(
        server,
        {log_dir.meta.version for log_dir in own},
        is_anonymous=any(log_dir.meta.is_anonymous for log_dir in own),
        has_left=any(has_left_zookeeper(log, own[0].meta.node_id) for log in logs),
    )


def has_left_zookeeper(log: ClusterMetadata, node_id: int | None) -> bool:
    """Return whether a metadata log proves that a broker can't be on ZooKeeper: the migration was
    finished, or the broker was started with a version that has no ZooKeeper.
    """
    if log.migration is MigrationRecord.POST_MIGRATION:
        return True
    supported = {} if node_id is None else log.supported.get(node_id, {})
    return never_with_zookeeper(supported.get(METADATA_VERSION, 0))


def _left_of_a_migration(log: _Log, on_zookeeper: Mapping[int | None, str]) -> UnusedLog:
    why = on_zookeeper.get(log.node_id) or next(iter(on_zookeeper.values()))
    state = None if log.metadata is None else log.metadata.migration
    words = (
        f"{log} is not used: {why}. It is left of a migration to KRaft that was taken back or is "
        f"not finished{'' if state is None else f' (state {state.name})'}. No topics, no settings "
        "and no version of Kafka are taken from it: name the topics in --topic-configs FILE. If "
        "the broker runs with KRaft, give its --server-properties FILE, which has process.roles"
    )
    return UnusedLog(log.log_dir, words, stops_broker=False)


def _look_for(
    found: _Found,
    settings: Settings,
    storage: Storage,
    server: ServerProperties | None,
    own: Sequence[LogDir],
    there: Sequence[_Log],
) -> None:
    """Find the log that one broker uses. `own`: its directories. `there`: the logs in them."""
    named = None if server is None else server.metadata_place
    if server is None or named is None or all(is_remote(log_dir.path) for log_dir in own):
        found.used += there
        return
    key = "metadata.log.dir" if server.metadata_log_dir else "the first of log.dirs"
    place = f"{key} in {server.file} is {named}"
    used = _log_in(storage, named, own, there)
    if isinstance(used, _Log):
        found.used.append(used)
        if used not in there and not server.metadata_log_dir:
            found.notes.append(f"the topics and settings are those of {used.path}")
        others = [log for log in there if log is not used]
    elif settings.allow_other_broker or not settings.compare_log_dirs:
        found.used += there  # copies, which lie elsewhere
        return
    elif there:
        found.problems.append(f"{place}, and {used}")
        others = list(there)
    else:
        if server.metadata_log_dir:
            found.notes.append(f"{key}={named} of server.properties is ignored: {used}")
        return
    found.unused += [
        UnusedLog(
            log.log_dir,
            f"{log} is not used: {place}. Because of it {_DOES_NOT_START}. "
            + _what_to_do(log, used),
            stops_broker=True,
        )
        for log in others
    ]


def _what_to_do(log: _Log, used: _Log | str) -> str:
    """`used`: what the broker finds in the place that its server.properties names."""
    name_it = (
        f"set metadata.log.dir={log.log_dir}, or write log.dirs in its old order, with "
        f"{log.log_dir} first"
    )
    if isinstance(used, str):
        return f"It is the only one there: never move or delete it, but {name_it}"
    if used.metadata is None or used.position < log.position:
        return (
            f"It is newer than {used.path}: {name_it}. Move {used.path} elsewhere, and delete "
            "neither"
        )
    return f"Keep {used.path}, and move this one elsewhere"


def _log_in(
    storage: Storage, named: str, own: Sequence[LogDir], there: Sequence[_Log]
) -> _Log | str:
    """Return the metadata log in a directory that a server.properties names, or why there is none
    of this broker.
    """
    home = place_of(storage, named, [log_dir.path for log_dir in own])
    if home is None and named.startswith("/"):
        return "it is not a path"
    if home is None:
        return "that is relative, and the given directories do not show which one it is"
    given = next((log for log in there if log.log_dir == home), None)
    if given is not None or not storage.exists(f"{home}/{METADATA_DIR}"):
        return given or f"it has no {METADATA_DIR}"
    mine = own[0].meta
    try:
        meta = read_meta(storage, home)
        if (meta.cluster_id, meta.node_id) == (mine.cluster_id, mine.node_id):
            return _read(storage, home, meta.node_id)
    except (UsageError, OSError) as error:
        return str(error)
    return f"it belongs to node {meta.node_id} in cluster {meta.cluster_id}, unlike {own[0].path}"


def _read(storage: Storage, log_dir: str, node_id: int | None, see: _See = _ignored) -> _Log:
    metadata, why = None, ""
    directory = f"{log_dir}/{METADATA_DIR}"
    try:
        if storage.entry(directory).is_link:
            return _Log(log_dir, node_id, None, words_of_link(directory))
        unclean = not was_shut_down_cleanly(storage, log_dir)
        metadata = read_cluster_metadata(storage, directory, unclean=unclean, see=see)
    except FAILS_ONE_PARTITION as error:
        why = str(error)
    return _Log(log_dir, node_id, metadata, why)


def _newest(found: _Found) -> MetadataInUse:
    """Choose the newest of the logs that brokers use, if that is certain."""
    used, unused, notes = found.used, [*found.unused], [*found.notes]
    if not used:
        problem = "; ".join(found.problems) or None
        return MetadataInUse(
            problem=problem, unused=tuple(unused), notes=_all_notes(problem, unused, notes)
        )
    newest = max(used, key=lambda log: log.position)
    others = [log for log in used if log is not newest]
    problems = [*found.problems, *_doubts(newest, others)]
    beside = {log.log_dir for log in others if _beside(log, used) is not None}
    unused += [
        UnusedLog(
            log.log_dir,
            f"{log} is not used: {other} is beside it in another directory of the broker, and "
            f"{_DOES_NOT_START}. Keep the one of the directory that metadata.log.dir names, else "
            "the first of log.dirs, and move the other elsewhere, unless it is the newer one",
            stops_broker=True,
        )
        for log in others
        if (other := _beside(log, used)) is not None
    ]
    of_others = [str(log) for log in others if log.log_dir not in beside]
    if problems:
        problem = "; ".join(problems)
        return MetadataInUse(
            problem=problem, unused=tuple(unused), notes=_all_notes(problem, unused, notes)
        )
    if of_others:
        notes.append(
            f"the topics and settings are those of {newest}, the newest. Not used: "
            f"{', '.join(of_others)}"
        )
    return MetadataInUse(
        metadata=newest.metadata,
        log_dir=newest.log_dir,
        unused=tuple(unused),
        notes=_all_notes(None, unused, notes),
    )


def _doubts(newest: _Log, others: Sequence[_Log]) -> Iterator[str]:
    """Yield why it is not certain that `newest` is the newest log, or that it can be read."""
    if newest.metadata is None:
        yield f"{METADATA_DIR} can't be read: {newest.error}"
    for log in others:
        if log.metadata is None or newest.metadata is None:
            yield f"{log} may be newer than {newest}"
        elif log.position < newest.position:
            if log.metadata.end.torn is not None:
                yield f"{log} has lost its end and may have been newer than {newest}"
        elif _contents(log.metadata) != _contents(newest.metadata):
            yield f"{newest} and {log} end alike, but differ"


def _contents(metadata: ClusterMetadata) -> object:
    """Return topics and settings, from whichever records they are."""
    return metadata.topics, {
        section: {key: value for key, (value, _) in texts.items()}
        for section, texts in metadata.configs.items()
    }


def _beside(log: _Log, used: Sequence[_Log]) -> _Log | None:
    """Return the newest log that this one's broker uses, if that is another one."""
    newest = max((o for o in used if o.node_id == log.node_id), key=lambda other: other.position)
    return None if newest is log else newest


def _all_notes(
    problem: str | None, unused: Sequence[UnusedLog], notes: Sequence[str]
) -> tuple[str, ...]:
    found = [*notes, *(log.why for log in unused)]
    if problem is not None:
        found.append(f"no topics or settings are known from a metadata log: {problem}")
    return (*found,)


def _with_doubt(choice: MetadataInUse, log_dirs: Sequence[LogDir]) -> MetadataInUse:
    """Add a note where the last records may not have been committed."""
    chosen = next((log_dir for log_dir in log_dirs if log_dir.path == choice.log_dir), None)
    if chosen is None or chosen.clean_shutdown or not any(d.clean_shutdown for d in log_dirs):
        return choice
    why = "was not shut down cleanly"
    if chosen.is_of_controller:
        why = "is of a controller, which leaves no marker of a clean shutdown"
    note = (
        f"{chosen.path} {why}: the last records of its {METADATA_DIR} may not have been "
        "committed. The broker may start with other values of settings in them"
    )
    return replace(choice, notes=(*choice.notes, note))
