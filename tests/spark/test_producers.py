"""Damaged producer snapshots cost a longer replay and nothing else (S8.4). The log is cleaned as
with sound ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.damage import Log
from tests.spark.runs import (
    File,
    add_partition,
    by_name,
    changes,
    clean,
    files_of,
    new_log_dir,
    run,
)
from winnow.cleaning.result import PartitionResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PRODUCERS_ALIVE = 1_790_520_000_000
"""Within `producer.id.expiration.ms` of the last records, so empty batches are kept for their
producers.
"""
SOURCES = ("b-cleaned", "c-multi")
DAMAGED = ("newest", "recent", "all")
"""Which snapshots: the last one, all but the first, all."""


@dataclass(frozen=True)
class Cleaned:
    results: dict[str, PartitionResult]
    files: dict[str, dict[str, File | None]]
    log_dir: Path


@pytest.fixture(scope="module")
def cleaned(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Cleaned:
    log_dir = new_log_dir(tmp_path_factory.mktemp("producers") / "d")
    for source in SOURCES:
        for which in ("sound", *DAMAGED):
            directory = add_partition(log_dir, f"{source}-{which}-0", f"{source}-0")
            snapshots = sorted(directory.glob("*.snapshot"))
            for path in {
                "sound": [],
                "newest": snapshots[-1:],
                "recent": snapshots[1:],
                "all": snapshots,
            }[which]:
                path.write_bytes(path.read_bytes()[:-1] + b"\x77")
    sets = [
        "*:cleanup.policy=compact",
        "*:internal.segment.bytes=65536",
        "*:min.cleanable.dirty.ratio=0",
    ]
    results = by_name(run(clean, spark, log_dir, sets=sets, now=PRODUCERS_ALIVE))
    return Cleaned(results, {name: files_of(log_dir / name) for name in results}, log_dir)


def test_sound_snapshot_keeps_an_empty_batch_for_its_producer(cleaned: Cleaned) -> None:
    """Without such a batch, the comparisons below would prove nothing."""
    logs = [Log(cleaned.log_dir / "b-cleaned-sound-0", segment) for segment in range(2)]
    assert any(int(count) == 0 for log in logs for count in log.rows["record_count"])


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("which", DAMAGED)
def test_damaged_snapshots_give_same_log_as_sound_ones(
    cleaned: Cleaned, source: str, which: str
) -> None:
    mine, sound = (cleaned.results[f"{source}-{kind}-0"] for kind in (which, "sound"))
    assert (mine.error, mine.actions, sound.actions) == (None, ("compacted",), ("compacted",))
    assert (mine.records_after, mine.bytes_after) == (sound.records_after, sound.bytes_after)
    found, wanted = (cleaned.files[f"{source}-{kind}-0"] for kind in (which, "sound"))
    assert [name for name in changes(wanted, found) if not name.endswith(".snapshot")] == []
