"""S6.5: split a segment that spans too many offsets. tests/crash covers crashes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.crash.by_hand import FAR, make_log, one
from tests.twins.encoding import encode_batch
from tests.unit.wire.legacy_logs import legacy_batch
from winnow.errors import CorruptLogError
from winnow.logdir import batches
from winnow.logdir.commit.split import StagedSplit, is_overflowed, stage_split, swap_split
from winnow.logdir.listing import list_segments
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, segment_file
from winnow.state import Segment
from winnow.storage.local import LocalStorage
from winnow.wire.batch import Codec
from winnow.wire.plain import Record

STORAGE = LocalStorage()
BASE = 7


def staged(
    directory: Path, batches: list[bytes], *, index_bytes: int = 10_485_760
) -> tuple[Segment, StagedSplit]:
    directory.mkdir(parents=True, exist_ok=True)
    for suffix, content in {LOG: b"".join(batches), INDEX: b"", TIMEINDEX: b""}.items():
        (directory / segment_file(BASE, suffix)).write_bytes(content)
        (directory / segment_file(20 * FAR, suffix)).write_bytes(b"")
    source = list_segments(STORAGE, str(directory)).segments[0]
    (directory / ".winnow-x").mkdir()
    found = stage_split(
        STORAGE,
        str(directory),
        source,
        f"{directory}/.winnow-x",
        index_interval_bytes=100,
        segment_index_bytes=index_bytes,
    )
    return source, found


def logs(found: StagedSplit) -> dict[int, bytes]:
    return {base: Path(paths[LOG]).read_bytes() for base, paths in sorted(found.parts.items())}


def test_segment_overflows_at_the_first_offset_beyond_an_index_entry() -> None:
    assert not is_overflowed(BASE, BASE + FAR + 1)
    assert is_overflowed(BASE, BASE + FAR + 2)
    assert not is_overflowed(BASE, BASE)


def test_part_ends_at_the_last_offset_that_fits(tmp_path: Path) -> None:
    batches = [
        one(BASE, "a"),
        one(BASE + FAR, "b"),
        one(BASE + FAR + 1, "c"),
        one(BASE + 2 * FAR + 1, "d"),
    ]
    _, found = staged(tmp_path / "t-0", batches)
    assert logs(found) == {BASE: batches[0] + batches[1], BASE + FAR + 1: batches[2] + batches[3]}


@settings(deadline=None, max_examples=30)
@given(
    gaps=st.lists(st.sampled_from([1, 2, FAR // 2, FAR - 1, FAR, FAR + 1]), min_size=1, max_size=12)
)
def test_parts_keep_all_batches_and_are_as_long_as_possible(
    tmp_path_factory: pytest.TempPathFactory, gaps: list[int]
) -> None:
    offsets = [BASE]
    for gap in gaps:
        offsets.append(offsets[-1] + gap)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "BLOCK_ROWS", 3)
        _, found = staged(
            tmp_path_factory.mktemp("split") / "t-0", [one(offset, "k") for offset in offsets]
        )
    expected: dict[int, bytes] = {}
    for offset in offsets:
        base = max(expected, default=offset)
        base = offset if offset - base > FAR else base
        expected[base] = expected.get(base, b"") + one(offset, "k")
    assert logs(found) == expected
    assert not found.placeholder


@pytest.mark.parametrize("magic", [0, 1])
def test_part_begins_at_the_first_offset_inside_an_old_wrapper(tmp_path: Path, magic: int) -> None:
    wide = [Record(BASE + FAR, 5, b"a", b"1"), Record(BASE + FAR + 3, 6, b"b", b"2")]
    batches = [
        legacy_batch([Record(BASE, 4, b"c", b"3")], magic),
        legacy_batch(wide, magic, Codec.GZIP),
    ]
    _, found = staged(tmp_path / "t-0", batches)
    assert logs(found) == {BASE: batches[0], BASE + FAR: batches[1]}


def test_wrapper_that_no_segment_can_hold_is_refused(tmp_path: Path) -> None:
    wide = [Record(BASE, 5, b"a", b"1"), Record(BASE + FAR + 1, 6, b"b", b"2")]
    with pytest.raises(CorruptLogError, match="offsets that ascend"):
        staged(tmp_path / "t-0", [legacy_batch(wide, 0, Codec.GZIP)])


def test_torn_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptLogError, match=rf"{BASE:020d}\.log at byte"):
        staged(tmp_path / "t-0", [one(BASE, "a"), one(BASE + FAR + 1, "b")[:-1]])


def test_index_above_segment_index_bytes_is_refused(tmp_path: Path) -> None:
    batches = [one(BASE + offset, "a") for offset in (*range(40), FAR + 1)]
    with pytest.raises(CorruptLogError, match=r"segment\.index\.bytes"):
        staged(tmp_path / "t-0", batches, index_bytes=64)


def test_changed_source_is_refused_and_kept(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    _, found = staged(directory, [one(BASE, "a"), one(BASE + FAR + 1, "b")])
    log = directory / segment_file(BASE, LOG)
    log.write_bytes(log.read_bytes() + one(BASE + FAR + 2, "c"))
    before = sorted(path.name for path in directory.iterdir())
    with pytest.raises(CorruptLogError, match="has changed since it was listed"):
        swap_split(STORAGE, str(directory), found)
    assert sorted(path.name for path in directory.iterdir()) == before


def test_active_segment_is_never_split(tmp_path: Path) -> None:
    root = make_log(
        tmp_path / "log", {BASE: [(BASE, "a"), (BASE + FAR + 1, "b")]}, end=BASE + FAR + 2
    )
    directory = str(root / "t-0")
    (source,) = list_segments(STORAGE, directory).segments
    STORAGE.mkdir(f"{directory}/.winnow-x")
    found = stage_split(
        STORAGE,
        directory,
        source,
        f"{directory}/.winnow-x",
        index_interval_bytes=100,
        segment_index_bytes=1000,
    )
    with pytest.raises(CorruptLogError, match="active segment"):
        swap_split(STORAGE, directory, found)


def test_compressed_batches_are_copied_unchanged(tmp_path: Path) -> None:
    batches = [
        encode_batch(
            [Record(BASE + at, 5, b"a", b"x" * 100), Record(BASE + at + 1, 6, b"b", None)],
            codec=Codec.ZSTD,
        )
        for at in (0, FAR, 2 * FAR)
    ]
    _, found = staged(tmp_path / "t-0", batches)
    assert b"".join(logs(found).values()) == b"".join(batches)
    assert sorted(found.parts) == [BASE, BASE + FAR, BASE + 2 * FAR]
