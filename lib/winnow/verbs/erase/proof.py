"""The second reading after an erasure, by other code: `kafka-log`, and Spark's join. Then hashes of
what was written, so that others can compare the files with them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from winnow.kafka_log.source import every_record
from winnow.logdir.names import LOG, base_offset_of, segment_file
from winnow.runtime.progress import Progress, watched
from winnow.state import TopicPartition
from winnow.storage.places import Places
from winnow.storage.segment_io import map_range
from winnow.verbs.erase.targets import Target
from winnow.verbs.erase.values import Proof, RewrittenFile
from winnow.words import size

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHUNK_KEYS = 2**20
_KEY_TASKS = 4
"""Most tasks per core."""
_PIECE_BYTES = 64 << 20


def prove(
    spark: SparkSession, targets: Sequence[Target], keys: pa.Array, progress: Progress
) -> Mapping[TopicPartition, Proof]:
    """Return the proof for each partition. `keys` come from `different_keys`.

    All records in the segment files are read. This includes records below the log start offset, of
    aborted transactions, and in segments that an erasure can't rewrite.
    """
    if not targets:
        return {}
    log_bytes = sum(target.state.log_bytes for target in targets)
    with watched(spark.sparkContext, progress, f"reading {size(log_bytes)} again as a proof"):
        found = _counts(spark, targets, keys).collect()
    reached = {
        t.state.topic_partition: {segment.base_offset for segment, _ in t.reached()}
        for t in targets
    }
    counts = {topic_partition: [0, 0, 0, 0] for topic_partition in reached}
    for topic, partition, segment, problem, records, matches in found:
        at = TopicPartition(topic, partition)
        if at not in counts:
            continue
        if problem:
            counts[at][2] += records
            continue
        counts[at][int(base_offset_of(segment) not in reached[at])] += matches
        counts[at][3] += records
    return {at: Proof(*numbers) for at, numbers in counts.items()}


def _counts(spark: SparkSession, targets: Sequence[Target], keys: pa.Array) -> DataFrame:
    """Return rows (topic, partition, segment, is a problem, how many, how many of them with one of
    the keys): all records, and places that can't be read.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - with Spark, on the driver only

    topics = sorted({target.state.topic_partition.topic for target in targets})
    paths = list(dict.fromkeys(target.state.log_dir for target in targets))
    records = every_record(spark, topics, paths)
    batches = [pa.record_batch([chunk], names=["key"]) for chunk in _chunks(keys)]
    erased = spark.createDataFrame(pa.Table.from_batches(batches)).withColumn("erased", f.lit(1))
    # Spark makes a partition for every ten thousand keys. A task for each would cost more than the
    # join.
    erased = erased.coalesce(_KEY_TASKS * spark.sparkContext.defaultParallelism)
    matched = records.join(erased, "key", "left")
    by = ("topic", "partition", "segment", f.col("problem").isNotNull().alias("unread"))
    return matched.groupBy(*by).agg(f.count("*"), f.count("erased"))


def _chunks(keys: pa.Array) -> Iterator[pa.Array]:
    for first in range(0, len(keys), _CHUNK_KEYS):
        yield keys.slice(first, _CHUNK_KEYS).cast(pa.binary())


def hash_file(directory: str, base: int) -> RewrittenFile:
    """Return the size and SHA-256 of a segment's log."""
    name = segment_file(base, LOG)
    path = f"{directory}/{name}"
    size, digest = Places().entry(path).size, hashlib.sha256()
    for start in range(0, size, _PIECE_BYTES):
        with map_range(path, start, min(start + _PIECE_BYTES, size)) as piece:
            digest.update(piece.data)
            del piece
    return RewrittenFile(f"{directory.rpartition('/')[2]}/{name}", size, digest.hexdigest())
