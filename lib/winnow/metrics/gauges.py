"""A run as gauges: those of Kafka's LogCleaner and LogCleanerManager under their names, and what
the run did by topic.

`max-buffer-utilization-percent` has no counterpart, since there is no buffer to fill.
`time-since-last-run-ms` is the age of `winnow_last_run_unixtime`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

from prometheus_client.core import GaugeMetricFamily as Gauge

from winnow.cleaning.result import ALL_CODES, COMPACTED, PartitionResult, RunResult
from winnow.errors import CorruptLogError

SUCCESS = (0, CorruptLogError.exit_code)
"""Exit codes of runs that did what can be done. Partitions that were left alone, of which a healthy
broker has some (tiered topics, open transactions), have gauges of their own.
"""
_HELP = {
    "winnow_last_start_unixtime": "When the last run began.",
    "winnow_last_run_unixtime": "When the last run ended.",
    "winnow_last_run_exit_code": "Exit code of the last run.",
    "winnow_last_run_duration_seconds": "Duration of the last run.",
    "winnow_last_success_unixtime": "When the last run with exit code 0 or 3 ended.",
    "winnow_max_clean_time_seconds": "Longest time for one partition (max-clean-time-secs).",
    "winnow_cleaner_recopy_percent": "Compaction's output as a percentage of its input "
    "(cleaner-recopy-percent).",
    "winnow_max_compaction_delay_seconds": "How far beyond max.compaction.lag.ms the oldest dirty "
    "record is (max-compaction-delay-secs).",
    "winnow_max_dirty_percent": "Largest dirty ratio of a partition before the run "
    "(max-dirty-percent).",
    "winnow_failed_partitions_count": "Partitions that were damaged or failed (DeadThreadCount).",
    "winnow_uncleanable_partitions_count": "Partitions that were left alone although Kafka might "
    "have acted (uncleanable-partitions-count).",
    "winnow_uncleanable_bytes": "Log bytes of the partitions that were left alone "
    "(uncleanable-bytes).",
    "winnow_partitions_count": "Partitions that the run examined.",
    "winnow_freed_bytes": "Bytes of log that the run freed on the disk; not what it kept.",
    "winnow_left_alone_partitions": "Partitions that were left alone or failed, by the code of "
    "--json.",
    "winnow_left_alone_bytes": "Log bytes of partitions that were left alone or failed, by the "
    "code of --json.",
    "winnow_topic_bytes_before": "Bytes of the topic's logs before the run.",
    "winnow_topic_bytes_after": "Bytes of the topic's logs after the run.",
    "winnow_topic_segments_after": "Segments of the topic after the run.",
    "winnow_topic_records_removed": "Records that the run removed, and why.",
}


def gauges_of(result: RunResult, exit_code: int, *, started: int, ended: int) -> tuple[Gauge, ...]:
    """Return the gauges of a run. `exit_code`: of the process, which a signal may have ended.
    `started` and `ended` are by the machine's clock, in ms since the epoch.

    The time of the last success is included only if this run succeeded.
    """
    succeeded = exit_code in SUCCESS
    return (
        *gauges_of_end(exit_code, succeeded=succeeded, started=started, ended=ended),
        *_of_run(result),
        *_left_alone(result.partitions),
        *_by_topic(result.partitions),
    )


def gauges_of_start(started: int) -> tuple[Gauge, ...]:
    """Return the gauges of a run that has begun. Time as for `gauges_of`."""
    return _gauges({"winnow_last_start_unixtime": started / 1000})


def gauges_of_end(
    exit_code: int, *, succeeded: bool, started: int, ended: int
) -> tuple[Gauge, ...]:
    """Return the gauges of any run, even one without a result. Times as for `gauges_of`."""
    values = {
        "winnow_last_start_unixtime": started / 1000,
        "winnow_last_run_unixtime": ended / 1000,
        "winnow_last_run_exit_code": exit_code,
        "winnow_last_run_duration_seconds": (ended - started) / 1000,
    }
    return _gauges(values | ({"winnow_last_success_unixtime": ended / 1000} if succeeded else {}))


def _gauges(values: Mapping[str, float]) -> tuple[Gauge, ...]:
    return tuple(Gauge(name, _HELP[name], value=value) for name, value in values.items())


def _summed(
    name: str, labels: Sequence[str], parts: Iterable[tuple[tuple[str, ...], int]]
) -> Gauge:
    """Return a gauge with the sum of the parts that have the same labels."""
    gauge, sums = Gauge(name, _HELP[name], labels=labels), Counter[tuple[str, ...]]()
    for values, part in parts:
        sums[values] += part
    for values, total in sums.items():
        gauge.add_metric(values, total)
    return gauge


def _of_run(result: RunResult) -> tuple[Gauge, ...]:
    partitions = result.partitions
    alone = [p for p in partitions if p.failed]
    compacted = [s for p in partitions if COMPACTED in p.actions for s in p.segments]
    read = sum(s.bytes for s in compacted if s.fate == "compacted")
    written = sum(output.bytes for p in partitions for output in p.outputs)
    slowest = max((p.duration_ms or 0 for p in partitions), default=0)
    latest = max((_delay_ms(p, result.now) for p in partitions), default=0)
    values = {
        "winnow_max_clean_time_seconds": slowest / 1000,
        "winnow_cleaner_recopy_percent": 100 * written / read if read else 0.0,
        "winnow_max_compaction_delay_seconds": latest / 1000,
        "winnow_max_dirty_percent": 100
        * max((p.dirty_ratio or 0.0 for p in partitions), default=0),
        "winnow_failed_partitions_count": sum(p.error is not None for p in partitions),
        "winnow_uncleanable_partitions_count": len(alone),
        "winnow_uncleanable_bytes": sum(map(_before, alone)),
        "winnow_partitions_count": len(partitions),
        "winnow_freed_bytes": sum(p.freed_bytes or 0 for p in partitions if p.acts),
    }
    return _gauges(values)


def _delay_ms(p: PartitionResult, now: int) -> int:
    if p.max_compaction_lag_ms is None or p.oldest_dirty_timestamp is None:
        return 0
    return max(0, now - p.oldest_dirty_timestamp - p.max_compaction_lag_ms)


def _left_alone(partitions: Sequence[PartitionResult]) -> Iterator[Gauge]:
    """Yield gauges by reason. Each reason has a sample, so that an alert can tell 0 from none."""
    none = [((code,), 0) for code in ALL_CODES]
    alone = [((p.code,), p) for p in partitions if p.code is not None]
    parts = [*none, *((code, 1) for code, _ in alone)]
    yield _summed("winnow_left_alone_partitions", ["code"], parts)
    parts = [*none, *((code, _before(p)) for code, p in alone)]
    yield _summed("winnow_left_alone_bytes", ["code"], parts)


def _by_topic(partitions: Sequence[PartitionResult]) -> Iterator[Gauge]:
    in_order = sorted(partitions, key=lambda p: p.topic)
    for name, of in (
        ("winnow_topic_bytes_before", _before),
        ("winnow_topic_bytes_after", _after),
        ("winnow_topic_segments_after", _segments_after),
    ):
        yield _summed(name, ["topic"], (((p.topic,), of(p)) for p in in_order))
    removed = sorted(
        ((p.topic, reason), count)
        for p in partitions
        if p.records_removed is not None
        for reason, count in asdict(p.records_removed).items()
    )
    yield _summed("winnow_topic_records_removed", ["topic", "reason"], removed)


def _before(p: PartitionResult) -> int:
    return p.bytes_before or 0


def _after(p: PartitionResult) -> int:
    after = p.bytes_after if p.acts else None
    return _before(p) if after is None else after


def _segments_after(p: PartitionResult) -> int:
    return (p.segments_before if p.segments_after is None else p.segments_after) or 0
