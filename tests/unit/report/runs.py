"""Runs to show: one with something of everything, and one over more partitions than anybody
reads.
"""

from __future__ import annotations

from dataclasses import replace

from tests.unit.cli.results import NOW, idle, left_alone, partition, run_of
from winnow.cleaning.result import RETAINED, Fate, RecordsRemoved, RunResult, SegmentFate
from winnow.scan.values import Holder

DAY = 86_400_000
LONG = "a-name-without-any-place-to-break-it-" * 6
HOSTILE = "<script>alert(1)</script>&\"'\u202e\x1b[31m"
"""Not a name that Kafka takes, but reasons and errors repeat what damaged files hold."""


def segments(
    count: int, *, deleted: int = 0, kept: int = 1, size: int = 1 << 18
) -> tuple[SegmentFate, ...]:
    def fate(at: int) -> Fate:
        return "deleted" if at < deleted else "kept" if at >= count - kept else "compacted"

    return tuple(
        SegmentFate(at * 1000, size + at * 1000, NOW - (count - at) * DAY, fate(at))
        for at in range(count)
    )


def everything() -> RunResult:
    run = run_of(
        partition(
            "orders",
            segments=segments(8),
            duration_ms=1234,
            tombstones=(0, 5, 0, 1200, 3, 77),
            records_removed=RecordsRemoved(superseded=5432, markers=1),
            dirty_ratio_after=0.0,
            records_before=9,
            records_after=3,
        ),
        partition(
            LONG, segments=segments(40, deleted=12), duration_ms=61_000, dirty_ratio_after=0.1
        ),
        partition(
            "clicks",
            3,
            actions=(RETAINED,),
            bytes_after=0,
            dirty_ratio=None,
            segments=segments(9, deleted=9, kept=0),
        ),
        partition(
            "__consumer_offsets",
            7,
            holders=(
                Holder(
                    name=HOSTILE,
                    records_before=9,
                    bytes_before=999,
                    records_after=1,
                    bytes_after=111,
                ),
            ),
            holders_total=1,
        ),
        idle("quiet"),
        left_alone(
            LONG, 1, error=f"CRC is wrong in {'/very/long/path' * 12}/00000000000000000000.log"
        ),
        left_alone("bad", error=HOSTILE),
        partition("quarantined", quarantined_bytes=4096, kept_bytes=1 << 20),
    )
    return replace(run, notes=("log.cleaner.threads means nothing here", HOSTILE))


def many(count: int) -> RunResult:
    """Return partitions of 400 topics with 30 segments each. Some are skipped, each for its own
    reason.
    """
    each = segments(30)
    return run_of(
        *(
            left_alone(f"topic-{at % 400}", at, error=f"a reason of its own, {at}")
            if at % 10 == 0
            else partition(
                f"topic-{at % 400}", at, segments=each, duration_ms=at, dirty_ratio_after=0.0
            )
            for at in range(count)
        )
    )
