"""Staging and commit need not be in one process: what is between them fits into a file."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_tree
from tests.spark.committing import SETS, request_at
from tests.spark.runs import (
    NOW,
    add_partition,
    changes,
    checkpoint,
    clean,
    files_of,
    new_log_dir,
    run,
    stray_files,
)
from winnow.cleaning.plan.partitions import PlannedPartition
from winnow.cleaning.plan.planning import plan_partitions
from winnow.cleaning.plan.ready import make_ready
from winnow.cleaning.space import room_for
from winnow.cleaning.stage import stage
from winnow.logdir.lock import lock_log_dir
from winnow.logdir.names import CLEANER_CHECKPOINT, STAGING_PREFIX, TXNINDEX
from winnow.logdir.survey import survey_log_dirs
from winnow.runtime.failure import Failure
from winnow.storage.places import Places

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NAMES = ("b-txn-0", "c-tomb-0", "cd-mixed-0")


def test_commit_in_another_process_leaves_the_same_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dir, at_once = new_log_dir(tmp_path / "staged"), tmp_path / "at-once"
    for name in NAMES:
        add_partition(log_dir, name, name)
    copy_tree(log_dir, at_once)
    assert run(clean, spark, at_once, sets=SETS).exit_code == 0
    before, request, sc = files_of(log_dir), request_at(NOW), spark.sparkContext
    with lock_log_dir(str(log_dir)):
        planned = plan_partitions(sc, survey_log_dirs(Places(), [str(log_dir)]), request)
        ready = [
            make_ready(item, request) for item in planned if isinstance(item, PlannedPartition)
        ]
        staged, staged_bytes = stage(sc, ready, room_for(request), request)
    assert len(staged) == len(NAMES)
    assert not any(isinstance(outcome, Failure) for outcome in staged)
    changed = changes(before, files_of(log_dir))
    assert staged_bytes > 0
    assert changed
    assert all(name.split("/")[1].startswith(STAGING_PREFIX) for name in changed)
    file = tmp_path / "file"
    file.write_bytes(pickle.dumps(staged))
    command = [sys.executable, "-m", "tests.spark.committing", str(log_dir), str(file), str(NOW)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    # A transaction index has the time of its making, as with Kafka; a checkpoint has any order.
    differing = changes(files_of(at_once), files_of(log_dir))
    assert [name for name in differing if not name.endswith((TXNINDEX, CLEANER_CHECKPOINT))] == []
    assert checkpoint(log_dir / CLEANER_CHECKPOINT) == checkpoint(at_once / CLEANER_CHECKPOINT)
    assert stray_files(log_dir) == []
