"""Which changes to a log are detected by what was recorded before a run (docs/decisions/0036)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crash import logs
from winnow.errors import CorruptLogError
from winnow.logdir.commit.bound_log import BoundLog, bind, check_bound
from winnow.logdir.names import LOG, TXNINDEX, segment_file
from winnow.state import Recovered
from winnow.storage.local import LocalStorage

STORAGE = LocalStorage()
BASES = (0, 30, 60, 90)
"""The last one is active."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    segments = {base: [logs.record(o, o) for o in range(base, base + 30)] for base in BASES}
    return logs.make_log(tmp_path / "log", segments, end=120, checkpoints={})


def check(root: Path, bound: BoundLog) -> None:
    paths = {int(path.stem): str(path) for path in (root / str(logs.T)).glob("*.log")}
    check_bound(STORAGE, bound, paths, str(root / str(logs.T)))


def log_of(root: Path, base: int) -> Path:
    return root / str(logs.T) / segment_file(base, LOG)


def append(root: Path, more: bytes = b"more") -> None:
    with log_of(root, BASES[-1]).open("ab") as file:
        file.write(more)


def new_segment(root: Path) -> None:
    log_of(root, 150).write_bytes(b"anything")


def copied(root: Path) -> None:
    shutil.copytree(root, f"{root}-copy")
    shutil.rmtree(root)
    shutil.move(f"{root}-copy", root)


def rewritten(root: Path, *, base: int, at: int) -> None:
    """Change the file but keep its size and time."""
    log = log_of(root, base)
    status, data = log.stat(), bytearray(log.read_bytes())
    data[at] ^= 1
    log.unlink()
    log.write_bytes(data)
    os.utime(log, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("change", [append, new_segment, copied])
def test_appends_new_segments_and_copies_are_accepted(
    root: Path, change: Callable[[Path], None]
) -> None:
    bound = bind(STORAGE, logs.state_of(root))
    change(root)
    check(root, bound)


@pytest.mark.parametrize(
    "change",
    [
        lambda root: rewritten(root, base=30, at=0),
        lambda root: rewritten(root, base=30, at=-1),
        lambda root: os.utime(log_of(root, 30), ns=(0, 0)),
        lambda root: log_of(root, 30).write_bytes(b""),
        lambda root: log_of(root, 30).unlink(),
        lambda root: log_of(root, 0).unlink(),
        lambda root: shutil.copy2(log_of(root, 30), log_of(root, 45)),
        lambda root: log_of(root, 30).with_suffix(TXNINDEX).write_bytes(b"an entry"),
        lambda root: rewritten(root, base=90, at=0),
        lambda root: rewritten(root, base=90, at=-1),
        lambda root: log_of(root, 90).write_bytes(log_of(root, 90).read_bytes()[:-1]),
        lambda root: log_of(root, 90).rename(log_of(root, 91)),
    ],
)
def test_any_other_change_is_refused(root: Path, change: Callable[[Path], object]) -> None:
    bound = bind(STORAGE, logs.state_of(root))
    change(root)
    with pytest.raises(CorruptLogError, match="the log has changed since the run"):
        check(root, bound)


def test_after_an_unclean_shutdown_only_trusted_bytes_are_bound(root: Path) -> None:
    """A broker truncates what a crash has torn."""
    bound = bind(STORAGE, replace(logs.state_of(root), trusted_end=70))
    assert [segment.base_offset for segment in bound.closed] == [0, 30]
    assert (bound.active.base_offset, bound.active.log_bytes) == (60, 0)
    log_of(root, 60).write_bytes(b"")
    log_of(root, 90).unlink()
    check(root, bound)
    rewritten(root, base=30, at=0)
    with pytest.raises(CorruptLogError, match="the log has changed since the run"):
        check(root, bound)


def test_log_that_was_read_is_bound_up_to_its_valid_end(root: Path) -> None:
    """A broker cuts the active segment there, or it appends after a whole end."""
    state, valid = logs.state_of(root), log_of(root, 90).stat().st_size
    append(root, bytes(500))
    recovered = Recovered(
        first_read=0,
        end_offset=120,
        cut_segment=90,
        cut_position=valid,
        why_cut="zeros follow",
        removed=(),
        lost_bytes=500,
    )
    bound = bind(STORAGE, replace(state, recovered=recovered))
    assert [segment.base_offset for segment in bound.closed] == [0, 30, 60]
    assert (bound.active.base_offset, bound.active.log_bytes) == (90, valid)
    check(root, bound)
    with log_of(root, 90).open("r+b") as file:
        file.truncate(valid)
    check(root, bound)
    with log_of(root, 90).open("r+b") as file:
        file.truncate(valid - 1)
    with pytest.raises(CorruptLogError, match="the log has changed since the run"):
        check(root, bound)


def test_missing_transaction_index_equals_an_empty_one(root: Path) -> None:
    bound = bind(STORAGE, logs.state_of(root))
    log_of(root, 30).with_suffix(TXNINDEX).write_bytes(b"")
    check(root, bound)
