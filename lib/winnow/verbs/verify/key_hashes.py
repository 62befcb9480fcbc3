"""Look for erased keys without knowing them: every record's key is hashed as the erasure's
certificate has hashed the erased ones.

`kafka-log` reads the records, so every batch is parsed and its checksum verified.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf

from winnow.errors import CorruptLogError, UsageError, VerificationError, WinnowError
from winnow.kafka_log.layout import find_partitions
from winnow.kafka_log.source import check_paths, every_record
from winnow.logdir.survey import replicas_beside
from winnow.logdir.topic_globs import is_wanted
from winnow.runtime.failed_job import cause_of, job_errors
from winnow.runtime.progress import Progress, watched
from winnow.storage.places import Places
from winnow.verbs.erase.key_hashes import ErasedKeys
from winnow.verbs.erase.keys import ends_and_bytes
from winnow.verbs.erase.proof import count_erased
from winnow.verbs.erase.values import SegmentCheck
from winnow.wire.key_search import are_among, key_hashes
from winnow.words import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyHashResult:
    run_id: str
    keys: int
    topics: tuple[str, ...]
    """Those that were searched."""
    segments: tuple[SegmentCheck, ...]
    not_searched: tuple[str, ...] = ()
    """Directories of replicas that a broker is about to move or to delete, each with the reason."""
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
        if self.found or self.problems:
            return "failed"
        return "partial" if self.not_searched else "done"

    @property
    def exit_code(self) -> int:
        """Return 4 if something was found or can't be read, 3 if something was not searched."""
        if self.status == "failed":
            return VerificationError.exit_code
        return CorruptLogError.exit_code if self.not_searched else 0


def check_key_hashes(
    spark: SparkSession, log_dirs: Sequence[str], erased: ErasedKeys, progress: Progress
) -> KeyHashResult:
    """Read all records of these topics, also those that no consumer sees, and count those with an
    erased key. The caller holds the locks.
    """
    check_paths(log_dirs)
    homes = find_partitions(Places(), log_dirs)
    here = {home.topic_partition.topic for home in homes}
    globs = [glob for glob in erased.topics if any(is_wanted(topic, (glob,)) for topic in here)]
    if not globs:
        raise UsageError(
            "none of the topics to search is here",
            expected=f"a log directory with {', '.join(erased.topics) or 'topics of the erasure'}",
            found=", ".join(sorted(here)[:5]) or "none",
            where=", ".join(log_dirs),
        )
    wanted = [home for home in homes if is_wanted(home.topic_partition.topic, globs)]
    topics = tuple(sorted({home.topic_partition.topic for home in wanted}))
    sound = [home.directory for home in wanted if home.problem is None]
    doubled = [str(home.problem) for home in wanted if home.problem is not None]
    if doubled and not sound:
        raise UsageError(
            "no partition of the topics to search can be read",
            expected="each partition in one log directory",
            found=doubled[0],
        )
    records = every_record(spark, globs, sound if doubled else log_dirs)
    is_erased = arrow_udf(_matcher(erased), "boolean")  # type: ignore[call-overload]
    name = f"reading all records of {counted(len(topics), 'topic')}"
    try:
        with watched(spark.sparkContext, progress, name):
            segments = count_erased(records.withColumn("erased", is_erased("key")))
    except job_errors() as error:
        raise WinnowError(
            "not all records could be read", found=cause_of(error), hint="Run again."
        ) from error
    return KeyHashResult(
        run_id=erased.run_id,
        keys=len(erased.hashes),
        topics=topics,
        segments=tuple(segments),
        not_searched=(
            *doubled,
            *(
                f"{path}/{one.name}: {one.why}"
                for path in log_dirs
                for one in replicas_beside(Places(), path)
            ),
        ),
        notes=tuple(
            f"topic {glob} is not here: nothing of it was searched"
            for glob in erased.topics
            if glob not in globs
        ),
    )


def _matcher(erased: ErasedKeys) -> Callable[[pa.Array], pa.Array]:
    def match(keys: pa.Array) -> pa.Array:
        """Return booleans. A null key is no match. Runs in Spark's workers."""
        ends, content = ends_and_bytes(keys.cast(pa.large_binary()))
        found = are_among(key_hashes(content, ends, erased.hash_key), erased.hashes)
        return pa.array(found & keys.is_valid().to_numpy(zero_copy_only=False))

    match.__annotations__ = {"keys": pa.Array, "return": pa.Array}  # what Spark goes by
    return match
