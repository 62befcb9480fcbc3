"""Each damaged partition is reported and left untouched. All others are cleaned as if it did not
exist.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.damage import COMPRESSED, PLAIN
from tests.spark.runs import (
    File,
    add_partition,
    by_name,
    changes,
    checkpoint,
    clean,
    files_of,
    new_log_dir,
    run,
    stray_files,
)
from winnow.cleaning.result import PartitionResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAMAGED = sorted([*PLAIN, *COMPRESSED])
SOUND = ("c-4p-1", "c-none-0", "c-zstd-0", "c-tomb-0", "d-size-0")
BAD_SNAPSHOT = ("newest", "all")
SETS = (
    "h-*:cleanup.policy=compact",
    "h-*:internal.segment.bytes=65536",
    "h-bomb-*:max.decompressed.message.bytes=1048576",
    "[su]-*:cleanup.policy=compact",
    "[su]-*:internal.segment.bytes=65536",
    "?-d-size*:cleanup.policy=delete",
    "?-d-size*:retention.bytes=200000",
    "?-d-size*:retention.ms=-1",
)


@dataclass(frozen=True)
class Hostile:
    """One run over two log directories: one with every damage and sound partitions, one with sound
    ones only.
    """

    log_dir: Path
    undamaged: Path
    results: dict[str, PartitionResult]
    exit_code: int
    patterns: dict[str, str]
    before: dict[str, dict[str, File | None]]


@pytest.fixture(scope="module")
def hostile(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Hostile:
    home = tmp_path_factory.mktemp("hostile")
    log_dir, undamaged = new_log_dir(home / "damaged"), new_log_dir(home / "sound")
    patterns, before = {}, {}
    for name, damage in PLAIN.items():
        patterns[name] = damage(add_partition(log_dir, f"h-{name}-0", "c-4p-1"))
    for name, (source, damage) in COMPRESSED.items():
        patterns[name] = damage(add_partition(log_dir, f"h-{name}-0", source))
    for source in SOUND:
        add_partition(log_dir, f"s-{source}", source)
        add_partition(undamaged, f"u-{source}", source)
    for which in BAD_SNAPSHOT:
        add_partition(undamaged, f"u-{which}-0", "c-4p-1")
        snapshots = sorted(add_partition(log_dir, f"s-{which}-0", "c-4p-1").glob("*.snapshot"))
        for path in snapshots[-1:] if which == "newest" else snapshots:
            path.write_bytes(path.read_bytes()[:-1] + b"\x77")
    for name in DAMAGED:
        before[name] = files_of(log_dir / f"h-{name}-0")
    result = run(clean, spark, log_dir, undamaged, sets=SETS)
    return Hostile(log_dir, undamaged, by_name(result), result.exit_code, patterns, before)


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_partition_is_reported_with_file_and_byte(hostile: Hostile, name: str) -> None:
    result = hostile.results[f"h-{name}-0"]
    assert result.error is not None
    assert re.search(hostile.patterns[name], result.error), (
        f"{hostile.patterns[name]}\n{result.error}"
    )
    assert (result.actions, result.left_alone) == (("none",), True)
    assert result.reason


@pytest.mark.parametrize("name", DAMAGED)
def test_no_byte_of_a_damaged_partition_changes(hostile: Hostile, name: str) -> None:
    assert changes(hostile.before[name], files_of(hostile.log_dir / f"h-{name}-0")) == []
    assert f"h-{name}-0" not in checkpoint(hostile.log_dir / "cleaner-offset-checkpoint")


@pytest.mark.parametrize("source", [*SOUND, *(f"{which}-0" for which in BAD_SNAPSHOT)])
def test_other_partitions_are_cleaned_as_without_the_damage(hostile: Hostile, source: str) -> None:
    mine, theirs = hostile.results[f"s-{source}"], hostile.results[f"u-{source}"]
    assert (mine.error, mine.actions, mine.bytes_after) == (
        None,
        theirs.actions,
        theirs.bytes_after,
    )
    assert mine.actions != ("none",)
    found, wanted = (
        files_of(hostile.log_dir / f"s-{source}"),
        files_of(hostile.undamaged / f"u-{source}"),
    )
    differing = [
        name
        for name in changes(wanted, found)
        if not name.endswith((".snapshot", "leader-epoch-checkpoint"))
    ]
    assert differing == []
    checkpoints = (
        checkpoint(d / "cleaner-offset-checkpoint") for d in (hostile.log_dir, hostile.undamaged)
    )
    assert [c.get(f"{letter}-{source}") for c, letter in zip(checkpoints, "su", strict=True)] == [
        mine.first_dirty_offset_after,
        theirs.first_dirty_offset_after,
    ]


def test_exit_code_reports_skipped_partitions(hostile: Hostile) -> None:
    assert hostile.exit_code == 3


def test_no_stray_files_remain(hostile: Hostile) -> None:
    assert stray_files(hostile.undamaged) == []
    swap_that_was_there = [
        name for name in stray_files(hostile.log_dir) if not name.startswith("h-torn-swap")
    ]
    assert swap_that_was_there == []
