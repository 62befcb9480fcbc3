from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.twins.encoding import encode_batch
from winnow.errors import CorruptLogError
from winnow.logdir.indexes.builder import IndexBuilder
from winnow.logdir.lookup import FoundBatch, Segments
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, segment_file
from winnow.storage.local import LocalStorage
from winnow.wire.batch import BATCH
from winnow.wire.plain import Record
from winnow.wire.walk import walk_batches

T = 1_000_000
"""ms of the first record; each later one comes 10 ms after the one before."""


def batch(first: int, last: int, *, step: int = 1, **fields: object) -> bytes:
    records = [
        Record(offset, T + 10 * offset, b"k%d" % offset, bytes(30))
        for offset in range(first, last + 1, step)
    ]
    return encode_batch(records, base_offset=first, last_offset=last, **fields)  # type: ignore[arg-type]


def partition(directory: Path, segments: Mapping[int, Sequence[bytes]]) -> Path:
    directory.mkdir()
    for base, batches in segments.items():
        data = b"".join(batches)
        rows = np.zeros(len(batches) + 1, BATCH)
        count, _, _ = walk_batches(data, 0, base, rows)
        builder = IndexBuilder(base_offset=base, index_interval_bytes=300)
        builder.append(rows[:count])
        index, timeindex = builder.finish()
        for suffix, content in {LOG: data, INDEX: index, TIMEINDEX: timeindex}.items():
            (directory / segment_file(base, suffix)).write_bytes(content)
    return directory


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Make 0-49 in batches of 5, 50-79 with some compacted away, 80-89 empty, and an active segment
    100-119.
    """
    return partition(
        tmp_path / "t-0",
        {
            0: [batch(first, first + 4) for first in range(0, 50, 5)],
            50: [
                batch(50, 59, step=3),
                batch(60, 69, step=9),
                encode_batch([], base_offset=70, last_offset=79),
            ],
            80: [],
            100: [batch(first, first + 4) for first in range(100, 120, 5)],
        },
    )


def find(directory: Path, offset: int) -> FoundBatch | None:
    return Segments(LocalStorage(), str(directory)).find_offset(offset)


def test_every_offset_is_found_with_or_without_indexes(directory: Path) -> None:
    offsets = range(125)

    def answers() -> list[tuple[str, int, int | None] | None]:
        found = [find(directory, offset) for offset in offsets]
        return [f and (f.path, f.position, f.record and f.record.offset) for f in found]

    with_index = answers()
    for index in directory.glob("*.index"):
        index.unlink()
    assert answers() == with_index
    assert [a and a[2] for a in with_index[:50]] == list(range(50))


def test_scan_begins_at_the_index_entry_before_the_offset(directory: Path) -> None:
    found = find(directory, 44)
    assert found is not None
    assert found.index_entry is not None
    assert found.index_entry.offset <= 44
    assert found.scanned < 9
    assert found.path == str(directory / segment_file(0, LOG))
    assert (found.row, found.notes) == (found.scanned - 1, ())


@pytest.mark.parametrize(
    ("offset", "record", "following"),
    [
        (52, 53, 53),
        (61, 69, 69),
        (70, None, 100),  # an empty batch that cleaning kept
        (80, 100, 100),  # an empty segment
        (119, 119, 119),
    ],
)
def test_lookup_skips_compacted_offsets(
    directory: Path, offset: int, record: int | None, following: int
) -> None:
    found = find(directory, offset)
    assert found is not None
    assert (found.record and found.record.offset) == record
    first = Segments(LocalStorage(), str(directory)).first_data_record(offset)
    assert first is not None
    assert first.offset == following


def test_log_end_offset_is_found_and_has_no_record(directory: Path) -> None:
    segments = Segments(LocalStorage(), str(directory))
    assert segments.end_offset() == 120
    assert segments.find_offset(120) is None
    assert segments.first_data_record(120) is None


def test_lookup_for_a_consumer_skips_markers(tmp_path: Path) -> None:
    marker = encode_batch(
        [Record(1, T, bytes(4), bytes(6))], control=True, transactional=True, producer_id=3
    )
    segments = Segments(
        LocalStorage(), str(partition(tmp_path / "t-0", {0: [batch(0, 0), marker, batch(2, 2)]}))
    )
    found, first = segments.find_offset(1), segments.first_data_record(1)
    assert found is not None
    assert found.record is not None
    assert first is not None
    assert (found.record.offset, first.offset) == (1, 2)


@pytest.mark.parametrize(
    ("timestamp", "offset"),
    [
        (0, 0),
        (T, 0),
        (T + 1, 1),
        (T + 440, 44),
        (T + 505, 53),  # 51 and 52 were compacted away
        (T + 700, 100),
        (T + 1190, 119),
        (T + 1191, None),
    ],
)
def test_timestamp_finds_the_first_record_at_or_after_it(
    directory: Path, timestamp: int, offset: int | None
) -> None:
    for segment in directory.glob("*80.log"):  # without a time index the file's time counts
        LocalStorage().set_mtime_ns(str(segment), 0)
    found = Segments(LocalStorage(), str(directory)).find_timestamp(timestamp)
    assert (found and found.record and found.record.offset) == offset


def test_timestamp_lookup_skips_records_below_the_log_start(directory: Path) -> None:
    found = Segments(LocalStorage(), str(directory)).find_timestamp(T, log_start_offset=33)
    assert found is not None
    assert found.record is not None
    assert found.record.offset == 33


def test_only_the_first_segment_reaching_a_timestamp_is_searched(directory: Path) -> None:
    """As in Kafka, an empty segment newer than all records answers `none`."""
    LocalStorage().set_mtime_ns(str(directory / segment_file(80, LOG)), (T + 10**6) * 10**6)
    assert Segments(LocalStorage(), str(directory)).find_timestamp(T + 700) is None


def test_log_append_time_of_the_batch_is_used(tmp_path: Path) -> None:
    batches = [batch(0, 4, log_append_time=T + 5), batch(5, 9, log_append_time=T + 9)]
    segments = Segments(LocalStorage(), str(partition(tmp_path / "t-0", {0: batches})))
    found = segments.find_timestamp(T + 6)
    assert found is not None
    assert found.record is not None
    assert (found.record.offset, found.record.timestamp) == (5, T + 9)


def test_preallocated_index_is_used_up_to_its_zeros(directory: Path) -> None:
    """Entries before the zeros are valid, and the log gives the largest timestamp."""
    for suffix, size in ((INDEX, 8), (TIMEINDEX, 12)):
        path = directory / segment_file(100, suffix)
        entries = path.read_bytes()
        path.write_bytes(entries[: size * (suffix == INDEX)] + bytes(size * 100))
    LocalStorage().set_mtime_ns(str(directory / segment_file(80, LOG)), 0)
    segments = Segments(LocalStorage(), str(directory))
    found = segments.find_timestamp(T + 1190)
    assert found is not None
    assert found.record is not None
    assert found.record.offset == 119
    assert segments.find_timestamp(T + 1191) is None


def test_damaged_index_is_ignored_with_a_note(directory: Path) -> None:
    (directory / segment_file(0, INDEX)).write_bytes(b"\xff" * 16)
    found = find(directory, 44)
    assert found is not None
    assert found.record is not None
    assert (found.record.offset, found.index_entry) == (44, None)
    [note] = found.notes
    assert "not used: an invalid index entry" in note


def test_directory_without_a_segment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptLogError, match="no segment"):
        Segments(LocalStorage(), str(tmp_path))
