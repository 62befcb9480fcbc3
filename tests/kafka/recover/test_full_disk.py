"""`recover --truncate` on a file system without a free byte (S8.9)."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.disks import disk_or_skip, fill, free_bytes
from tests.fixtures.data import copy_log_dir
from tests.kafka.judge.judge import Kafka
from tests.kafka.recover.compare import (
    EXPIRATION_MS,
    INTERVAL_BYTES,
    NOW,
    assert_same_log_dir,
    recover_with_winnow,
    request,
)
from winnow.logdir.names import CLEAN_SHUTDOWN, LOG, RECOVERY_POINT_CHECKPOINT

GARBAGE = 128 * 1024
NAMES = ("c-plain-0", "t-closed-0", "c-gzip-0")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with disk_or_skip(tmp_path / "disk", mib=16) as path:
        yield path


def test_full_disk_is_recovered_once_what_is_cut_need_not_be_kept(
    kafka: Kafka, tmp_path: Path, disk: Path
) -> None:
    ours, theirs = disk / "logs", tmp_path / "theirs"
    copy_log_dir("clean", ours, only=NAMES)
    (ours / CLEAN_SHUTDOWN).unlink(missing_ok=True)
    (ours / RECOVERY_POINT_CHECKPOINT).write_bytes(b"")
    torn = max((ours / "c-plain-0").glob(f"*{LOG}"))
    torn.write_bytes(torn.read_bytes() + random.Random(1).randbytes(GARBAGE))
    shutil.copytree(ours, theirs)
    before = torn.read_bytes()
    fill(disk)
    assert free_bytes(disk) == 0

    kept = recover_with_winnow(ours)
    assert not kept.marked
    assert not (ours / CLEAN_SHUTDOWN).exists()
    (error,) = [log.error for log in kept.logs if log.name == "c-plain-0"]
    assert error is not None
    assert "--discard-cut" in error
    assert kept.cut_bytes == 0
    assert [path.name for path in torn.parent.glob(".winnow-*")] == []
    assert torn.read_bytes() == before

    done = recover_with_winnow(ours, asked=request(keep_cut=False))
    assert [log.error for log in done.logs if log.error] == []
    assert done.cut_bytes == GARBAGE
    assert done.marked
    assert free_bytes(disk) > 0
    kafka.recover(
        theirs, now=NOW, index_interval=INTERVAL_BYTES, producer_expiration_ms=EXPIRATION_MS
    )
    assert_same_log_dir(ours, theirs)
