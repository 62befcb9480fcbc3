"""One Spark session that cleans each log directory given to it and reports the time.

Started by run.py, ledger.py and scaling.py. One JSON object per line on stdin: log_dir,
topic_configs, now, ledger or null, whether a profile is wanted; one per line back: seconds, status,
rewritten bytes, profile. The session lives on from one to the next, as in a notebook or a service.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import winnow
from winnow.ledger.place import KEY_SUMMARIES
from winnow.policy.describe import parse_topic_configs
from winnow.policy.sources import Settings
from winnow.runtime.profile import profiling


def main() -> None:
    spark = SparkSession.builder.appName("winnow-benchmark").getOrCreate()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(run(spark, json.loads(line))) + "\n")
        sys.stdout.flush()
    spark.stop()


def run(spark: SparkSession, order: dict[str, Any]) -> dict[str, Any]:
    settings = Settings(
        topic_configs=parse_topic_configs(Path(order["topic_configs"]).read_text(encoding="utf-8"))
    )
    with ExitStack() as stack:
        profiler = stack.enter_context(profiling(spark.sparkContext)) if order["profile"] else None
        ledger, now = order["ledger"], order["now"]
        begin = time.perf_counter()
        result = winnow.clean(
            spark,
            [order["log_dir"]],
            settings=settings,
            now=now,
            ledger=ledger,
            key_summaries=None if ledger is None else f"{ledger}/{KEY_SUMMARIES}",
            progress=profiler,
        ).run
        seconds = time.perf_counter() - begin
    return {
        "profile": None if profiler is None else asdict(profiler.profile()),
        "seconds": seconds,
        "status": result.status,
        "ledger": result.ledger,
        "bytes_after": sum(partition.bytes_after or 0 for partition in result.partitions),
        "segments": sum((partition.segments_before or 1) - 1 for partition in result.partitions),
        "unchanged": sum(partition.segments_unchanged or 0 for partition in result.partitions),
        "records_after": sum(partition.records_after or 0 for partition in result.partitions),
        "errors": [partition.error for partition in result.partitions if partition.error],
    }


if __name__ == "__main__":
    main()
