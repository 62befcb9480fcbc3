"""The small files of a node beside its logs, as a KRaft broker reads them when it starts: each of
them can keep it from starting.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import javaproperties

from winnow.errors import (
    FAILS_ONE_PARTITION,
    CorruptLogError,
    LinkError,
    OversizedBatchError,
    failure_of,
)
from winnow.logdir.metadata_log import MetadataValue, read_snapshot
from winnow.logdir.names import BOOTSTRAP_CHECKPOINT, JAVA_INT, META_PROPERTIES, QUORUM_STATE
from winnow.policy.versions import KnownVersion
from winnow.start.values import Fate
from winnow.storage.contract import Storage, read_if_there
from winnow.storage.links import words_of_link

_FIELDS = {
    0: ("leaderId", "leaderEpoch", "votedId", "appliedOffset", "currentVoters", "clusterId"),
    1: ("leaderId", "leaderEpoch", "votedId", "votedDirectoryId"),
}
"""Of quorum-state, by its version."""
_UUID_BYTES = 16
_ENSEMBLE = (3, 7, 0)
"""The first version with `MetaPropertiesEnsemble`. Before, all of these files had to be alike."""
_RESERVED = 100
"""Ids below it mean something else than a directory (`DirectoryId.reserved`)."""


def quorum_state_problem(storage: Storage, directory: str) -> str | None:
    """Return why the node can't read its `quorum-state`, or None. Without the file it votes anew.
    A node reads the first line.
    """
    try:
        data = read_if_there(storage, f"{directory}/{QUORUM_STATE}")
    except FAILS_ONE_PARTITION as error:
        return f"{QUORUM_STATE} can't be read: {failure_of(error)}"
    if data is None:
        return None
    try:
        state: Any = json.loads(data.splitlines()[0]) if data else None
    except (ValueError, RecursionError, IndexError):
        state = None
    if not isinstance(state, dict):
        return f"{QUORUM_STATE} is no line of JSON"
    version = state.get("data_version")
    if version not in _FIELDS:
        return f"{QUORUM_STATE} has data_version {version}, expected 0 or 1"
    missing = [field for field in _FIELDS[version] if field not in state]
    return f"{QUORUM_STATE} has no {missing[0]}" if missing else None


def bootstrap_problem(storage: Storage, log_dir: str) -> str | None:
    """Return why the node can't read the `bootstrap.checkpoint` of a log directory, or None.
    Without the file it takes the metadata version of its own release.
    """
    path = f"{log_dir}/{BOOTSTRAP_CHECKPOINT}"
    if not storage.exists(path):
        return None
    with_bytes = 0

    def count(value: MetadataValue) -> None:
        nonlocal with_bytes
        with_bytes += bool(value.data)

    try:
        read_snapshot(storage, path, count, complete=False)
    except OversizedBatchError:
        raise
    except FAILS_ONE_PARTITION as error:
        return f"{BOOTSTRAP_CHECKPOINT} can't be read: {failure_of(error)}"
    if not with_bytes:
        return f"{BOOTSTRAP_CHECKPOINT} has no record of the metadata version"
    return None


@dataclass(frozen=True, slots=True)
class MetaProblem:
    """What keeps a node from using a log directory. Its fate: OFFLINE concerns that directory,
    STOPS the node.
    """

    log_dir: str
    fate: Fate
    words: str


def meta_problems(
    storage: Storage, log_dirs: Sequence[str], *, home: str | None
) -> Iterator[MetaProblem]:
    """Yield why a KRaft node refuses its `meta.properties` (`MetaPropertiesEnsemble`): it does
    without a directory whose file can't be read, unless that is `home`, with the metadata log.
    """
    owners, ids = Counter[tuple[str, str]](), Counter[str]()
    for log_dir in log_dirs:
        path = f"{log_dir}/{META_PROPERTIES}"
        try:
            properties = _meta_of(storage, log_dir)
        except FileNotFoundError:
            yield MetaProblem(log_dir, Fate.STOPS, f"{path} is missing")
            continue
        except LinkError:
            yield MetaProblem(log_dir, Fate.UNKNOWN, f"{path} can't be read: {words_of_link(path)}")
            continue
        except (OSError, ValueError, CorruptLogError) as error:
            fate = Fate.STOPS if log_dir == home else Fate.OFFLINE
            yield MetaProblem(log_dir, fate, f"{path} can't be read: {error}")
            continue
        node = properties.get("broker.id" if properties.get("version", "0") == "0" else "node.id")
        if node is None:
            yield MetaProblem(log_dir, Fate.STOPS, f"{path} has no id of a node")
            continue
        text = properties.get("directory.id")
        if text is not None and _directory_number(text) < _RESERVED:
            words = f"{path} has directory.id {text}, which is no id of a directory"
            yield MetaProblem(log_dir, Fate.STOPS, words)
        elif text is not None:
            ids[text] += 1
        owners[node.strip(), properties.get("cluster.id", "")] += 1
    if len(owners) > 1:
        found = " and ".join(f"node {node} of cluster {cluster}" for node, cluster in owners)
        words = f"the {META_PROPERTIES} of its log directories are of {found}"
        yield MetaProblem(log_dirs[0], Fate.STOPS, words)
    for text, count in ids.items():
        if count > 1:
            words = f"{count} log directories have the directory.id {text}: one is a copy"
            yield MetaProblem(log_dirs[0], Fate.STOPS, words)


def zookeeper_problem(
    storage: Storage, log_dir: str, error: object, kafka: KnownVersion
) -> MetaProblem | None:
    """Return what a broker with ZooKeeper makes of a log directory in doubt, beside one that is
    not. None: it writes a `meta.properties` anew. `error`: why the directory is in doubt.
    """
    path = f"{log_dir}/{META_PROPERTIES}"
    try:
        storage.list_dir(log_dir)
        storage.read_bytes(path)
    except FileNotFoundError:
        return None
    except LinkError:
        return MetaProblem(log_dir, Fate.UNKNOWN, f"{path} can't be read: {words_of_link(path)}")
    except (OSError, CorruptLogError) as problem:
        return MetaProblem(log_dir, Fate.OFFLINE, f"{path} can't be read: {problem}")
    before_ensemble = kafka.newest.last < _ENSEMBLE
    return MetaProblem(log_dir, Fate.STOPS if before_ensemble else Fate.UNKNOWN, str(error))


def _meta_of(storage: Storage, log_dir: str) -> dict[str, str]:
    """Raises ValueError for what `MetaProperties.Builder` does not accept, and OSError."""
    data = storage.read_bytes(f"{log_dir}/{META_PROPERTIES}")
    properties = dict(javaproperties.loads(data.decode("latin-1")))
    version = properties.get("version", "0")
    if version not in {"0", "1"}:
        raise ValueError(f"version {version}, expected 0 or 1")
    key = "broker.id" if version == "0" else "node.id"
    node = properties.get(key)
    if version == "1" and node is None:
        raise ValueError(f"no {key}")
    if node is not None and not JAVA_INT.fullmatch(node.strip()):
        raise ValueError(f"{key} is no number")
    if version == "1" and not properties.get("cluster.id"):
        raise ValueError("no cluster.id")
    if "directory.id" in properties:
        _directory_number(properties["directory.id"])
    return properties


def _directory_number(text: str) -> int:
    """Raises ValueError for what is no id."""
    try:
        decoded = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        decoded = b""
    if len(decoded) != _UUID_BYTES:
        raise ValueError(f"directory.id {text} is no id")
    return int.from_bytes(decoded)
