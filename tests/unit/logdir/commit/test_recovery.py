"""Crash states made by hand. Cases 72, 78, 79; S6.2, S6.3. tests/crash covers every instant of a
real swap.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash import logs
from tests.crash.logs import leftovers
from winnow.errors import CorruptLogError
from winnow.logdir.commit.recovery import recover
from winnow.storage.local import LocalStorage

STORAGE = LocalStorage()
FILES = (".log", ".index", ".timeindex")
SEGMENTS = {base: [logs.record(o, o % 3) for o in range(base, base + 3)] for base in (0, 3, 6, 9)}
CLEANED = {4, 5}
"""Offsets that a cleaning of segments 0 and 3 keeps. The record at 3 is removed last."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return logs.make_log(tmp_path / "log", SEGMENTS, end=12, checkpoints={})


def _output(root: Path, **suffixes: str) -> None:
    """Write the cleaned segment of 0 and 3, each file with the given suffix."""
    for name, data in logs.segment_bytes(
        0, [one for one in SEGMENTS[3] if one.offset in CLEANED]
    ).items():
        (root / "t-0" / f"{0:020d}{name}{suffixes[name[1:]]}").write_bytes(data)


def _mark(root: Path, base: int, *suffixes: str) -> None:
    for suffix in suffixes:
        path = root / "t-0" / f"{base:020d}{suffix}"
        path.rename(f"{path}.deleted")


def _recovered(root: Path) -> set[int]:
    assert leftovers(STORAGE, f"{root}/t-0")
    assert recover(STORAGE, f"{root}/t-0")
    assert not recover(STORAGE, f"{root}/t-0")
    listing = logs.listing_of(root)
    assert listing.problems == ()
    assert listing.leftovers == ()
    log = logs.read_log(root)
    assert log.end == 12
    return {one.offset for one in log.records if one.offset < 6}


def test_case_72_only_cleaned_files_keep_the_sources(root: Path) -> None:
    _output(root, log=".cleaned", index=".cleaned", timeindex=".cleaned")
    assert _recovered(root) == set(range(6))


def test_case_72_some_swap_and_some_cleaned_keep_the_sources(root: Path) -> None:
    _output(root, log=".swap", index=".cleaned", timeindex=".cleaned")
    assert _recovered(root) == set(range(6))


def test_case_72_all_swap_with_the_sources_is_finished(root: Path) -> None:
    _output(root, log=".swap", index=".swap", timeindex=".swap")
    assert _recovered(root) == CLEANED


def test_case_72_all_swap_and_sources_deleted_is_finished(root: Path) -> None:
    _output(root, log=".swap", index=".swap", timeindex=".swap")
    _mark(root, 0, *FILES)
    _mark(root, 3, ".log")
    assert _recovered(root) == CLEANED


def test_case_72_one_file_still_swap_is_finished(root: Path) -> None:
    for base in (0, 3):
        _mark(root, base, *FILES)
    _output(root, log="", index="", timeindex=".swap")
    assert _recovered(root) == CLEANED


def test_case_72_only_deleted_sources_left_is_finished(root: Path) -> None:
    for base in (0, 3):
        _mark(root, base, *FILES)
    _output(root, log="", index="", timeindex="")
    assert _recovered(root) == CLEANED


def test_sources_beyond_the_end_of_the_output_are_kept(root: Path) -> None:
    for name, data in logs.segment_bytes(0, SEGMENTS[0][:1]).items():
        (root / "t-0" / f"{0:020d}{name}.swap").write_bytes(data)
    assert _recovered(root) == {0, 3, 4, 5}


def test_empty_output_replaces_only_the_first_source(root: Path) -> None:
    for name in FILES:
        (root / "t-0" / f"{0:020d}{name}.swap").touch()
    assert _recovered(root) == {3, 4, 5}


def test_cleaned_files_of_a_later_group_do_not_undo_a_swap(root: Path) -> None:
    _output(root, log=".swap", index=".swap", timeindex=".swap")
    (root / "t-0" / f"{6:020d}.log.cleaned").write_bytes(b"half")
    assert _recovered(root) == CLEANED


def test_case_78_indexes_without_a_log_are_removed(root: Path) -> None:
    for suffix in (".index", ".timeindex", ".txnindex"):
        (root / "t-0" / f"{1:020d}{suffix}").touch()
    assert _recovered(root) == set(range(6))
    assert not list((root / "t-0").glob(f"{1:020d}*"))


def test_case_79_deleted_files_are_removed(root: Path) -> None:
    (root / "t-0" / f"{1:020d}.log.deleted").touch()
    assert _recovered(root) == set(range(6))


def test_only_our_staging_directory_is_removed(root: Path) -> None:
    (root / "t-0" / ".winnow-1" / "deep").mkdir(parents=True)
    (root / "t-0" / ".winnow-1" / "deep" / "file").touch()
    (root / "t-0" / "somebody-elses").mkdir()
    report = recover(STORAGE, f"{root}/t-0")
    assert report.removed == (".winnow-1",)
    assert not (root / "t-0" / ".winnow-1").exists()
    assert (root / "t-0" / "somebody-elses").exists()


def test_recovery_of_a_sound_partition_changes_nothing(root: Path) -> None:
    # Unless a run was interrupted, a snapshot at no segment's base is left to the broker.
    (root / "t-0" / f"{4:020d}.snapshot").write_bytes(logs.snapshot(4))
    before = {path.name: path.stat().st_mtime_ns for path in (root / "t-0").iterdir()}
    assert not recover(STORAGE, f"{root}/t-0")
    assert {path.name: path.stat().st_mtime_ns for path in (root / "t-0").iterdir()} == before


def test_snapshots_of_removed_segments_are_deleted_but_never_the_newest(root: Path) -> None:
    for path in (root / "t-0").glob("*.snapshot"):
        path.unlink()
    for offset in (2, 4, 5):
        (root / "t-0" / f"{offset:020d}.snapshot").write_bytes(logs.snapshot(offset))
    for offset in (4, 5):
        (root / "t-0" / f"{offset:020d}.log.deleted").touch()
    recover(STORAGE, f"{root}/t-0")
    assert logs.listing_of(root).snapshot_offsets == (2, 5), "that at 2 was there before"


@pytest.mark.parametrize("damage", ["torn", "zeros", "backwards", "magic"])
def test_damaged_swap_log_is_refused_before_any_change(root: Path, damage: str) -> None:
    _output(root, log=".swap", index=".swap", timeindex=".swap")
    path = root / "t-0" / f"{0:020d}.log.swap"
    data = path.read_bytes()
    path.write_bytes(
        {
            "torn": data[:-1],
            "zeros": data + bytes(100),
            "backwards": data + data,
            "magic": data[:16] + b"\3" + data[17:],
        }[damage]
    )
    before = sorted(entry.name for entry in (root / "t-0").iterdir())
    with pytest.raises(CorruptLogError, match=r"\.swap log is damaged"):
        recover(STORAGE, f"{root}/t-0")
    assert sorted(entry.name for entry in (root / "t-0").iterdir()) == before


def test_file_name_that_stops_a_loader_is_refused(root: Path) -> None:
    (root / "t-0" / "part-0.log.cleaned").touch()
    with pytest.raises(CorruptLogError, match="20 digits"):
        recover(STORAGE, f"{root}/t-0")
    assert any("part-0" in str(problem) for problem in logs.listing_of(root).problems)
