"""A log directory with two partitions that differ, and a run of each of them alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.crash.runs import CrashRun, record_run
from tests.crash.small_log import segment_at
from tests.crash.turns import NAMES
from tests.fixtures.data import copy_tree
from winnow.logdir.checkpoints import read_offset_checkpoint, update_offset_checkpoint
from winnow.logdir.names import CLEANER_CHECKPOINT
from winnow.state import TopicPartition
from winnow.storage.local import LocalStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Alone = Callable[[str], tuple[Path, dict[str, CrashRun]]]
"""Of a case, the log directory with both, and the run that cleans nothing else of each."""


def two_alone(
    spark: SparkSession, first: CrashRun, scratch: Path
) -> tuple[Path, dict[str, CrashRun]]:
    """`first`: the run of the first of them."""
    before, second = scratch / "before", scratch / "second"
    for root in (before, second):
        copy_tree(first.before, root)
        copy_tree(root / NAMES[0], root / NAMES[1])
        same_entries(root, 1)
        update_offset_checkpoint(
            LocalStorage(),
            f"{root}/{CLEANER_CHECKPOINT}",
            {TopicPartition("t", 1): segment_at(4)},
        )
    for path in (second / NAMES[0]).iterdir():
        path.unlink()
    (second / NAMES[0]).rmdir()
    (scratch / "alone").mkdir()
    run = record_run(spark, second, replace(first.case, partition=NAMES[1]), scratch / "alone")
    return before, {NAMES[0]: first, NAMES[1]: run}


def same_entries(root: Path, number: int) -> None:
    """Give another partition of the topic the entries of the first."""
    storage = LocalStorage()
    for path in map(str, root.glob("*-offset-checkpoint")):
        offset = read_offset_checkpoint(storage, path)[TopicPartition("t", 0)]
        update_offset_checkpoint(storage, path, {TopicPartition("t", number): offset})
