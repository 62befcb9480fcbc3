"""Kafka's own server.properties, parsed as a broker does."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from winnow.errors import UsageError
from winnow.policy.config import BY_BROKER_NAME, BY_TOPIC_NAME
from winnow.policy.describe import UNCHECKED, Check, Notes, SettingEntry
from winnow.policy.keys import Ignored, Wrong, parse_broker_value, unknown_key, unless_wrong
from winnow.policy.other_properties import check_is_of_a_broker, from_providers, not_asked

KRAFT = "KRaft"
ZOOKEEPER = "ZooKeeper"
"""Where a broker keeps its topics and their settings."""
DEFAULT_LOG_DIR = "/tmp/kafka-logs"  # noqa: S108 - Kafka's own
"""That of a broker without `log.dirs` and `log.dir`."""

_NODE_ID = re.compile(r"\+?[0-9]{1,10}")
_METADATA_DIR = "metadata.log.dir"
_NO_PATH = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ServerProperties:
    entries: Mapping[str, SettingEntry]
    """By key."""
    notes: tuple[str, ...] = ()
    metadata_log_dir: str | None = None
    """Where the broker keeps its `__cluster_metadata-0`, if not in the first directory of log.dirs.
    """
    file: str = "--server-properties"
    node_id: int | None = None
    """`node.id`, else `broker.id`. None if neither is set or the broker would choose one."""
    log_dirs: tuple[str, ...] = ()
    """`log.dirs`, else `log.dir`, as written in the file."""
    own: Mapping[str, str] = field(default_factory=dict, repr=False)
    """All keys and values. Not in `repr`: some values are passwords."""
    refused: str | None = None
    """Why a broker does not start with this file: a value that it refuses. None: Winnow knows none.
    """
    places_from_provider: tuple[str, ...] = ()
    """Keys that name directories, whose values only a config provider knows."""

    @property
    def keeps_topics_in(self) -> str | None:
        """Return `KRAFT` or `ZOOKEEPER`. None if the file shows neither."""
        if self.own.get("process.roles"):
            return KRAFT
        return ZOOKEEPER if self.own.get("zookeeper.connect") else None

    @property
    def metadata_place(self) -> str | None:
        """Return the directory that holds the broker's metadata log, as written in the file. None
        if the file does not name it.
        """
        if _METADATA_DIR in self.places_from_provider:
            return None
        return self.metadata_log_dir or next(iter(self.log_dirs), None)

    @property
    def is_controller(self) -> bool:
        """Whether the node may be one. False only if the file tells its roles."""
        roles = self.own.get("process.roles", "")
        return not roles or "controller" in roles or "${" in roles

    @property
    def voters(self) -> frozenset[int] | None:
        """Return the nodes of `controller.quorum.voters`. None: a quorum that can change (KIP-853),
        or the file does not tell.
        """
        voters = self.own.get("controller.quorum.voters", "")
        nodes = [voter.partition("@")[0].strip() for voter in voters.split(",") if voter.strip()]
        known = nodes and all(map(_NODE_ID.fullmatch, nodes))
        return frozenset(map(int, nodes)) if known else None


def parse_server_properties(
    text: str, *, file: str = "--server-properties", check: Check = UNCHECKED
) -> ServerProperties:
    """Parse Kafka's own file as it is. UsageError, naming the line, for a line that is none. A
    wrong value becomes `Wrong`: it affects the topics for which it counts, not the run.

    As in a broker, the last of several equal keys wins and unknown keys are no error. A topic's
    name of a key, which a broker would ignore, is noted.
    """
    import javaproperties  # noqa: PLC0415 - it loads http, email and XML, and most runs are given no such file

    entries: dict[str, SettingEntry] = {}
    notes = Notes(file)
    own: dict[str, str] = {}
    line = 1
    try:
        for element in javaproperties.parse(text):
            check()
            where = f"{file} line {line}"
            line += len(element.source.splitlines())
            if not isinstance(element, javaproperties.KeyValue):
                continue
            own[element.key] = element.value.strip()
            parsed = unless_wrong(parse_broker_value, element.key, element.value, where=where)
            if parsed is not None:
                entries[element.key] = SettingEntry(element.key, parsed, where)
            elif element.key in BY_TOPIC_NAME:
                notes.add(f"{where}: {element.key} is a topic config, which a broker ignores here")
            elif element.key.startswith("log."):  # it looks like a setting of logs
                unknown = "" if notes.are_enough else _unknown(element.key, where)
                notes.add(unknown)
    except javaproperties.InvalidUEscapeError as error:
        raise UsageError(
            "a line that can't be understood",
            found=str(error),
            expected="a properties file",
            where=f"{file} line {line}",
        ) from error
    provided = from_providers(own)
    values = (entry.value for key, entry in entries.items() if key not in provided)
    refused = next((value.why for value in values if isinstance(value, Wrong)), None)
    for key in provided & entries.keys():
        if not isinstance(entries[key].value, Ignored):
            where = entries[key].where
            why = Wrong(str(not_asked(key, own[key], where=where)))
            entries[key] = SettingEntry(key, why, where)
    node_id = own.get("node.id") or own.get("broker.id") or ""
    log_dirs = "log.dirs" if own.get("log.dirs") else "log.dir"
    places = "" if log_dirs in provided else own.get(log_dirs, "")
    if _NO_PATH.search(places):
        raise UsageError(
            "log.dirs of server.properties can't name directories",
            expected="paths without zero bytes and lone surrogates",
            found=repr(places),
            where=file,
            hint="A broker does not start with it either.",
        )
    return ServerProperties(
        entries,
        notes.all(),
        metadata_log_dir=None if _METADATA_DIR in provided else own.get(_METADATA_DIR) or None,
        file=file,
        node_id=int(node_id) if _NODE_ID.fullmatch(node_id) else None,
        log_dirs=tuple(place.strip() for place in places.split(",") if place.strip()),
        own=own,
        refused=refused,
        places_from_provider=tuple(key for key in (log_dirs, _METADATA_DIR) if key in provided),
    )


def _unknown(key: str, where: str) -> str:
    return f"{unknown_key(key, list(BY_BROKER_NAME), where=where)} Ignored, as by a broker."


def parse_server_properties_file(
    data: bytes, *, file: str, check: Check = UNCHECKED
) -> ServerProperties:
    """Like `parse_server_properties`. UsageError also for the file of another program.

    Kafka reads it with Properties.load(InputStream), which is Latin-1 by definition.
    """
    text = data.removeprefix(codecs.BOM_UTF8).decode("latin-1")
    server = parse_server_properties(text, file=file, check=check)
    check_is_of_a_broker(server.own, known=server.entries.keys(), file=file)
    return server
