"""Transactions cleaned pass after pass by Winnow and by Kafka's own cleaner, over logs made for it
(S4.1, S5.8).
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.compare import assert_same_partition
from tests.fixtures.data import copy_tree, partition_dirs
from tests.kafka.cleaner.runs import run_winnow
from tests.kafka.cleaner.txn_scripts import NOW, Script, topic_configs, write_log_dir, write_more
from tests.kafka.judge.judge import Kafka
from tests.log_writer.dir_writer import LogDirWriter
from tests.log_writer.leader_batches import Producer
from tests.twins.encoding import encode_batch
from winnow.cleaning.result import PartitionResult
from winnow.logdir.snapshots import decode_snapshot
from winnow.wire.plain import Record

pytestmark = pytest.mark.spark

RETENTION_MS = 1000
HORIZON = NOW + 10 + RETENTION_MS
"""Of what gets one in the second pass."""
TIMES = (NOW, NOW + 10, HORIZON - 1, HORIZON, NOW + 10 * 86_400_000)
"""First pass: transactions with data. Second: markers without. Third and fourth: around their
horizons. Fifth: all producers are forgotten.
"""
FIRST, SECOND, BEFORE, AT, LATE = range(5)


@dataclass
class Twins:
    """One log directory cleaned by Winnow, and a copy cleaned by Kafka."""

    ours: Path
    theirs: Path
    configs: Path
    results: list[dict[str, PartitionResult]] = field(default_factory=list)
    dumps: list[dict[str, list[dict[str, Any]]]] = field(default_factory=list)
    """Per pass and partition, what Kafka reads in ours."""

    @property
    def before_late(self) -> Path:
        """A copy of Winnow's log before the pass that forgot all producers."""
        return self.ours.parent / "before-late"

    @property
    def names(self) -> list[str]:
        return [directory.name for directory in partition_dirs(self.ours)]

    def clean(self, spark: SparkSession, kafka: Kafka, now: int, *, forget: bool) -> None:
        """One pass of both; all partitions must be the same to the byte."""
        if forget:
            for log_dir in (self.ours, self.theirs):
                (log_dir / "cleaner-offset-checkpoint").unlink(missing_ok=True)
        results = run_winnow(
            spark,
            self.ours,
            now=now,
            topic_configs=self.configs.read_text(),
            topic_sets=["*:min.cleanable.dirty.ratio=0", f"*:delete.retention.ms={RETENTION_MS}"],
            only="compaction",
        )
        kafka.clean(
            [self.theirs / name for name in self.names],
            now=now,
            delete_retention_ms=RETENTION_MS,
            topic_configs=self.configs,
            write_checkpoint=True,
        )
        assert {name: result.error for name, result in results.items() if result.left_alone} == {}
        differences = []
        for name in self.names:
            try:
                assert_same_partition(self.ours / name, self.theirs / name)
            except AssertionError as difference:
                differences.append(str(difference))
        assert not differences, f"{len(differences)} of {len(self.names)} at {now}:\n" + "\n".join(
            differences
        )
        self.results.append(results)
        self.dumps.append({name: kafka.dump(self.ours / name) for name in self.names})

    def picture(self, at: int, case: int | str) -> str:
        """The log of a case after a pass: segments set off by `|`, batches by their last offsets.

        c: control batch, e: without records, h: has a delete horizon. Then the entries of the
        transaction indexes.
        """
        words = []
        for line in self.dumps[at][f"case-{case}-0"]:
            if line["t"] == "segment":
                words.append("|")
            elif line["t"] == "batch":
                marks = (
                    "c" * line["control"]
                    + "e" * (not line["count"])
                    + "h" * (line["deleteHorizon"] is not None)
                )
                words.append(f"{line['last']}{marks}")
            elif line["t"] == "txnindex":
                words += [
                    f"aborted {first}-{marker} in {line['base']}"
                    for _, first, marker, _ in line["entries"]
                ]
        return " ".join(words)


def _twins(home: Path) -> Twins:
    write_log_dir(home / "ours")
    copy_tree(home / "ours", home / "theirs")
    configs = home / "topic-configs.txt"
    configs.write_text(topic_configs())
    return Twins(home / "ours", home / "theirs", configs)


@pytest.fixture(scope="module")
def passes(spark: SparkSession, kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Twins:
    """All passes over the same log, everything dirty each time."""
    twins = _twins(tmp_path_factory.mktemp("passes"))
    for now in TIMES:
        twins.clean(spark, kafka, now, forget=True)
        if now == HORIZON:
            copy_tree(twins.ours, twins.before_late)
    return twins


KEPT_FOR_ITS_PRODUCER = "| 2e 3c | 4 aborted 0-3 in 0"
OPEN = "| 0 2 3c | 4 6 7c | 8 10 11c | 12 | 13"
PICTURES: dict[tuple[int | str, int], str] = {
    # The last batch of the producer is kept without records until the producer is forgotten. So
    # its marker and the index entry are kept as well.
    (24, FIRST): KEPT_FOR_ITS_PRODUCER,
    (24, AT): KEPT_FOR_ITS_PRODUCER,
    (24, LATE): "| 3c | 4 aborted 0-3 in 0",
    # Nothing at or above the first offset of an open transaction is cleaned: here only the first
    # segment is.
    (27, FIRST): OPEN,
    (27, LATE): OPEN,
    # The committed value at 0 survives the aborted one at 2, whose marker is dropped at the end.
    (28, FIRST): "| 0 1c | 3c | 4 5c | 6 aborted 2-3 in 2",
    (28, SECOND): "| 0 1c | 3ch | 4 5c | 6",
    (28, BEFORE): "| 0 1c | 3ch | 4 5c | 6",
    (28, AT): "| 0 1c | | 4 5c | 6",
    (29, FIRST): "| 2c 3e 4c 6 | 7",
    (29, SECOND): "| 2ch 3e 4c 6 | 7",
    (29, BEFORE): "| 2ch 3e 4c 6 | 7",
    (29, AT): "| 3e 4c 6 | 7",
    # A data batch without records counts as data: the marker gets no horizon.
    (30, AT): "| 0e 1c | 2 | 3",
    (30, LATE): "| 1c | 2 | 3",
    # Aborted data at 0 and 2, the marker at 4, committed data at 1, in groups of their own.
    (33, FIRST): "| 1 | | 3 | 4c 5c 6 | 7 aborted 0-4 in 4",
    (33, SECOND): "| 1 | 3 | 4ch 5c 6 | 7",
    (33, AT): "| 1 | 3 | 5c 6 | 7",
    (34, FIRST): "| 1c 2 3c | 4 aborted 0-1 in 0",
    (34, SECOND): "| 1ch 2 3c | 4",
    (34, AT): "| 2 3c | 4",
    (37, FIRST): "| 1c 2e 3c 4 | 5",
    (38, FIRST): "| 0 1 2c 3 4e 5c | 6 aborted 4-5 in 0",
    # Transaction version 2: the marker's epoch is above the data's, so the marker is protected
    # (also case 31).
    (39, FIRST): "| 1c 3c 4 | 5 aborted 2-3 in 0",
    (39, SECOND): "| 1ch 3ch 4 | 5",
    (39, AT): "| 1ce 3ce 4 | 5",
    (39, LATE): "| 4 | 5",
    (40, LATE): "| 1 | 2 | 3 | 4",
    # What begins no transaction holds nothing back: not the data at 0, 1, 10 without an end.
    ("nobody", FIRST): "| 2 | 4 6c 7c | 8ch 9ch 10 11 12c | 13 aborted 5-7 in 3",
    ("nobody", AT): "| 2 | 4 6c | 10 11 12c | 13",
}


@pytest.mark.parametrize(("case", "at"), PICTURES, ids=str)
def test_each_pass_equals_kafkas(case: int | str, at: int, passes: Twins) -> None:
    assert passes.picture(at, case) == PICTURES[case, at]


def test_cases_27_40_the_reason_names_the_open_transaction(passes: Twins) -> None:
    reason = passes.results[FIRST]["case-40-0"].reason
    assert "producer 1 has a transaction open since offset 2" in reason
    assert passes.results[FIRST]["case-40-0"].first_dirty_offset_after == 2


@pytest.mark.slow
def test_passes_with_appends_between_and_kept_checkpoint_equal_kafkas(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    twins = _twins(tmp_path)
    for number, now in enumerate((*TIMES[:4], HORIZON + RETENTION_MS)):
        twins.clean(spark, kafka, now, forget=False)
        write_more(twins.ours, number)
        write_more(twins.theirs, number)
        # Producer snapshots that a loader would not keep must not be there for one of them only.
        kafka.open(
            [twins.ours / name for name in twins.names], now=now, topic_configs=twins.configs
        )
        compacted = sum("compacted" in result.actions for result in twins.results[-1].values())
        assert compacted > len(twins.names) / 2


def test_case_41_cleaning_stops_at_decisions_above_high_watermark(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    with LogDirWriter(tmp_path / "ours", clock=lambda: NOW) as log_dir:
        script = Script(log_dir.partition("t", 0))
        for step in (
            "put",
            "put",
            "roll",
            "data",
            "roll",
            "put",
            "put",
            "roll",
            "commit",
            "roll",
            "put",
        ):
            {
                "put": lambda: script.put("a"),
                "data": lambda: script.data(1, "a"),
                "commit": lambda: script.commit(1),
                "roll": script.roll,
            }[step]()
    high_watermark = 5  # the marker's offset
    (tmp_path / "ours" / "replication-offset-checkpoint").write_text(
        f"0\n1\nt 0 {high_watermark}\n"
    )
    # Snapshots after a marker do not have its transaction. A broker that loads one cleans up to the
    # high watermark. A broker that kept running does not, and neither does Winnow.
    _remove_snapshots(tmp_path / "ours" / "t-0", above=high_watermark)
    copy_tree(tmp_path / "ours", tmp_path / "theirs")
    results = run_winnow(
        spark,
        tmp_path / "ours",
        now=NOW,
        topic_configs="t cleanup.policy=compact",
        topic_sets=["*:min.cleanable.dirty.ratio=0"],
    )
    kafka.clean(
        tmp_path / "theirs" / "t-0", now=NOW, hw=high_watermark, policy="compact", first_dirty=0
    )
    assert results["t-0"].first_dirty_offset_after == 2
    assert (
        "the transaction of producer 1 from offset 2 on ends at 5, not below"
        in results["t-0"].reason
    )
    _remove_snapshots(tmp_path / "theirs" / "t-0", above=high_watermark)  # Kafka rewrote them
    assert_same_partition(tmp_path / "ours" / "t-0", tmp_path / "theirs" / "t-0")


def test_emptied_marker_restores_its_producer_but_protects_nothing(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    """Kafka's entry of a producer without other batches has no epoch (S8.4), so no batch matches it
    (S5.4).
    """
    rest = {"leader_epoch": 0, "transactional": True, "control": True, "max_timestamp": NOW}
    with LogDirWriter(tmp_path / "ours", clock=lambda: NOW) as log_dir:
        log = log_dir.partition("t", 0)
        log.append_records([Record(0, NOW, b"a", b"1")])
        log.roll()
        log.append(
            encode_batch([], base_offset=1, last_offset=1, producer_id=6, producer_epoch=0, **rest)
        )
        log.append_records([Record(0, NOW, b"a", b"2")], producer=Producer(7, 0), base_sequence=0)
        log.append_records([Record(0, NOW, b"a", b"3")])
        log.roll()
    ours, theirs = tmp_path / "ours" / "t-0", tmp_path / "theirs" / "t-0"
    _remove_snapshots(ours, above=1)  # the batches behind it are replayed
    copy_tree(tmp_path / "ours", tmp_path / "theirs")
    results = run_winnow(
        spark,
        tmp_path / "ours",
        now=NOW,
        topic_configs="t cleanup.policy=compact",
        topic_sets=["*:min.cleanable.dirty.ratio=0"],
    )
    assert results["t-0"].actions == ("compacted",)
    kafka.clean(theirs, now=NOW, policy="compact", first_dirty=0)
    newest = theirs / f"{4:020d}.snapshot"
    entries = decode_snapshot(newest.read_bytes(), where=newest.name)
    assert {entry.producer_id: entry.epoch for entry in entries} == {6: -1, 7: 0}
    for directory in (ours, theirs):
        # Kafka rewrote the newest and does not need the other.
        _remove_snapshots(directory, above=-1)
    assert_same_partition(ours, theirs)
    left = [line for line in kafka.dump(ours) if line["t"] == "batch"]
    assert [(batch["base"], batch["pid"], batch["count"]) for batch in left] == [
        (2, 7, 0),
        (3, -1, 1),
    ]


def _remove_snapshots(directory: Path, *, above: int) -> None:
    for snapshot in directory.glob("*.snapshot"):
        if int(snapshot.stem) > above:
            snapshot.unlink()


def test_case_42_lost_transaction_index_is_detected(spark: SparkSession, tmp_path: Path) -> None:
    write_log_dir(tmp_path / "d")
    lost = [next((tmp_path / "d" / f"case-{case}-0").glob("*.txnindex")) for case in (24, 33)]
    for path in lost:
        path.unlink()
    before = {p: p.read_bytes() for path in lost for p in path.parent.iterdir()}
    results = run_winnow(
        spark,
        tmp_path / "d",
        now=NOW,
        topic_configs=topic_configs(),
        topic_sets=["*:min.cleanable.dirty.ratio=0"],
        topics=["case-2*", "case-33"],
    )
    for path in lost:
        result = results[path.parent.name]
        assert (result.actions, result.left_alone) == (("none",), True)
        assert result.error is not None
        assert str(path) in result.error
        assert str(path.with_suffix(".log")) in result.error
        assert "ABORT marker" in result.error
    assert {p: p.read_bytes() for path in lost for p in path.parent.iterdir()} == before
    assert "compacted" in results["case-28-0"].actions


def test_case_44_cleaned_log_restores_same_producers_as_whole_log(
    passes: Twins, kafka: Kafka, tmp_path: Path
) -> None:
    """A broker that lost its snapshots replays the cleaned log after a crash. It then knows the
    same producers.
    """
    write_log_dir(tmp_path / "before")
    for name in (f"case-{case}-0" for case in (24, 26, 29, 33)):
        found = []
        for log_dir in (tmp_path / "before", passes.before_late):
            shutil.copytree(log_dir / name, tmp_path / "again" / log_dir.name / name)
            _remove_snapshots(tmp_path / "again" / log_dir.name / name, above=-1)
            loaded = kafka.load(tmp_path / "again" / log_dir.name / name, unclean=True, now=NOW)
            assert loaded.error is None
            snapshot = [line for line in loaded.lines if line["t"] == "snapshot"][-1]
            # A marker that is gone can't tell who wrote it; nothing depends on that once it could
            # go.
            found.append([producer | {"coordEpoch": None} for producer in snapshot["producers"]])
        assert found[0] == found[1], name
