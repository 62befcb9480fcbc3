"""Look for erased keys without knowing them: every record's key is hashed as the erasure's
certificate has hashed the erased ones.

`kafka-log` reads the records, so every batch is parsed and its checksum verified.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from winnow.errors import VerificationError
from winnow.kafka_log.source import check_paths, every_record
from winnow.runtime.progress import Progress, watched
from winnow.verbs.erase.key_hashes import ErasedKeys
from winnow.words import counted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SegmentCheck:
    topic: str
    partition: int
    segment: str
    """Name of the file; empty for a partition that can't be read at all."""
    records: int
    found: int
    """Records with one of the keys."""
    problems: int
    """Places that can't be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyHashResult:
    run_id: str
    keys: int
    topics: tuple[str, ...]
    segments: tuple[SegmentCheck, ...]
    notes: tuple[str, ...] = ()

    @property
    def records(self) -> int:
        return sum(segment.records for segment in self.segments)

    @property
    def found(self) -> int:
        return sum(segment.found for segment in self.segments)

    @property
    def problems(self) -> int:
        return sum(segment.problems for segment in self.segments)

    @property
    def status(self) -> str:
        return "failed" if self.found or self.problems else "done"

    @property
    def exit_code(self) -> int:
        return VerificationError.exit_code if self.status == "failed" else 0


def check_key_hashes(
    spark: SparkSession, log_dirs: Sequence[str], erased: ErasedKeys, progress: Progress
) -> KeyHashResult:
    """Read all records of these topics, also those that no consumer sees, and count those with an
    erased key. The caller holds the locks.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - with Spark, on the driver only
    from pyspark.sql.pandas.functions import arrow_udf  # noqa: PLC0415 - with Arrow

    check_paths(log_dirs)
    records = every_record(spark, erased.topics, log_dirs)
    is_erased = arrow_udf(_matcher(erased), "boolean")  # type: ignore[call-overload]
    problem = f.col("problem").isNotNull()
    counts = (
        records.withColumn("erased", is_erased("key"))
        .groupBy("topic", "partition", f.coalesce("segment", f.lit("")).alias("segment"))
        .agg(f.count_if(~problem), f.count_if(f.col("erased")), f.count_if(problem))
    )
    name = f"reading all records of {counted(len(erased.topics), 'topic')}"
    with watched(spark.sparkContext, progress, name):
        rows = sorted(tuple(row) for row in counts.collect())
    return KeyHashResult(
        run_id=erased.run_id,
        keys=len(erased.hashes),
        topics=erased.topics,
        segments=tuple(SegmentCheck(*row) for row in rows),
    )


def _matcher(erased: ErasedKeys) -> Callable[[pa.Array], pa.Array]:
    import pyarrow as pa  # noqa: PLC0415 - with Spark

    def match(keys: pa.Array) -> pa.Array:
        """Return booleans. A null key is no match. Runs in Spark's workers."""
        from winnow.verbs.erase.keys import ends_and_bytes  # noqa: PLC0415 - for workers only
        from winnow.wire.key_search import are_among, key_hashes  # noqa: PLC0415 - it loads numba

        ends, content = ends_and_bytes(keys.cast(pa.large_binary()))
        found = are_among(key_hashes(content, ends, erased.hash_key), erased.hashes)
        return pa.array(found & keys.is_valid().to_numpy(zero_copy_only=False))

    match.__annotations__ = {"keys": pa.Array, "return": pa.Array}  # what Spark goes by
    return match
