"""Indexes without their `.log`: what a crash leaves is removed, and what proves a loss is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash import logs
from tests.crash.logs import leftovers
from winnow import api
from winnow.errors import LostSegmentError
from winnow.logdir.commit.lost import (
    LostSegment,
    check_none_lost,
    lost_segments,
    only_in_deleted,
)
from winnow.logdir.commit.recovery import preview, recover
from winnow.logdir.names import LOG
from winnow.start.files import PartitionFiles
from winnow.storage.local import LocalStorage
from winnow.verbs.verify.directories import check_directory
from winnow.verbs.verify.findings import Scope
from winnow.verbs.verify.kinds import Kind

STORAGE = LocalStorage()
BASES = (0, 3, 6, 9)
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
"""In the order in which Kafka renames them (`LogSegment.changeFileSuffixes`)."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    segments = {base: [logs.record(o, o % 3) for o in range(base, base + 3)] for base in BASES}
    root = logs.make_log(tmp_path / "log", segments, end=12, checkpoints={})
    for base in BASES:
        _file(root, base, ".txnindex").write_bytes(b"entry")
    return root


def _file(root: Path, base: int, suffix: str) -> Path:
    return root / "t-0" / f"{base:020d}{suffix}"


def _lost(root: Path) -> tuple[LostSegment, ...]:
    return lost_segments(STORAGE, f"{root}/t-0", STORAGE.list_dir(f"{root}/t-0"))


def _contents(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("missing", "offsets"),
    [
        ((3,), [(3, 5)]),
        ((3, 6), [(3, 5), (6, 8)]),
        ((9,), [(9, 11)]),
        (BASES, [(0, 2), (3, 5), (6, 8), (9, 11)]),
    ],
    ids=["a middle one", "two", "the active one", "all"],
)
def test_lost_log_is_reported_with_its_offsets_and_stops_every_change(
    root: Path, missing: tuple[int, ...], offsets: list[tuple[int, int]]
) -> None:
    for base in missing:
        _file(root, base, ".log").unlink()
    _file(root, 0, ".log.deleted").touch()  # a leftover, which could be removed
    if 0 in missing:
        _file(root, 0, ".log.deleted").unlink()
    before = _contents(root)
    directory = f"{root}/t-0"
    assert [(lost.base_offset, (lost.end_offset or 0) - 1) for lost in _lost(root)] == offsets
    assert not [name for name in leftovers(STORAGE, directory) if name.endswith("index")]
    assert isinstance(logs.listing_of(root).problems[0], LostSegmentError)
    with pytest.raises(LostSegmentError, match=r"missing.* are lost"):
        check_none_lost(STORAGE, directory)
    if 0 not in missing:
        for refuse in (preview, recover):
            with pytest.raises(LostSegmentError):
                refuse(STORAGE, directory)
    for purge in (None, "all"):
        [partition] = api.recover([str(root)], purge_run=purge).partitions
        assert "missing" in (partition.error or "")
    found = check_directory(STORAGE, Scope(str(root), "t-0", "t", 0)).findings
    assert [
        (finding.kind, finding.first_offset, finding.last_offset)
        for finding in found
        if finding.kind is not Kind.LEFTOVER
    ] == [(Kind.MISSING, *pair) for pair in offsets]
    assert {path: data for path, data in _contents(root).items() if ".lock" not in path} == before


def test_error_says_which_logs_and_what_to_do(root: Path) -> None:
    for base in (3, 6):
        _file(root, base, ".log").unlink()
    error = str(logs.listing_of(root).problems[0])
    assert "the .log files of 2 segments are missing" in error
    assert f"{3:020d}.log, {6:020d}.log" in error
    assert "offsets 3 to 8 are lost" in error
    assert "was it made without `*.log`?" in error


@pytest.mark.parametrize("suffix", SUFFIXES[1:])
def test_any_index_with_bytes_proves_the_loss(root: Path, suffix: str) -> None:
    for other in SUFFIXES:
        if other != suffix:
            _file(root, 6, other).unlink()
    assert [lost.base_offset for lost in _lost(root)] == [6]


def test_end_of_a_lost_active_segment_is_unknown_without_a_snapshot(root: Path) -> None:
    _file(root, 9, ".log").unlink()
    _file(root, 12, ".snapshot").unlink()
    [lost] = _lost(root)
    assert lost.end_offset is None
    assert "offsets 9 and above" in str(logs.listing_of(root).problems[0])


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("renamed", range(1, len(SUFFIXES) + 1))
def test_removal_that_a_crash_interrupted_is_finished(root: Path, base: int, renamed: int) -> None:
    """Retention, a cleaning and a truncation rename the log first."""
    for suffix in SUFFIXES[:renamed]:
        _file(root, base, suffix).rename(_file(root, base, f"{suffix}.deleted"))
    assert _lost(root) == ()
    before = _contents(root)
    if base == BASES[-1] and renamed > 1:  # nothing else may have these records
        assert not recover(STORAGE, f"{root}/t-0")
        assert _contents(root) == before
        return
    assert recover(STORAGE, f"{root}/t-0")
    assert not list((root / "t-0").glob(f"{base:020d}.*index*"))
    assert not recover(STORAGE, f"{root}/t-0")


@pytest.mark.parametrize("left", SUFFIXES[1:])
def test_loader_that_crashed_while_it_finished_a_removal_is_followed(root: Path, left: str) -> None:
    """It removes `.deleted` files in the order of the directory, then indexes without a log."""
    for suffix in SUFFIXES:
        if suffix != left:
            _file(root, 3, suffix).rename(_file(root, 3, f"{suffix}.deleted"))
    _file(root, 3, ".log.deleted").unlink()
    assert _lost(root) == ()
    assert f"{3:020d}{left}" in recover(STORAGE, f"{root}/t-0").removed


def test_indexes_below_the_first_segment_and_empty_indexes_are_removed(root: Path) -> None:
    _file(root, 0, ".log").unlink()
    for suffix in SUFFIXES[1:]:
        _file(root, 5, suffix).touch()
    report = recover(STORAGE, f"{root}/t-0")
    assert sorted(report.removed) == [f"{b:020d}{s}" for b in (0, 5) for s in sorted(SUFFIXES[1:])]


def test_sources_that_a_swap_replaces_are_not_lost_but_a_log_beyond_it_is(root: Path) -> None:
    """A loader removes what a `.swap` log replaces, in any order."""
    output = [logs.record(o, o % 3) for o in (0, 5)]
    for suffix, data in logs.segment_bytes(0, output).items():
        _file(root, 0, f"{suffix}.swap").write_bytes(data)
    _file(root, 3, ".log").unlink()
    report = preview(STORAGE, f"{root}/t-0")
    assert f"{3:020d}.index" in report.removed
    _file(root, 6, ".log").unlink()
    assert _lost(root) == ()
    before = _contents(root)
    with pytest.raises(LostSegmentError, match=f"{6:020d}.log"):
        recover(STORAGE, f"{root}/t-0")
    assert _contents(root) == before


def test_log_that_recovery_has_moved_aside_is_not_lost(root: Path) -> None:
    aside = root / "t-0" / ".winnow-quarantine-run"
    aside.mkdir()
    _file(root, 9, ".log").rename(aside / f"{9:020d}.log")
    assert _lost(root) == ()
    assert PartitionFiles(STORAGE, f"{root}/t-0").orphans()


def test_log_that_is_no_file_is_damage_but_not_lost(root: Path) -> None:
    _file(root, 3, ".log").unlink()
    _file(root, 3, ".log").symlink_to(root / "elsewhere")
    assert _lost(root) == ()
    assert leftovers(STORAGE, f"{root}/t-0") == ()


def _names(base: int, size: int, *endings: str) -> dict[str, int]:
    return {f"{base:020d}{ending}": size for ending in endings}


@pytest.mark.parametrize(
    ("files", "found"),
    [
        # A start on a full disk emptied the log from offset 5 on.
        (_names(5, 0, LOG) | _names(5, 9, ".log.deleted", ".index.deleted"), [5]),
        (_names(0, 9, LOG) | _names(5, 9, ".log.deleted", ".index.deleted"), [5]),
        # Retention, a cleaning, an emptied log without records, a truncation by Winnow.
        (_names(5, 0, LOG) | _names(0, 9, ".log.deleted", ".index.deleted"), []),
        (_names(5, 9, LOG) | _names(5, 9, ".log.deleted", ".index.deleted"), []),
        (_names(0, 0, LOG) | _names(5, 0, ".log.deleted", ".index.deleted"), []),
        (_names(0, 9, LOG) | _names(5, 9, ".log.deleted"), []),
    ],
)
def test_deleted_segments_above_the_last_log_are_listed(
    files: dict[str, int], found: list[int]
) -> None:
    assert [int(name[:20]) for name in only_in_deleted(files)] == found
