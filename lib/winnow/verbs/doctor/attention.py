"""Name what an operator should look at: work that a broker should have done hours ago."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from winnow.clock import DAY_MS
from winnow.verbs.doctor.values import (
    UNCOMMITTED,
    Diagnosis,
    Expired,
    Held,
    HeldBack,
    Overdue,
    Trouble,
)
from winnow.words import counted, duration, first_few, size

LATE_MS = 6 * 3_600_000
"""A cleaner that is alive finds a partition within 15 s. It may have many to clean."""
EXPIRED_LATE_MS = 3_600_000
"""A broker looks for expired segments every 5 minutes (`log.retention.check.interval.ms`)."""
TRANSACTION_MAX_MS = 900_000
"""Default of `transaction.max.timeout.ms`."""
_FEW = 3


def with_attention(found: Diagnosis, *, has_cleaner: bool) -> Diagnosis:
    """Return the diagnosis with `passed_over`, `dead_cleaner` and `attention`.

    `has_cleaner`: the broker has a cleaner. Winnow does not replace it.
    """
    if has_cleaner:
        found = replace(found, overdue=tuple(_judged(found, o) for o in found.overdue))
        dead = dict(_dead_cleaners(found))
        words = next(iter(dead.values()), None)
        found = replace(found, dead_cleaner=words, dead_cleaners=tuple(dead))
    return replace(found, attention=tuple(_attention(found)))


def _judged(found: Diagnosis, overdue: Overdue) -> Overdue:
    disk = next((d for d in found.disks if d.log_dir == overdue.log_dir), None)
    if disk is None or not disk.broker_runs or disk.cleaner_checkpoint_ms is None:
        return overdue
    alive = found.now - disk.cleaner_checkpoint_ms <= LATE_MS
    return replace(overdue, passed_over=alive and _is_late(found.now, overdue.due_since))


def _is_late(now: int, since: int | None, most: int = LATE_MS) -> bool:
    return since is not None and now - since > most


def _dead_cleaners(found: Diagnosis) -> Iterator[tuple[str, str]]:
    """Yield each log directory where the cleaner seems dead, and why.

    A cleaner looks for work every 15 s and records each partition that it has finished. While the
    broker runs, hours without a record are too long if a partition was due all the time; of a
    stopped broker, a day.
    """
    for disk in found.disks:
        due = [o for o in found.overdue if o.log_dir == disk.log_dir]
        if disk.broker_runs and not any(_is_late(found.now, o.due_since) for o in due):
            continue
        if not due:
            continue
        where = f" in {disk.log_dir}" if len(found.disks) > 1 else ""
        many = f"{counted(len(due), 'partition')}{where} {'is' if len(due) == 1 else 'are'} due"
        if disk.cleaner_checkpoint_ms is None:
            yield disk.log_dir, f"{many}, and no cleaner has ever finished a partition there"
            continue
        since = found.now - disk.cleaner_checkpoint_ms
        if since > (LATE_MS if disk.broker_runs else DAY_MS):
            what = "no cleaner has finished a partition there"
            yield disk.log_dir, f"{many}, and {what} for {duration(since)}"


def _attention(found: Diagnosis) -> Iterator[str]:
    for disk in found.disks:
        if disk.is_full:
            yield f"{disk.log_dir} is on a full disk"
    if found.troubles:
        many = counted(len(found.troubles), "partition")
        yield f"{many} can't be cleaned: {_named(found.troubles)}"
    if found.dead_cleaner:
        yield f"the cleaner seems dead: {found.dead_cleaner}"
    if passed := [o for o in found.overdue if o.passed_over]:
        yield f"the cleaner passes over {counted(len(passed), 'partition')}: {_named(passed)}"
    if late := [e for e in found.expired if _is_late(found.now, e.since, EXPIRED_LATE_MS)]:
        many = counted(sum(e.segments for e in late), "segment")
        total = size(sum(e.log_bytes for e in late))
        yield f"nobody deletes {many} past retention, {total}: {_named(late)}"
    held_back = [
        h
        for h in found.held_back
        if h.is_open and _is_late(found.now, h.last_seen, TRANSACTION_MAX_MS)
    ]
    if held_back:
        longest = duration(max(found.now - (h.last_seen or found.now) for h in held_back))
        many = counted(len(held_back), "transaction")
        yield f"{many} open, up to {longest}: {_named(held_back)}"
    if held := [h for h in found.held if h.by == UNCOMMITTED]:
        many = counted(len(held), "partition")
        yield f"the high watermark of {many} does not move: {_named(held)}"


def _named(findings: Sequence[Overdue | Expired | HeldBack | Trouble | Held]) -> str:
    return first_few([f"{f.topic}-{f.partition}" for f in findings], _FEW)
