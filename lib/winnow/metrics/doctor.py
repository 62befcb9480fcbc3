"""What `doctor` found, as gauges: by log directory and by topic, as those of a clean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from prometheus_client.core import GaugeMetricFamily as Gauge

from winnow.metrics.growth import (
    EARLIER_BYTES,
    EARLIER_TIME,
    NEWER,
    OLDER,
    Earlier,
    Growth,
    kept_sizes,
)
from winnow.verbs.doctor.values import UNCOMMITTED, Diagnosis

T = TypeVar("T")
Value = float | None
_HELP = {
    "winnow_doctor_last_run_unixtime": "When doctor ended last.",
    "winnow_doctor_last_run_exit_code": "Its exit code, without --detailed-exitcode.",
    "winnow_doctor_last_success_unixtime": "When doctor last looked at the log directories.",
    "winnow_doctor_attention_count": "What needs attention, as in `attention` of --json.",
    "winnow_doctor_broker_running": "1 if the broker was running, else 0.",
    "winnow_doctor_disk_free_bytes": "Free bytes of the file system.",
    "winnow_doctor_disk_used_bytes": "Used bytes of the file system.",
    "winnow_doctor_growth_bytes_per_day": "Growth of the used bytes in the last one to two days.",
    "winnow_doctor_days_until_full": "Days until the file system is full at this rate.",
    "winnow_doctor_space_bytes": "Bytes on the disk, by kind of file.",
    "winnow_doctor_cleaner_checkpoint_unixtime": "When a cleaner last finished any partition.",
    "winnow_doctor_cleaner_dead": "1 if the cleaner seems dead, else 0.",
    "winnow_doctor_overdue_partitions": "Partitions that are due for compaction.",
    "winnow_doctor_passed_over_partitions": "Partitions that are due for hours, while the cleaner "
    "finished others: it may have marked them uncleanable.",
    "winnow_doctor_uncleanable_partitions": "Partitions that can't be cleaned in their current "
    "state.",
    "winnow_doctor_damaged_partitions": "Those of them that are damaged.",
    "winnow_doctor_topic_log_bytes": "Log bytes of the topic.",
    "winnow_doctor_topic_dirty_bytes": "Bytes that can be compacted now.",
    "winnow_doctor_topic_dirty_ratio": "Largest dirty ratio of a partition.",
    "winnow_doctor_topic_overdue_seconds": "For how long a partition has been due for compaction, "
    "at least.",
    "winnow_doctor_topic_since_cleaned_seconds": "For how long a partition that is due for "
    "compaction was not compacted, at least.",
    "winnow_doctor_topic_expired_bytes": "Log bytes past retention that the broker has not "
    "deleted.",
    "winnow_doctor_topic_expired_seconds": "For how long these were past retention, at least.",
    "winnow_doctor_topic_open_transaction_seconds": "For how long a producer with an open "
    "transaction that keeps records from compaction was not active.",
    "winnow_doctor_topic_uncommitted_seconds": "For how long records have been above the high "
    "watermark, at least.",
    EARLIER_BYTES: "Used bytes of the file system at an earlier run, for the growth.",
    EARLIER_TIME: "When that was.",
}


def gauges_of_failure(exit_code: int, *, ended: int) -> tuple[Gauge, ...]:
    """Return the gauges of a run without a result. `ended`: in ms since 1970."""
    return tuple(
        Gauge(name, _HELP[name], value=value)
        for name, value in (
            ("winnow_doctor_last_run_unixtime", ended / 1000),
            ("winnow_doctor_last_run_exit_code", exit_code),
        )
    )


def gauges_of(
    found: Diagnosis, growth: Sequence[Growth], earlier: Earlier, *, ended: int
) -> tuple[Gauge, ...]:
    """Return the gauges of a diagnosis. `ended`: in ms since 1970."""
    success, attention = "winnow_doctor_last_success_unixtime", "winnow_doctor_attention_count"
    return (
        *gauges_of_failure(found.exit_code, ended=ended),
        Gauge(success, _HELP[success], value=ended / 1000),
        Gauge(attention, _HELP[attention], value=len(found.attention)),
        *_by_log_dir(found, growth),
        *_space(found),
        *_by_topic(found),
        *_earlier(kept_sizes(found.disks, earlier, now=found.now)),
    )


def _gauge(name: str, labels: Sequence[str], values: Mapping[Any, Value]) -> Gauge:
    """Return a gauge with the known values. `values`: by the values of the labels, a tuple."""
    gauge = Gauge(name, _HELP[name], labels=labels)
    for labelled, value in values.items():
        if value is not None:
            gauge.add_metric(labelled, value)
    return gauge


def _by_log_dir(found: Diagnosis, growth: Sequence[Growth]) -> Iterator[Gauge]:
    growing = {g.log_dir: g for g in growth}
    damaged = [t for t in found.troubles if t.error is not None]
    passed = [o for o in found.overdue if o.passed_over]
    dead = found.dead_cleaners

    def count(findings: Iterable[object], log_dir: str) -> int:
        return sum(getattr(f, "log_dir", None) == log_dir for f in findings)

    def growing_by(log_dir: str, of: Callable[[Growth], Value]) -> Value:
        return of(growing[log_dir]) if log_dir in growing else None

    for name, value in (
        ("broker_running", lambda d: int(d.broker_runs)),
        ("disk_free_bytes", lambda d: d.free_bytes),
        ("disk_used_bytes", lambda d: d.total_bytes - d.free_bytes),
        ("growth_bytes_per_day", lambda d: growing_by(d.log_dir, lambda g: g.bytes_per_day)),
        ("days_until_full", lambda d: growing_by(d.log_dir, lambda g: g.days_until_full)),
        ("cleaner_checkpoint_unixtime", lambda d: _seconds(d.cleaner_checkpoint_ms)),
        ("cleaner_dead", lambda d: int(d.log_dir in dead)),
        ("overdue_partitions", lambda d: count(found.overdue, d.log_dir)),
        ("passed_over_partitions", lambda d: count(passed, d.log_dir)),
        ("uncleanable_partitions", lambda d: count(found.troubles, d.log_dir)),
        ("damaged_partitions", lambda d: count(damaged, d.log_dir)),
    ):
        values = {(disk.log_dir,): value(disk) for disk in found.disks}
        yield _gauge(f"winnow_doctor_{name}", ["log_dir"], values)


def _space(found: Diagnosis) -> Iterator[Gauge]:
    values = {(d.log_dir, use.kind.value): use.bytes for d in found.space for use in d.uses}
    yield _gauge("winnow_doctor_space_bytes", ["log_dir", "kind"], values)


def _by_topic(found: Diagnosis) -> Iterator[Gauge]:
    now, topics = found.now, found.topics
    compacted = [topic for topic in topics if topic.dirty_bytes is not None]
    uncommitted = [h for h in found.held if h.by == UNCOMMITTED]
    opened = [h for h in found.held_back if h.is_open]

    def largest(
        items: Iterable[T], topic_of: Callable[[T], str], of: Callable[[T], Value]
    ) -> dict[tuple[str, ...], Value]:
        values: dict[tuple[str, ...], Value] = {}
        for item in items:
            if (value := of(item)) is not None:
                key = (topic_of(item),)
                values[key] = max(value, values.get(key) or 0)
        return values

    def age(ms: int | None) -> Value:
        return None if ms is None else max(now - ms, 0) / 1000

    expired: dict[tuple[str, ...], Value] = {}
    for e in found.expired:
        expired[e.topic,] = (expired.get((e.topic,)) or 0) + e.log_bytes
    for name, values in (
        ("log_bytes", {(topic.topic,): topic.log_bytes for topic in topics}),
        ("dirty_bytes", {(topic.topic,): topic.dirty_bytes for topic in compacted}),
        ("dirty_ratio", {(topic.topic,): topic.dirty_ratio for topic in compacted}),
        (
            "overdue_seconds",
            largest(found.overdue, lambda o: o.topic, lambda o: age(o.due_since)),
        ),
        (
            "since_cleaned_seconds",
            largest(found.overdue, lambda o: o.topic, lambda o: age(o.last_cleaned)),
        ),
        ("expired_bytes", expired),
        ("expired_seconds", largest(found.expired, lambda e: e.topic, lambda e: age(e.since))),
        (
            "open_transaction_seconds",
            largest(opened, lambda h: h.topic, lambda h: age(h.last_seen)),
        ),
        ("uncommitted_seconds", largest(uncommitted, lambda h: h.topic, lambda h: age(h.since))),
    ):
        yield _gauge(f"winnow_doctor_topic_{name}", ["topic"], values)


def _earlier(kept: Earlier) -> Iterator[Gauge]:
    sizes: dict[tuple[str, ...], Value] = {}
    times: dict[tuple[str, ...], Value] = {}
    for log_dir, two in kept.items():
        for at, used in zip((NEWER, OLDER), reversed(two), strict=False):
            sizes[log_dir, at], times[log_dir, at] = used.bytes, used.at_ms / 1000
    yield _gauge(EARLIER_BYTES, ["log_dir", "at"], sizes)
    yield _gauge(EARLIER_TIME, ["log_dir", "at"], times)


def _seconds(ms: int | None) -> Value:
    return None if ms is None else ms / 1000
