"""Cases 92 and 97; S6.6, S7.4, S7.6. tests/crash covers every instant."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crash import logs
from winnow.errors import CorruptLogError
from winnow.logdir.checkpoints import read_leader_epochs
from winnow.logdir.commit.retain import delete_segments, follow_log_start, retain, roll_active
from winnow.state import Entries
from winnow.storage.local import LocalStorage

STORAGE = LocalStorage()
SEGMENTS = {base: [logs.record(o, o) for o in range(base, base + 3)] for base in (0, 3, 6, 9)}


def _log(tmp_path: Path, **checkpoints: int) -> Path:
    names = {
        f"{name.replace('_', '-')}-offset-checkpoint": offset
        for name, offset in checkpoints.items()
    }
    return logs.make_log(tmp_path / "log", SEGMENTS, end=12, checkpoints=names)


def _follow(root: Path, log_start_offset: int, entries: Entries) -> None:
    state = replace(logs.state_of(root), log_start_offset=log_start_offset)
    follow_log_start(STORAGE, state, entries)


def test_case_92_snapshots_are_deleted_with_their_segments(tmp_path: Path) -> None:
    root = _log(tmp_path)
    state = logs.state_of(root)
    retain(
        STORAGE,
        state,
        deleted=state.segments[:2],
        roll=False,
        log_start_offset=6,
        entries=logs.COMPACTED,
    )
    after = logs.state_of(root)
    assert [segment.base_offset for segment in after.segments] == [6, 9]
    assert (after.log_start_offset, after.log_end_offset) == (6, 12)
    assert after.snapshot_offsets == (6, 9, 12)
    assert after.leader_epochs == ((4, 6),)
    assert not list(Path(state.directory).glob("*.deleted"))
    before = {path.name: path.stat().st_mtime_ns for path in Path(state.directory).iterdir()}
    retain(STORAGE, after, deleted=[], roll=False, log_start_offset=6, entries=logs.COMPACTED)
    assert {
        path.name: path.stat().st_mtime_ns for path in Path(state.directory).iterdir()
    } == before


class NoRoomForNames(LocalStorage):
    """A directory without room for another name, as on ext4 when its block is full."""

    def __init__(self, number: int) -> None:
        self.number = number

    def rename(self, source: str, target: str) -> None:
        if target.endswith(".deleted"):
            raise OSError(self.number, "no room", target)
        super().rename(source, target)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_files_are_deleted_directly_if_they_cannot_be_renamed(tmp_path: Path, number: int) -> None:
    root, usual = _log(tmp_path), _log(tmp_path / "usual")
    delete_segments(NoRoomForNames(number), f"{root}/t-0", logs.state_of(root).segments[:2])
    delete_segments(STORAGE, f"{usual}/t-0", logs.state_of(usual).segments[:2])
    left = [sorted(path.name for path in (one / "t-0").iterdir()) for one in (root, usual)]
    assert left[0] == left[1]


def test_other_error_stops_the_deletion(tmp_path: Path) -> None:
    root = _log(tmp_path)
    with pytest.raises(OSError, match="no room"):
        delete_segments(NoRoomForNames(errno.EIO), f"{root}/t-0", logs.state_of(root).segments[:2])
    assert [s.base_offset for s in logs.state_of(root).segments] == [0, 3, 6, 9]


def test_newest_snapshot_is_never_removed(tmp_path: Path) -> None:
    root = _log(tmp_path)
    for offset in (6, 9, 12):
        (root / "t-0" / f"{offset:020d}.snapshot").unlink()
    delete_segments(STORAGE, f"{root}/t-0", logs.state_of(root).segments[:3])
    assert logs.listing_of(root).snapshot_offsets == (3,)


def test_only_lowest_segments_may_be_deleted_and_never_all(tmp_path: Path) -> None:
    root = _log(tmp_path)
    segments = logs.state_of(root).segments
    before = sorted(path.name for path in (root / "t-0").iterdir())
    for wrong in (segments[1:2], segments[:1] + segments[2:3], segments):
        with pytest.raises(CorruptLogError, match="lowest"):
            delete_segments(STORAGE, f"{root}/t-0", wrong)
    assert sorted(path.name for path in (root / "t-0").iterdir()) == before


def test_roll_keeps_the_log_end_and_copies_attributes(tmp_path: Path) -> None:
    root = _log(tmp_path)
    model = root / "t-0" / f"{9:020d}.log"
    model.chmod(0o640)
    state = logs.state_of(root)
    roll_active(STORAGE, state)
    rolled = logs.listing_of(root).segments[-1]
    assert (rolled.base_offset, rolled.log_bytes, rolled.index_bytes, rolled.timeindex_bytes) == (
        12,
        0,
        0,
        0,
    )
    assert logs.read_log(root).end == 12
    for suffix in (".log", ".index", ".timeindex"):
        status = (Path(state.directory) / f"{12:020d}{suffix}").stat()
        assert (status.st_mode & 0o777, status.st_uid) == (0o640, model.stat().st_uid)


def test_empty_active_segment_is_not_rolled(tmp_path: Path) -> None:
    root = _log(tmp_path)
    roll_active(STORAGE, logs.state_of(root))
    with pytest.raises(CorruptLogError, match="can't be rolled"):
        roll_active(STORAGE, logs.state_of(root))


@pytest.mark.parametrize(("entry", "left"), [(2, None), (6, None), (7, 7)])
def test_log_start_entry_is_dropped_once_it_is_redundant(
    tmp_path: Path, entry: int, left: int | None
) -> None:
    root = _log(tmp_path, log_start=entry)
    state = logs.state_of(root)
    retain(
        STORAGE,
        state,
        deleted=state.segments[:2],
        roll=False,
        log_start_offset=max(entry, 6),
        entries=logs.COMPACTED,
    )
    assert logs.state_of(root).log_start_checkpoint == left
    assert "other 3 99\n" in (root / "log-start-offset-checkpoint").read_text()


@pytest.mark.parametrize(("entry", "raised"), [(4, 6), (6, 6), (9, 9)])
def test_cleaner_entry_is_raised_to_the_log_start(tmp_path: Path, entry: int, raised: int) -> None:
    root = _log(tmp_path, cleaner=entry)
    _follow(root, 6, logs.COMPACTED)
    assert logs.state_of(root).cleaner_checkpoint == raised
    assert read_leader_epochs(STORAGE, f"{root}/t-0") == ((4, 6),)


@pytest.mark.parametrize(("entry", "left"), [(None, 6), (0, 6), (2, 6), (6, 6), (7, 7)])
def test_log_start_entry_with_remote_storage_is_never_dropped(
    tmp_path: Path, entry: int | None, left: int
) -> None:
    """Without the entry a broker serves such a log from offset 0 and finds nothing there."""
    root = _log(tmp_path, **({} if entry is None else {"log_start": entry}))
    state = logs.state_of(root)
    remote = Entries(compacted=False, remote=True)
    retain(
        STORAGE,
        state,
        deleted=state.segments[:2],
        roll=False,
        log_start_offset=max(entry or 0, 6),
        entries=remote,
    )
    assert logs.state_of(root).log_start_checkpoint == left
    _follow(root, 3, remote)
    assert logs.state_of(root).log_start_checkpoint == left


def test_log_start_with_remote_storage_is_raised_before_deletion(
    tmp_path: Path,
) -> None:
    root = _log(tmp_path, log_start=2)
    state = logs.state_of(root)
    remote = Entries(compacted=False, remote=True)
    with pytest.raises(OSError, match="no room"):
        retain(
            NoRoomForNames(errno.EIO),
            state,
            deleted=state.segments[:2],
            roll=False,
            log_start_offset=6,
            entries=remote,
        )
    assert logs.state_of(root).log_start_checkpoint == 6
    assert len(logs.state_of(root).segments) == 4


def test_log_start_with_remote_storage_is_kept_if_segments_changed(
    tmp_path: Path,
) -> None:
    root = _log(tmp_path, log_start=2)
    state, before = logs.state_of(root), (root / "log-start-offset-checkpoint").read_text()
    (root / "t-0" / f"{3:020d}.log").write_bytes(b"another file")
    remote = Entries(compacted=False, remote=True)
    with pytest.raises(CorruptLogError):
        retain(
            STORAGE,
            state,
            deleted=state.segments[:2],
            roll=False,
            log_start_offset=6,
            entries=remote,
        )
    assert (root / "log-start-offset-checkpoint").read_text() == before


@pytest.mark.parametrize("entry", [4, 6, 9])
def test_stale_cleaner_entry_of_an_uncompacted_log_is_kept(tmp_path: Path, entry: int) -> None:
    root = _log(tmp_path, cleaner=entry)
    _follow(root, 6, Entries(compacted=False, remote=False))
    assert logs.state_of(root).cleaner_checkpoint == entry


def test_no_checkpoint_is_created(tmp_path: Path) -> None:
    root = _log(tmp_path)
    _follow(root, 6, logs.COMPACTED)
    assert not list(root.glob("*checkpoint*"))
