from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins.encoding import encode_batch
from tests.twins.records import records_plain
from tests.unit.wire.legacy_logs import legacy_log, random_legacy_log
from tests.unit.wire.logs import NOW, log, random_log, record
from winnow.errors import CorruptLogError
from winnow.wire.batch import HEADER_V2_SIZE, Codec
from winnow.wire.buffers import Bytes, RecordBlocks, Rows, as_bytes
from winnow.wire.columns import (
    ByteStrings,
    Part,
    TooManyBytesError,
    gathered,
    header_places,
    record_places,
)
from winnow.wire.inflate import inflate
from winnow.wire.plain import Record


def strings(blocks: RecordBlocks, places: ByteStrings) -> list[bytes | None]:
    ends, data = gathered(blocks, places)
    assert ends[0] == 0
    assert ends[-1] == len(data)
    found = [
        data[begin:end].tobytes()
        for begin, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    ]
    return [
        text if size >= 0 else None for text, size in zip(found, places.size.tolist(), strict=True)
    ]


def by_kernels(blocks: RecordBlocks, chosen: slice = slice(None)) -> list[Record]:
    every = record_places(blocks)
    places = every.take(np.arange(len(every.offset))[chosen])
    keys, values = strings(blocks, places.key), strings(blocks, places.value)
    names, contents = (
        iter(strings(blocks, found)) for found in header_places(blocks, places.headers)
    )
    headers = [
        tuple((next(names) or b"", next(contents)) for _ in range(count))
        for count in places.headers.size.tolist()
    ]
    numbers = zip(places.offset.tolist(), places.timestamp.tolist(), strict=True)
    return [
        Record(offset, timestamp, key, value, some)
        for (offset, timestamp), key, value, some in zip(
            numbers, keys, values, headers, strict=True
        )
    ]


def same_by_both(buf: Bytes, rows: Rows) -> list[Record] | None:
    """Return the records that kernels and twin agree on, or None if both refuse."""
    try:
        blocks = inflate(buf, rows)
    except CorruptLogError:
        return None
    try:
        slow = records_plain(blocks)
    except CorruptLogError:
        with pytest.raises(CorruptLogError, match="batch at byte"):
            record_places(blocks)
        return None
    assert by_kernels(blocks) == slow
    assert by_kernels(blocks, slice(None, None, 2)) == slow[::2]
    return slow


def test_records_are_read_as_written() -> None:
    records = [
        Record(3, NOW, b"key", b"value", ((b"name", b"content"), (b"", None))),
        Record(7, NOW - 5, None, b""),
        Record(8, NOW + 2**40, b"", None, ((b"name", b""),)),
    ]
    assert (
        same_by_both(*log([encode_batch(records[:1]), encode_batch(records[1:], codec=Codec.ZSTD)]))
        == records
    )


def test_log_append_time_replaces_record_timestamps() -> None:
    found = same_by_both(
        *log([encode_batch([record(0, timestamp=5), record(1, timestamp=6)], log_append_time=NOW)])
    )
    assert found is not None
    assert [one.timestamp for one in found] == [NOW, NOW]


@given(st.integers(0, 2**32))
def test_kernels_agree_with_twin(seed: int) -> None:
    assert same_by_both(*log(random_log(seed))) is not None


@given(st.integers(0, 2**32))
def test_kernels_agree_with_twin_on_old_formats(seed: int) -> None:
    assert same_by_both(*legacy_log(random_legacy_log(seed))) is not None


@given(st.integers(0, 2**32))
def test_kernels_agree_with_twin_on_damage(seed: int) -> None:
    buf, rows = log(random_log(seed, (Codec.NONE, Codec.LZ4)))
    rng, damaged = random.Random(seed), bytearray(buf)
    row = rng.choice(rows.tolist())
    position, size = row[0], row[1]
    if size > HEADER_V2_SIZE:
        damaged[position + rng.randrange(HEADER_V2_SIZE, size)] ^= 1 << rng.randrange(8)
    same_by_both(as_bytes(bytes(damaged)), rows)


@given(st.integers(0, 2**32), st.sets(st.sampled_from([Part.KEY, Part.VALUE, Part.HEADERS])))
def test_only_requested_parts_are_recorded(seed: int, wanted: set[Part]) -> None:
    blocks = inflate(*log(random_log(seed)))
    records, parts = records_plain(blocks), Part.NONE
    for part in wanted:
        parts |= part
    places = record_places(blocks, parts)
    odd = places.take(np.arange(1, len(places.offset), 2))
    assert (places.offset.tolist(), odd.timestamp.tolist()) == (
        [one.offset for one in records],
        [one.timestamp for one in records[1::2]],
    )
    for some, they in ((places, records), (odd, records[1::2])):
        keys, values, counts = (
            [one.key for one in they],
            [one.value for one in they],
            [len(one.headers) for one in they],
        )
        assert strings(blocks, some.key) == (keys if Part.KEY in parts else [])
        assert strings(blocks, some.value) == (values if Part.VALUE in parts else [])
        assert some.headers.size.tolist() == (counts if Part.HEADERS in parts else [])


@given(st.integers(0, 2**32))
def test_damage_is_found_even_if_no_part_is_requested(seed: int) -> None:
    buf, rows = log(random_log(seed, (Codec.NONE,)))
    rng, damaged = random.Random(seed), bytearray(buf)
    row = rng.choice(rows.tolist())
    if row[1] > HEADER_V2_SIZE:
        damaged[row[0] + rng.randrange(HEADER_V2_SIZE, row[1])] ^= 1 << rng.randrange(8)
    blocks = inflate(as_bytes(bytes(damaged)), rows)
    outcomes = []
    for parts in (Part.ALL, Part.NONE):
        try:
            outcomes.append(record_places(blocks, parts).offset.tolist())
        except CorruptLogError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def test_places_of_other_batches_are_refused() -> None:
    blocks = inflate(*log([encode_batch([record(0)])]))
    one = np.zeros(1, np.int32)
    for at, size in ((-1, 1), (len(blocks.raw), 1), (0, len(blocks.raw) + 1), (2**62, 2)):
        with pytest.raises(ValueError, match="not in these batches"):
            gathered(blocks, ByteStrings(one, np.array([at]), np.array([size], np.int32)))
    with pytest.raises(ValueError, match="not those of these batches"):
        header_places(
            blocks, ByteStrings(one, np.array([len(blocks.raw) - 1]), np.array([9], np.int32))
        )


def test_more_bytes_than_an_array_holds_are_refused() -> None:
    blocks = inflate(*log([encode_batch([record(0)])]))
    places = ByteStrings(np.zeros(2, np.int32), np.zeros(2, np.int64), np.full(2, 2**30, np.int32))
    with pytest.raises(TooManyBytesError, match="at most 2147483647, found 2147483648"):
        gathered(blocks, places)
