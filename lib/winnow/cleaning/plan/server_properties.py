"""Check that a `server.properties` is of the broker whose log directories were given (S9.2)."""

from __future__ import annotations

from collections.abc import Sequence

from winnow.errors import UsageError
from winnow.logdir.lock import holder_of
from winnow.logdir.survey import LogDir
from winnow.policy.server_properties import ServerProperties
from winnow.policy.sources import Settings
from winnow.storage.contract import Storage
from winnow.storage.urls import is_remote

_OVERRIDE = "--allow-other-broker uses it anyway."


def check_server_properties(
    settings: Settings, storage: Storage, log_dirs: Sequence[LogDir]
) -> tuple[str, ...]:
    """Return notes about the files. Raise UsageError for a file of another broker, unless that is
    allowed, and for several files whose brokers are unknown.
    """
    servers = settings.servers
    _check_each_has_its_own_broker(servers)
    problems = [*_other_nodes(servers, log_dirs)]
    if settings.compare_log_dirs:
        for log_dir in log_dirs:
            server = settings.server_of(log_dir.meta.node_id)
            problems += [] if server is None else other_places(storage, server, [log_dir.path])
    if problems and not settings.allow_other_broker:
        raise problems[0]
    notes = [
        f"{error.where} is used although it is {error.problem}: found {error.found}"
        for error in problems
    ]
    notes += [
        f"{log_dir.path} belongs to node {log_dir.meta.node_id}, for which no server.properties "
        "was given: Kafka's defaults are not confirmed there"
        for log_dir in log_dirs
        if servers and settings.server_of(log_dir.meta.node_id) is None
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
    return [
        UsageError(
            "the server.properties of a broker with other log directories",
            expected=f"{path} in log.dirs",
            found=f"log.dirs={','.join(server.log_dirs)}",
            where=server.file,
            hint=f"Give the file of the broker whose directories these are. {_OVERRIDE}",
        )
        for path in paths
        if not is_remote(path) and storage.canonical(path) not in own
    ]


def _check_each_has_its_own_broker(servers: Sequence[ServerProperties]) -> None:
    if len(servers) < 2:
        return
    nodes = [server.node_id for server in servers]
    for server in servers:
        if server.node_id is None or nodes.count(server.node_id) > 1:
            raise UsageError(
                "it is unknown which broker each server.properties belongs to",
                expected="a different node.id in each",
                found="none" if server.node_id is None else f"node.id {server.node_id} twice",
                where=server.file,
                hint="Give one file for each broker.",
            )


def _other_nodes(
    servers: Sequence[ServerProperties], log_dirs: Sequence[LogDir]
) -> list[UsageError]:
    nodes = {log_dir.meta.node_id for log_dir in log_dirs}
    if None in nodes or not nodes:
        return []
    return [
        UsageError(
            "the server.properties of another broker",
            expected=f"node.id {' or '.join(map(str, sorted(n for n in nodes if n is not None)))}, "
            "as in meta.properties of the log directories",
            found=f"node.id {server.node_id}",
            where=server.file,
            hint=f"Give the file of the broker whose directories these are. {_OVERRIDE}",
        )
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
