"""Where Winnow differs from Kafka's cleaner on purpose (**Ours** in docs/semantics.md). No value is
lost by it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fixtures.data import copy_tree
from tests.kafka.cleaner.runs import run_winnow, write_checkpoint
from tests.kafka.cleaner.txn_scripts import NOW, WRITTEN, Script
from tests.kafka.judge.judge import Kafka, KafkaFailedError
from tests.log_writer.dir_writer import LogDirWriter
from tests.log_writer.leader_batches import Producer
from tests.log_writer.segment_writer import SegmentConfig
from tests.twins.walk import decode_batch
from winnow.cleaning.result import PartitionResult
from winnow.wire.batch import HEADER_V2_SIZE
from winnow.wire.plain import Record

pytestmark = pytest.mark.spark

NOT_UTF8 = b"trace\xff\xfe"
RETENTION_BYTES = 300
HIGH_WATERMARK = 5
"""The offset of the COMMIT marker in `committed-0`."""

SIZED = 14
"""The offset of the COMMIT marker in `sized-0`."""

BEHIND = 3
"""The first dirty offset of `behind-0`: in its first segment, behind an ABORT marker."""


class Both:
    """One log directory cleaned by Winnow and by Kafka."""

    def __init__(self, spark: SparkSession, kafka: Kafka, home: Path) -> None:
        self.ours, self.theirs = home / "ours", home / "theirs"
        with LogDirWriter(self.ours, clock=lambda: NOW) as log_dir:
            log = log_dir.partition("headers", 0)
            headers = ((NOT_UTF8, b"1"), (b"plain", None))
            log.append_records(
                [Record(0, WRITTEN, b"a", b"1", headers), Record(0, WRITTEN, b"b", b"1", headers)]
            )
            log.append_records([Record(0, WRITTEN, b"a", b"2", headers)])
            log.roll()
            log.append_records([Record(0, WRITTEN, b"c", b"3")])
            _committed(Script(log_dir.partition("committed", 0)))
            _many_values(Script(log_dir.partition("sized", 0)))
            _behind_a_marker(
                Script(log_dir.partition("behind", 0, SegmentConfig(index_interval_bytes=0)))
            )
        committed = {"headers-0": 4, "committed-0": HIGH_WATERMARK, "behind-0": 7, "sized-0": SIZED}
        write_checkpoint(self.ours / "replication-offset-checkpoint", committed)
        write_checkpoint(self.ours / "cleaner-offset-checkpoint", {"behind-0": BEHIND})
        copy_tree(self.ours, self.theirs)
        configs = (
            "headers cleanup.policy=compact\ncommitted cleanup.policy=compact\nbehind "
            "cleanup.policy=compact\nsized cleanup.policy=compact,delete\n"
            f"sized retention.bytes={RETENTION_BYTES}\nsized retention.ms=-1\n"
        )
        sets = ["*:min.cleanable.dirty.ratio=0"]
        self.results: dict[str, PartitionResult] = run_winnow(
            spark, self.ours, now=NOW, topic_configs=configs, topic_sets=sets
        )
        kafka.clean(self.theirs / "headers-0", now=NOW, policy="compact", first_dirty=0)
        kafka.clean(self.theirs / "behind-0", now=NOW, policy="compact", first_dirty=BEHIND)
        kafka.clean(
            self.theirs / "committed-0", now=NOW, policy="compact", first_dirty=0, hw=HIGH_WATERMARK
        )
        sized = {"policy": "compact,delete", "hw": SIZED, "now": NOW}
        limits = {"retention_bytes": RETENTION_BYTES, "retention_ms": -1}
        kafka.clean(self.theirs / "sized-0", first_dirty=0, **sized)
        kafka.retain(self.theirs / "sized-0", **sized, **limits)


def _committed(script: Script) -> None:
    """A transaction from 2 to its COMMIT marker at 5. In the snapshot at the end of the log it has
    ended.
    """
    script.put("a")
    script.put("a")
    script.roll()
    script.data(1, "a")
    script.roll()
    script.put("a")
    script.put("a")
    script.roll()
    script.commit(1)
    script.roll()
    script.put("a")


def _many_values(script: Script) -> None:
    """A transaction from 1 to its COMMIT marker at SIZED, and values of one key in between."""
    script.put("b")
    script.data(1, "a")
    script.roll()
    for _ in range(4):
        for _ in range(3):
            script.put("a")
        script.roll()
    script.commit(1)
    script.roll()
    script.put("a")


def _behind_a_marker(script: Script) -> None:
    script.data(1, "x")
    script.abort(1)
    script.put("other")
    script.put("k")
    script.data(1, "k")
    script.commit(1)
    script.roll()
    script.put("last")
    script.roll()


@pytest.fixture(scope="module")
def both(spark: SparkSession, kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Both:
    return Both(spark, kafka, tmp_path_factory.mktemp("ours"))


def _records(directory: Path) -> list[Record]:
    found: list[Record] = []
    for path in sorted(directory.glob("*.log")):
        data, at = path.read_bytes(), 0
        while at + HEADER_V2_SIZE <= len(data):
            header, records = decode_batch(data, at)
            found += records
            at += int(header["size"])
    return found


def test_header_keys_that_are_not_utf8_are_kept_unchanged(both: Both) -> None:
    """Kafka decodes them to text and encodes them again, which loses their bytes."""
    ours, theirs = _records(both.ours / "headers-0"), _records(both.theirs / "headers-0")
    assert [record.offset for record in ours] == [record.offset for record in theirs] == [1, 2, 3]
    assert ours[0].headers == ((NOT_UTF8, b"1"), (b"plain", None))
    assert theirs[0].headers == (
        ("trace\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}".encode(), b"1"),
        (b"plain", None),
    )


def test_data_after_abort_marker_below_dirty_range_counts(both: Both) -> None:
    """Kafka starts reading after the marker and treats all later data of the producer as aborted.
    It keeps an older value beside the last one. Winnow removes the older value. The last value of
    each key is the same.
    """
    ours, theirs = (
        {r.offset: r for r in _records(where / "behind-0")} for where in (both.ours, both.theirs)
    )
    assert set(theirs) - set(ours) == {3}
    assert set(ours) <= set(theirs)
    assert (ours[4].key, theirs[3].key) == (b"k", b"k")


def test_cleaning_stops_at_transaction_ending_at_high_watermark(both: Both) -> None:
    """A broker that loads the snapshot at the log's end does clean past it, as S8.4 says. A broker
    that kept running does not.
    """
    ours = {record.offset for record in _records(both.ours / "committed-0")}
    theirs = {record.offset for record in _records(both.theirs / "committed-0")}
    assert both.results["committed-0"].first_dirty_offset_after == 2
    assert theirs < ours
    assert {2, 3, 4} <= ours


def test_size_deletes_nothing_of_a_log_that_kafka_compacts_further(both: Both) -> None:
    """Kafka's compaction brings the log below `retention.bytes`. Winnow, which stops at the
    transaction, would delete the oldest segments in its place.
    """
    ours, theirs = (_records(where / "sized-0") for where in (both.ours, both.theirs))
    kept = {record.offset for record in theirs}
    assert 0 in kept
    assert kept < {record.offset for record in ours}
    assert "retention.bytes 300 B is not applied" in both.results["sized-0"].reason


@pytest.mark.parametrize(
    ("producer", "sequence", "transactional", "why"),
    [
        (Producer(-1, -1), -1, True, "transactional messages without a valid producer ID"),
        (Producer(-2, 0), -1, False, "Invalid negative sequence number"),
        (Producer(7, -1), 0, False, "Invalid negative producer epoch"),
    ],
    ids=["no producer", "no sequence", "no epoch"],
)
def test_headers_that_fail_kafkas_cleaner_stop_no_cleaning(
    producer: Producer,
    sequence: int,
    transactional: bool,  # noqa: FBT001
    why: str,
    spark: SparkSession,
    kafka: Kafka,
    tmp_path: Path,
) -> None:
    """A broker appends such a batch of any client. Its cleaner fails when the batch loses a record,
    and never cleans the partition again.
    """
    with LogDirWriter(tmp_path / "ours", clock=lambda: NOW) as log_dir:
        log = log_dir.partition("t", 0)
        log.append_records(
            [Record(0, WRITTEN, b"a", b"1"), Record(0, WRITTEN, b"b", b"1")],
            producer=producer,
            base_sequence=sequence,
            transactional=transactional,
        )
        log.append_records([Record(0, WRITTEN, b"a", b"2")])
        log.roll()
        log.append_records([Record(0, WRITTEN, b"c", b"3")])
    copy_tree(tmp_path / "ours", tmp_path / "theirs")
    known = kafka.load(tmp_path / "theirs" / "t-0", now=NOW).state
    assert known["last_stable_offset"] == known["end_offset"] == 4
    with pytest.raises(KafkaFailedError, match=why):
        kafka.clean(tmp_path / "theirs" / "t-0", now=NOW, policy="compact", first_dirty=0)
    results = run_winnow(
        spark,
        tmp_path / "ours",
        now=NOW,
        topic_configs="t cleanup.policy=compact",
        topic_sets=["*:min.cleanable.dirty.ratio=0"],
    )
    assert (results["t-0"].actions, results["t-0"].error) == (("compacted",), None)
    loaded = kafka.load(tmp_path / "ours" / "t-0", now=NOW)
    assert loaded.error is None
    assert len(loaded.records) == 3
    [first, *_] = [line for line in loaded.lines if line["t"] == "batch"]
    assert (first["pid"], first["epoch"]) == (producer.producer_id, producer.epoch)
