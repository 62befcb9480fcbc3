"""Walk the batch headers of one segment."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins.encoding import encode_batch
from tests.unit.cleaning.partitions import batch, job_of, make_partition, record
from winnow.errors import CorruptLogError
from winnow.logdir import batches as batches_module
from winnow.logdir.names import INDEX, LOG, segment_file
from winnow.scan import cut
from winnow.survey.walk import SegmentWalk, walk_segment


def walked(directory: Path, **more: bool) -> SegmentWalk:
    return walk_segment(
        str(directory), 0, (directory / segment_file(0, LOG)).stat().st_size, **more
    )


@settings(deadline=None, max_examples=40)
@given(
    counts=st.lists(st.integers(1, 4), max_size=12),
    split_bytes=st.integers(1, 600),
    rows=st.integers(1, 5),
)
def test_splits_cover_the_log_once_with_all_records(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], split_bytes: int, rows: int
) -> None:
    batches, offset = [], 0
    for count in counts:
        batches.append(batch(*(record(offset + i) for i in range(count))))
        offset += count
    directory = make_partition(tmp_path_factory.mktemp("walk") / "t-0", {0: batches})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cut, "SPLIT_BYTES", split_bytes)
        patch.setattr(batches_module, "BLOCK_ROWS", rows)
        walk = walked(directory, check_index=True)
    ends = {0}
    for one in batches:
        ends.add(max(ends) + len(one))
    assert (walk.batches, walk.records, walk.next_offset) == (len(counts), sum(counts), offset)
    assert sum(split.records for split in walk.splits) == sum(counts)
    assert [split.start for split in walk.splits] == [0, *(split.end for split in walk.splits)][
        : len(walk.splits)
    ]
    assert all(split.end in ends and split.start < split.end for split in walk.splits)
    assert not batches or walk.splits[-1].end == max(ends)
    assert all(split.end - split.start >= split_bytes for split in walk.splits[:-1])


def test_empty_segment_has_no_split_and_ends_at_its_base(tmp_path: Path) -> None:
    walk = walked(make_partition(tmp_path / "t-0", {0: []}), producers_from=0, check_index=True)
    assert (walk.next_offset, walk.batches, walk.records, walk.splits) == (0, 0, 0, ())
    assert len(walk.last_batches) == 0


def test_last_batch_of_each_producer_is_found_across_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    producers = [7, 8, -1, 7, 9, 8, 7, -1]
    log = [batch(record(offset), producer_id=pid) for offset, pid in enumerate(producers)]
    monkeypatch.setattr(batches_module, "BLOCK_ROWS", 3)
    last = walked(make_partition(tmp_path / "t-0", {0: log}), producers_from=0).last_batches
    assert list(zip(last["producer_id"].tolist(), last["last_offset"].tolist(), strict=True)) == [
        (9, 4),
        (8, 5),
        (7, 6),
    ]


def test_split_with_transactional_data_or_markers_is_not_plain(tmp_path: Path) -> None:
    plain = walked(make_partition(tmp_path / "plain-0", {0: [batch(record(0))]}))
    assert ([split.plain for split in plain.splits], plain.legacy) == ([True], False)
    data = encode_batch([record(0)], transactional=True, producer_id=3)
    marker = encode_batch([record(1, b"\0\0\0\1")], transactional=True, control=True, producer_id=3)
    for name, log in (("data-0", [data]), ("both-0", [data, marker]), ("marker-0", [marker])):
        walk = walked(make_partition(tmp_path / name, {0: log}))
        assert [split.plain for split in walk.splits] == [False]


LOG_OF_TWO = [batch(record(0), record(1)), batch(record(2))]
FIRST = len(LOG_OF_TWO[0])


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (LOG_OF_TWO[1][:-1], f"at byte {FIRST}"),
        (LOG_OF_TWO[1][:10], f"at byte {FIRST}"),
        (b"\0" * 100, f"at byte {FIRST}"),
        (b"\xff" * 100, f"at byte {FIRST}"),
        (LOG_OF_TWO[0], f"at byte {FIRST}"),
    ],
    ids=["torn batch", "torn header", "zeros", "ones", "the same offsets again"],
)
def test_malformed_batch_is_refused_with_file_and_byte(
    tmp_path: Path, damage: bytes, found: str
) -> None:
    directory = make_partition(tmp_path / "t-0", {0: LOG_OF_TWO})
    log = directory / segment_file(0, LOG)
    log.write_bytes(LOG_OF_TWO[0] + damage)
    with pytest.raises(CorruptLogError, match=rf"{log} {found}"):
        walked(directory)


def test_index_of_another_log_is_refused(tmp_path: Path) -> None:
    log = [batch(record(offset, value=b"v" * 50)) for offset in range(8)]
    directory = make_partition(tmp_path / "t-0", {0: log})
    assert walked(directory, check_index=True).batches == 8
    index = directory / segment_file(0, INDEX)
    entry = bytearray(index.read_bytes())
    entry[7] += 1
    index.write_bytes(bytes(entry))
    with pytest.raises(CorruptLogError, match=r"\.index at byte 0"):
        walked(directory, check_index=True)


def test_truncated_log_is_refused(tmp_path: Path) -> None:
    directory = make_partition(tmp_path / "t-0", {0: LOG_OF_TWO})
    with pytest.raises(CorruptLogError, match="became shorter"):
        walk_segment(str(directory), 0, 10**6)


def test_huge_record_count_does_not_enlarge_the_job(tmp_path: Path) -> None:
    """Record counts size the buckets, tasks and arrays before anything has checked them."""
    data = bytearray(batch(record(0)))
    data[57:61] = (2**31 - 1).to_bytes(4)
    directory = make_partition(tmp_path / "t-0", {0: [bytes(data)]})
    try:
        job = job_of(directory)
    except CorruptLogError:
        return
    assert (job.buckets, job.splits[0].records) == (1, 1)
