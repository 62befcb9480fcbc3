"""Counts of what some runs do, compared with the recorded counts: amounts, not times.

`.venv/bin/python -m tests.spark.counts` writes tests/spark/counts.json anew.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.cases import Case
from benchmarks.data import NOW as BENCHMARK_NOW
from benchmarks.data import make
from tests.fixtures.data import copy_log_dir
from tests.spark.runs import clean, run
from winnow.api import verify
from winnow.policy.describe import parse_topic_configs
from winnow.policy.sources import Settings
from winnow.runtime.profile import Phase, profiling
from winnow.runtime.progress import Progress
from winnow.wire.batch import Codec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDED = Path(__file__).with_suffix(".json")
COUNTS = (
    *("jobs", "stages", "tasks", "bytes_read", "bytes_written"),
    *("shuffle_bytes_written", "shuffle_records_written", "spilled_bytes"),
)
_RAW_BYTES = 6 << 20
_SEGMENT_BYTES = 1 << 20

Counts = dict[str, dict[str, int]]
"""Of each phase with a job, by the names in COUNTS."""


def counted(spark: SparkSession, work: Callable[[Progress], Any]) -> Counts:
    with profiling(spark.sparkContext) as profiler:
        work(profiler)
    return {phase.name: _counts(phase) for phase in profiler.profile().phases if phase.jobs}


def _counts(phase: Phase) -> dict[str, int]:
    return {name: getattr(phase, name) for name in COUNTS}


def measured(spark: SparkSession, scratch: Path) -> dict[str, Counts]:
    """Of a cleaning and a verification of the recorded log directory, and of a cleaning of one made
    for it.
    """
    recorded = copy_log_dir("clean", scratch / "recorded")
    made = scratch / "made"
    made.mkdir()
    make(
        Case("counts", partitions=2, codec=Codec.LZ4),
        _RAW_BYTES,
        made,
        segment_bytes=_SEGMENT_BYTES,
    )
    settings = Settings(
        topic_configs=parse_topic_configs((made / "topic-configs.txt").read_text(encoding="utf-8"))
    )
    return {
        "verify, recorded": counted(
            spark, lambda progress: verify(spark, [str(recorded)], progress=progress)
        ),
        "clean, recorded": counted(
            spark, lambda progress: run(clean, spark, recorded, progress=progress)
        ),
        "clean, made": counted(
            spark,
            lambda progress: clean(
                spark,
                [str(made / "log-dir")],
                settings=settings,
                now=BENCHMARK_NOW,
                progress=progress,
            ),
        ),
    }


def recorded() -> dict[str, Counts]:
    found: dict[str, Counts] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return found


def main() -> None:
    from tests.conftest import local_session  # noqa: PLC0415 - it imports pytest's fixtures

    spark = local_session()
    with tempfile.TemporaryDirectory() as scratch:
        counts = measured(spark, Path(scratch))
    RECORDED.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
    sys.stderr.write(f"written: {RECORDED}\n")
    spark.stop()


if __name__ == "__main__":
    main()
