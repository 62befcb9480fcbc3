"""What the small files beside the logs say: whose log directory it is, whether its broker shut down
cleanly, and the topic id of a partition (S1.2, S1.3, S1.4).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass

import javaproperties

from winnow.errors import CorruptLogError, UsageError
from winnow.logdir.names import (
    CLEAN_SHUTDOWN,
    MAX_INT,
    META_PROPERTIES,
    PARTITION_METADATA,
    UNFINISHED,
    java_number,
)
from winnow.logdir.nearby import FILE, PARENT, PARTITION, what_is_at
from winnow.storage.contract import Entry, Storage, entry_if_there, read_if_there
from winnow.storage.urls import is_remote
from winnow.wire.metadata_records import UUID_SIZE, uuid_text

_CONTENT = re.compile(r"version:\s*(?P<version>[0-9]+)\s*\n\s*topic_id:\s*(?P<id>\S+)\s*")
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")
_MAX_BYTES = 4096
_JAVA_SPACES = "".join(map(chr, range(33)))
"""What Java's `trim` removes."""
_MAX_UUID_CHARACTERS = 24
_MOST_SHOWN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """`meta.properties`. `node_id` is `broker.id` in version 0. Missing fields are None. A version
    above 1 is newer than this Winnow.
    """

    version: int
    node_id: int | None
    cluster_id: str | None
    directory_id: str | None = None
    """`directory.id`, which the metadata log names. None before Kafka 3.7."""

    @property
    def is_anonymous(self) -> bool:
        """True if the file names neither a node nor a cluster, as when it was emptied."""
        return self.node_id is None and self.cluster_id is None


def read_meta(storage: Storage, log_dir: str) -> MetaProperties:
    """Read `meta.properties`. Raises UsageError if it is missing or a broker would not accept it:
    then this is not a log directory.
    """
    path = f"{log_dir}/{META_PROPERTIES}"
    try:
        data = read_if_there(storage, path)
    except CorruptLogError as error:
        raise error.like(UsageError, f"{META_PROPERTIES}: {error.problem}") from None
    if data is None:
        if storage.exists(f"{log_dir}/{UNFINISHED}"):
            raise no_log_dir(log_dir, unfinished=True)
        found, hint = ("none", None) if is_remote(log_dir) else what_is_at(storage, log_dir)
        raise no_log_dir(log_dir, unfinished=False, found=found, hint=hint)
    try:
        properties = parse_meta(data)
        version = meta_version(properties)
        directory_id = properties.get("directory.id")
        meta = MetaProperties(
            version=version,
            node_id=meta_node_id(properties, version),
            cluster_id=properties.get("cluster.id"),
            directory_id=directory_id and (canonical_uuid(directory_id) or directory_id),
        )
    except ValueError as error:  # also javaproperties' own errors
        raise _senseless(str(error), path) from None
    if version < 0:
        raise _senseless(f"version {version}", path)
    if version > 0 and (meta.node_id is None or meta.cluster_id is None):
        raise _senseless(f"node.id {meta.node_id} and cluster.id {meta.cluster_id}", path)
    return meta


def parse_meta(data: bytes) -> dict[str, str]:
    """Return the values of a `meta.properties`, with the spaces at their ends, which Kafka keeps.
    ValueError for a file that is none. Kafka reads Latin-1, by definition of Properties.load.
    """
    return dict(javaproperties.loads(data.decode("latin-1")))


def meta_version(properties: Mapping[str, str]) -> int:
    """Return the version, 0 if there is none. From 3.7 on, spaces around it are no error."""
    return _integer("version", properties.get("version", "0").strip(_JAVA_SPACES))


def meta_node_id(properties: Mapping[str, str], version: int) -> int | None:
    """Return the id of the node. ValueError for what a broker does not take for a number."""
    key = "broker.id" if version == 0 else "node.id"
    return _integer(key, properties[key]) if key in properties else None


def canonical_uuid(text: str) -> str | None:
    """Return an id as Kafka writes it: Java's decoder takes it with `==` at its end, too. None for
    what is no id.
    """
    if len(text) > _MAX_UUID_CHARACTERS or not text.isascii():
        return None
    bare = text.removesuffix("==")
    try:
        decoded = base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return None
    return uuid_text(decoded) if len(decoded) == UUID_SIZE else None


def no_log_dir(
    where: str, *, unfinished: bool, found: str = "none", hint: str | None = None
) -> UsageError:
    """Return the error for a directory without `meta.properties`. `unfinished`: `clean --output`
    began to write it. `hint`: what to give instead, if that is known.
    """
    if unfinished:
        problem = "a log directory that a run has not finished writing"
        hint = "Begin it again with --begin-again."
    else:
        problem, is_known = "not a Kafka log directory", found in {FILE, PARENT, PARTITION}
        if is_known:
            return UsageError(
                f"{problem} but {found}",
                expected="a directory" if found == FILE else f"a file {META_PROPERTIES}",
                where=where,
                hint=hint,
            )
        hint = hint or "Give the directories of log.dirs, not a parent and not a partition."
    return UsageError(
        problem, expected=f"a file {META_PROPERTIES}", found=found, where=where, hint=hint
    )


def _senseless(found: str, path: str) -> UsageError:
    return UsageError(
        "meta.properties is invalid",
        expected="version 0 or more, and from version 1 on node.id and cluster.id",
        found=found,
        where=path,
    )


def _integer(key: str, text: str) -> int:
    number = java_number(text, MAX_INT)
    if number is not None:
        return number
    why = "a space at its end" if text != text.rstrip() else "no whole number"
    raise ValueError(f"{key} {text[:_MOST_SHOWN]!r} ({why}: a broker can't read it)")


def was_shut_down_cleanly(storage: Storage, log_dir: str) -> bool:
    """Only the existence of the marker file counts, whatever it contains (S1.4). A link does not
    count: a broker makes no links.
    """
    found = entry_if_there(storage, f"{log_dir}/{CLEAN_SHUTDOWN}")
    return found is not None and not found.is_link


def is_empty_marker(storage: Storage, log_dir: str, entry: Entry) -> bool:
    """Whether an entry is an empty directory in place of the marker: a broker takes it for one."""
    if entry.name != CLEAN_SHUTDOWN or not entry.is_dir:
        return False
    return not storage.list_dir(f"{log_dir}/{CLEAN_SHUTDOWN}")


def read_topic_id(storage: Storage, directory: str) -> str | None:
    """Return the topic id in `partition.metadata`, as Kafka spells it, which tells two topics of
    the same name apart. None if the file is missing.

    Raises CorruptLogError for a file that a broker could not read. With an empty file, as a crash
    leaves it, a broker does not start (KAFKA-20177).
    """
    path = f"{directory}/{PARTITION_METADATA}"
    try:
        text = storage.read_range(path, 0, _MAX_BYTES).decode("utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not text:
        raise CorruptLogError(
            "partition.metadata is empty: a broker does not start",
            expected="version: 0 and a topic_id",
            found="0 bytes",
            where=path,
            hint="Write the topic id that the cluster has for the topic "
            "(kafka-topics.sh --describe), or remove the file if the partition has no records.",
        )
    content = _CONTENT.fullmatch(text)
    if content is None or content["version"] != "0" or not _TOPIC_ID.fullmatch(content["id"]):
        raise CorruptLogError(
            "partition.metadata can't be read",
            expected="version: 0 and a topic_id",
            found=f"{len(text)} characters of something else",
            where=path,
        )
    return content["id"]
