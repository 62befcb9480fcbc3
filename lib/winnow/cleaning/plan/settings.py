"""Complete the settings of a run with those in the log directories' metadata log (S9.2, S9.3).
Check that a `server.properties` is of the broker whose log directories were given (S9.2).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from winnow.errors import UsageError
from winnow.logdir.lock import holder_of
from winnow.logdir.metadata import (
    METADATA_DIR,
)
from winnow.logdir.names import META_PROPERTIES
from winnow.logdir.survey import LogDir
from winnow.policy.known_version import METADATA_VERSION, known_version, newer_features
from winnow.policy.metadata import MetadataSettings, metadata_settings
from winnow.policy.server_properties import DEFAULT_LOG_DIR, ServerProperties
from winnow.policy.sources import Settings
from winnow.policy.versions import ANY_VERSION, KnownVersion
from winnow.runtime.stop import Stop
from winnow.start.metadata_choice import MetadataInUse, choose_metadata
from winnow.start.named import place_of
from winnow.storage.contract import Storage
from winnow.storage.urls import is_remote
from winnow.words import first_few

_MOST_BROKERS = 8
_UNPROVEN = "a broker that nothing shows to be that of the log directory"


def with_metadata(
    settings: Settings, storage: Storage, log_dirs: Sequence[LogDir], stop: Stop | None = None
) -> tuple[Settings, tuple[str, ...]]:
    """Return `settings` with those of the `__cluster_metadata-0` that the brokers use, if they use
    one, and with the version of Kafka that the log directories tell, and notes about both.

    Raises UsageError for a server.properties of another broker, and StoppedError if `stop` has a
    reason: the metadata log may be long. A metadata log that can't be read,
    or that is not certainly the one in use, gives no settings but the reason; topics that no other
    source describes are then skipped.
    """
    notes = [*check_server_properties(settings, storage, log_dirs)]
    if settings.metadata is not None:
        return settings, tuple(notes)
    check = (stop or Stop()).check
    choice = choose_metadata(settings, storage, log_dirs, see=lambda _: check())
    check()
    metadata, problem = choice.metadata, choice.problem
    if metadata is not None:
        _refuse_controllers(log_dirs, metadata.supported)
    notes += [*_unusual_meta(log_dirs), *choice.notes]
    if metadata is not None:
        log = f"{METADATA_DIR} up to offset {metadata.end_offset - 1}"
        found = metadata_settings(
            log=log,
            topics=metadata.topics,
            sections=metadata.configs,
            notes=metadata.notes,
            written_at=metadata.end.timestamp,
        )
        settings = replace(settings, metadata=found)
        newer = ", ".join(newer_features(metadata.features))
        if newer:
            notes.append(f"{METADATA_DIR} has {newer}, which is newer than this Winnow")
    elif problem is not None:
        settings = replace(settings, metadata=MetadataSettings(log=METADATA_DIR, problem=problem))
    if settings.kafka == ANY_VERSION:  # otherwise it was asked for
        settings = replace(settings, kafka=_version(log_dirs, choice))
    return settings, tuple(notes)


def _refuse_controllers(log_dirs: Sequence[LogDir], brokers: Collection[int]) -> None:
    """Raise UsageError if all directories are of nodes that are no brokers, and have no partition.
    `brokers`: those that are registered in the metadata log.
    """
    nodes = {log_dir.meta.node_id for log_dir in log_dirs}
    if not brokers or any(d.partitions or d.in_doubt for d in log_dirs) or nodes & {None, *brokers}:
        return
    named = " and ".join(str(node) for node in sorted(node for node in nodes if node is not None))
    known = first_few([str(node) for node in sorted(brokers)], _MOST_BROKERS)
    raise UsageError(
        "the log directory of a controller",
        expected="that of a broker",
        found=f"node {named}, which is none of the brokers {known} in {METADATA_DIR}",
        where=", ".join(log_dir.path for log_dir in log_dirs),
        hint="A controller has only the metadata log, which nothing here cleans. Give the log.dirs "
        "of a broker.",
    )


def _version(log_dirs: Sequence[LogDir], choice: MetadataInUse) -> KnownVersion:
    metadata = choice.metadata
    if metadata is None:
        return known_version(zookeeper=choice.zookeeper, level=None, supported=[None])
    nodes = {log_dir.meta.node_id for log_dir in log_dirs if not log_dir.in_doubt}
    return known_version(
        zookeeper=False,
        level=metadata.features.get(METADATA_VERSION),
        supported=[
            None if node is None else metadata.supported.get(node, {}).get(METADATA_VERSION)
            for node in nodes
        ],
    )


def _unusual_meta(log_dirs: Sequence[LogDir]) -> list[str]:
    return [
        f"{log_dir.path}: meta.properties names neither a node nor a cluster, so nothing shows "
        "whose directory this is, and of which version. Is the file damaged?"
        for log_dir in log_dirs
        if log_dir.meta.is_anonymous and not log_dir.in_doubt
    ] + [
        f"{log_dir.path}: meta.properties has version {log_dir.meta.version}, which is newer than "
        "this Winnow; its node.id and cluster.id are used as in version 1"
        for log_dir in log_dirs
        if log_dir.meta.version > 1 and not log_dir.in_doubt
    ]


def io_rate(settings: Settings, log_dirs: Sequence[LogDir]) -> float | None:
    """Return the bytes per second that the settings allow a run to read and write: the lowest limit
    of its brokers. None: no limit.
    """
    nodes = {log_dir.meta.node_id for log_dir in log_dirs}
    rates = (settings.io_rate(node_id=node) for node in nodes)
    return min((rate for rate in rates if rate is not None), default=None)


def check_server_properties(
    settings: Settings, storage: Storage, log_dirs: Sequence[LogDir]
) -> tuple[str, ...]:
    """Return notes about the files. Raise UsageError for a file of another broker, unless that is
    allowed, and for several files whose brokers are unknown.
    """
    servers = settings.servers
    given = [server.node_id for server in servers]
    for one in servers if len(servers) > 1 else ():
        if one.node_id is None or given.count(one.node_id) > 1:
            raise UsageError(
                "it is unknown which broker each server.properties belongs to",
                expected="a different node.id in each",
                found="none" if one.node_id is None else f"node.id {one.node_id} twice",
                where=one.file,
                hint="Give one file for each broker.",
            )
    sound = [log_dir for log_dir in log_dirs if not log_dir.in_doubt]
    problems, unknown, notes = _other_nodes(servers, sound), list[LogDir](), list[str]()
    for log_dir in sound:
        server = settings.server_of(log_dir.meta.node_id)
        if server is None:
            unknown.append(log_dir)
            continue
        compared = [d.path for d in sound] if settings.compare_log_dirs else []
        if compared:
            problems += other_places(storage, server, [log_dir.path])
        if _names_its_places(server) or _names(storage, server, log_dir.path, compared):
            continue
        if server.node_id is None or server.node_id != log_dir.meta.node_id:
            problems.append(_unproven(server, log_dir))
        elif not server.places_from_provider:
            notes.append(
                f"{server.file} names no directory of this run, so only its node.id shows that it "
                f"is that of {log_dir.path}. A broker that has nothing but this file uses "
                f"{' and '.join(server.log_dirs) or DEFAULT_LOG_DIR}"
            )
    if problems and not settings.allow_other_broker:
        raise problems[0]
    notes += [
        f"{error.where} is used although it is {error.problem}: found {error.found}"
        for error in problems
    ]
    notes += [
        f"{log_dir.path} belongs to node {log_dir.meta.node_id}, for which no server.properties "
        "was given: Kafka's defaults are not confirmed there"
        for log_dir in unknown
        if servers
    ]
    if settings.compare_log_dirs and not problems:
        notes += _missing(settings, storage, log_dirs)
    return tuple(notes)


def other_places(
    storage: Storage, server: ServerProperties, paths: Sequence[str]
) -> list[UsageError]:
    """Return an error for each directory in `paths` that `log.dirs` does not name. No file names a
    remote directory: only a node.id can show whose it is.
    """
    if not _names_its_places(server):
        return []
    own = {storage.canonical(path) for path in server.log_dirs}
    what, found = "a broker with other log directories", f"log.dirs={','.join(server.log_dirs)}"
    return [
        _other(what, server, expected=f"{path} in log.dirs", found=found)
        if not is_remote(path)
        else _other(_UNPROVEN, server, expected="a node.id", found="none")
        for path in paths
        if (server.node_id is None if is_remote(path) else storage.canonical(path) not in own)
    ]


def _names_its_places(server: ServerProperties) -> bool:
    """Only the broker knows in which directory relative names begin."""
    return bool(server.log_dirs) and all(path.startswith("/") for path in server.log_dirs)


def _names(storage: Storage, server: ServerProperties, path: str, given: Sequence[str]) -> bool:
    """Return whether a relative name, or Kafka's default, is that of the directory `path`."""
    if not given or server.places_from_provider:
        return False
    names = server.log_dirs or (DEFAULT_LOG_DIR,)
    return path in {place_of(storage, name, given) for name in names}


def _unproven(server: ServerProperties, log_dir: LogDir) -> UsageError:
    node = log_dir.meta.node_id
    own = "" if node is None else f", or node.id={node} as in its {META_PROPERTIES}"
    other = "no node.id" if server.node_id is None else f"node.id={server.node_id}"
    found = f"log.dirs={','.join(server.log_dirs)}"
    if server.places_from_provider:
        found = "log.dirs from a config provider"
    elif not server.log_dirs:
        found = f"no log.dirs, with which a broker uses {DEFAULT_LOG_DIR}"
    return _other(
        _UNPROVEN,
        server,
        expected=f"{log_dir.path} in log.dirs{own}",
        found=f"{found}, and {other}",
    )


def _other(whose: str, server: ServerProperties, *, expected: str, found: str) -> UsageError:
    return UsageError(
        f"the server.properties of {whose}",
        expected=expected,
        found=found,
        where=server.file,
        hint="Give the file of the broker whose directories these are. --allow-other-broker uses "
        "it anyway.",
    )


def _other_nodes(
    servers: Sequence[ServerProperties], log_dirs: Sequence[LogDir]
) -> list[UsageError]:
    nodes = {log_dir.meta.node_id for log_dir in log_dirs}
    if None in nodes or not nodes:
        return []
    own = " or ".join(map(str, sorted(node for node in nodes if node is not None)))
    expected = f"node.id {own}, as in meta.properties of the log directories"
    return [
        _other("another broker", server, expected=expected, found=f"node.id {server.node_id}")
        for server in servers
        if server.node_id is not None and server.node_id not in nodes
    ]


def _missing(settings: Settings, storage: Storage, log_dirs: Sequence[LogDir]) -> list[str]:
    given = {log_dir.path for log_dir in log_dirs}
    notes = []
    for server in settings.servers:
        used = any(settings.server_of(log_dir.meta.node_id) is server for log_dir in log_dirs)
        canonical = {p: storage.canonical(p) for p in server.log_dirs if p.startswith("/")}
        places = {path: real for path, real in canonical.items() if real not in given}
        if not used or not places:
            continue
        notes.append(
            f"{server.file}: log.dirs also names {', '.join(places)}, not given to this run. "
            "Give all log directories of a broker: its cleaner reads their checkpoints together"
        )
        notes += [
            f"the broker is running: {place} is in use ({holder}). It has dropped the log "
            "directories of this run, as it does after a failed write, and will use them again "
            "only after a restart"
            for place, real in places.items()
            if (holder := holder_of(real)) is not None
        ]
    return notes
