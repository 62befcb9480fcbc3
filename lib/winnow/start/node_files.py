"""The small files of a node beside its logs, as a KRaft broker reads them when it starts: each of
them can keep it from starting.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from typing import Any

from winnow.errors import (
    FAILS_ONE_PARTITION,
    CorruptLogError,
    LinkError,
    OversizedBatchError,
    failure_of,
)
from winnow.logdir.meta import (
    MetaProperties,
    canonical_uuid,
    meta_node_id,
    meta_version,
    parse_meta,
)
from winnow.logdir.metadata import METADATA_DIR
from winnow.logdir.metadata_log import MetadataValue, read_snapshot
from winnow.logdir.names import BOOTSTRAP_CHECKPOINT, META_PROPERTIES, QUORUM_STATE
from winnow.logdir.strangers import cluster_words
from winnow.policy.versions import KnownVersion
from winnow.start.values import Fate
from winnow.storage.contract import Storage, read_if_there
from winnow.storage.links import words_of_link

_FIELDS = {
    0: ("leaderId", "leaderEpoch", "votedId", "appliedOffset", "currentVoters", "clusterId"),
    1: ("leaderId", "leaderEpoch", "votedId", "votedDirectoryId"),
}
"""Of quorum-state, by its version."""
_NUMBERS = {
    "leaderId": 2**31 - 1,
    "leaderEpoch": 2**31 - 2,
    "votedId": 2**31 - 1,
    "appliedOffset": 2**63 - 1,
}
"""The largest values of numbers in quorum-state."""
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
    return _problem_of_state(state)


def _problem_of_state(state: Mapping[str, Any]) -> str | None:
    if "data_version" not in state:
        return f"{QUORUM_STATE} has no data_version"
    version = quorum_version(state)
    if version not in _FIELDS:
        return f"{QUORUM_STATE} has data_version {version}, expected 0 or 1"
    missing = [field for field in _FIELDS[version] if field not in state]
    if missing:
        return f"{QUORUM_STATE} has no {missing[0]}"
    wrong = [field for field, most in _NUMBERS.items() if not _is_number(state.get(field, 0), most)]
    return f"{QUORUM_STATE} has {wrong[0]} {state[wrong[0]]!r}" if wrong else None


def _is_number(found: object, most: int) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and -most - 1 <= found <= most


def quorum_version(state: Mapping[str, Any]) -> int:
    """Return the version as a node reads it (`shortValue`): what is no number counts as 0."""
    found = state.get("data_version")
    if isinstance(found, bool) or not isinstance(found, int | float) or not isfinite(found):
        return 0
    return (int(found) + 2**15) % 2**16 - 2**15


def is_only_voter(storage: Storage, directory: str, node_id: int | None) -> bool | None:
    """Return whether this node is the only voter of its quorum, by the `quorum-state` of its
    metadata log. None: that file does not say.
    """
    voters = voters_of(storage, directory)
    return voters == {node_id} if voters and node_id is not None else None


def voters_of(storage: Storage, directory: str) -> frozenset[int] | None:
    """Return the voters in `quorum-state`. None: it does not say (a quorum that can change,
    KIP-853).
    """
    state = quorum_of(storage, directory) or {}
    try:
        return frozenset(int(voter["voterId"]) for voter in state["currentVoters"])
    except (ValueError, KeyError, TypeError):
        return None


def quorum_of(storage: Storage, directory: str) -> dict[str, Any] | None:
    try:
        data = read_if_there(storage, f"{directory}/{QUORUM_STATE}")
        state = None if data is None else json.loads(data)
    except FAILS_ONE_PARTITION:  # whatever is in the file
        return None
    return state if isinstance(state, dict) else None


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
        with_bytes += bool(value.data) and value.quorum is None

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
    metas = dict[str, MetaProperties]()
    for log_dir in log_dirs:
        meta = _meta_or_problem(storage, log_dir, home)
        if isinstance(meta, MetaProblem):
            yield meta
        else:
            metas[log_dir] = meta
    owners = Counter((meta.node_id, meta.cluster_id) for meta in metas.values())
    if len(owners) > 1:
        found = " and ".join(
            f"node {node} of cluster {cluster_words(cluster)}" for node, cluster in owners
        )
        words = f"the {META_PROPERTIES} of its log directories are of {found}"
        yield MetaProblem(log_dirs[0], Fate.STOPS, words)
    ids = Counter(meta.directory_id for meta in metas.values() if meta.directory_id is not None)
    for text, count in ids.items():
        if count > 1:
            words = f"{count} log directories have the directory.id {text}: one is a copy"
            yield MetaProblem(log_dirs[0], Fate.STOPS, words)
    if len(owners) == 1 and home is not None:
        yield from _refused_by_others(storage, home, *next(iter(owners)))


def _meta_or_problem(
    storage: Storage, log_dir: str, home: str | None
) -> MetaProperties | MetaProblem:
    path = f"{log_dir}/{META_PROPERTIES}"
    words = ""
    try:
        meta = _meta_of(storage, log_dir)
    except FileNotFoundError:
        return MetaProblem(log_dir, Fate.STOPS, f"{path} is missing")
    except LinkError:
        return MetaProblem(log_dir, Fate.UNKNOWN, f"{path} can't be read: {words_of_link(path)}")
    except (OSError, ValueError, CorruptLogError) as error:
        fate = Fate.STOPS if log_dir == home else Fate.OFFLINE
        return MetaProblem(log_dir, fate, f"{path} can't be read: {error}")
    if meta.node_id is None:
        words = "has no broker.id, which is the id of the node in version 0"
    elif meta.cluster_id is None:
        words = "has no cluster.id"
    elif meta.directory_id is not None and _is_reserved(meta.directory_id):
        words = f"has directory.id {meta.directory_id}, which is no id of a directory"
    return MetaProblem(log_dir, Fate.STOPS, f"{path} {words}") if words else meta


def _refused_by_others(
    storage: Storage, home: str, node_id: int | None, cluster_id: str | None
) -> Iterator[MetaProblem]:
    """A node that is its own quorum takes any cluster.id."""
    spaced = cluster_id is not None and cluster_id != cluster_id.rstrip()
    if spaced and not is_only_voter(storage, f"{home}/{METADATA_DIR}", node_id):
        words = (
            f"the cluster.id in {META_PROPERTIES} is {cluster_words(cluster_id)}: the other nodes "
            "of the cluster refuse a node with another cluster.id. Remove the space"
        )
        yield MetaProblem(home, Fate.UNKNOWN, words)


def zookeeper_meta_problems(
    storage: Storage, log_dirs: Sequence[str], kafka: KnownVersion, *, told: bool
) -> Iterator[MetaProblem]:
    """Yield why a broker with ZooKeeper does not start with a `meta.properties` that Winnow reads:
    the cluster.id of ZooKeeper ends with no space, and before 3.7 all files have to be alike to the
    character (`BrokerMetadataCheckpoint`). `told`: its server.properties has zookeeper.connect.
    """
    texts = list[dict[str, str]]()
    for log_dir in log_dirs:
        path = f"{log_dir}/{META_PROPERTIES}"
        with suppress(LinkError, OSError, CorruptLogError, ValueError):  # see `zookeeper_problem`
            texts.append(parse_meta(storage.read_bytes(path)))
            cluster_id, version = (texts[-1].get(key, "0") for key in ("cluster.id", "version"))
            missing = [key for key in ("broker.id", "cluster.id") if key not in texts[-1]]
            if missing and not told and storage.exists(f"{log_dir}/{METADATA_DIR}"):
                words = (
                    f"{path} has no {missing[0]}: without it a node of version 0 starts only with "
                    f"ZooKeeper, and there is a {METADATA_DIR}. Give its --server-properties FILE"
                )
                yield MetaProblem(log_dir, Fate.UNKNOWN, words)
            if not cluster_id or cluster_id != cluster_id.rstrip():
                words = (
                    f"the cluster.id in {path} is {cluster_words(cluster_id)}, unlike ZooKeeper's"
                )
                yield MetaProblem(log_dir, Fate.STOPS, words)
            if version != version.strip() and _before_ensemble(kafka) is not Fate.LOADS:
                words = f"the version in {path} is {version!r}. Remove the space"
                yield MetaProblem(log_dir, _before_ensemble(kafka), words)
    alike = all(text == texts[0] for text in texts)
    if not alike and _before_ensemble(kafka) is not Fate.LOADS:
        words = (
            f"the {META_PROPERTIES} of its log directories are not alike to the character, as they "
            "have to be before Kafka 3.7"
        )
        yield MetaProblem(log_dirs[0], _before_ensemble(kafka), words)


def _before_ensemble(kafka: KnownVersion) -> Fate:
    """Return the fate of a broker that stops before 3.7."""
    if kafka.oldest.first >= _ENSEMBLE:
        return Fate.LOADS
    return Fate.STOPS if kafka.newest.last < _ENSEMBLE else Fate.UNKNOWN


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


def _meta_of(storage: Storage, log_dir: str) -> MetaProperties:
    """Raises ValueError for what `MetaProperties.Builder` does not accept, and OSError."""
    properties = parse_meta(storage.read_bytes(f"{log_dir}/{META_PROPERTIES}"))
    version = meta_version(properties)
    if version not in {0, 1}:
        raise ValueError(f"version {version}, expected 0 or 1")
    node_id = meta_node_id(properties, version)
    if version == 1 and node_id is None:
        raise ValueError("no node.id")
    if version == 1 and "cluster.id" not in properties:
        raise ValueError("no cluster.id")
    text = properties.get("directory.id")
    if text is not None and canonical_uuid(text) is None:
        why = ": there is a space at its end" if text != text.rstrip() else ""
        raise ValueError(f"directory.id {text} is no id{why}")
    return MetaProperties(
        version=version,
        node_id=node_id,
        cluster_id=properties.get("cluster.id"),
        directory_id=text and canonical_uuid(text),
    )


def _is_reserved(directory_id: str) -> bool:
    return int.from_bytes(base64.urlsafe_b64decode(f"{directory_id}==")) < _RESERVED
