"""Kafka's config keys: which of them matter to an offline cleaner, their names at topic and broker
level, their types, ranges and defaults (S9.1; the ranges are those of Kafka's own `LogConfig` and
`KafkaConfig`).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from winnow.errors import UsageError
from winnow.policy.ignored_settings import TOPIC_KEYS, is_meaningless_broker_key
from winnow.policy.versions import PRODUCER_ID, TRANSACTIONAL_ID

Value = int | float | bool | str

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


class Kind(Enum):
    """Types of Kafka's `ConfigDef`. POLICY is its LIST, used by one key only."""

    INT = "a whole number of 32 bits"
    LONG = "a whole number of 64 bits"
    DOUBLE = "a number"
    BOOLEAN = "true or false"
    POLICY = "a list of compact and delete, or nothing"


@dataclass(frozen=True, slots=True)
class Allowed:
    """A restriction beyond the type: a test and its description."""

    test: Callable[[int | float], bool]
    words: str


def at_least(low: int) -> Allowed:
    return Allowed(lambda value: value >= low, f"at least {low}")


def between(low: int, high: int) -> Allowed:
    return Allowed(lambda value: low <= value <= high, f"between {low} and {high}")


ANY = Allowed(lambda _value: True, "any")
UNLIMITED_OR_POSITIVE = Allowed(lambda value: value != 0, "-1 (unlimited) or at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Synonym:
    """A broker's name for a topic config.

    The value is multiplied by `unit`. Any negative value of a `negative_is_unlimited` key counts as
    -1, whatever the unit (S9.1).
    """

    name: str
    kind: Kind
    allowed: Allowed = ANY
    unit: int = 1
    negative_is_unlimited: bool = False
    dynamic: bool = True
    """False: a broker reads it from server.properties only, and ignores a dynamic value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One row of the table. `synonyms`: the first that is set wins, as in a broker."""

    name: str
    kind: Kind
    default: Value | None
    doc: str
    allowed: Allowed = ANY
    synonyms: tuple[Synonym, ...] = ()
    broker_only: bool = False

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")


def _key(
    name: str,
    kind: Kind,
    default: Value | None,
    allowed: Allowed,
    doc: str,
    *brokers: str | Synonym,
) -> Key:
    """Make a row. A broker name given as plain text has the topic's type and range."""
    synonyms = tuple(
        b if isinstance(b, Synonym) else Synonym(name=b, kind=kind, allowed=allowed)
        for b in brokers
    )
    return Key(name=name, kind=kind, default=default, allowed=allowed, doc=doc, synonyms=synonyms)


def _broker_key(
    name: str,
    kind: Kind,
    default: Value | None,
    allowed: Allowed,
    doc: str,
    *,
    dynamic: bool = False,
) -> Key:
    synonym = Synonym(name=name, kind=kind, allowed=allowed, dynamic=dynamic)
    return replace(_key(name, kind, default, allowed, doc, synonym), broker_only=True)


def _retention(name: str, kind: Kind, unit: int) -> Synonym:
    return Synonym(
        name=name,
        kind=kind,
        allowed=UNLIMITED_OR_POSITIVE,
        unit=unit,
        negative_is_unlimited=True,
        dynamic=unit == 1,
    )


NOT_DYNAMIC = "is ignored, as by a broker, which reads it from server.properties only"
"""What is said of a dynamic value of a setting that is not dynamic."""
IO_RATE = "log.cleaner.io.max.bytes.per.second"
INT, LONG, DOUBLE, BOOLEAN, POLICY = Kind.INT, Kind.LONG, Kind.DOUBLE, Kind.BOOLEAN, Kind.POLICY

KEYS: tuple[Key, ...] = (
    _key("cleanup.policy", POLICY, "delete", ANY, "compact, delete, both, or empty",
         "log.cleanup.policy"),
    _key(
        "min.cleanable.dirty.ratio", DOUBLE, 0.5, between(0, 1),
        "compact only if more than this share of the bytes is dirty",
        Synonym(name="log.cleaner.min.cleanable.ratio", kind=DOUBLE),
    ),
    _key(
        "min.compaction.lag.ms", LONG, 0, at_least(0),
        "segments with a record younger than this are not compacted",
        Synonym(name="log.cleaner.min.compaction.lag.ms", kind=LONG),
    ),
    _key(
        "max.compaction.lag.ms", LONG, LONG_MAX, at_least(1),
        "compact whatever the ratio once a dirty record is older than this",
        Synonym(name="log.cleaner.max.compaction.lag.ms", kind=LONG),
    ),
    _key(
        "delete.retention.ms", LONG, 86_400_000, at_least(0),
        "how long tombstones and markers outlive their first cleaning",
        Synonym(name="log.cleaner.delete.retention.ms", kind=LONG),
    ),
    _key(
        "retention.ms", LONG, 604_800_000, at_least(-1),
        "delete segments whose newest record is older; -1: never",
        _retention("log.retention.ms", LONG, 1),
        _retention("log.retention.minutes", INT, MINUTE_MS),
        _retention("log.retention.hours", INT, HOUR_MS),
    ),
    _key(
        "retention.bytes", LONG, -1, ANY,
        "keep this many bytes of a partition; -1: all",
        "log.retention.bytes",
    ),
    _key(
        "local.retention.ms", LONG, -2, at_least(-2),
        "retention.ms of the local part of a tiered topic; -2: the same",
        "log.local.retention.ms",
    ),
    _key(
        "local.retention.bytes", LONG, -2, at_least(-2),
        "retention.bytes of the local part of a tiered topic; -2: the same",
        "log.local.retention.bytes",
    ),
    _key("remote.storage.enable", BOOLEAN, False, ANY, "the topic is tiered"),
    _key("remote.log.copy.disable", BOOLEAN, False, ANY,
         "the tiered topic is no longer uploaded"),
    _key(
        "segment.bytes", INT, 1_073_741_824, at_least(14),
        "no segment, and no group of segments cleaned into one, is larger",
        "log.segment.bytes",
    ),
    _key("internal.segment.bytes", INT, None, at_least(1),
         "overrides segment.bytes, without its lower limit"),
    _key(
        "segment.index.bytes", INT, 10_485_760, at_least(0),
        "no index of a segment or group is larger",
        Synonym(name="log.index.size.max.bytes", kind=INT, allowed=at_least(4)),
    ),
    _key(
        "index.interval.bytes", INT, 4096, at_least(0),
        "bytes of log between two index entries",
        "log.index.interval.bytes",
    ),
    _key(
        "file.delete.delay.ms", LONG, 60_000, at_least(0),
        "how long a broker keeps .deleted files; nothing reads them offline",
        "log.segment.delete.delay.ms",
    ),
    _key(
        "max.decompressed.message.bytes", INT, 2_147_483_639, between(1, 2_147_483_639),
        "largest record that may come out of a compressed batch",
        "max.decompressed.message.bytes",
    ),
    _broker_key("log.cleaner.enable", BOOLEAN, True, ANY, "false: compacted topics are not cleaned "
                                                          "at all"),
    _broker_key(
        IO_RATE, DOUBLE, None, Allowed(lambda value: value > 0, "above 0"),
        "bytes that all tasks of a run read and write per second", dynamic=True,
    ),
    _broker_key("remote.log.storage.system.enable", BOOLEAN, None, ANY, "the broker tiers topics "
                                                                        "that ask for it"),
    _broker_key(
        PRODUCER_ID, INT, 86_400_000, at_least(1), "how long a broker remembers an idle producer",
        dynamic=True,
    ),
    _broker_key(
        TRANSACTIONAL_ID, INT, 604_800_000, at_least(1), "the same before Kafka 3.4"
    ),
)  # fmt: skip

BY_TOPIC_NAME: Mapping[str, Key] = {key.name: key for key in KEYS if not key.broker_only}
BY_BROKER_NAME: Mapping[str, tuple[Key, Synonym]] = {
    s.name: (key, s) for key in KEYS for s in key.synonyms
}


@dataclass(frozen=True, slots=True)
class Ignored:
    """A key that Kafka knows and that does not matter to an offline cleaner."""

    key: str


@dataclass(frozen=True, slots=True)
class Wrong:
    """A bad value that is refused only where it counts, because nobody typed it for this run."""

    why: str


def parse_topic_value(name: str, text: str, *, where: str) -> Value | Ignored:
    """Return the checked value of a topic config. UsageError for a wrong value, a broker's name or
    an unknown name.
    """
    key = BY_TOPIC_NAME.get(name)
    if key is not None:
        return _parse(name, text, kind=key.kind, allowed=key.allowed, where=where)
    if name in TOPIC_KEYS:
        return Ignored(name)
    if name in BY_BROKER_NAME:
        row = BY_BROKER_NAME[name][0]
        hint = (
            "It can be given with --set."
            if row.broker_only
            else f"The topic's name for it is {row.name}."
        )
        raise UsageError(
            f"{name} is a broker config", expected="a topic config", where=where, hint=hint
        )
    if is_meaningless_broker_key(name):
        raise UsageError(f"{name} is a broker config", expected="a topic config", where=where)
    raise unknown_topic_key(name, where=where)


def parse_broker_value(name: str, text: str, *, where: str) -> Value | Ignored | None:
    """Return a broker config's checked value in the topic's unit. None if Kafka has no such key."""
    row = BY_BROKER_NAME.get(name)
    if row is None:
        return Ignored(name) if is_meaningless_broker_key(name) else None
    synonym = row[1]
    value = _parse(name, text, kind=synonym.kind, allowed=synonym.allowed, where=where)
    if isinstance(value, int) and not isinstance(value, bool):
        return -1 if synonym.negative_is_unlimited and value < 0 else value * synonym.unit
    return value


def is_dynamic(name: str) -> bool:
    """Return whether a broker uses a dynamic value of this setting. Controllers accept any."""
    row = BY_BROKER_NAME.get(name)
    return row is None or row[1].dynamic


def topic_value(name: str, text: str, *, where: str) -> Value | Ignored | Wrong | None:
    """Like `parse_topic_value`, for values that nobody typed for this run: `Wrong` for a wrong
    value and for a broker's name, None for an unknown key.
    """
    known = name in BY_TOPIC_NAME or name in TOPIC_KEYS or name in BY_BROKER_NAME
    if not known and not is_meaningless_broker_key(name):
        return None
    try:
        return parse_topic_value(name, text, where=where)
    except UsageError as error:
        return Wrong(str(error))


def broker_value(name: str, text: str, *, where: str) -> Value | Ignored | Wrong | None:
    """Like `parse_broker_value`, for values that nobody typed for this run: `Wrong` if wrong."""
    try:
        return parse_broker_value(name, text, where=where)
    except UsageError as error:
        return Wrong(str(error))


def unknown_topic_key(name: str, *, where: str) -> UsageError:
    return unknown_key(name, [*BY_TOPIC_NAME, *TOPIC_KEYS], where=where)


def unknown_key(name: str, names: list[str], *, where: str) -> UsageError:
    near = difflib.get_close_matches(name, names, n=3)
    hint = f"Did you mean {' or '.join(near)}?" if near else "Kafka has no config of that name."
    return UsageError(f"unknown config {name!r}", where=where, hint=hint)


def _parse(name: str, text: str, *, kind: Kind, allowed: Allowed, where: str) -> Value:
    text = text.strip()
    value = _read(text, kind)
    if value is None:
        raise UsageError(
            f"{name} has a wrong value", expected=kind.value, found=repr(text), where=where
        )
    if isinstance(value, int | float) and not allowed.test(value):
        raise UsageError(f"{name} is out of range", expected=allowed.words, found=text, where=where)
    return value


def _read(text: str, kind: Kind) -> Value | None:
    if kind is Kind.POLICY:
        parts = {part.strip().lower() for part in text.split(",") if part.strip()}
        return None if parts - {"compact", "delete"} else ",".join(sorted(parts))
    if kind is Kind.BOOLEAN:
        return {"true": True, "false": False}.get(text.lower())
    try:
        if kind is Kind.DOUBLE:
            return float(text)
        number = int(text)
    except ValueError:
        return None
    limit = INT_MAX if kind is Kind.INT else LONG_MAX
    # Python reads 1_000, Java does not; a broker would refuse the value.
    return number if -limit - 1 <= number <= limit and "_" not in text else None
