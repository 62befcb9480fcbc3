"""Ask `explain` about recorded log directories, and hold its answers against what `clean` does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fixtures.data import copy_log_dir, partition_dirs
from tests.spark.runs import NOW, changes, clean, files_of, run, settings
from winnow.api import explain
from winnow.cleaning.plan.partitions import SkippedPartition
from winnow.cleaning.plan.planning import plan_partitions
from winnow.cleaning.request import Request
from winnow.logdir.batches import read_batches
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.fate import Verdict
from winnow.storage.local import LocalStorage
from winnow.verbs.explain.explain import places, survey_ground
from winnow.verbs.explain.find import FoundRecord, Search, find_in_segment
from winnow.verbs.explain.records import fate_of
from winnow.verbs.explain.values import Explanation, RecordFate
from winnow.wire.inflate import inflate
from winnow.wire.plain import read_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Judged:
    """One whole run: the fates that were foretold, and the offsets that were there afterwards."""

    fates: Mapping[str, Mapping[int, RecordFate]]
    after: Mapping[str, frozenset[int]]


def offsets_in(directory: Path) -> frozenset[int]:
    """Of every record in the partition, read without a line of what is tested."""
    offsets: set[int] = set()
    for log in sorted(directory.glob("*.log")):
        for piece in read_batches(LocalStorage(), str(log), size=log.stat().st_size):
            blocks = inflate(piece.data, piece.rows)
            for i in range(len(piece.rows)):
                offsets |= {
                    record.offset for record in read_records(blocks.area(i), blocks.rows[i])
                }
    return frozenset(offsets)


def judged(spark: SparkSession, log_dir: Path, *sets: str, now: int = NOW) -> Judged:
    before = files_of(log_dir)
    fates = foretell(spark, log_dir, *sets, now=now)
    assert changes(before, files_of(log_dir)) == []
    run(clean, spark, log_dir, sets=sets, now=now)
    return Judged(
        fates, {directory.name: offsets_in(directory) for directory in partition_dirs(log_dir)}
    )


def assert_told_the_truth(found: Judged, *, of_all: bool = True) -> None:
    """`of_all`: every record that was there afterwards had been spoken of."""
    wrong = defaultdict(list)
    for name, fates in found.fates.items():
        for offset, fate in fates.items():
            if fate.verdict is not (Verdict.STAYS if offset in found.after[name] else Verdict.GOES):
                wrong[name].append((offset, fate.verdict.value, fate.rule, fate.words))
        assert found.after[name] <= set(fates) or not of_all, name
    assert not wrong, {name: (len(these), these[:3]) for name, these in wrong.items()}


def foretell(
    spark: SparkSession, log_dir: Path, *sets: str, now: int, after_crash: bool = False
) -> dict[str, dict[int, RecordFate]]:
    """The fate of every record, by partition, without a Spark job for each."""
    request = Request(
        settings=settings(*sets),
        topics=(),
        now=now,
        only=None,
        touch=False,
        unclean_shutdown="below-recovery-point" if after_crash else "refuse",
    )
    fates: dict[str, dict[int, RecordFate]] = {}
    for item in plan_partitions(
        spark.sparkContext, survey_log_dirs(LocalStorage(), [str(log_dir)]), request
    ):
        if isinstance(item, SkippedPartition):
            continue
        ground = survey_ground(spark.sparkContext, item, request, preview=True)
        search = ground.search(item.config.max_decompressed_message_bytes)
        records = [r for place in places(item) for r in find_in_segment(search, place).records]
        latest = latest_of_each_key(records, search)
        fates[str(item.place.topic_partition)] = {
            record.offset: fate_of(record, ground, latest=latest.get(record.key))
            for record in records
        }
    return fates


def latest_of_each_key(records: list[FoundRecord], search: Search) -> dict[bytes | None, int]:
    return {
        r.key: r.offset
        for r in records
        if search.dirty[0] <= r.offset < search.dirty[1] and r.counts
    }


def explained_log_dir(path: Path) -> Path:
    """With a log start offset inside of a segment, in a log that is compacted and in one that is
    not.
    """
    only = ("c-plain-0", "c-gzip-0", "b-cleaned-0", "d-*", "cd-mixed-0", "t-closed-0", "__[ct]*")
    log_dir = copy_log_dir("clean", path, only=only)
    (log_dir / "log-start-offset-checkpoint").write_text("0\n2\nd-start 0 1234\nt-closed 0 460\n")
    return log_dir


def ask(
    spark: SparkSession, log_dir: Path, partition: str, *sets: str, **question: object
) -> Explanation:
    return explain(
        spark,
        [str(log_dir)],
        partition=partition,
        settings=settings(*sets),
        now=NOW,
        **question,  # type: ignore[arg-type]
    )
