"""Kafka's versions, and every rule of this package that differs between them, in one table.

`RULES` has a row for each value of a switch: the releases that have it, and its source. `Rules` are
the switches of one version, or of a range of versions. Where the versions of a range differ, the
value that keeps more is taken: each switch lists its values in that order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import Any

from winnow.errors import UsageError

_TEXT = re.compile(r"[0-9]{1,3}\.[0-9]{1,3}(\.[0-9]{1,3})?")
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
        if not _TEXT.fullmatch(text.strip()):
            raise UsageError(
                "a version of Kafka that can't be understood",
                expected="a version such as 3.9 or 3.9.1",
                found=repr(text),
                where=where,
            )
        version = cls(*map(int, text.strip().split(".")))
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
    """The values that a setting may have."""

    low: float = -math.inf
    high: float = math.inf
    excluded: int | None = None

    def has(self, value: float) -> bool:
        # ANY has NaN, too, which is in no order.
        return self == ANY or (self.low <= value <= self.high and value != self.excluded)

    def __str__(self) -> str:
        if self.excluded is not None:
            return "above 0" if self.low == 0 else "-1 (unlimited) or at least 1"
        if self.high < math.inf:
            return f"between {self.low} and {self.high}"
        return "any" if self == ANY else f"at least {self.low}"


ANY = Range()


@dataclass(frozen=True, slots=True)
class Row:
    switch: str
    """A field of `Rules`, or Kafka's name of a setting."""
    rule: str
    test: str
    since: str
    until: str | None
    """The last release that has it. None: all later ones have it too."""
    value: Any
    source: str
    says: str

    def holds_in(self, oldest: KafkaVersion, newest: KafkaVersion) -> bool:
        """Return whether any release of the range has this value."""
        since = KafkaVersion.parse(self.since).first
        until = (NEWEST if self.until is None else KafkaVersion.parse(self.until)).last
        return since <= newest.last and oldest.first <= until


def _before(release: str) -> str:
    version = KafkaVersion.parse(release)
    if version.patch:
        return str(replace(version, patch=version.patch - 1))
    return MINORS[MINORS.index(f"{version.major}.{version.minor}") - 1]


def _switch(name: str, rule: str, test: str, *values: tuple[str, Any, str, str]) -> Iterator[Row]:
    """Yield the rows of a switch: (first release, value, source, what it says) of each value."""
    ends = [*(_before(following[0]) for following in values[1:]), None]
    for (since, *rest), until in zip(values, ends, strict=True):
        yield Row(name, rule, test, since, until, *rest)


def _settings(
    release: str, source: str, before: Range | None, after: Range, *names: str
) -> Iterator[Row]:
    """Yield the rows of settings whose range changed in this release, or that are new (None)."""
    for name in names:
        first, then = f"{name}: {before}", f"{name}: {after}"
        if before is None:
            first, then = f"there is no {name}", f"there is {name}"
        yield from _switch(
            name, "S9.1", "kafka/judge/test_settings_of_versions.py",
            (str(OLDEST), before, f"before {source}", first),
            (release, after, source, then),
        )  # fmt: skip


TRANSACTIONAL_ID, PRODUCER_ID = "transactional.id.expiration.ms", "producer.id.expiration.ms"
_EXPIRATION = "producer_expiration"

RULES: tuple[Row, ...] = (
    *_switch(
        "delete_horizons", "S5.8", "unit/wire/test_filtering.py",
        ("2.8", False, "before KIP-534",
         "tombstones and markers expire by the modification time of the last clean segment"),
        ("3.1", True, "KIP-534",
         "tombstones and markers expire at the delete horizon of their batch"),
    ),
    *_switch(
        "emptied_batch", "S5.4", "unit/policy/test_survival.py",
        ("2.8", EmptiedBatch.NONE, "before KAFKA-17076",
         "only the last batch of each producer is kept without records"),
        ("3.9.2", EmptiedBatch.END_OF_ROUND, "KAFKA-17076",
         "the batch that ends at U is kept without records"),
        ("4.4", EmptiedBatch.HIGH_WATERMARK, "KAFKA-20452",
         "the batch that ends at the high watermark is kept without records"),
    ),
    *_switch(
        "converts_old_formats", "S2.5", "unit/wire/test_legacy_filtering.py",
        ("2.8", False, "before KIP-724",
         ("what remains of v0 and v1 keeps its format, or takes that of its wrapper "
          "(KAFKA-4298); it has no delete horizon")),
        ("4.0", True, "KIP-724", "what remains of v0 and v1 is written as v2"),
    ),
    *_switch(
        "empty_segment_spans", "S5.2", "unit/policy/test_grouping.py",
        ("2.8", True, "Cleaner.groupSegmentsBySize of 2.8.2",
         "a segment without a byte joins a group only if its offsets are in reach"),
        ("3.0", False, "Cleaner.groupSegmentsBySize of 3.0.2",
         "a segment without a byte joins any group"),
    ),
    *_switch(
        "open_from_log_start", "S3.2", "unit/survey/test_transactions.py",
        ("2.8", True, "LogSegment.read of 3.9.2",
         "a transaction open below the log start: nothing from the log start on is cleaned"),
        ("4.0", False, "LogSegment.read of 4.0.2",
         "a transaction open below the log start: nothing from the next batch on is cleaned"),
    ),
    *_switch(
        "empties_on_failed_recovery", "S8.2", "unit/start/test_broker.py",
        ("2.8", False, "LogLoader of 3.9.2",
         "a write that fails while a segment is recovered takes the log directory offline"),
        ("4.0", True, "LogLoader of 4.3.1 and 4.4.0",
         ("a write that fails while a segment is recovered, as on a full disk, empties the "
          "segment and deletes all later ones")),
    ),
    *_switch(
        "one_byte_versions", "S8.2", "kafka/starts/test_recorded.py",
        ("2.8", True, "TransactionIndex of 4.3.1",
         "a transaction index with an entry of a negative version is rebuilt"),
        ("4.4", False, "TransactionIndex of 4.4.0",
         "a transaction index with an entry of a negative version keeps a broker from starting"),
    ),
    *_switch(
        _EXPIRATION, "S8.4", "unit/policy/test_sources.py",
        ("2.8", TRANSACTIONAL_ID, "before KIP-854",
         f"{TRANSACTIONAL_ID} (7 days) decides when a broker forgets an idle producer"),
        ("3.4", PRODUCER_ID, "KIP-854",
         f"{PRODUCER_ID} (1 day) decides when a broker forgets an idle producer"),
    ),
    *_settings("4.0", "KIP-1030", Range(14), Range(1_048_576), "log.segment.bytes"),
    *_settings("4.1", "KIP-1030", Range(14), Range(1_048_576), "segment.bytes"),
    *_settings("3.3", "LogConfig of 3.3.2", Range(0), Range(4), "segment.index.bytes"),
    *_settings("3.3", "KafkaConfig of 3.3.2", ANY, Range(0, 1), "log.cleaner.min.cleanable.ratio"),
    *_settings("3.3", "KafkaConfig of 3.3.2", ANY, Range(0), "log.cleaner.delete.retention.ms",
               "log.cleaner.min.compaction.lag.ms"),
    *_settings("3.3", "KafkaConfig of 3.3.2", ANY, Range(1), "log.cleaner.max.compaction.lag.ms"),
    *_settings("3.0", "KIP-405", None, ANY, "remote.storage.enable", "local.retention.ms",
               "local.retention.bytes", "remote.log.storage.system.enable"),
    *_settings("3.6", "KIP-405", None, ANY, "log.local.retention.ms", "log.local.retention.bytes"),
    *_settings("3.9", "KIP-950", None, ANY, "remote.log.copy.disable"),
    *_settings("4.1", "KIP-1030", None, ANY, "internal.segment.bytes"),
    *_settings("4.2.2", "LogConfig of 4.2.2 and 4.4.0", None, ANY,
               "max.decompressed.message.bytes"),
)  # fmt: skip


KEEPS_MORE: Mapping[str, tuple[Any, ...]] = {
    "delete_horizons": (True, False),
    "emptied_batch": tuple(EmptiedBatch),
    "converts_old_formats": (False, True),
    "empty_segment_spans": (False, True),
    "open_from_log_start": (True, False),
    "empties_on_failed_recovery": (True, False),
    "one_byte_versions": (False, True),
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
    empties_on_failed_recovery: bool
    """A start on a full disk may delete records. If it is unknown, a start is not advised."""
    one_byte_versions: bool
    """Of an entry of a transaction index, a broker looks at the first byte of the version, as a
    signed one: above 0 it does not start. Otherwise it starts with version 0 only. If it is
    unknown, a start is not advised.
    """
    producer_expiration: tuple[str, ...]
    """The settings that may decide when a broker forgets an idle producer: the longest counts."""
    settings: Mapping[str, Range | None]
    """Settings whose range differs between versions. None: no version has the setting."""

    @property
    def unknown_settings(self) -> frozenset[str]:
        """Settings that have no meaning in any of the versions."""
        names = {name for name, allowed in self.settings.items() if allowed is None}
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


def _widest(values: list[Range | None]) -> Range | None:
    ranges = [value for value in values if value is not None]
    if not ranges:
        return None
    return Range(min(each.low for each in ranges), max(each.high for each in ranges))


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
        return self.source or "the version is unknown"

    @property
    def versions(self) -> str:
        one = self.oldest == self.newest
        return str(self.oldest) if one else f"{self.oldest} to {self.newest}"

    def __str__(self) -> str:
        words = f"rules of Kafka {self.versions} ({self.how})"
        held = [row.switch for row in RULES if row.holds_in(self.oldest, self.newest)]
        differ = any(held.count(switch) > 1 for switch in KEEPS_MORE)
        return (
            f"{words}. Where these differ, the rule that deletes less applies" if differ else words
        )


ANY_VERSION = KnownVersion()


def asked_version(text: str | None, *, option: str = "--kafka-version") -> KnownVersion:
    """Return the version that was asked for. UsageError if it can't be understood."""
    if text is None:
        return ANY_VERSION
    version = KafkaVersion.parse(text, where=option)
    return KnownVersion(version, version, option)
