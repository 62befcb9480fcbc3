"""The second reading after an erasure, by other code: `kafka-log`, and Spark's join. Then hashes of
what was written, so that others can compare the files with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from winnow.kafka_log.source import every_record
from winnow.logdir.commit.kept import identify
from winnow.logdir.names import base_offset_of
from winnow.runtime.progress import Progress, watched
from winnow.state import TopicPartition
from winnow.storage.places import Places
from winnow.verbs.erase.segment import SegmentWork
from winnow.verbs.erase.targets import Target
from winnow.verbs.erase.values import Proof, RewrittenFile, SegmentCheck
from winnow.words import size

_CHUNK_KEYS = 2**20
_KEY_TASKS = 4
"""Most tasks per core."""


def prove(
    spark: SparkSession,
    targets: Sequence[Target],
    keys: pa.Array,
    progress: Progress,
    *,
    each: bool = False,
) -> Mapping[TopicPartition, Proof]:
    """Return the proof for each partition. `keys` come from `different_keys`. `each`: name the
    directory of each partition, because the log directories have partitions that are not read.

    All records in the segment files are read. This includes records below the log start offset, of
    aborted transactions, and in segments that an erasure can't rewrite.
    """
    if not targets:
        return {}
    log_bytes = sum(target.state.log_bytes for target in targets)
    with watched(spark.sparkContext, progress, f"reading {size(log_bytes)} again as a proof"):
        found = count_erased(_matched(spark, targets, keys, each=each))
    reached = {target.state.topic_partition: target.reached() for target in targets}
    counts = {topic_partition: [0, 0, 0, 0] for topic_partition in reached}
    for one in found:
        at = TopicPartition(one.topic, one.partition)
        if at in counts:
            unreached = one.found > 0 and base_offset_of(one.segment) not in reached[at]
            counts[at][int(unreached)] += one.found
            counts[at][2] += one.problems
            counts[at][3] += one.records
    return {at: Proof(*numbers) for at, numbers in counts.items()}


def _matched(
    spark: SparkSession, targets: Sequence[Target], keys: pa.Array, *, each: bool
) -> DataFrame:
    """Return all records, and places that can't be read. `erased`: true with one of the keys."""
    topics = sorted({target.state.topic_partition.topic for target in targets})
    states = [target.state for target in targets]
    paths = list(dict.fromkeys(one.directory if each else one.log_dir for one in states))
    records = every_record(spark, topics, paths)
    chunks = (keys.slice(first, _CHUNK_KEYS) for first in range(0, len(keys), _CHUNK_KEYS))
    batches = [pa.record_batch([chunk.cast(pa.binary())], names=["key"]) for chunk in chunks]
    erased = spark.createDataFrame(pa.Table.from_batches(batches)).withColumn(
        "erased", f.expr("true")
    )
    # Spark makes a partition for every ten thousand keys. A task for each would cost more than the
    # join.
    erased = erased.coalesce(_KEY_TASKS * spark.sparkContext.defaultParallelism)
    return records.join(erased, "key", "left")


def count_erased(records: DataFrame) -> list[SegmentCheck]:
    """Count the records of each segment, and those whose column `erased` is true. `records`: of
    `every_record`.
    """
    problem = f.col("problem").isNotNull()
    by = ("topic", "partition", f.coalesce("segment", f.lit("")).alias("segment"))
    counts = f.count_if(~problem), f.count_if(f.col("erased")), f.count_if(problem)
    rows = records.groupBy(*by).agg(*counts).collect()
    return [SegmentCheck(*row) for row in sorted(map(tuple, rows))]


def hash_file(work: SegmentWork) -> RewrittenFile:
    """Return the size and SHA-256 of a segment's log."""
    found = identify(Places(), work.segment.base_offset, work.log)
    return RewrittenFile("/".join(work.log.split("/")[-2:]), found.log_bytes, found.sha256)
