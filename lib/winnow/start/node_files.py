"""The small files of a node beside its logs, as a KRaft broker reads them when it starts: each of
them can keep it from starting.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import javaproperties

from winnow.errors import FAILS_ONE_PARTITION, OversizedBatchError, failure_of
from winnow.logdir.metadata_log import Value, read_snapshot
from winnow.logdir.names import BOOTSTRAP_CHECKPOINT, META_PROPERTIES, QUORUM_STATE
from winnow.storage.contract import Storage, read_if_there

_FIELDS = {
    0: ("leaderId", "leaderEpoch", "votedId", "appliedOffset", "currentVoters", "clusterId"),
    1: ("leaderId", "leaderEpoch", "votedId", "votedDirectoryId"),
}
"""Of quorum-state, by its version."""
_UUID_BYTES = 16
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

    def count(value: Value) -> None:
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


def meta_problems(storage: Storage, log_dirs: Sequence[str]) -> Iterator[str]:
    """Yield why the node refuses its `meta.properties` (`MetaPropertiesEnsemble.verify`)."""
    ids = Counter[str]()
    for log_dir in log_dirs:
        path = f"{log_dir}/{META_PROPERTIES}"
        data = read_if_there(storage, path)
        properties = javaproperties.loads((data or b"").decode("latin-1"))
        version = properties.get("version", "0")
        if version not in {"0", "1"}:
            yield f"{path} has version {version}, expected 0 or 1"
        text = properties.get("directory.id")
        if text is not None and not _is_directory_id(text):
            yield f"{path} has directory.id {text}, which is no id of a directory"
        elif text is not None:
            ids[text] += 1
    for text, count in ids.items():
        if count > 1:
            yield f"{count} log directories have the directory.id {text}: one is a copy"


def _is_directory_id(text: str) -> bool:
    try:
        decoded = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return False
    return len(decoded) == _UUID_BYTES and int.from_bytes(decoded) >= _RESERVED
