"""Which release of Kafka a log directory belongs to, from what lies in it (docs/decisions/0046).

A broker registers at each start with the highest `metadata.version` that it supports: that tells
its minor version. The level that the cluster uses tells only the oldest version that can read it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from winnow.policy.server_properties import KRAFT, ZOOKEEPER, ServerProperties
from winnow.policy.versions import ANY_VERSION, NEWEST, OLDEST, KafkaVersion, KnownVersion

LEVELS = (
    "3.0-IV1", "3.1-IV0", "3.2-IV0", "3.3-IV0", "3.3-IV1", "3.3-IV2", "3.3-IV3", "3.4-IV0",
    "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1",
    "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2",
    "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0", "4.4-IV0", "4.4-IV1",
    "4.4-IV2", "4.5-IV0",
)  # fmt: skip
"""The levels of `metadata.version`, from 1 on (Kafka's `MetadataVersion`)."""

METADATA_VERSION = "metadata.version"
HIGHEST_LEVELS = {
    version: level
    for level, name in enumerate(LEVELS, start=1)
    if "3.3" <= (version := name.partition("-")[0]) <= str(NEWEST)
}
"""The highest level that a broker of each version supports. Brokers before 3.3 do not report it."""

_FEATURES = {
    "kraft.version": {"3.9": 1},
    "transaction.version": {"4.0": 2},
    "group.version": {"4.0": 1},
    "eligible.leader.replicas.version": {"4.0": 1},
    "share.version": {"4.1": 1, "4.4": 2},
    "streams.version": {"4.2": 1},
}
"""The highest level of each other feature, by the first version that has it (Kafka's
`QuorumFeatures`).
"""

UNSUPPORTED = range(1)
"""The levels of a feature that a version does not have."""
_LOWEST_LEVEL = 7
"""Of `metadata.version` since Kafka 4.0."""
_LAST_WITH_ZOOKEEPER = KafkaVersion(3, 9)


def known_version(
    *, zookeeper: bool, level: int | None, supported: Collection[int | None]
) -> KnownVersion:
    """Return the versions that may have written some log directories.

    `zookeeper`: the brokers keep their topics in ZooKeeper. `level`: of
    `metadata.version` in the metadata log. `supported`: the highest level that each of the brokers
    supports; None if it is not registered.
    """
    brokers = [_of_broker(highest) for highest in supported]
    found = [version for version in brokers if version is not None]
    if found and len(found) == len(brokers):
        words = " or ".join(sorted({level_name(each) for each in supported if each is not None}))
        return KnownVersion(
            min(found, key=lambda version: version.first),
            max(found, key=lambda version: version.last),
            f"the broker supports metadata.version up to {words}",
        )
    if level is not None:
        known = LEVELS[max(min(level, HIGHEST_LEVELS[str(NEWEST)]), 1) - 1]
        oldest = KafkaVersion.parse(known.partition("-")[0])
        return KnownVersion(oldest, NEWEST, f"metadata.version is {level_name(level)}")
    if zookeeper:
        return KnownVersion(
            OLDEST, _LAST_WITH_ZOOKEEPER, "meta.properties of a broker with ZooKeeper"
        )
    return ANY_VERSION


def supported_features(version: KafkaVersion) -> Mapping[str, range] | None:
    """Return the levels of each feature that a broker of this version supports, by name. It
    supports no other feature. None: unknown.
    """
    level = HIGHEST_LEVELS.get(f"{version.major}.{version.minor}")
    if level is None:
        return None
    lowest = _LOWEST_LEVEL if _is_since(version, "4.0") else 1
    own = {
        name: range(max(found) + 1)
        for name, since in _FEATURES.items()
        if (found := [one for first, one in since.items() if _is_since(version, first)])
    }
    return {METADATA_VERSION: range(lowest, level + 1)} | own


def _is_since(version: KafkaVersion, first: str) -> bool:
    return KafkaVersion.parse(first).first <= version.last


def never_with_zookeeper(level: int) -> bool:
    """Return whether a broker that supports this level of `metadata.version` is too new for
    ZooKeeper.
    """
    return level > HIGHEST_LEVELS[str(_LAST_WITH_ZOOKEEPER)]


def level_name(level: int) -> str:
    """Return Kafka's name of a level of `metadata.version`, or its number if it is unknown."""
    return LEVELS[level - 1] if 0 < level <= len(LEVELS) else str(level)


def newer_features(features: Mapping[str, int]) -> tuple[str, ...]:
    """Return the features that the newest known version does not have, or not at this level."""
    known = supported_features(NEWEST) or {}
    return tuple(
        f"{name} {level}"
        for name, level in sorted(features.items())
        if level >= known.get(name, UNSUPPORTED).stop
    )


def _of_broker(highest: int | None) -> KafkaVersion | None:
    """Return the version that supports at most this level. None if there is none or unknown."""
    if highest is not None and highest > HIGHEST_LEVELS[str(NEWEST)]:
        return NEWEST
    names = (name for name, level in HIGHEST_LEVELS.items() if level == highest)
    return next(map(KafkaVersion.parse, names), None)


def why_on_zookeeper(
    server: ServerProperties | None,
    versions: Collection[int],
    *,
    is_anonymous: bool,
    has_left: bool,
) -> str | None:
    """Return why a broker does not use a metadata log, or may not. None if it uses one.

    A broker with ZooKeeper writes `meta.properties` of version 0. While it migrates to KRaft it
    also follows the metadata log, which stays if the migration is taken back. A broker with KRaft
    writes version 1, but starts with version 0 and keeps it. So does every cluster that has
    migrated (docs/reference/sources.md).

    `server`: its server.properties, if given. `versions`: of `meta.properties` in its log
    directories. `is_anonymous`: one of these files names no broker. `has_left`: a metadata log
    proves that the broker can't be on ZooKeeper.
    """
    mode = None if server is None else server.keeps_topics_in
    if server is not None and mode == ZOOKEEPER:
        return f"{server.file} has zookeeper.connect and no process.roles"
    if mode == KRAFT or 0 not in versions or has_left:
        return None
    if is_anonymous:
        return "meta.properties names no broker, so nothing shows that this log is the broker's"
    if set(versions) != {0}:
        return (
            "meta.properties has version 0 in one directory of the broker and version "
            f"{max(versions)} in another, so nothing shows whether its topics are in ZooKeeper"
        )
    return "meta.properties has version 0, so the broker keeps its topics in ZooKeeper"
