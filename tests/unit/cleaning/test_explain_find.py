"""Find records by exact key or by offset in any batch of a segment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.twins.encoding import encode_batch
from tests.unit.cleaning.partitions import batch, make_partition, record, segments_of
from winnow.errors import CorruptLogError
from winnow.policy.transactions import ABORTED, NOTHING_CARRIED
from winnow.verbs.explain.find import FoundRecords, Search, find_in_segment
from winnow.wire.batch import Codec
from winnow.wire.plain import Record


def look(directory: Path, **wanted: object) -> FoundRecords:
    search = Search(directory=str(directory), max_decompressed_bytes=2**20)
    (segment,) = segments_of(directory)
    return find_in_segment(
        replace(search, **wanted),  # type: ignore[arg-type]
        (segment, NOTHING_CARRIED),
    )


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    batches = [
        batch(record(10, b"a"), record(11, b"b", None)),
        batch(record(12, b"a"), record(14, None), codec=Codec.ZSTD),
        batch(record(15, b""), record(16, b"a\x00")),
        batch(record(17, b"a"), producer_id=5),
    ]
    return make_partition(tmp_path / "t-0", {10: batches})


def test_only_records_of_the_key_are_found(directory: Path) -> None:
    found = look(directory, key=b"a")
    assert [r.offset for r in found.records] == [10, 12, 17]
    assert {r.key for r in found.records} == {b"a"}
    assert [r.offset for r in look(directory, key=b"").records] == [15]
    assert look(directory, key=b"c") == FoundRecords((), 0, None)


def test_record_is_found_with_its_segment_and_position(directory: Path) -> None:
    (found,) = look(directory, offset=14).records
    log = (directory / f"{10:020d}.log").read_bytes()
    assert (found.segment, found.key, found.null_value) == (10, None, False)
    assert int.from_bytes(log[found.position : found.position + 8], "big") == 12
    assert int(found.batch["base_offset"][0]) == 12
    assert look(directory, offset=11).records[0].null_value


def test_offset_in_a_gap_finds_nothing(directory: Path) -> None:
    assert look(directory, offset=13).records == ()
    assert look(directory, offset=18).records == ()
    assert look(directory, offset=9).records == ()


def test_latest_record_is_searched_only_in_the_dirty_range(directory: Path) -> None:
    assert look(directory, key=b"a", dirty=(11, 17)).latest == 12
    assert look(directory, key=b"a", dirty=(13, 17)).latest is None
    assert look(directory, key=b"a", dirty=(0, 100)).latest == 17


def test_last_records_are_listed_and_older_ones_counted(directory: Path) -> None:
    found = look(directory, key=b"a", most=2, dirty=(0, 100))
    assert ([r.offset for r in found.records], found.older) == ([12, 17], 1)
    none = look(directory, key=b"a", most=0, dirty=(0, 100))
    assert (none.records, none.older, none.latest) == ((), 3, 17)


def marker(offset: int, kind: int) -> bytes:
    key, value = b"\x00\x00" + kind.to_bytes(2, "big"), bytes(6)
    return encode_batch(
        [Record(offset, 0, key, value)],
        control=True,
        transactional=True,
        producer_id=5,
        producer_epoch=0,
    )


def data(offset: int, key: bytes) -> bytes:
    return encode_batch(
        [Record(offset, 0, key, b"v")], transactional=True, producer_id=5, producer_epoch=0
    )


def test_aborted_records_and_markers_do_not_count(tmp_path: Path) -> None:
    batches = [data(0, b"a"), marker(1, 1), data(2, b"a"), marker(3, 0), marker(4, 1)]
    directory = make_partition(tmp_path / "t-0", {0: batches})
    aborted = np.array([(5, 2, 3, 4)], ABORTED)
    found = look(directory, key=b"a", dirty=(0, 10), aborted=aborted)
    assert [(r.offset, r.counts) for r in found.records] == [(0, True), (2, False)]
    assert found.latest == 0
    everything = look(directory, aborted=aborted).records
    assert [(r.offset, r.control, r.discardable) for r in everything] == [
        (0, False, False),
        (1, True, False),
        (2, False, True),
        (3, True, False),
        (4, True, True),
    ]
    commit = b"\x00\x00\x00\x01"
    assert look(directory, key=commit).records == ()


def test_wrong_crc_is_refused_with_its_file(
    directory: Path,
) -> None:
    log = directory / f"{10:020d}.log"
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    with pytest.raises(CorruptLogError, match=r"CRC.*\.log"):
        look(directory, key=b"a")
