"""How fast a disk fills, from the metrics that earlier runs of `doctor` wrote to the same file.

The file keeps two earlier sizes, the newer one at least a day younger than the older one: growth is
that of the last one to two days, however often `doctor` runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from winnow.clock import DAY_MS, LATEST_MS

if TYPE_CHECKING:
    from prometheus_client import Metric

    from winnow.verbs.doctor.values import Disk

_LEAST_MS = 3_600_000
"""Growth is unknown before an earlier size is this old."""
_MOST_BYTES = 2**63
OLDER, NEWER = "older", "newer"
EARLIER_BYTES, EARLIER_TIME = "winnow_doctor_earlier_used_bytes", "winnow_doctor_earlier_unixtime"


@dataclass(frozen=True, slots=True)
class Used:
    """Bytes of a file system that were in use, and when, in ms since 1970."""

    at_ms: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Growth:
    log_dir: str
    since: int
    """In ms since 1970."""
    bytes: int
    """By which the use of the file system has grown since then. Negative: it has shrunk."""
    bytes_per_day: float
    days_until_full: float | None
    """At this rate. None: it does not grow."""


Earlier = Mapping[str, Sequence[Used]]
"""By log directory: earlier sizes, ascending by time."""


def used_now(disk: Disk, now: int) -> Used:
    return Used(now, disk.total_bytes - disk.free_bytes)


def growth_of(disks: Sequence[Disk], earlier: Earlier, *, now: int) -> tuple[Growth, ...]:
    """Return the growth of each disk with a known earlier size."""
    found = []
    for disk in disks:
        used = used_now(disk, now)
        known = [u for u in earlier.get(disk.log_dir, ()) if now - u.at_ms >= _LEAST_MS]
        if not known:
            continue
        grown = used.bytes - known[0].bytes
        a_day = grown * DAY_MS / (now - known[0].at_ms)
        days = disk.free_bytes / a_day if grown > 0 else None
        found.append(Growth(disk.log_dir, known[0].at_ms, grown, a_day, days))
    return tuple(found)


def kept_sizes(disks: Sequence[Disk], earlier: Earlier, *, now: int) -> dict[str, list[Used]]:
    """Return the sizes that the file keeps for the next runs, at most two for each disk."""
    kept = {}
    for disk in disks:
        known = [u for u in earlier.get(disk.log_dir, ()) if u.at_ms <= now]
        if not known or now - known[-1].at_ms >= DAY_MS:
            known.append(used_now(disk, now))
        kept[disk.log_dir] = known[-2:]
    return kept


def earlier_sizes(families: Sequence[Metric]) -> dict[str, list[Used]]:
    """Return the earlier sizes in the metrics of the last run. Empty if there are none, or none
    that a run can have written.
    """
    values: dict[str, dict[tuple[str, str], float]] = {EARLIER_BYTES: {}, EARLIER_TIME: {}}
    for family in families:
        for sample in family.samples:
            labels = sample.labels
            with suppress(KeyError):
                values[sample.name][labels["log_dir"], labels["at"]] = sample.value
    found: dict[str, list[Used]] = {}
    for at, used in values[EARLIER_BYTES].items():
        seconds = values[EARLIER_TIME].get(at, -1.0)
        if 0 <= used <= _MOST_BYTES and 0 <= seconds <= LATEST_MS / 1000:  # false for NaN
            found.setdefault(at[0], []).append(Used(round(seconds * 1000), round(used)))
    return {log_dir: sorted(sizes, key=lambda u: u.at_ms) for log_dir, sizes in found.items()}
