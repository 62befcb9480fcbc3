"""Segments as their files describe them, and offsets as a loader resolves them. Cases 77, 81, 93;
S8.3.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.crash import logs
from winnow.errors import CorruptLogError, LostSegmentError
from winnow.logdir.listing import SegmentListing, resolve
from winnow.logdir.survey import Checkpoints
from winnow.survey.walk import walk_segment

SEGMENTS = {
    0: [logs.record(o, o) for o in range(3)],
    3: [logs.record(o, o) for o in range(3, 6)],
    6: [],
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return logs.make_log(tmp_path / "log", SEGMENTS, end=6, checkpoints={})


def _resolve(
    root: Path, log_end_offset: int = 6, *, clean_shutdown: bool = True, **checkpoints: int
) -> tuple[int, int, int]:
    state = resolve(
        logs.listing_of(root),
        log_dir=str(root),
        topic_partition=logs.T,
        checkpoints=Checkpoints(**{name: {logs.T: offset} for name, offset in checkpoints.items()}),
        log_end_offset=log_end_offset,
        clean_shutdown=clean_shutdown,
    )
    return state.log_start_offset, state.high_watermark, state.log_end_offset


def test_segments_are_described_by_their_files(root: Path) -> None:
    listing = logs.listing_of(root)
    assert listing.problems == ()
    assert listing.leftovers == ()
    assert [segment.base_offset for segment in listing.segments] == [0, 3, 6]
    first, _, active = listing.segments
    log = (root / "t-0" / "00000000000000000000.log").stat()
    assert (first.log_bytes, first.log_mtime_ms) == (log.st_size, logs.MTIME_NS // 1_000_000)
    assert (first.index_bytes, first.timeindex_bytes, first.txnindex_bytes) == (8, 12, None)
    assert (first.last_timeindex_timestamp, first.first_batch_max_timestamp) == (
        1_000_002,
        1_000_000,
    )
    assert (
        active.log_bytes,
        active.last_timeindex_timestamp,
        active.first_batch_max_timestamp,
    ) == (0, -1, -1)
    assert listing.snapshot_offsets == (3, 6)
    assert listing.leader_epochs == ((0, 0), (4, 5))


def _problem(listing: SegmentListing) -> str:
    (problem,) = listing.problems
    return str(problem)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_case_77_missing_index_of_a_segment_with_records_is_a_problem(
    root: Path, suffix: str
) -> None:
    (root / "t-0" / f"00000000000000000003{suffix}").unlink()
    assert f"00000000000000000003{suffix}" in _problem(logs.listing_of(root))


def test_case_81_empty_active_segment_may_have_only_its_log(root: Path) -> None:
    for suffix in (".index", ".timeindex"):
        (root / "t-0" / f"00000000000000000006{suffix}").unlink()
    listing = logs.listing_of(root)
    assert listing.problems == ()
    assert listing.segments[-1].index_bytes is None


def test_entry_beyond_the_next_segment_is_a_problem(root: Path) -> None:
    path = root / "t-0" / "00000000000000000000.timeindex"
    path.write_bytes(path.read_bytes()[:8] + (3).to_bytes(4))
    assert "offset below 3" in _problem(logs.listing_of(root))


def test_foreign_file_names_are_problems(root: Path) -> None:
    (root / "t-0" / "part-0.log").touch()
    (root / "t-0" / "x.snapshot").touch()
    assert len(logs.listing_of(root).problems) == 2


def test_first_timestamp_of_old_formats_is_read(root: Path) -> None:
    path = root / "t-0" / "00000000000000000003.log"
    for magic, expected in ((0, -1), (1, 77), (3, -1)):
        path.write_bytes(bytes(16) + bytes([magic, 0]) + (77).to_bytes(8) + bytes(50))
        assert logs.listing_of(root).segments[1].first_batch_max_timestamp == expected


def test_offsets_are_resolved_as_by_a_loader(root: Path) -> None:
    assert _resolve(root) == (0, 0, 6)
    assert _resolve(root, high_watermark=5) == (0, 5, 6)
    assert _resolve(root, high_watermark=50, clean_shutdown=False) == (0, 6, 6)
    assert _resolve(root, high_watermark=6, recovery_point=6) == (0, 6, 6)
    assert _resolve(root, high_watermark=1, log_start=2) == (2, 2, 6)
    assert _resolve(root, log_start=6) == (6, 6, 6)
    for name in ("log", "index", "timeindex"):
        (root / "t-0" / f"00000000000000000000.{name}").unlink()
    assert _resolve(root, log_start=2, high_watermark=4) == (3, 4, 6)


@pytest.mark.parametrize("name", ["high_watermark", "recovery_point"])
def test_log_that_ends_below_a_checkpoint_has_lost_its_end_if_the_broker_stopped_cleanly(
    root: Path, name: str
) -> None:
    with pytest.raises(LostSegmentError, match=f"below its {name.replace('_', ' ')} 7"):
        _resolve(root, **{name: 7})
    assert _resolve(root, clean_shutdown=False, **{name: 7})


def test_case_93_log_start_beyond_the_end_is_refused(root: Path) -> None:
    with pytest.raises(CorruptLogError, match="would delete this log"):
        _resolve(root, log_start=7)


def test_end_below_the_active_segment_is_refused(root: Path) -> None:
    with pytest.raises(CorruptLogError, match="active segment"):
        _resolve(root, log_end_offset=5)


def test_directory_without_a_segment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptLogError, match="without a segment"):
        _resolve(logs.make_log(tmp_path / "log", {}, end=0, checkpoints={}), log_end_offset=0)


@pytest.mark.parametrize("base", [0, 3, 6])
@pytest.mark.parametrize("size", [12, 24, 1000, 120_000])
@pytest.mark.parametrize("written", [False, True])
def test_time_index_that_was_never_cut_does_not_tell_the_largest_timestamp(
    root: Path, base: int, size: int, *, written: bool
) -> None:
    """To a broker the last entry would be of 1970. The log tells the truth."""
    before = logs.listing_of(root)
    path = root / "t-0" / f"{base:020d}.timeindex"
    path.write_bytes((path.read_bytes()[:-12] if written else b"") + bytes(size))
    listing = logs.listing_of(root)
    assert listing.problems == ()
    assert [one.last_timeindex_timestamp for one in listing.segments] == [
        one.last_timeindex_timestamp for one in before.segments
    ]


def test_records_of_1970_have_that_time(root: Path) -> None:
    records = [replace(one, timestamp=0) for one in SEGMENTS[3]]
    for suffix, data in logs.segment_bytes(3, records).items():
        (root / "t-0" / f"{3:020d}{suffix}").write_bytes(data)
    assert (root / "t-0" / f"{3:020d}.timeindex").read_bytes() == bytes(12)
    assert logs.listing_of(root).segments[1].last_timeindex_timestamp == 0


def test_log_that_must_tell_the_timestamp_and_is_damaged_is_a_problem(root: Path) -> None:
    (root / "t-0" / f"{3:020d}.timeindex").write_bytes(bytes(120))
    log = root / "t-0" / f"{3:020d}.log"
    log.write_bytes(log.read_bytes()[:-1])
    [problem] = logs.listing_of(root).problems
    assert str(log) in str(problem)


@pytest.mark.parametrize("base", [0, 3, 6])
@pytest.mark.parametrize("size", [8, 16, 1000, 120_000])
@pytest.mark.parametrize("written", [False, True])
def test_offset_index_that_was_never_cut_has_the_entries_before_the_zeros(
    root: Path, base: int, size: int, *, written: bool
) -> None:
    path = root / "t-0" / f"{base:020d}.index"
    path.write_bytes((path.read_bytes() if written else b"") + bytes(size))
    assert logs.listing_of(root).problems == ()
    length = (root / "t-0" / f"{base:020d}.log").stat().st_size
    walk = walk_segment(f"{root}/t-0", base, length, check_index=True)
    assert walk.next_offset == base + len(SEGMENTS[base])
