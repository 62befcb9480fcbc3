"""Complete the settings of a run with those in the log directories' metadata log (S9.2, S9.3).
Check that a `server.properties` is of the broker whose log directories were given (S9.2).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from winnow.errors import CorruptLogError, UsageError
from winnow.logdir.lock import holder_of
from winnow.logdir.meta import read_meta, was_shut_down_cleanly
from winnow.logdir.metadata import (
    METADATA_DIR,
    METADATA_VERSION,
    ClusterMetadata,
    read_cluster_metadata,
)
from winnow.logdir.survey import LogDir
from winnow.policy.known_version import known_version, newer_features
from winnow.policy.metadata import MetadataSettings, metadata_settings
from winnow.policy.server_properties import ServerProperties
from winnow.policy.sources import Settings
from winnow.policy.versions import ANY_VERSION, KnownVersion
from winnow.storage.contract import Storage
from winnow.storage.urls import is_remote


def with_metadata(
    settings: Settings, storage: Storage, log_dirs: Sequence[LogDir]
) -> tuple[Settings, tuple[str, ...]]:
    """Return `settings` with the settings of `__cluster_metadata-0`, if there is one, and with the
    version of Kafka that the log directories tell, and notes about both.

    It is searched for in metadata.log.dir, if server.properties names one. Otherwise the first log
    directory that has one is used, or else the first of log.dirs, where a broker keeps it.

    Raises UsageError for a server.properties of another broker. A metadata log that can't be read
    gives no settings but the reason; topics that no other source describes are then skipped.
    """
    notes = [*check_server_properties(settings, storage, log_dirs)]
    if settings.metadata is not None:
        return settings, tuple(notes)
    directory, choice = _find(settings, storage, log_dirs)
    notes += [*_unusual_meta(log_dirs), *choice]
    metadata = None
    if directory is not None:
        try:
            unclean = not was_shut_down_cleanly(storage, os.path.dirname(directory))
            metadata = read_cluster_metadata(storage, directory, unclean=unclean)
            found = metadata_settings(
                log=f"{METADATA_DIR} up to offset {metadata.end_offset - 1}",
                topics=metadata.topics,
                sections=metadata.configs,
                notes=metadata.notes,
            )
        except (CorruptLogError, OSError) as error:
            found = MetadataSettings(log=METADATA_DIR, problem=str(error))
            notes.append(f"{METADATA_DIR} can't be read and gives no topics or settings: {error}")
        settings = replace(settings, metadata=found)
    newer = ", ".join(newer_features({} if metadata is None else metadata.features))
    if newer:
        notes.append(f"{METADATA_DIR} has {newer}, which is newer than this Winnow")
    if settings.kafka == ANY_VERSION:  # otherwise it was asked for
        settings = replace(settings, kafka=_version(log_dirs, metadata))
    return settings, tuple(notes)


def _version(log_dirs: Sequence[LogDir], metadata: ClusterMetadata | None) -> KnownVersion:
    if metadata is None:
        zookeeper = all(log_dir.meta.version == 0 for log_dir in log_dirs)
        return known_version(zookeeper=zookeeper, level=None, supported=[None])
    nodes = {log_dir.meta.node_id for log_dir in log_dirs}
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
        if log_dir.meta.is_anonymous
    ] + [
        f"{log_dir.path}: meta.properties has version {log_dir.meta.version}, which is newer than "
        "this Winnow; its node.id and cluster.id are used as in version 1"
        for log_dir in log_dirs
        if log_dir.meta.version > 1
    ]


def io_rate(settings: Settings, log_dirs: Sequence[LogDir]) -> float | None:
    """Return the bytes per second that the settings allow a run to read and write: the lowest limit
    of its brokers. None: no limit.
    """
    nodes = {log_dir.meta.node_id for log_dir in log_dirs}
    rates = (settings.io_rate(node_id=node) for node in nodes)
    return min((rate for rate in rates if rate is not None), default=None)


def _find(
    settings: Settings, storage: Storage, log_dirs: Sequence[LogDir]
) -> tuple[str | None, list[str]]:
    """Return the directory of the metadata log, if there is one, and notes about the choice."""
    notes: list[str] = []
    server = settings.server_of(log_dirs[0].meta.node_id) if log_dirs else None
    named = None if server is None else server.metadata_log_dir
    if named is not None:
        directory, problem = _metadata_log_in(storage, named, log_dirs[0])
        if problem is None:
            return directory, []
        notes.append(f"metadata.log.dir={named} of server.properties is ignored: {problem}")
    having = [d for d in log_dirs if storage.exists(f"{d.path}/{METADATA_DIR}")]
    if not having:
        first = server.log_dirs[0] if server is not None and server.log_dirs else ""
        if named is None and os.path.isabs(first):
            directory, problem = _metadata_log_in(storage, first, log_dirs[0])
            if problem is None:
                return directory, [f"the topics and settings are those of {directory}"]
        return None, notes
    chosen = having[0]
    notes += [
        f"{other.path}/{METADATA_DIR} is ignored: the one in {chosen.path} is used"
        for other in having[1:]
    ]
    if not chosen.clean_shutdown and any(other.clean_shutdown for other in log_dirs):
        notes.append(
            f"{chosen.path} was not shut down cleanly: the last records of its {METADATA_DIR} may "
            "not have been committed. The broker may start with other values of settings in them"
        )
    return f"{chosen.path}/{METADATA_DIR}", notes


def _metadata_log_in(storage: Storage, path: str, log_dir: LogDir) -> tuple[str, str | None]:
    """Return the directory of the metadata log in `path`, and why it is not that of the broker that
    owns `log_dir`, if it is not.
    """
    try:
        home = storage.canonical(path)
    except ValueError as error:  # a zero byte, or an invalid character
        return path, f"it is not a path: {error}"
    directory, problem = f"{home}/{METADATA_DIR}", None
    if not storage.exists(directory):
        return directory, f"it has no {METADATA_DIR}"
    try:
        meta = read_meta(storage, home)
    except (UsageError, OSError) as error:
        return directory, str(error)
    if (meta.cluster_id, meta.node_id) != (log_dir.meta.cluster_id, log_dir.meta.node_id):
        problem = (
            f"it belongs to node {meta.node_id} in cluster {meta.cluster_id}, unlike {log_dir.path}"
        )
    return directory, problem


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
    problems, unknown = _other_nodes(servers, log_dirs), list[LogDir]()
    for log_dir in log_dirs:
        server = settings.server_of(log_dir.meta.node_id)
        if server is None:
            unknown.append(log_dir)
        elif settings.compare_log_dirs:
            problems += other_places(storage, server, [log_dir.path])
    if problems and not settings.allow_other_broker:
        raise problems[0]
    notes = [
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
    """Return an error for each local directory in `paths` that `log.dirs` does not name. Relative
    names prove nothing.
    """
    if not server.log_dirs or not all(path.startswith("/") for path in server.log_dirs):
        return []
    own = {storage.canonical(path) for path in server.log_dirs}
    what, found = "a broker with other log directories", f"log.dirs={','.join(server.log_dirs)}"
    return [
        _other(what, server, expected=f"{path} in log.dirs", found=found)
        for path in paths
        if not is_remote(path) and storage.canonical(path) not in own
    ]


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
