"""What `recover` was asked to do about an unclean shutdown."""

from __future__ import annotations

from dataclasses import dataclass

from winnow.policy.sources import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateRequest:
    settings: Settings
    """Those of the broker: `index.interval.bytes`, `segment.index.bytes` and
    `producer.id.expiration.ms` decide what it writes.
    """
    now: int
    """The clock of the broker that would recover, ms: idle producers are forgotten."""
    topics: tuple[str, ...] = ()
    """Globs; empty means all topics. Otherwise no marker is written."""
    truncate: bool = False
    """False: only plan."""
    keep_cut: bool = True
    """Keep the bytes that are cut, and the segments that are removed."""
