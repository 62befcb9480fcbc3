"""Unusual states of old logs: gaps, emptied segments, a log start inside a segment, too many
offsets.

One run cleans all of them, and Kafka's cleaner and retention run over a copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.crash.by_hand import FAR, INTERVAL_BYTES, NOW, Segments, make_log_dir, write_partition
from tests.crash.runs import files_of, read_log
from tests.fixtures.data import copy_tree
from tests.kafka.cleaner.runs import assert_as_kafka, read_checkpoint, run_winnow, write_checkpoint
from tests.kafka.judge.judge import Kafka, KafkaFailedError
from winnow.cleaning.result import PartitionResult
from winnow.logdir.names import LOG
from winnow.runtime.progress import Silence

pytestmark = pytest.mark.spark

CONFIG = {
    "index.interval.bytes": INTERVAL_BYTES,
    "internal.segment.bytes": 400,
    "min.cleanable.dirty.ratio": 0,
}


@dataclass(frozen=True)
class Corner:
    """`end`: log end offset. `clean`: first dirty offset, `start`: log start offset, where they
    have an entry.
    """

    segments: Segments
    end: int
    clean: int | None = None
    start: int | None = None
    policy: str = "compact"
    epochs: tuple[tuple[int, int], ...] = ((0, 0),)
    config: Mapping[str, object] = field(default_factory=dict)
    bases: tuple[int, ...] = ()
    """Of the segments afterwards."""
    splits: bool = False
    """Kafka's cleaner splits a segment, gives up, and has to be asked again."""


def run(first: int, keys: str) -> list[tuple[int, str]]:
    """Records with offsets one after the other."""
    return list(enumerate(keys, start=first))


_LAST = 2**63 - 1
"""The highest end of a log. Kafka deletes a log with a record at this offset."""
_TAIL = {7 * FAR: run(7 * FAR, "ab")}
CORNERS = {
    # Emptied by earlier rounds: they cost nothing to take into a group (case 69).
    "emptied": Corner(
        {0: run(0, "abc"), 3: [], 5: [], 9: run(9, "abd"), 12: [], 20: run(20, "a")},
        21,
        bases=(0, 9, 20),
    ),
    "all-emptied": Corner({0: [], 3: [], 9: [], 12: run(12, "a")}, 13, bases=(0, 3, 9, 12)),
    "empty-active": Corner({0: run(0, "aba"), 3: run(3, "b"), 4: []}, 4, bases=(0, 3, 4)),
    # Gaps inside, at the ends and between segments (case 13): the checkpoint comes to the active
    # segment's base.
    "gaps": Corner(
        {2: [(4, "a"), (7, "b")], 11: [(15, "a"), (16, "c")], 30: [(31, "b")]},
        32,
        bases=(2, 11, 30),
    ),
    "gap-at-the-end": Corner(
        {0: run(0, "aab"), 1000: run(1000, "c")}, 1001, clean=2, bases=(0, 1000)
    ),
    # The whole log is filtered, also below its start, and what is below feeds nothing (S4, S5.1).
    # Then segments below it are deleted.
    "start-inside": Corner(
        {0: run(0, "abc"), 3: run(3, "cad"), 6: run(6, "a")}, 7, start=4, clean=1, bases=(3, 6)
    ),
    "start-removes": Corner(
        {0: run(0, "abc"), 3: run(3, "cad"), 6: run(6, "a")}, 7, start=5, bases=(3, 6)
    ),
    # The last batch is kept without records (case 15).
    "last-batch": Corner({0: run(0, "ab"), 2: run(2, "AB"), 4: run(4, "c")}, 5, bases=(0, 4)),
    # Above 2^63 - 2^31 the index of a segment has room for more offsets than there are.
    "last-offsets": Corner(
        {
            _LAST - 2**31: run(_LAST - 2**31, "ab"),
            _LAST - 9: run(_LAST - 9, "abc"),
            _LAST - 6: run(_LAST - 6, "cad"),
            _LAST - 3: run(_LAST - 3, "aab"),
        },
        _LAST,
        bases=(_LAST - 2**31, _LAST - 9, _LAST - 6, _LAST - 3),
    ),
    # Case 70: to the last offset that fits, and one more.
    "span-fits": Corner(
        {0: run(0, "a"), 5: [(FAR, "a")], FAR + 1: run(FAR + 1, "b")}, FAR + 2, bases=(0, FAR + 1)
    ),
    "span-too-far": Corner(
        {0: run(0, "a"), 5: [(FAR + 1, "a")], FAR + 2: run(FAR + 2, "b")},
        FAR + 3,
        bases=(0, 5, FAR + 2),
    ),
    # Case 69: three segments of 2^31 offsets each; emptied ones merge.
    "sparse": Corner(
        {0: run(0, "a"), FAR + 1: [(FAR + 1, "a")], 2 * FAR + 2: [(2 * FAR + 2, "a")], **_TAIL},
        7 * FAR + 2,
        bases=(0, FAR + 1, 2 * FAR + 2, 7 * FAR),
    ),
    "sparse-emptied": Corner(
        {0: run(0, "a"), FAR + 1: [], 2 * FAR + 2: [], **_TAIL}, 7 * FAR + 2, bases=(0, 7 * FAR)
    ),
    # Case 71: what no index can tell is split first.
    "overflow": Corner(
        {
            0: run(0, "abc"),
            3: [(3, "a"), (FAR + 3, "b"), (FAR + 4, "c"), (FAR + 9, "a"), (3 * FAR, "d")],
            **_TAIL,
        },
        7 * FAR + 2,
        bases=(0, 3, FAR + 4, 3 * FAR, 7 * FAR),
        splits=True,
    ),
    "overflow-above-its-base": Corner(
        {0: [(FAR + 4, "c"), (FAR + 9, "a"), (3 * FAR + 9, "d"), (3 * FAR + 10, "a")], **_TAIL},
        7 * FAR + 2,
        bases=(FAR + 4, 3 * FAR + 9, 7 * FAR),
        splits=True,
    ),
    # Case 91: leader epochs after the first segment went.
    "epochs-start": Corner(
        {0: run(0, "abcde"), 5: run(5, "abcde"), 10: run(10, "a")},
        11,
        start=5,
        policy="delete",
        epochs=((0, 0), (1, 5), (2, 10)),
        config={"retention.ms": 604_800_000},
        bases=(5, 10),
    ),
    "epochs-folded": Corner(
        {0: run(0, "abcde"), 5: run(5, "abcde"), 10: run(10, "a")},
        11,
        start=5,
        policy="delete",
        epochs=((0, 0), (1, 7), (2, 10)),
        config={"retention.ms": 604_800_000},
        bases=(5, 10),
    ),
    "epochs-time": Corner(
        {0: run(0, "abcde"), 5: run(5, "abcde"), 1500: run(1500, "a")},
        1501,
        policy="delete",
        epochs=((0, 0), (1, 2), (4, 1500)),
        config={"retention.ms": 36_000_000 - 10},
        bases=(1500,),
    ),
}


@dataclass(frozen=True)
class Cleaned:
    before: Path
    ours: Path
    theirs: Path
    results: dict[str, PartitionResult]
    stages: list[str]
    """What its progress named."""


class Stages(Silence):
    def __init__(self) -> None:
        self.names: list[str] = []

    def stage(self, name: str, **total: int | None) -> None:
        super().stage(name, **total)
        self.names.append(name)


@pytest.fixture(scope="module")
def cleaned(spark: SparkSession, kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Cleaned:
    root = tmp_path_factory.mktemp("corners")
    before, ours, theirs = make_log_dir(root / "before"), root / "winnow", root / "kafka"
    checkpoints: dict[str, dict[str, int]] = {"replication": {}, "cleaner": {}, "log-start": {}}
    for name, corner in CORNERS.items():
        write_partition(before / f"{name}-0", corner.segments, end=corner.end, epochs=corner.epochs)
        for kind, offset in (
            ("replication", corner.end),
            ("cleaner", corner.clean),
            ("log-start", corner.start),
        ):
            if offset is not None:
                checkpoints[kind][f"{name}-0"] = offset
    for kind, offsets in checkpoints.items():
        write_checkpoint(before / f"{kind}-offset-checkpoint", offsets)
    copy_tree(before, ours)
    copy_tree(before, theirs)
    configs = {
        name: {**CONFIG, "cleanup.policy": corner.policy, **corner.config}
        for name, corner in CORNERS.items()
    }
    lines = [
        f"{name} {key}={value}" for name, config in configs.items() for key, value in config.items()
    ]
    stages = Stages()
    results = run_winnow(spark, ours, now=NOW, topic_configs="\n".join(lines), progress=stages)
    for name, corner in CORNERS.items():
        directory = theirs / f"{name}-0"
        if corner.policy == "compact":
            if corner.splits:
                with pytest.raises(KafkaFailedError, match="LogCleaningAbortedException"):
                    kafka.clean(directory, now=NOW, config=configs[name])
            kafka.clean(directory, now=NOW, config=configs[name], write_checkpoint=True)
        kafka.retain(directory, now=NOW, config=configs[name])
    return Cleaned(before, ours, theirs, results, stages.names)


def test_each_split_shows_progress(cleaned: Cleaned) -> None:
    splits = [corner for corner in CORNERS.values() if corner.splits]
    assert cleaned.stages.count("splitting 1 segment") == len(splits) > 0


@pytest.mark.parametrize("name", CORNERS)
def test_run_leaves_the_same_files_as_kafka(name: str, cleaned: Cleaned, kafka: Kafka) -> None:
    partition = f"{name}-0"
    result = cleaned.results[partition]
    assert (result.error, result.left_alone) == (None, False)
    assert result.segments_before == len(CORNERS[name].segments)
    assert ("split first" in result.reason) is CORNERS[name].splits
    assert_as_kafka(
        kafka, cleaned.ours, {partition: kafka.dump(cleaned.theirs / partition)}, cleaned.results
    )
    assert (
        tuple(int(file[:20]) for file in files_of(cleaned.ours / partition, LOG))
        == CORNERS[name].bases
    )
    if CORNERS[name].policy == "compact":
        checkpoint = "cleaner-offset-checkpoint"
        ours, theirs = (
            read_checkpoint(root / checkpoint).get(partition)
            for root in (cleaned.ours, cleaned.theirs)
        )
        assert ours == theirs
        before, after = (read_log(root / partition) for root in (cleaned.before, cleaned.ours))
        assert after.end == before.end


def test_redundant_log_start_entry_is_dropped(cleaned: Cleaned) -> None:
    left = read_checkpoint(cleaned.ours / "log-start-offset-checkpoint")
    assert left == {"start-inside-0": 4, "start-removes-0": 5}
