"""The options of `kafka-log`, named as in Spark's Kafka source and Kafka's consumer."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from winnow.clock import ms_of
from winnow.errors import UsageError
from winnow.state import TopicPartition


@dataclass(frozen=True, slots=True)
class Option:
    default: str
    """As the user would write it; empty if there is no default."""
    doc: str


OPTIONS: Mapping[str, Option] = {
    "path": Option("", "a log directory or a partition directory: the argument of `load`"),
    "paths": Option("", "a JSON list of paths: Spark makes it if `load` gets several"),
    "topics": Option(
        "",
        "all, or globs, separated by commas: `orders*,returns`. A glob that begins with `!` "
        "excludes topics",
    ),
    "partitions": Option("", "all, or numbers: `0,2,4-7`"),
    "startingOffsets": Option(
        "earliest",
        'or one offset for all partitions, or Spark\'s JSON, `{"orders":{"0":23,"1":-2}}`, with -2 '
        "for earliest; partitions that the JSON does not name are read from their beginning",
    ),
    "endingOffsets": Option("latest", "the same, exclusive; -1 for latest"),
    "startingTimestamp": Option(
        "",
        "ms since 1970 or ISO-8601: start at the first record at or after this time, as "
        "`offsetsForTimes` finds it. If there is none, the read is empty",
    ),
    "endingTimestamp": Option("", "the same: end before that record"),
    "timestampFrom": Option(
        "",
        "ms since 1970 or ISO-8601: only records with a timestamp at or after this time, anywhere "
        "in the log",
    ),
    "timestampBefore": Option("", "the same: only records with a timestamp before this time"),
    "isolationLevel": Option("read_uncommitted", "or `read_committed`"),
    "includeControl": Option("false", "`true` also shows transaction markers"),
    "belowLogStart": Option(
        "false",
        "`true` begins at the first segment, and also shows records that consumers can no longer "
        "read",
    ),
    "mode": Option("PERMISSIVE", "or `DROPMALFORMED`, `FAILFAST`: see below"),
    "maxBytesPerPartition": Option(
        "64m",
        "bytes of logs that one task reads. A segment is divided at entries of its offset index; "
        "without an index, one task reads all of it",
    ),
}
EARLIEST, LATEST = -2, -1
"""The numbers of Spark's JSON."""
MIN_LONG, MAX_LONG = -(2**63), 2**63 - 1
DEFAULT_BYTES = 64 << 20

_MOST_PARTITIONS = 1_000_000
_ISOLATION = ("read_uncommitted", "read_committed")
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class Mode(StrEnum):
    """What to do with data that can't be read, in Spark's words."""

    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"
    FAILFAST = "FAILFAST"


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of the range to read. `offset` applies to partitions that are not in `offsets`."""

    offset: int
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    timestamp: int | None = None
    """In ms; replaces the offsets."""

    def of(self, topic_partition: TopicPartition) -> int:
        return self.offsets.get(topic_partition, self.offset)


@dataclass(frozen=True, slots=True)
class Times:
    """Timestamps of the wanted records, in ms, both inclusive."""

    first: int = MIN_LONG
    last: int = MAX_LONG


ANY_TIME = Times()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything that narrows a read. A query's own filters and columns are not part of it: Spark
    uses one source for many plans.
    """

    paths: tuple[str, ...]
    topics: tuple[str, ...]
    """Globs; empty means all. Those that begin with `!` exclude topics."""
    partitions: frozenset[int]
    """Empty means all."""
    start: Bound
    end: Bound
    times: Times
    read_committed: bool
    mode: Mode
    include_control: bool
    below_log_start: bool
    max_bytes: int
    """Bytes of log per task."""


_NO_TABLE = (
    "Spark loses the options of a table. Use CREATE TEMPORARY VIEW name USING `kafka-log` OPTIONS "
    "(path '/kafka/data')."
)


def parse_options(options: Mapping[str, str]) -> Options:
    """Parse the options that Spark passes, whose names may be in any case. Raises UsageError."""
    names = {name.lower(): name for name in OPTIONS}
    given: dict[str, str] = {}
    if any(name.lower() == "provider" for name in options):  # Spark describes a table beside them
        raise UsageError(
            "kafka-log can't be a table of a catalog",
            expected="a view, or spark.read",
            found="CREATE TABLE",
            hint=_NO_TABLE,
        )
    for name, value in options.items():
        low = name.lower()
        if low not in names:
            near = difflib.get_close_matches(low, names, n=1)
            hint = f"Did you mean {names[near[0]]}?" if near else f"There are {', '.join(OPTIONS)}."
            raise UsageError("unknown option of kafka-log", found=low, hint=hint)
        given[names[low]] = value
    return Options(
        paths=_paths(given),
        topics=tuple(_items(given, "topics", "globs such as orders*,returns")),
        partitions=frozenset(_partitions(given)),
        start=_bound(given, "starting", "earliest", EARLIEST),
        end=_bound(given, "ending", "latest", LATEST),
        times=_times(given),
        read_committed=_one_of(given, "isolationLevel", _ISOLATION) == "read_committed",
        mode=Mode(_one_of(given, "mode", tuple(Mode)).upper()),
        include_control=_one_of(given, "includeControl", ("false", "true")) == "true",
        below_log_start=_one_of(given, "belowLogStart", ("false", "true")) == "true",
        max_bytes=_bytes(given),
    )


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    several = given.get("paths", "[]")
    try:
        found = json.loads(several)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(path, str) for path in found):
        raise _refused("paths", 'a JSON list of texts such as ["/kafka/data"]', several)
    found = [given["path"], *found] if "path" in given else found
    if not found or not all(found):
        raise UsageError(
            "kafka-log needs a path",
            expected='load("/kafka/data")',
            found="an empty text" if found else "none",
            hint=None if found else _NO_TABLE,
        )
    return tuple(found)


def _items(options: Mapping[str, str], name: str, expected: str) -> list[str]:
    """Return what stands between the commas. Nothing at all is not an empty list, which would mean
    everything.
    """
    text = options.get(name, "")
    found = [item for item in (part.strip() for part in text.split(",")) if item.strip("!")]
    if text and not found:
        raise _refused(name, expected, text)
    return found


def _partitions(options: Mapping[str, str]) -> list[int]:
    expected = f"numbers such as 0,2,4-7, at most {_MOST_PARTITIONS:,}"
    found: list[int] = []
    for item in _items(options, "partitions", expected):
        first, dash, last = item.partition("-")
        if not _is_number(first) or (dash and not _is_number(last)):
            raise _refused("partitions", expected, item)
        numbers = range(int(first), int(last if dash else first) + 1)
        if not 0 < len(numbers) <= _MOST_PARTITIONS - len(found):
            raise _refused("partitions", expected, item)
        found += numbers
    return found


def _bound(given: Mapping[str, str], which: str, word: str, default: int) -> Bound:
    """`word` and `default`: the end of the log, in words and in Spark's JSON."""
    offsets = given.get(f"{which}Offsets")
    if offsets is not None and f"{which}Timestamp" in given:
        raise UsageError(
            f"{which}Offsets and {which}Timestamp", expected="one of them", found="both"
        )
    if offsets is None or offsets.strip().lower() == word:
        return Bound(default, timestamp=_timestamp(given, f"{which}Timestamp"))
    if _is_number(offsets.strip()):
        return Bound(int(offsets))
    option = f"{which}Offsets"
    try:
        found = {
            TopicPartition(topic, int(partition)): offset
            for topic, partitions in json.loads(offsets).items()
            for partition, offset in partitions.items()
        }
    except (ValueError, AttributeError) as error:
        expected = f'{word}, an offset, or JSON such as {{"topic":{{"0":23}}}}'
        raise _refused(option, expected, offsets) from error
    for offset in found.values():
        if not isinstance(offset, int) or (offset < 0 and offset != default):
            raise _refused(option, f"offsets of at least 0, or {default} for {word}", str(offset))
    return Bound(default, found)


def _times(given: Mapping[str, str]) -> Times:
    first, before = _timestamp(given, "timestampFrom"), _timestamp(given, "timestampBefore")
    return Times(MIN_LONG if first is None else first, MAX_LONG if before is None else before - 1)


def _timestamp(given: Mapping[str, str], option: str) -> int | None:
    """Parse milliseconds since 1970, or ISO-8601; without a zone it is UTC. A fraction of a
    millisecond is rounded up.

    No record has a timestamp in between, so "at or after it" and "before it" are still exact.
    """
    text = given.get(option)
    if text is None or _is_number(text):
        return None if text is None else int(text)
    try:
        return ms_of(datetime.fromisoformat(text), up=True)
    except ValueError:
        raise _refused(
            option, "ms since 1970, or ISO-8601 such as 2026-11-21T09:30:00Z", text
        ) from None


def _one_of(options: Mapping[str, str], name: str, words: tuple[str, ...]) -> str:
    """Return the option's value. The first of `words` is the default."""
    found = options.get(name, words[0])
    if found.lower() not in [word.lower() for word in words]:
        raise _refused(name, " or ".join(words), found)
    return found.lower()


def _bytes(given: Mapping[str, str]) -> int:
    option = "maxBytesPerPartition"
    text = given.get(option, OPTIONS[option].default)
    match = re.fullmatch(r"([0-9]+)\s*([bkmg]?)(?:i?b)?", text.strip().lower())
    if match is None or not 0 < int(match[1]) * _UNITS[match[2]] < 1 << 62:
        raise _refused(option, "bytes, such as 67108864 or 64m", text)
    return int(match[1]) * _UNITS[match[2]]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) < 1 << 63


def _refused(option: str, expected: str, found: str) -> UsageError:
    return UsageError(f"option {option} can't be understood", expected=expected, found=repr(found))
