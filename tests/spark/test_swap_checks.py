"""Recovery's checks of `.swap` logs accept the output of every cleaning: all formats, codecs,
transactions and tombstones.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_log_dir, copy_tree
from tests.spark.runs import by_name, clean, run
from winnow.errors import CorruptLogError
from winnow.logdir.commit.recovery import preview, recover
from winnow.storage.local import LocalStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STORAGE = LocalStorage()
SETS = ("*:cleanup.policy=compact", "*:min.cleanable.dirty.ratio=0", "*:delete.retention.ms=0")


def bases(directory: Path) -> list[int]:
    return sorted(int(path.stem) for path in directory.glob("*.log"))


def last_batch(log: bytes) -> int:
    """Where it begins."""
    at = following = 0
    while following < len(log):
        at, following = (
            following,
            following + 12 + int.from_bytes(log[following + 8 : following + 12], "big"),
        )
    return at


@pytest.mark.parametrize(
    ("name", "only"),
    [
        ("legacy", ["*"]),
        (
            "clean",
            [
                "b-txn-0",
                "c-tomb-0",
                "c-lz4-0",
                "c-multi-0",
                "t-closed-0",
                "t-long-0",
                "b-cleaned-0",
            ],
        ),
    ],
)
def test_sound_output_passes_and_flipped_bit_removes_no_other_segment(
    spark: SparkSession, tmp_path: Path, name: str, only: list[str]
) -> None:
    before = copy_log_dir(name, tmp_path / "before", only=only)
    after = tmp_path / "after"
    copy_tree(before, after)
    now = 1_900_000_000_000
    done = by_name(run(clean, spark, after, sets=SETS, now=now))
    assert {partition.actions for partition in done.values()} == {("compacted",)}
    checked = 0
    for partition in done:
        old, new = before / partition, after / partition
        for base in bases(new)[:-1]:
            following = min(other for other in bases(new) if other > base)
            state = tmp_path / "state"
            copy_tree(old, state)
            for suffix in (".log", ".index", ".timeindex", ".txnindex"):
                output = new / f"{base:020d}{suffix}"
                if output.exists():
                    shutil.copy2(output, state / f"{output.name}.swap")
            assert preview(STORAGE, str(state))
            log = state / f"{base:020d}.log.swap"
            sound = log.read_bytes()
            kept = [other for other in bases(old) if not base <= other < following]
            if sound:
                at = last_batch(sound)
                for bit in range(0, 64, 3):
                    damaged = bytearray(sound)
                    damaged[at + bit // 8] ^= 0x80 >> bit % 8
                    log.write_bytes(damaged)
                    try:
                        preview(STORAGE, str(state))
                    except CorruptLogError:
                        continue
                    copy_tree(state, tmp_path / "accepted")
                    recover(STORAGE, str(tmp_path / "accepted"))
                    assert set(kept) <= set(bases(tmp_path / "accepted")), (
                        f"{partition} {base}: bit {bit}"
                    )
                    shutil.rmtree(tmp_path / "accepted")
            shutil.rmtree(state)
            checked += 1
    assert checked > 10
