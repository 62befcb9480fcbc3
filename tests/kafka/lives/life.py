"""The life of a log as a value: what is written between two passes of the cleaner, and its
settings.

Every life is valid: numbers that are too large are reduced to the valid range (`min` or modulo).
The `repr` of a life is Python that makes it again.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any

from winnow.policy.versions import KafkaVersion

HOUR_MS = 3_600_000
NOW = 1_700_000_000_000
PASSES = tuple(NOW + number * HOUR_MS for number in range(5))
"""The clock at each pass, in ms. It is years before the time of any file, so files that were just
written are recognised.
"""
BEGINNING = NOW - 3 * HOUR_MS
PRODUCER_EXPIRATION_MS = 2 * HOUR_MS
LONG_MAX = 2**63 - 1


class _Brief:
    """Shows only fields that differ from their defaults."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown: list[str] = []
        for field in fields(self):  # type: ignore[arg-type]
            value: Any = getattr(self, field.name)
            if field.default is MISSING or value != field.default:
                shown.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, slots=True, repr=False)
class Config(_Brief):
    """Topic settings by Kafka's names, `_` for `.`; `segment_bytes` may be small."""

    cleanup_policy: str = "compact"
    segment_bytes: int = 4000
    segment_ms: int = LONG_MAX
    segment_index_bytes: int = 10_000
    index_interval_bytes: int = 4096
    delete_retention_ms: int = HOUR_MS
    retention_ms: int = -1
    retention_bytes: int = -1
    min_cleanable_dirty_ratio: float = 0
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_type: str = "CreateTime"
    compression_type: str = "producer"

    def lines(self, topic: str, version: KafkaVersion) -> list[str]:
        """As a file of `topic key=value` of that version of Kafka. From 4.1 on only
        internal.segment.bytes may be small; from 3.6 on records may not come from the future.
        """
        named = {field.name.replace("_", "."): getattr(self, field.name) for field in fields(self)}
        if version.first >= (4, 1, 0):
            named["internal.segment.bytes"] = named.pop("segment.bytes")
        if version.first >= (3, 6, 0):
            named["message.timestamp.after.max.ms"] = LONG_MAX
        return [f"{topic} {key}={value}" for key, value in named.items()]


@dataclass(frozen=True, slots=True, repr=False)
class Rec(_Brief):
    """`key`: one of `KEYS` of `telling`, None: null. `size`: of the value, None: a tombstone.
    `age`: ms before the clock, but not before 1970, None: no timestamp. `skip`: offsets that are
    missing before it.
    """

    key: int | None = 0
    size: int | None = 3
    age: int | None = 0
    skip: int = 0
    headers: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class Append(_Brief):
    """Records in one batch (of v0 and v1 without a codec: in one each), as a follower gets them.

    `producer`: 0 is nobody, the others are those of `telling`. `gap`: offsets missing before the
    batch, `head` and `tail`: those that it spans before its first and after its last record, as
    cleaned ones do; `horizon`: its delete horizon in ms after the clock. `stamped`: log-append
    time. `lead`: as a leader appends it, where that can be. `nested`: a v1 wrapper around v0, as
    cleaners of old made them.
    """

    records: tuple[Rec, ...] = (Rec(),)
    producer: int = 0
    magic: int = 2
    codec: int = 0
    gap: int = 0
    head: int = 0
    tail: int = 0
    horizon: int | None = None
    stamped: bool = False
    lead: bool = False
    nested: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class End(_Brief):
    """A transaction marker. `bump`: of an epoch above the data's (transaction version 2).
    `emptied`: as cleaned.
    """

    producer: int = 3
    commit: bool = True
    bump: bool = False
    emptied: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Fence(_Brief):
    """A producer continues with its next epoch."""

    producer: int = 1


@dataclass(frozen=True, slots=True, repr=False)
class Term(_Brief):
    """The leader epoch rises."""

    by: int = 1


@dataclass(frozen=True, slots=True, repr=False)
class Roll(_Brief):
    pass


@dataclass(frozen=True, slots=True, repr=False)
class Tick(_Brief):
    ms: int = HOUR_MS


@dataclass(frozen=True, slots=True, repr=False)
class DeleteRecords(_Brief):
    """The log start offset rises to so many thousandths of the log end offset."""

    permille: int = 500


Step = Append | End | Fence | Term | Roll | Tick | DeleteRecords


@dataclass(frozen=True, slots=True, repr=False)
class Span(_Brief):
    """What happens before one pass, and under which settings the pass takes place.

    `uncommitted`: the last so many offsets are not below the high watermark then.
    """

    steps: tuple[Step, ...] = ()
    config: Config = Config()
    uncommitted: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class Life(_Brief):
    spans: tuple[Span, ...]
    """As many as there are passes, or fewer: then nothing more happens."""

    def span(self, number: int) -> Span:
        return (
            self.spans[number] if number < len(self.spans) else Span(config=self.spans[-1].config)
        )
