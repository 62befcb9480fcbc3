"""What a broker's server.properties says of where its logs lie, beside the log directories that
were given: a broker reads all of them when it starts.

It takes `log.dirs` and `metadata.log.dir` as they are written: one directory under two names keeps
it from starting.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from winnow.logdir.survey import LogDir
from winnow.policy.server_properties import KRAFT, ZOOKEEPER, ServerProperties
from winnow.policy.sources import Settings
from winnow.policy.versions import KnownVersion
from winnow.storage.contract import Storage

_WITHOUT_DUPLICATES = (4, 2, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The directories of a server.properties, without links."""

    file: str = ""
    """Empty: no file names directories that count."""
    log_dirs: tuple[str, ...] = ()
    metadata: str | None = None
    """That of the metadata log, None if it is not known."""
    problems: tuple[str, ...] = ()
    """Why the broker does not start with these names."""
    unclear: tuple[str, ...] = ()
    """Why it is not known which directories the broker reads."""

    def not_given(self, given: Collection[str]) -> list[str]:
        """Return the directories that the broker reads besides those that were given."""
        names = [*self.log_dirs, *([self.metadata] if self.metadata is not None else [])]
        return [path for path in dict.fromkeys(names) if path not in given]


def named_places(
    storage: Storage, settings: Settings, node_id: int | None, given: Sequence[str]
) -> Named:
    """Return what the server.properties of a broker names. `given`: its log directories, without
    links. The names in the file of another broker do not count.
    """
    server = settings.server_of(node_id)
    if server is None or not settings.compare_log_dirs:
        return Named()
    names = {name: place_of(storage, name, given) for name in _names(server)}
    log_dirs = [place for name in server.log_dirs if (place := names[name]) is not None]
    if settings.allow_other_broker and not {*given} <= {*log_dirs}:
        return Named()
    empty, unsure = _empty(server, settings.kafka)
    return Named(
        file=server.file,
        log_dirs=tuple(dict.fromkeys(log_dirs)),
        metadata=names.get(server.metadata_place or ""),
        problems=(*_twice(server, names), *_repeated(server, settings.kafka), *empty),
        unclear=(*_unclear(server, names), *unsure),
    )


def place_of(storage: Storage, name: str, given: Sequence[str]) -> str | None:
    """Return the directory of this name, without links. Only the broker knows its working
    directory, so a relative name counts if exactly one of `given` ends with it. Otherwise, and for
    what is no path: None.
    """
    if name.startswith("/"):
        try:
            return storage.canonical(name)
        except ValueError:  # a zero byte, or an invalid character
            return None
    end = f"/{os.path.normpath(name)}".replace("/..", "").replace("/./", "/")
    fitting = [path for path in given if path.endswith(end)]
    return fitting[0] if len(fitting) == 1 else None


def _names(server: ServerProperties) -> Iterator[str]:
    yield from server.log_dirs
    if server.metadata_log_dir is not None and server.keeps_topics_in != ZOOKEEPER:
        yield server.metadata_log_dir


def _twice(server: ServerProperties, names: Mapping[str, str | None]) -> Iterator[str]:
    for place in dict.fromkeys(place for place in names.values() if place is not None):
        same = [name for name in names if names[name] == place]
        if len(same) > 1:
            yield (
                f"{server.file} names one directory as {' and as '.join(same)}: a broker takes "
                "them for two, and does not start. Write it the same way everywhere, and once in "
                "log.dirs"
            )


def _repeated(server: ServerProperties, kafka: KnownVersion) -> Iterator[str]:
    """Only log.dirs as a list without duplicates (KIP-1161) forgives a name that is repeated."""
    repeated = [name for name, count in Counter(server.log_dirs).items() if count > 1]
    if repeated and kafka.newest.last < _WITHOUT_DUPLICATES:
        yield (
            f"log.dirs of {server.file} names {', '.join(repeated)} twice: a broker does not start "
            "with that"
        )


def _empty(server: ServerProperties, kafka: KnownVersion) -> tuple[list[str], list[str]]:
    """Return why the broker does not start with an empty name, and why that is not known.

    Of `log.dirs`, else of `log.dir`, at least one name is left in any version. From 4.2 on, no name
    of either list is empty (KIP-1161).
    """
    lists = {
        key: [name.strip() for name in server.own[key].split(",")]
        for key in ("log.dirs", "log.dir")
        if key in server.own and key not in server.places_from_provider
    }
    used = next(iter(lists), None)
    problems, unsure = list[str](), list[str]()
    for key, names in lists.items():
        words = f"{key} of {server.file} has an empty name"
        if key == used and not any(names):
            problems.append(f"{key} of {server.file} is empty: a broker does not start with that")
        elif "" in names and kafka.oldest.first >= _WITHOUT_DUPLICATES:
            problems.append(f"{words}, with which a broker does not start. Remove the comma")
        elif "" in names and kafka.newest.last >= _WITHOUT_DUPLICATES:
            unsure.append(f"{words}, with which a broker from 4.2 on does not start. Remove it")
    if server.own.get("metadata.log.dir") == "" and server.keeps_topics_in == KRAFT:
        problems.append(f"metadata.log.dir of {server.file} is empty: a broker does not start")
    return problems, unsure


def _unclear(server: ServerProperties, names: Mapping[str, str | None]) -> Iterator[str]:
    relative = [name for name in names if names[name] is None]
    if relative:
        yield (
            f"{server.file} names {', '.join(relative)}, and the given directories do not show "
            "which directory that is. Give all log directories of the broker, or a copy of the "
            "file with absolute paths"
        )
    for key in server.places_from_provider:
        yield (
            f"{key} of {server.file} comes from a config provider, which Winnow does not ask: "
            "which directories the broker reads is not known. Give a copy of the file with the "
            "value"
        )


def with_kraft(log_dirs: Sequence[LogDir], server: ServerProperties | None) -> bool:
    """Version 0 is that of a broker with ZooKeeper, or of one that has migrated."""
    if any(log_dir.meta.version > 0 for log_dir in log_dirs):
        return server is None or server.keeps_topics_in != ZOOKEEPER
    return server is not None and server.keeps_topics_in == KRAFT
