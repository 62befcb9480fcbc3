"""Kafka's versions, and every rule of this package that differs between them, in one table.

`RULES` has a row for each value of a switch: the releases that have it, and its source. `Rules` are
the switches of one version, or of a range of versions. Where the versions of a range differ, the
value that keeps more is taken: each switch lists its values in that order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any

from winnow.errors import UsageError

_TEXT = re.compile(r"(?P<major>[0-9]{1,3})\.(?P<minor>[0-9]{1,3})(\.(?P<patch>[0-9]{1,3}))?")
_ANY_PATCH = 10**6


@dataclass(frozen=True, slots=True)
class KafkaVersion:
    """A release of Kafka. Without `patch`: all releases of that minor version."""

    major: int
    minor: int
    patch: int | None = None

    @classmethod
    def parse(cls, text: str, *, where: str = "--kafka-version") -> KafkaVersion:
        """Parse `3.9` or `3.9.1`. UsageError for anything else, and for an unsupported version."""
        found = _TEXT.fullmatch(text.strip())
        if found is None:
            raise UsageError(
                "a version of Kafka that can't be understood",
                expected="a version such as 3.9 or 3.9.1",
                found=repr(text),
                where=where,
            )
        patch = found["patch"]
        version = cls(
            int(found["major"]), int(found["minor"]), None if patch is None else int(patch)
        )
        if not (OLDEST.first <= version.first and version.last <= NEWEST.last):
            raise UsageError(
                "a version of Kafka whose rules Winnow does not have",
                expected=f"{OLDEST} to {NEWEST}",
                found=str(version),
                where=where,
                hint="Leave the option out: Winnow then uses what the log directory tells.",
            )
        return version

    @property
    def first(self) -> tuple[int, int, int]:
        return self.major, self.minor, self.patch or 0

    @property
    def last(self) -> tuple[int, int, int]:
        return self.major, self.minor, _ANY_PATCH if self.patch is None else self.patch

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}" + ("" if self.patch is None else f".{self.patch}")


OLDEST, NEWEST = KafkaVersion(2, 8), KafkaVersion(4, 4)
_NEWEST_MAJOR = KafkaVersion(NEWEST.major, 0)
MINORS = ("2.8", *(f"3.{minor}" for minor in range(10)), *(f"4.{minor}" for minor in range(5)))
"""All supported minor versions, ascending."""


class EmptiedBatch(Enum):
    """Which batch is kept as a header although all of its records are dropped, besides the last one
    of a producer (S5.4). In the order of what keeps more.
    """

    END_OF_ROUND = "the one that ends at U"
    HIGH_WATERMARK = "the one that ends at the high watermark"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Range:
    """The values of a setting that a version accepts. None: no limit."""

    low: int | float | None = None
    high: int | float | None = None

    def has(self, value: float) -> bool:
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        if self.low is not None and self.high is not None:
            return f"between {self.low} and {self.high}"
        return "any" if self.low is None else f"at least {self.low}"


class Unknown(Enum):
    """A setting that a version does not have."""

    UNKNOWN = "no such setting"


UNKNOWN = Unknown.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    switch: str
    """A field of `Rules`, or Kafka's name of a setting."""
    value: Any
    since: str = str(OLDEST)
    until: str | None = None
    """The last release that has it. None: all later ones have it too."""
    rule: str
    says: str
    source: str
    test: str

    def holds_in(self, oldest: KafkaVersion, newest: KafkaVersion) -> bool:
        """Return whether any release of the range has this value."""
        since = KafkaVersion.parse(self.since).first
        until = (NEWEST if self.until is None else KafkaVersion.parse(self.until)).last
        return since <= newest.last and oldest.first <= until


_HORIZONS = "unit/wire/test_filtering.py"
_EMPTIED = "unit/policy/test_survival.py"
_FORMATS = "unit/wire/test_legacy_filtering.py"
_IDLE = "unit/policy/test_sources.py"
_EXPIRATION = "producer_expiration"
_JARS = "kafka/judge/test_settings_of_versions.py"
_GROUPING = "unit/policy/test_grouping.py"
_OPEN = "unit/survey/test_transactions.py"
TRANSACTIONAL_ID, PRODUCER_ID = "transactional.id.expiration.ms", "producer.id.expiration.ms"


def _setting(name: str, value: Range | Unknown, says: str, source: str, **releases: str) -> Row:
    return Row(
        switch=name, value=value, rule="S9.1", says=says, source=source, test=_JARS, **releases
    )


def _since(first: str, source: str, *names: str) -> tuple[Row, ...]:
    """Settings that Kafka has from this release on."""
    last = _before(first)
    return tuple(
        row
        for name in names
        for row in (
            _setting(name, UNKNOWN, f"there is no {name}", f"before {source}", until=last),
            _setting(name, Range(), f"there is {name}", source, since=first),
        )
    )


def _range(name: str, before: Range, first: str, after: Range, source: str) -> tuple[Row, Row]:
    """A setting whose range changed in this release."""
    return (
        _setting(name, before, f"{name}: {before}", f"before {source}", until=_before(first)),
        _setting(name, after, f"{name}: {after}", source, since=first),
    )


def _before(release: str) -> str:
    version = KafkaVersion.parse(release)
    if version.patch:
        return f"{version.major}.{version.minor}.{version.patch - 1}"
    at = MINORS.index(f"{version.major}.{version.minor}")
    return MINORS[at - 1]


RULES: tuple[Row, ...] = (
    Row(
        switch="delete_horizons", value=False, until="3.0", rule="S5.8", test=_HORIZONS,
        says="tombstones and markers expire by the modification time of the last clean segment",
        source="before KIP-534",
    ),
    Row(
        switch="delete_horizons", value=True, since="3.1", rule="S5.8", test=_HORIZONS,
        says="tombstones and markers expire at the delete horizon of their batch",
        source="KIP-534",
    ),
    Row(
        switch="emptied_batch", value=EmptiedBatch.NONE, until="3.9.1", rule="S5.4", test=_EMPTIED,
        says="only the last batch of each producer is kept without records",
        source="before KAFKA-17076",
    ),
    Row(
        switch="emptied_batch", value=EmptiedBatch.END_OF_ROUND, since="3.9.2", until="4.3",
        rule="S5.4", test=_EMPTIED,
        says="the batch that ends at U is kept without records",
        source="KAFKA-17076",
    ),
    Row(
        switch="emptied_batch", value=EmptiedBatch.HIGH_WATERMARK, since="4.4", rule="S5.4",
        test=_EMPTIED,
        says="the batch that ends at the high watermark is kept without records",
        source="KAFKA-20452",
    ),
    Row(
        switch="converts_old_formats", value=False, until="3.9", rule="S2.5", test=_FORMATS,
        says="what remains of v0 and v1 keeps its format, or takes that of its wrapper "
        "(KAFKA-4298); it has no delete horizon",
        source="before KIP-724",
    ),
    Row(
        switch="converts_old_formats", value=True, since="4.0", rule="S2.5", test=_FORMATS,
        says="what remains of v0 and v1 is written as v2",
        source="KIP-724",
    ),
    Row(
        switch="empty_segment_spans", value=True, until="2.8", rule="S5.2", test=_GROUPING,
        says="a segment without a byte joins a group only if its offsets are in reach",
        source="Cleaner.groupSegmentsBySize of 2.8.2",
    ),
    Row(
        switch="empty_segment_spans", value=False, since="3.0", rule="S5.2", test=_GROUPING,
        says="a segment without a byte joins any group",
        source="Cleaner.groupSegmentsBySize of 3.0.2",
    ),
    Row(
        switch="open_from_log_start", value=True, until="3.9", rule="S3.2", test=_OPEN,
        says="a transaction open below the log start: nothing from the log start on is cleaned",
        source="LogSegment.read of 3.9.2",
    ),
    Row(
        switch="open_from_log_start", value=False, since="4.0", rule="S3.2", test=_OPEN,
        says="a transaction open below the log start: nothing from the next batch on is cleaned",
        source="LogSegment.read of 4.0.2",
    ),
    Row(
        switch="producer_expiration", value=TRANSACTIONAL_ID, until="3.3", rule="S8.4", test=_IDLE,
        says=f"{TRANSACTIONAL_ID} (7 days) decides when a broker forgets an idle producer",
        source="before KIP-854",
    ),
    Row(
        switch="producer_expiration", value=PRODUCER_ID, since="3.4", rule="S8.4", test=_IDLE,
        says=f"{PRODUCER_ID} (1 day) decides when a broker forgets an idle producer",
        source="KIP-854",
    ),
    *_range("log.segment.bytes", Range(14), "4.0", Range(1_048_576), "KIP-1030"),
    *_range("segment.bytes", Range(14), "4.1", Range(1_048_576), "KIP-1030"),
    *_range("segment.index.bytes", Range(0), "3.3", Range(4), "LogConfig of 3.3.2"),
    *_range("log.cleaner.min.cleanable.ratio", Range(), "3.3", Range(0, 1), "KafkaConfig of 3.3.2"),
    *_range("log.cleaner.delete.retention.ms", Range(), "3.3", Range(0), "KafkaConfig of 3.3.2"),
    *_range("log.cleaner.min.compaction.lag.ms", Range(), "3.3", Range(0), "KafkaConfig of 3.3.2"),
    *_range("log.cleaner.max.compaction.lag.ms", Range(), "3.3", Range(1), "KafkaConfig of 3.3.2"),
    *_since("3.0", "KIP-405", "remote.storage.enable", "local.retention.ms",
            "local.retention.bytes", "remote.log.storage.system.enable"),
    *_since("3.6", "KIP-405", "log.local.retention.ms", "log.local.retention.bytes"),
    *_since("3.9", "KIP-950", "remote.log.copy.disable"),
    *_since("4.1", "KIP-1030", "internal.segment.bytes"),
    *_since("4.2.2", "LogConfig of 4.2.2 and 4.4.0", "max.decompressed.message.bytes"),
)  # fmt: skip


KEEPS_MORE: Mapping[str, tuple[Any, ...]] = {
    "delete_horizons": (True, False),
    "emptied_batch": tuple(EmptiedBatch),
    "converts_old_formats": (False, True),
    "empty_segment_spans": (False, True),
    "open_from_log_start": (True, False),
}
"""The values of each switch, the one that keeps more first. A batch gets its horizon when a
cleaning first finds it without other data, so with horizons nothing expires in a log that has none.
A format that every version reads stays: consumers may be as old. No record depends on the groups
of empty segments.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The switches of a version, or of a range of versions."""

    delete_horizons: bool
    emptied_batch: EmptiedBatch
    converts_old_formats: bool
    empty_segment_spans: bool
    """An empty segment counts with all offsets up to the next one when segments are grouped."""
    open_from_log_start: bool
    """A transaction open below the log start offset ends the cleanable part there, even where the
    next batch lies in a later segment.
    """
    producer_expiration: tuple[str, ...]
    """The settings that may decide when a broker forgets an idle producer: the longest counts."""
    settings: Mapping[str, Range | Unknown] = field(default_factory=dict)
    """Settings whose range differs between versions, or that not all versions have."""

    @property
    def unknown_settings(self) -> frozenset[str]:
        """Settings that have no meaning in any of the versions."""
        names = {name for name, allowed in self.settings.items() if allowed is UNKNOWN}
        return frozenset(names) | {PRODUCER_ID, TRANSACTIONAL_ID} - set(self.producer_expiration)


@cache
def rules_of(oldest: KafkaVersion, newest: KafkaVersion) -> Rules:
    """Return the rules of all releases from `oldest` to `newest`; where they differ, those that
    keep more. A value of a setting is accepted if any of the releases accepts it.
    """
    held: dict[str, list[Any]] = {}
    for row in RULES:
        if row.holds_in(oldest, newest):
            held.setdefault(row.switch, []).append(row.value)
    return Rules(
        **{name: next(v for v in order if v in held[name]) for name, order in KEEPS_MORE.items()},
        producer_expiration=tuple(held[_EXPIRATION]),
        settings={
            name: _widest(held[name]) for name in held if name not in {*KEEPS_MORE, _EXPIRATION}
        },
    )


def differing(oldest: KafkaVersion, newest: KafkaVersion) -> tuple[str, ...]:
    """Return the switches of cleaning whose value is not the same in all releases of the range."""
    names = [row.switch for row in RULES if row.holds_in(oldest, newest)]
    return tuple(sorted({name for name in KEEPS_MORE if names.count(name) > 1}))


def _widest(values: list[Range | Unknown]) -> Range | Unknown:
    ranges = [value for value in values if isinstance(value, Range)]
    if not ranges:
        return UNKNOWN
    lows, highs = [r.low for r in ranges], [r.high for r in ranges]
    return Range(
        None if None in lows else min(low for low in lows if low is not None),
        None if None in highs else max(high for high in highs if high is not None),
    )


@dataclass(frozen=True, slots=True)
class KnownVersion:
    """Which releases may have written a log directory, and how that is known."""

    oldest: KafkaVersion = _NEWEST_MAJOR
    newest: KafkaVersion = NEWEST
    source: str = ""
    """Such as `--kafka-version`. Empty: nothing tells it, so the newest major version counts."""

    @property
    def rules(self) -> Rules:
        return rules_of(self.oldest, self.newest)

    @property
    def how(self) -> str:
        """How the version is known, in words."""
        return self.source or "nothing tells the version"

    @property
    def versions(self) -> str:
        one = self.oldest == self.newest
        return str(self.oldest) if one else f"{self.oldest} to {self.newest}"

    def __str__(self) -> str:
        words = f"rules of Kafka {self.versions} ({self.how})"
        differ = bool(differing(self.oldest, self.newest))
        return f"{words}; where they differ, those that keep more" if differ else words


ANY_VERSION = KnownVersion()


def asked_version(text: str | None, *, option: str = "--kafka-version") -> KnownVersion:
    """Return the version that was asked for. UsageError if it can't be understood."""
    if text is None:
        return ANY_VERSION
    version = KafkaVersion.parse(text, where=option)
    return KnownVersion(version, version, option)
