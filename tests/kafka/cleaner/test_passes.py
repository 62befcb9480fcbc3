"""Cases of docs/semantics.md in whole runs: three passes, each compared with Kafka's own cleaner
over a copy.

The first pass is at NOW, the second 1 ms before the delete horizon that the first one set, the
third at that horizon. In the second and third pass everything is dirty.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.compare import assert_same_partition
from tests.fixtures.data import copy_tree
from tests.kafka.cleaner.runs import read_checkpoint, run_winnow
from tests.kafka.cleaner.small_logs import (
    CASES,
    HORIZON,
    NOW,
    partition,
    topic_configs,
    write_log_dir,
)
from tests.kafka.judge.judge import Kafka
from winnow.cleaning.result import PartitionResult

pytestmark = pytest.mark.spark

FIRST, BEFORE, AT = range(3)
TIMES = (NOW, HORIZON - 1, HORIZON)
CLEANER = "cleaner-offset-checkpoint"
INDEX_SUFFIXES = (".index", ".timeindex")


@dataclass
class Passes:
    """`kept[pass]` is a copy of the directory after that pass, `before` one of what was there at
    first.
    """

    before: Path
    configs: Path
    kept: list[Path] = field(default_factory=list)
    results: list[dict[str, PartitionResult]] = field(default_factory=list)
    checkpoints: list[tuple[dict[str, int], dict[str, int]]] = field(default_factory=list)
    """Winnow's and Kafka's."""
    dumps: list[dict[str, list[dict[str, Any]]]] = field(default_factory=list)
    """As Kafka reads what Winnow left."""
    differences: list[str] = field(default_factory=list)

    def batches(self, at: int, case: int) -> list[dict[str, Any]]:
        """Those of the active segment left out."""
        end = max(
            line["base"] for line in self.dumps[at][partition(case)] if line["t"] == "segment"
        )
        return [
            line
            for line in self.dumps[at][partition(case)]
            if line["t"] == "batch" and line["base"] < end
        ]

    def records(self, at: int, case: int) -> list[tuple[int, str | None, bool]]:
        """Offset, key, and whether there is a value, of all but the active segment's."""
        lines = self.dumps[at][partition(case)]
        end = max(line["base"] for line in lines if line["t"] == "segment")
        return [
            (
                line["o"],
                None if line["k"] is None else bytes.fromhex(line["k"]).decode(),
                line["v"] is not None,
            )
            for line in lines
            if line["t"] == "rec" and line["o"] < end
        ]

    def offsets(self, at: int, case: int) -> list[int]:
        return [offset for offset, _, _ in self.records(at, case)]


@pytest.fixture(scope="module")
def passes(spark: SparkSession, kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Passes:
    root = tmp_path_factory.mktemp("cases")
    ours, theirs, configs = root / "ours", root / "theirs", root / "topic-configs.txt"
    write_log_dir(root / "before")
    copy_tree(root / "before", ours)
    copy_tree(root / "before", theirs)
    configs.write_text(topic_configs())
    found = Passes(root / "before", configs)
    names = [partition(number) for number in CASES]
    for number, now in enumerate(TIMES):
        if number:
            for log_dir in (ours, theirs):
                (log_dir / CLEANER).unlink()
        found.results.append(
            run_winnow(spark, ours, now=now, topic_configs=configs.read_text(), only="compaction")
        )
        kafka.clean(
            [theirs / name for name in names],
            now=now,
            topic_configs=configs,
            write_checkpoint=True,
            hw_checkpoint=True,
        )
        for name in names:
            try:
                assert_same_partition(ours / name, theirs / name)
            except AssertionError as difference:
                found.differences.append(f"at {now}: {difference}")
        found.checkpoints.append(
            (read_checkpoint(ours / CLEANER), read_checkpoint(theirs / CLEANER))
        )
        found.dumps.append({name: kafka.dump(ours / name) for name in names})
        found.kept.append(root / f"after-{number}")
        copy_tree(ours, found.kept[-1])
    return found


def test_every_pass_leaves_the_same_files_as_kafka(passes: Passes) -> None:
    assert passes.differences == []
    assert all(ours == kafkas for ours, kafkas in passes.checkpoints)
    assert {
        name: r.reason for results in passes.results for name, r in results.items() if r.left_alone
    } == {}


def test_case_01_only_the_newest_record_of_each_key_is_kept(passes: Passes) -> None:
    assert passes.records(FIRST, 1) == [(20 + n, f"k{n}", True) for n in range(20)]


def test_case_02_last_record_of_each_key_is_kept(passes: Passes) -> None:
    assert passes.records(FIRST, 2) == [(3, "b", True), (4, "a", True)]
    assert passes.checkpoints[FIRST][0][partition(2)] == 5


def test_case_03_deleted_values_are_removed_and_tombstones_get_a_horizon(
    passes: Passes,
) -> None:
    values, tombstones = [(2, "c", True), (3, "d", True)], [(4, "a", False), (5, "b", False)]
    assert passes.records(FIRST, 3) == [*values, *tombstones, (6, "e", True)]
    assert [(b["deleteHorizon"], b["baseTs"] == HORIZON) for b in passes.batches(FIRST, 3)] == [
        (None, False),
        (HORIZON, True),
        (None, False),
    ]


def test_case_04_tombstones_are_kept_until_the_horizon(passes: Passes) -> None:
    assert passes.offsets(BEFORE, 3) == [2, 3, 4, 5, 6]
    assert passes.offsets(AT, 3) == [2, 3, 6]


def test_case_05_record_timestamps_do_not_affect_tombstones(passes: Passes) -> None:
    assert [passes.offsets(at, 5) for at in (FIRST, BEFORE, AT)] == [[1, 2], [1, 2], [2]]


def test_case_06_records_keep_their_timestamps_under_a_horizon(passes: Passes) -> None:
    timestamps = [line["ts"] for line in passes.dumps[FIRST][partition(6)] if line["t"] == "rec"]
    assert timestamps[:3] == [5, 10, 15]
    assert passes.batches(FIRST, 6)[0]["deleteHorizon"] == HORIZON


def test_case_07_superseded_tombstone_is_removed_at_once(passes: Passes) -> None:
    assert passes.records(FIRST, 7) == [(3, "c", True), (4, "a", True), (5, "b", True)]
    assert {batch["deleteHorizon"] for batch in passes.batches(FIRST, 7)} == {None}


def test_case_08_batch_with_a_horizon_is_unchanged(passes: Passes) -> None:
    logs = sorted((passes.kept[FIRST] / partition(3)).glob("*.log"))
    assert logs
    for file in logs:
        assert (passes.kept[BEFORE] / partition(3) / file.name).read_bytes() == file.read_bytes()


def test_case_09_records_without_a_key_are_removed(passes: Passes) -> None:
    assert passes.records(FIRST, 9) == [(1, "a", True), (3, "b", True)]


def test_case_10_an_empty_key_is_a_key_and_an_empty_value_a_value(passes: Passes) -> None:
    assert passes.records(FIRST, 10) == [
        (1, "a", True),
        (2, "", True),
        (3, "b", False),
        (4, "c", True),
    ]
    assert passes.offsets(AT, 10) == [1, 2, 4]


def test_case_11_nothing_changes_from_first_uncleanable_segment_on(
    passes: Passes,
) -> None:
    before, after = passes.before / partition(11), passes.kept[FIRST] / partition(11)
    logs = sorted(file.name for file in before.glob("*.log"))
    assert [int(name.removesuffix(".log")) for name in logs] == [0, 3, 6, 9, 12]
    for name in logs[2:]:
        assert (after / name).read_bytes() == (before / name).read_bytes()
    assert [offset for offset in passes.offsets(FIRST, 11) if offset < 6] == [4, 5]
    assert passes.checkpoints[FIRST][0][partition(11)] == 6


def test_case_12_only_dirty_keys_supersede_records_of_the_clean_part(passes: Passes) -> None:
    assert passes.records(FIRST, 12) == [
        (0, "x", True),
        (1, "x", True),
        (3, "y", True),
        (4, "z", True),
    ]


def test_case_16_records_above_the_size_limit_are_cleaned_too(passes: Passes) -> None:
    assert passes.offsets(FIRST, 16) == [1, 2]


def test_case_18_segment_that_loses_all_its_last_batches(passes: Passes) -> None:
    assert passes.offsets(FIRST, 18) == [0, 31]


def test_case_22_batches_keep_last_offsets_and_sequences(passes: Passes) -> None:
    batches = passes.batches(FIRST, 22)
    assert [batch["last"] for batch in batches] == [2, 5, 7]
    assert [batch["seq"] + batch["last"] - batch["base"] for batch in batches] == [2, 2, 1]
    assert passes.offsets(FIRST, 22) == [1, 3, 6, 7]


def test_case_23_last_batch_of_a_producer_is_kept_empty(passes: Passes) -> None:
    assert [(batch["last"], batch["count"]) for batch in passes.batches(FIRST, 23)] == [
        (1, 0),
        (3, 1),
        (4, 1),
    ]


def test_case_25_nothing_of_an_expired_producer_is_kept(passes: Passes) -> None:
    assert [(batch["pid"], batch["count"]) for batch in passes.batches(FIRST, 25)] == [
        (2, 0),
        (-1, 1),
    ]


@pytest.mark.parametrize("case", [22, 23])
def test_case_44_compacted_log_alone_restores_all_producers(
    case: int, passes: Passes, kafka: Kafka, tmp_path: Path
) -> None:
    known = []
    for number, source in enumerate((passes.before, passes.kept[FIRST])):
        (tmp_path / str(number)).mkdir()
        copy = tmp_path / str(number) / partition(case)
        copy_tree(source / partition(case), copy)
        _remove(copy.glob("*.snapshot"))
        loaded = kafka.load(copy, unclean=True, now=NOW)
        assert loaded.error is None
        newest = max(
            (line for line in loaded.lines if line["t"] == "snapshot"),
            key=lambda line: line["offset"],
        )
        known.append(
            [
                (p["pid"], p["epoch"], p["lastSeq"], p["lastOffset"], p["firstSeq"])
                for p in newest["producers"]
            ]
        )
    assert known[0] == known[1] != []


def test_case_75_broker_rebuilds_the_same_indexes(
    passes: Passes, kafka: Kafka, tmp_path: Path
) -> None:
    entries = 0
    for number in CASES:
        source, copy = passes.kept[FIRST] / partition(number), tmp_path / partition(number)
        copy_tree(source, copy)
        _remove(file for suffix in INDEX_SUFFIXES for file in copy.glob(f"*{suffix}"))
        assert kafka.load(copy, unclean=True, now=NOW, topic_configs=passes.configs).error is None
        # The active segment's are longer, for what is still to come.
        *closed, _ = sorted(copy.glob("*.log"))
        for log in closed:
            for suffix in INDEX_SUFFIXES:
                ours = source / log.with_suffix(suffix).name
                assert ours.read_bytes() == log.with_suffix(suffix).read_bytes(), ours
                entries += ours.stat().st_size
    assert entries > 0


def _remove(files: Iterable[Path]) -> None:
    for file in list(files):
        file.unlink()
