"""The settings of one topic as a broker would see them, each with its source: Kafka's keys that
matter to an offline cleaner, their names at topic and broker level, their types, ranges and
defaults (S9.1; the ranges are those of Kafka's own `LogConfig` and `KafkaConfig`).

`winnow.policy.keys` parses values. `winnow.policy.sources` has the places that they are read from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from winnow.errors import UsageError
from winnow.policy.versions import ANY, ANY_VERSION, PRODUCER_ID, KnownVersion, Range, Rules

KAFKA_DEFAULT = "Kafka's default"
UNCONFIRMED_DEFAULT = f"{KAFKA_DEFAULT}, server.properties not given"

Value = int | float | bool | str

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


class ConfigType(Enum):
    """Types of Kafka's `ConfigDef`. POLICY is its LIST, used by one key only."""

    INT = "a whole number of 32 bits"
    LONG = "a whole number of 64 bits"
    DOUBLE = "a number"
    BOOLEAN = "true or false"
    POLICY = "a list of compact and delete, or nothing"


UNLIMITED_OR_POSITIVE = Range(excluded=0)
"""Any negative value counts as -1, whatever the unit (S9.1)."""


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker's name for a topic config. The value is multiplied by `unit`."""

    name: str
    kind: ConfigType
    allowed: Range = ANY
    unit: int = 1


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """Kafka's definition of a setting. `synonyms`: the first that is set wins, as in a broker."""

    name: str
    kind: ConfigType
    default: Value | None
    allowed: Range
    doc: str
    synonyms: tuple[Synonym, ...]
    broker_only: bool

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")


def _key(
    kind: ConfigType,
    default: Value | None,
    allowed: Range,
    doc: str,
    *brokers: str | Synonym,
    broker_only: bool = False,
) -> Any:  # noqa: ANN401 - a field of any type
    """Declare a setting. A broker name given as plain text has the topic's type and range."""
    return field(metadata={"key": (kind, default, allowed, doc, brokers, broker_only)})


INT, LONG, DOUBLE, BOOLEAN, POLICY = (
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.BOOLEAN,
    ConfigType.POLICY,
)


ASSUMED = "assumed, since unknown:"
"""Prefix of the source of a setting that is unknown, and that the verb does not apply."""


def is_default(source: str) -> bool:
    """Whether a source means that nobody set the value."""
    return source in {KAFKA_DEFAULT, UNCONFIRMED_DEFAULT}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """Effective values for one topic (S9.1). Times in ms, sizes in bytes.

    Each field is Kafka's key with its dots replaced, so `sources["retention.ms"]` is the source of
    `retention_ms`.
    """

    # fmt: off
    cleanup_policy: str = _key(
        POLICY, "delete", ANY, "compact, delete, both, or empty", "log.cleanup.policy"
    )
    """`compact`, `delete`, `compact,delete`, or empty for neither."""
    min_cleanable_dirty_ratio: float = _key(
        DOUBLE, 0.5, Range(0, 1),
        "compact only if more than this share of the bytes is dirty",
        Synonym("log.cleaner.min.cleanable.ratio", DOUBLE),
    )
    min_compaction_lag_ms: int = _key(
        LONG, 0, Range(0),
        "segments with a record younger than this are not compacted",
        Synonym("log.cleaner.min.compaction.lag.ms", LONG),
    )
    max_compaction_lag_ms: int = _key(
        LONG, LONG_MAX, Range(1),
        "compact whatever the ratio once a dirty record is older than this",
        Synonym("log.cleaner.max.compaction.lag.ms", LONG),
    )
    delete_retention_ms: int = _key(
        LONG, 86_400_000, Range(0),
        "how long tombstones and markers outlive their first cleaning",
        Synonym("log.cleaner.delete.retention.ms", LONG),
    )
    retention_ms: int = _key(
        LONG, 604_800_000, Range(-1),
        "delete segments whose newest record is older; -1: never",
        Synonym("log.retention.ms", LONG, UNLIMITED_OR_POSITIVE),
        Synonym("log.retention.minutes", INT, UNLIMITED_OR_POSITIVE, MINUTE_MS),
        Synonym("log.retention.hours", INT, UNLIMITED_OR_POSITIVE, HOUR_MS),
    )
    retention_bytes: int = _key(
        LONG, -1, ANY,
        "keep this many bytes of a partition; -1: all",
        "log.retention.bytes",
    )
    local_retention_ms: int = _key(
        LONG, -2, Range(-2),
        "retention.ms of the local part of a tiered topic; -2: the same",
        "log.local.retention.ms",
    )
    local_retention_bytes: int = _key(
        LONG, -2, Range(-2),
        "retention.bytes of the local part of a tiered topic; -2: the same",
        "log.local.retention.bytes",
    )
    remote_storage_enable: bool = _key(BOOLEAN, False, ANY, "the topic is tiered")
    remote_log_copy_disable: bool = _key(
        BOOLEAN, False, ANY, "the tiered topic is no longer uploaded"
    )
    segment_bytes: int = _key(
        INT, 1_073_741_824, Range(14),
        "no segment, and no group of segments cleaned into one, is larger",
        "log.segment.bytes",
    )
    """With `internal.segment.bytes` applied."""
    internal_segment_bytes: int | None = _key(
        INT, None, Range(1), "overrides segment.bytes, without its lower limit"
    )
    segment_index_bytes: int = _key(
        INT, 10_485_760, Range(0),
        "no index of a segment or group is larger",
        Synonym("log.index.size.max.bytes", INT, Range(4)),
    )
    index_interval_bytes: int = _key(
        INT, 4096, Range(0),
        "bytes of log between two index entries",
        "log.index.interval.bytes",
    )
    file_delete_delay_ms: int = _key(
        LONG, 60_000, Range(0),
        "how long a broker keeps .deleted files; nothing reads them offline",
        "log.segment.delete.delay.ms",
    )
    max_decompressed_message_bytes: int = _key(
        INT, 2_147_483_639, Range(1, 2_147_483_639),
        "largest record that may come out of a compressed batch",
        "max.decompressed.message.bytes",
    )
    log_cleaner_enable: bool = _key(
        BOOLEAN, True, ANY, "false: compacted topics are not cleaned at all", broker_only=True,
    )
    log_cleaner_io_max_bytes_per_second: float | None = _key(
        DOUBLE, None, Range(0, excluded=0),
        "bytes that all tasks of a run read and write per second", broker_only=True,
    )
    remote_log_storage_system_enable: bool | None = _key(
        BOOLEAN, None, ANY, "the broker tiers topics that ask for it", broker_only=True,
    )
    """None: unknown. A topic with tiering is then tiered: only a broker that tiers creates one."""
    producer_id_expiration_ms: int = _key(
        INT, 86_400_000, Range(1), "how long a broker remembers an idle producer", broker_only=True,
    )
    """That of the setting that counts in the broker's version."""
    transactional_id_expiration_ms: int = _key(
        INT, 604_800_000, Range(1), "the same before Kafka 3.4", broker_only=True,
    )
    # fmt: on
    sources: Mapping[str, str]
    """Kafka's topic name of every setting -> where its value came from, for people."""
    rules: Rules
    """Of the broker's version."""

    @property
    def cleanup_compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def known_to_compact(self) -> bool | None:
        """Whether the topic is compacted. None: its policy is not known."""
        return None if self.sources["cleanup.policy"].startswith(ASSUMED) else self.cleanup_compact

    @property
    def cleanup_delete(self) -> bool:
        return "delete" in self.cleanup_policy


def _of_field(attribute: str, *declared: Any) -> ConfigKey:  # noqa: ANN401 - what `_key` was given
    kind, default, allowed, doc, brokers, broker_only = declared
    name = attribute.replace("_", ".")
    synonyms = (
        Synonym(given, kind, allowed) if isinstance(given, str) else given
        for given in ((name,) if broker_only else brokers)
    )
    return ConfigKey(name, kind, default, allowed, doc, tuple(synonyms), broker_only)


KEYS = tuple(_of_field(f.name, *f.metadata["key"]) for f in fields(TopicConfig) if f.metadata)
BY_TOPIC_NAME: Mapping[str, ConfigKey] = {key.name: key for key in KEYS if not key.broker_only}
BY_BROKER_NAME: Mapping[str, tuple[ConfigKey, Synonym]] = {
    s.name: (key, s) for key in KEYS for s in key.synonyms
}


def topic_config(
    values: Mapping[str, tuple[Value, str]],
    *,
    default_source: str = KAFKA_DEFAULT,
    kafka: KnownVersion = ANY_VERSION,
) -> TopicConfig:
    """Return the config made of `values`: Kafka's topic name, or a broker-only key -> (checked
    value, its source).

    All other settings get Kafka's defaults, with `default_source` as their source.
    UsageError if `min.compaction.lag.ms` exceeds `max.compaction.lag.ms`, as in Kafka.
    """
    found: dict[str, tuple[Any, str]] = {
        key.name: values.get(key.name, (key.default, default_source)) for key in KEYS
    }
    decides = {PRODUCER_ID: max(kafka.rules.producer_expiration, key=lambda name: found[name][0])}
    if found["internal.segment.bytes"][0] is not None:
        decides["segment.bytes"] = "internal.segment.bytes"
    for name, other in decides.items():
        if other != name:
            value, source = found[other]
            found[name] = value, f"{other}, {source}"
    least, most = found["min.compaction.lag.ms"], found["max.compaction.lag.ms"]
    if least[0] > most[0]:
        raise UsageError(
            "min.compaction.lag.ms is larger than max.compaction.lag.ms",
            expected=f"at most {most[0]} ({most[1]})",
            found=str(least[0]),
            where=least[1],
        )
    return TopicConfig(
        **{key.attribute: found[key.name][0] for key in KEYS},
        sources={name: source for name, (_, source) in found.items()},
        rules=kafka.rules,
    )
