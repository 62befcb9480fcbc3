"""`recover --truncate` on a file system without a free byte (S8.9)."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.disks import disk_or_skip, fill, fill_names, free_bytes
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
from winnow.logdir.names import (
    CLEAN_SHUTDOWN,
    INDEX,
    LEADER_EPOCHS,
    LOG,
    RECOVERY_POINT_CHECKPOINT,
    TIMEINDEX,
)

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


def make_unclean(log_dir: Path, *, index_bytes: int = 0) -> None:
    """Make the state of a broker that died: active segments with written zeros at the end of their
    indexes, and leader epochs that its recovery writes anew.
    """
    copy_log_dir("clean", log_dir, only=NAMES)
    (log_dir / CLEAN_SHUTDOWN).unlink(missing_ok=True)
    (log_dir / RECOVERY_POINT_CHECKPOINT).write_bytes(b"")
    for name in NAMES:
        active = max((log_dir / name).glob(f"*{LOG}"))
        (log_dir / name / LEADER_EPOCHS).unlink()
        for suffix, entry in ((INDEX, 8), (TIMEINDEX, 12)) if index_bytes else ():
            with active.with_suffix(suffix).open("ab") as file:
                file.write(bytes((index_bytes // entry) * entry - file.tell()))


@pytest.mark.parametrize("keep_cut", [True, False], ids=["kept", "discarded"])
@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_zeros_at_the_end_of_indexes_make_room_for_all_that_is_written(
    kind: str, *, keep_cut: bool, kafka: Kafka, tmp_path: Path
) -> None:
    with disk_or_skip(tmp_path / "disk", mib=32, kind=kind) as disk:
        ours, theirs = disk / "logs", tmp_path / "theirs"
        make_unclean(ours, index_bytes=2**20)
        torn = max((ours / "c-plain-0").glob(f"*{LOG}"))
        torn.write_bytes(torn.read_bytes() + random.Random(1).randbytes(GARBAGE))
        shutil.copytree(ours, theirs)
        fill(disk)
        done = recover_with_winnow(ours, asked=request(keep_cut=keep_cut))
        assert [log.error for log in done.logs if log.error] == []
        assert done.marked
        assert done.cut_bytes == GARBAGE
        assert free_bytes(disk) > 5 * 2**20
        kept = [path.read_bytes() for path in (ours / "c-plain-0").glob(".winnow-quarantine-*/*")]
        assert list(map(len, kept)) == ([GARBAGE] if keep_cut else [])
        kafka.recover(
            theirs, now=NOW, index_interval=INTERVAL_BYTES, producer_expiration_ms=EXPIRATION_MS
        )
        assert_same_log_dir(ours, theirs)


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_torn_end_of_a_log_makes_room_for_leader_epochs(
    kind: str, kafka: Kafka, tmp_path: Path
) -> None:
    """Nothing but the log's own end can be freed."""
    with disk_or_skip(tmp_path / "disk", mib=32, kind=kind) as disk:
        ours, theirs = disk / "logs", tmp_path / "theirs"
        make_unclean(ours)
        torn = max((ours / "t-closed-0").glob(f"*{LOG}"))
        torn.write_bytes(torn.read_bytes() + random.Random(1).randbytes(GARBAGE))
        shutil.copytree(ours, theirs)
        fill(disk)
        done = recover_with_winnow(ours, asked=request(keep_cut=False))
        assert [log.error for log in done.logs if log.error] == []
        assert done.marked
        kafka.recover(
            theirs, now=NOW, index_interval=INTERVAL_BYTES, producer_expiration_ms=EXPIRATION_MS
        )
        assert_same_log_dir(ours, theirs)


def test_without_an_inode_the_zeros_are_freed_and_the_next_run_ends_the_work(
    kafka: Kafka, tmp_path: Path
) -> None:
    """Cut files free no inode, and a checkpoint is a new file: the broker needs inodes, too."""
    with disk_or_skip(tmp_path / "disk", mib=32, kind="ext4") as disk:
        ours, theirs = disk / "logs", tmp_path / "theirs"
        make_unclean(ours, index_bytes=2**20)
        shutil.copytree(ours, theirs)
        names = fill_names(disk)
        before = free_bytes(disk)
        stopped = recover_with_winnow(ours, asked=request(keep_cut=False))
        assert not stopped.marked
        errors = [log.error or "" for log in stopped.logs]
        assert all("No inode is free" in error for error in errors), errors
        assert free_bytes(disk) > before + 5 * 2**20
        shutil.rmtree(names)
        done = recover_with_winnow(ours, asked=request(keep_cut=False))
        assert done.marked
        kafka.recover(
            theirs, now=NOW, index_interval=INTERVAL_BYTES, producer_expiration_ms=EXPIRATION_MS
        )
        assert_same_log_dir(ours, theirs)
