"""A compacted topic that is written by day and cleaned by night."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tests.log_writer.dir_writer import LogDirWriter
from tests.log_writer.leader_batches import NOBODY, Producer
from tests.log_writer.segment_writer import SegmentConfig
from tests.spark.runs import clean
from winnow.cleaning.result import PartitionResult
from winnow.policy.describe import parse_topic_configs
from winnow.policy.sources import Settings
from winnow.wire.plain import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_MS = 86_400_000
FIRST = 1_795_000_000_000
SEGMENT_BYTES = 4096
CONFIGS = (
    "t cleanup.policy=compact\nt min.cleanable.dirty.ratio=0\nt segment.bytes=4096\n"
    "t index.interval.bytes=512\nt delete.retention.ms=86400000\n"
)
_BATCH = 5
_VALUE_BYTES = 48


def write_day(
    log_dir: Path,
    day: int,
    keys: Iterable[int],
    *,
    partition: int = 0,
    deleted: Sequence[int] = (),
    transactional: bool = False,
    log_start: int = 0,
) -> None:
    """Append a record for each key, in batches of five, and a tombstone for each deleted one. Then
    roll, so that all of it can be cleaned.
    """
    now = FIRST + day * DAY_MS
    records = [
        *(Record(0, now, b"key-%d" % key, (b"day %d " % day * 8)[:_VALUE_BYTES]) for key in keys),
        *(Record(0, now, b"key-%d" % key, None) for key in deleted),
    ]
    config = SegmentConfig(segment_bytes=SEGMENT_BYTES, index_interval_bytes=512)
    with LogDirWriter(log_dir, clock=lambda: now) as writer:
        log = writer.partition("t", partition, config, log_start_offset=log_start)
        producer = Producer(7, 0) if transactional else NOBODY
        for at in range(0, len(records), _BATCH):
            log.append_records(
                records[at : at + _BATCH], producer=producer, transactional=transactional
            )
        if transactional:
            log.append_marker(producer, commit=True, timestamp=now)
        log.roll()


def clean_night(
    spark: SparkSession, log_dir: Path, day: int, summaries: Path | None, **more: Any
) -> PartitionResult:
    [result] = clean_partitions(spark, log_dir, day, summaries, **more)
    return result


def clean_partitions(
    spark: SparkSession, log_dir: Path, day: int, summaries: Path | None, **more: Any
) -> tuple[PartitionResult, ...]:
    results = clean(
        spark,
        [str(log_dir)],
        settings=Settings(topic_configs=parse_topic_configs(more.pop("configs", CONFIGS))),
        now=FIRST + day * DAY_MS + DAY_MS // 2,
        key_summaries=None if summaries is None else str(summaries),
        **{"least_summed_up": 1} | more,
    ).partitions
    assert [result.error for result in results] == [None] * len(results)
    return results


def bytes_of(log_dir: Path) -> dict[str, bytes]:
    """The contents of all files that belong to the log, by name."""
    return {
        str(path.relative_to(log_dir)): path.read_bytes()
        for path in sorted(log_dir.rglob("*"))
        if path.is_file() and path.name not in {".lock", ".kafka_cleanshutdown", "meta.properties"}
    }


def has_value(log_dir: Path, key: int) -> bool:
    """Return whether a record of the key is there that is no tombstone. Key and value lie one after
    the other, and the size of the value between them.
    """
    record = b"key-%d" % key + bytes([2 * _VALUE_BYTES])
    return any(record in data for data in bytes_of(log_dir).values())


def write_many(log_dir: Path, keys: NDArray[np.int64], *, tombstones: int = 0) -> None:
    """Append a record of about 40 bytes for each key, and roll. The first ones are tombstones."""
    config = SegmentConfig(segment_bytes=2**20, index_interval_bytes=512)
    with LogDirWriter(log_dir, clock=lambda: FIRST) as writer:
        log = writer.partition("t", 0, config)
        for at in range(0, len(keys), 1000):
            log.append_records(
                [
                    Record(0, FIRST, b"%06d" % key, None if at < tombstones else b"x" * 20)
                    for key in keys[at : at + 1000].tolist()
                ]
            )
        log.roll()


def forget_unique(path: Path) -> None:
    """Take out of a list of summaries that each key has one record."""
    told = json.loads(path.read_text().splitlines()[0])
    assert told["unique"] is not None
    body = json.dumps(told | {"unique": None})
    path.write_text(f"{body}\n{zlib.crc32(body.encode())}\n")


class Twins:
    """A log directory with summaries, and the same one without."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.log_dir, self.other = root / "log-dir", root / "other"
        self.summaries = root / "summaries"
        # A summary has the hash of a foreign key now and then, depending on the secret.
        self.summaries.mkdir(mode=0o700)
        secret = self.summaries / "secret"
        secret.write_bytes(bytes(range(16)))
        secret.chmod(0o600)

    def night(self, day: int, keys: range | list[int], *, deleted: tuple[int, ...] = ()) -> int:
        """Return how many segments were not read."""
        for log_dir in (self.log_dir, self.other):
            write_day(log_dir, day, keys, deleted=deleted)
        return self.clean(day)

    def clean(self, day: int, **more: object) -> int:
        known = clean_night(self.spark, self.log_dir, day, self.summaries, **more)
        read = clean_night(self.spark, self.other, day, None, **more)
        assert bytes_of(self.log_dir) == bytes_of(self.other)
        assert read.segments_unread in {0, None}
        assert (known.records_after, known.segments_unchanged, known.tombstones) == (
            read.records_after,
            read.segments_unchanged,
            read.tombstones,
        )
        assert [s.checksum for s in known.segments] == [s.checksum for s in read.segments]
        return known.segments_unread or 0
