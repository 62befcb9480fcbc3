"""The settings of one topic as a broker would see them, each with its source.

`winnow.policy.keys` has the keys, their types and ranges. `winnow.policy.sources` has the places
that values are read from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from winnow.errors import UsageError
from winnow.policy.keys import KEYS, Value
from winnow.policy.versions import ANY_VERSION, PRODUCER_ID, KnownVersion, Rules

KAFKA_DEFAULT = "Kafka's default"
UNCONFIRMED_DEFAULT = f"{KAFKA_DEFAULT}, server.properties not given"


def is_default(source: str) -> bool:
    """Whether a source means that nobody set the value."""
    return source in {KAFKA_DEFAULT, UNCONFIRMED_DEFAULT}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """Effective values for one topic (S9.1). Times in ms, sizes in bytes.

    One field per row of `winnow.policy.keys.KEYS`, with dots replaced, so `sources["retention.ms"]`
    is the source of `retention_ms`.
    """

    cleanup_policy: str
    """`compact`, `delete`, `compact,delete`, or empty for neither."""
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    delete_retention_ms: int
    retention_ms: int
    retention_bytes: int
    local_retention_ms: int
    local_retention_bytes: int
    remote_storage_enable: bool
    remote_log_copy_disable: bool
    segment_bytes: int
    """With `internal.segment.bytes` applied."""
    internal_segment_bytes: int | None
    segment_index_bytes: int
    index_interval_bytes: int
    file_delete_delay_ms: int
    max_decompressed_message_bytes: int
    log_cleaner_enable: bool
    log_cleaner_io_max_bytes_per_second: float | None
    remote_log_storage_system_enable: bool | None
    """None: unknown. A topic with tiering is then tiered: only a broker that tiers creates one."""
    producer_id_expiration_ms: int
    """That of the setting that counts in the broker's version."""
    transactional_id_expiration_ms: int
    sources: Mapping[str, str]
    """Kafka's topic name of every setting -> where its value came from, for people."""
    rules: Rules
    """Of the broker's version."""

    @property
    def policy(self) -> str:
        return self.cleanup_policy

    @property
    def cleanup_compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def cleanup_delete(self) -> bool:
        return "delete" in self.cleanup_policy


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
    fields: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for key in KEYS:
        given = values.get(key.name)
        fields[key.attribute] = key.default if given is None else given[0]
        sources[key.name] = default_source if given is None else given[1]
    if fields["internal_segment_bytes"] is not None:
        fields["segment_bytes"] = fields["internal_segment_bytes"]
        sources["segment.bytes"] = f"internal.segment.bytes, {sources['internal.segment.bytes']}"
    decides = max(
        kafka.rules.producer_expiration, key=lambda name: int(fields[name.replace(".", "_")])
    )
    if decides != PRODUCER_ID:
        fields["producer_id_expiration_ms"] = fields[decides.replace(".", "_")]
        sources[PRODUCER_ID] = f"{decides}, {sources[decides]}"
    if fields["min_compaction_lag_ms"] > fields["max_compaction_lag_ms"]:
        raise UsageError(
            "min.compaction.lag.ms is larger than max.compaction.lag.ms",
            expected=f"at most {fields['max_compaction_lag_ms']} "
            f"({sources['max.compaction.lag.ms']})",
            found=str(fields["min_compaction_lag_ms"]),
            where=sources["min.compaction.lag.ms"],
        )
    return TopicConfig(**fields, sources=sources, rules=kafka.rules)
