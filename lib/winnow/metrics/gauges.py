"""A run as gauges: those of Kafka's LogCleaner and LogCleanerManager under their names, and what
the run did by topic.

`max-buffer-utilization-percent` has no counterpart, since there is no buffer to fill.
`time-since-last-run-ms` is the age of `winnow_last_run_unixtime`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict

from prometheus_client.core import GaugeMetricFamily as Gauge

from winnow.cleaning.result import ALL_CODES, COMPACTED, PartitionResult, RunResult
from winnow.errors import CorruptLogError

SUCCESS = (0, CorruptLogError.exit_code)
"""Exit codes of runs that did what can be done. Partitions that were left alone, of which a healthy
broker has some (tiered topics, open transactions), have gauges of their own.
"""


def gauges_of(result: RunResult, exit_code: int, *, started: int, ended: int) -> tuple[Gauge, ...]:
    """Return the gauges of a run. `exit_code`: of the process, which a signal may have ended.
    `started` and `ended` are by the machine's clock, in ms since the epoch.

    The time of the last success is included only if this run succeeded.
    """
    whole = [Gauge(name, words, value=value) for name, words, value in _of_run(result)]
    return (
        *gauges_of_end(exit_code, succeeded=exit_code in SUCCESS, started=started, ended=ended),
        *whole,
        *_left_alone(result.partitions),
        *_by_topic(result.partitions),
    )


def gauges_of_start(started: int) -> tuple[Gauge, ...]:
    """Return the gauges of a run that has begun. Time as for `gauges_of`."""
    return (Gauge("winnow_last_start_unixtime", "When the last run began.", value=started / 1000),)


def gauges_of_end(
    exit_code: int, *, succeeded: bool, started: int, ended: int
) -> tuple[Gauge, ...]:
    """Return the gauges of any run, even one without a result. Times as for `gauges_of`."""
    gauges = [
        *gauges_of_start(started),
        Gauge("winnow_last_run_unixtime", "When the last run ended.", value=ended / 1000),
        Gauge("winnow_last_run_exit_code", "Exit code of the last run.", value=exit_code),
        Gauge(
            "winnow_last_run_duration_seconds",
            "Duration of the last run.",
            value=(ended - started) / 1000,
        ),
    ]
    if succeeded:
        words = "When the last run with exit code 0 or 3 ended."
        gauges.append(Gauge("winnow_last_success_unixtime", words, value=ended / 1000))
    return tuple(gauges)


def _labelled(
    name: str, words: str, labels: Sequence[str], samples: Iterable[tuple[Sequence[str], float]]
) -> Gauge:
    gauge = Gauge(name, words, labels=labels)
    for values, value in samples:
        gauge.add_metric(values, value)
    return gauge


def _of_run(result: RunResult) -> list[tuple[str, str, float]]:
    partitions = result.partitions
    alone = [p for p in partitions if p.failed]
    read = sum(
        s.bytes
        for p in partitions
        if COMPACTED in p.actions
        for s in p.segments
        if s.fate == "compacted"
    )
    written = sum(output.bytes for p in partitions for output in p.outputs)
    return [
        (
            "winnow_max_clean_time_seconds",
            "Longest time for one partition (max-clean-time-secs).",
            max((p.duration_ms or 0 for p in partitions), default=0) / 1000,
        ),
        (
            "winnow_cleaner_recopy_percent",
            "Compaction's output as a percentage of its input (cleaner-recopy-percent).",
            100 * written / read if read else 0.0,
        ),
        (
            "winnow_max_compaction_delay_seconds",
            (
                "How far beyond max.compaction.lag.ms the oldest dirty record is "
                "(max-compaction-delay-secs)."
            ),
            max((_delay_ms(p, result.now) for p in partitions), default=0) / 1000,
        ),
        (
            "winnow_max_dirty_percent",
            "Largest dirty ratio of a partition before the run (max-dirty-percent).",
            100 * max((p.dirty_ratio or 0.0 for p in partitions), default=0.0),
        ),
        (
            "winnow_failed_partitions_count",
            "Partitions that were damaged or failed (DeadThreadCount).",
            sum(p.error is not None for p in partitions),
        ),
        (
            "winnow_uncleanable_partitions_count",
            (
                "Partitions that were left alone although Kafka might have acted "
                "(uncleanable-partitions-count)."
            ),
            len(alone),
        ),
        (
            "winnow_uncleanable_bytes",
            "Log bytes of the partitions that were left alone (uncleanable-bytes).",
            sum(p.bytes_before or 0 for p in alone),
        ),
        ("winnow_partitions_count", "Partitions that the run examined.", len(partitions)),
        (
            "winnow_freed_bytes",
            "Bytes by which the run made the logs smaller.",
            sum((p.bytes_before or 0) - _after(p) for p in partitions),
        ),
    ]


def _delay_ms(p: PartitionResult, now: int) -> int:
    if p.max_compaction_lag_ms is None or p.oldest_dirty_timestamp is None:
        return 0
    return max(0, now - p.oldest_dirty_timestamp - p.max_compaction_lag_ms)


def _left_alone(partitions: Sequence[PartitionResult]) -> list[Gauge]:
    """Return gauges by reason. Each reason has a sample, so that an alert can tell 0 from none."""
    counts, sizes = dict.fromkeys(ALL_CODES, 0), dict.fromkeys(ALL_CODES, 0)
    for p in partitions:
        if p.code is not None:
            counts[p.code] += 1
            sizes[p.code] += p.bytes_before or 0
    return [
        _labelled(name, words, ["code"], (([code], n) for code, n in of.items()))
        for name, words, of in (
            (
                "winnow_left_alone_partitions",
                "Partitions that were left alone or failed, by the code of --json.",
                counts,
            ),
            (
                "winnow_left_alone_bytes",
                "Log bytes of partitions that were left alone or failed, by the code of --json.",
                sizes,
            ),
        )
    ]


def _by_topic(partitions: Sequence[PartitionResult]) -> list[Gauge]:
    def summed(name: str, words: str, of: Callable[[PartitionResult], int]) -> Gauge:
        sums: dict[str, int] = defaultdict(int)
        for p in partitions:
            sums[p.topic] += of(p)
        return _labelled(name, words, ["topic"], (([topic], sums[topic]) for topic in sorted(sums)))

    return [
        summed(
            "winnow_topic_bytes_before",
            "Bytes of the topic's logs before the run.",
            lambda p: p.bytes_before or 0,
        ),
        summed("winnow_topic_bytes_after", "Bytes of the topic's logs after the run.", _after),
        summed(
            "winnow_topic_segments_after",
            "Segments of the topic after the run.",
            lambda p: (p.segments_before if p.segments_after is None else p.segments_after) or 0,
        ),
        _removed(partitions),
    ]


def _after(p: PartitionResult) -> int:
    after = p.bytes_after if p.acts else None
    return (p.bytes_before if after is None else after) or 0


def _removed(partitions: Sequence[PartitionResult]) -> Gauge:
    sums: dict[tuple[str, ...], int] = defaultdict(int)
    for p in partitions:
        for reason, count in (
            {} if p.records_removed is None else asdict(p.records_removed)
        ).items():
            sums[p.topic, reason] += count
    words = "Records that the run removed, and why."
    return _labelled(
        "winnow_topic_records_removed", words, ["topic", "reason"], sorted(sums.items())
    )
