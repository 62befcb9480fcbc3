"""Timestamps that decide otherwise than people expect: those in the future, which keep newer
segments, and those from before Kafka, by which retention takes new records for old (S3.2, S7.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.state import Segment
from winnow.words import counted, dated, size

_FIRST_LIKELY_MS = 946_684_800_000
"""The year 2000, ten years before Kafka. Milliseconds below it are something else."""
_DAY_MS = 86_400_000
_NEAR_MS = 3650 * _DAY_MS


@dataclass(frozen=True, slots=True)
class Blocking:
    """A segment whose largest timestamp is in the future. Retention and compaction stop there."""

    setting: str
    segment: Segment
    offset: int | None
    """The record with this timestamp. None: unknown."""
    kept: tuple[Segment, ...]
    """Newer segments that are old enough themselves."""

    @property
    def kept_bytes(self) -> int:
        """Log bytes of the segment and of those in `kept`."""
        return self.segment.log_bytes + sum(segment.log_bytes for segment in self.kept)

    def __str__(self) -> str:
        segment = self.segment
        by_file = segment.last_timeindex_timestamp < 0
        facts = ["the time of its file"] if by_file else []
        facts += [] if self.offset is None else [f"offset {self.offset}"]
        facts += [dated(segment.largest_timestamp), *_unit(segment.largest_timestamp, segment)]
        words = f"{self.setting}: segment {segment.base_offset} has a timestamp in the future"
        kept = (
            f"{counted(len(self.kept), 'newer segment')} as well, {size(self.kept_bytes)} in all"
            if self.kept
            else f"no newer segment, and has {size(self.kept_bytes)} itself"
        )
        return f"{words} ({', '.join(facts)}); it keeps {kept}"


def why_so_old(deleted: Sequence[Segment], *, everything: bool, now: int, limit: int) -> str:
    """Return the newest timestamp of segments that `retention.ms` (`limit`) deletes, and when their
    files were written. Empty if the timestamp may be right: it is not from before
    Kafka, nor of a log that is emptied (`everything`) although it was written within `limit`.
    """
    newest = max(deleted, key=lambda segment: segment.largest_timestamp)
    if newest.last_timeindex_timestamp < 0:  # it is the time of the file
        return ""
    written = max(segment.log_mtime_ms for segment in deleted)
    late = written - newest.largest_timestamp
    is_new = everything and now - written <= limit and late > max(limit, _DAY_MS)
    if newest.largest_timestamp >= _FIRST_LIKELY_MS and not is_new:
        return ""
    unit = "".join(f" ({words})" for words in _unit(newest.largest_timestamp, newest))
    return (
        f"the newest record is of {dated(newest.largest_timestamp)}{unit}, but the files were "
        f"written until {dated(written)}"
    )


def _unit(timestamp: int, segment: Segment) -> list[str]:
    """Return in which other unit a timestamp is likely to be, as a question. Empty for none."""
    for unit, ms in (
        ("seconds", timestamp * 1000),
        ("microseconds", timestamp // 1000),
        ("nanoseconds", timestamp // 10**6),
    ):
        if abs(ms - segment.log_mtime_ms) < _NEAR_MS:
            return [f"{unit} instead of ms?"]
    return []
