"""Which batches are scanned and filtered one by one, and where that stops. `test_filtering`
compares the results with those of `filter_batches`.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.twins.crc import crc32c_plain
from tests.twins.encoding import encode_batch
from tests.unit.wire.logs import NOW, log, record
from winnow.errors import CorruptLogError
from winnow.wire import filtering
from winnow.wire.batch import ATTRIBUTES_AT, FRAME_SIZE, HEADER_V2_SIZE, Codec
from winnow.wire.buffers import Bytes, Rows
from winnow.wire.choice import Retention
from winnow.wire.codecs import compress
from winnow.wire.filtering import Filtered, filter_batches, filter_in_cache
from winnow.wire.inflate import MAX_DECOMPRESSED_BYTES, closed, inflate
from winnow.wire.kernels import compressed
from winnow.wire.kernels.compressed import filter_compressed
from winnow.wire.records import scan_in_cache, scan_records

FAST = [Codec.LZ4, Codec.ZSTD]
SLOW = [Codec.NONE, Codec.GZIP, Codec.SNAPPY]
SECRET = 1, 2
LIMIT = MAX_DECOMPRESSED_BYTES
NOISE = random.Random(5).randbytes(700_000)


def batch(offset: int, codec: Codec, size: int = 100) -> bytes:
    """Return a batch of two records with values of `size` bytes."""
    values = NOISE[offset : offset + size], NOISE[offset + 1 : offset + 1 + size]
    return encode_batch([record(offset + n, b"k", values[n]) for n in (0, 1)], codec=codec)


def arguments(rows: Rows, *, keeps: tuple[bool, bool] = (True, False)) -> tuple[Any, Any]:
    return np.array(keeps * len(rows)), np.full(len(rows), Retention.DELETE_EMPTY, np.int8)


def filtered(
    buf: Bytes,
    rows: Rows,
    *,
    keeps: tuple[bool, bool] = (True, False),
    limit: int = LIMIT,
) -> Filtered | None:
    how = arguments(rows, keeps=keeps)
    return filter_in_cache(closed(buf, rows), *how, now=NOW, delete_retention_ms=1, limit=limit)


def count(found: Filtered | None) -> int:
    return 0 if found is None else found.batches_in


@pytest.mark.parametrize("codec", FAST)
def test_filtering_stops_before_a_batch_of_another_codec(codec: Codec) -> None:
    for other in set(Codec) - {codec, Codec.NONE}:
        kinds = [codec, Codec.NONE, codec, other, codec]
        buf, rows = log(batch(10 * n, kind) for n, kind in enumerate(kinds))
        found = filtered(buf, rows)
        assert count(found) == 3
        assert found is not None
        assert (found.records_in, found.records_out, found.rewritten) == (6, 3, 3)


@pytest.mark.parametrize("codec", SLOW)
def test_batches_of_other_codecs_are_refused(codec: Codec) -> None:
    assert filtered(*log([batch(0, codec)])) is None


@pytest.mark.parametrize("codec", FAST)
def test_filtering_stops_before_a_batch_larger_than_one_mib(codec: Codec) -> None:
    sizes = 400_000, 523_000, 530_000, 100
    buf, rows = log(batch(10 * n, codec, size) for n, size in enumerate(sizes))
    assert [count(filtered(buf, rows[at:])) for at in range(4)] == [2, 1, 0, 1]


@pytest.mark.parametrize("codec", FAST)
def test_filtering_stops_before_a_batch_over_the_limit(codec: Codec) -> None:
    buf, rows = log(batch(10 * n, codec, size) for n, size in enumerate((100, 400, 100)))
    assert count(filtered(buf, rows, limit=500)) == 1
    with pytest.raises(CorruptLogError):
        inflate(buf, rows[1:], limit=500)


@pytest.mark.parametrize("codec", FAST)
def test_filtering_stops_before_a_damaged_batch_that_keeps_records(codec: Codec) -> None:
    buf, rows = log(batch(10 * n, codec) for n in range(3))
    spoiled = buf.copy()
    spoiled[int(rows[1]["position"]) + HEADER_V2_SIZE] ^= 0xFF
    assert count(filtered(spoiled, rows)) == 1
    assert count(filtered(spoiled, rows, keeps=(False, False))) == 3


@pytest.mark.parametrize("codec", FAST)
def test_filtering_stops_when_there_is_no_room_for_a_payload(
    monkeypatch: pytest.MonkeyPatch, codec: Codec
) -> None:
    buf, rows = log(batch(10 * n, codec) for n in range(20))
    keep, retention = arguments(rows)
    counts = []
    for room in (0, 300, 1000, 10_000):

        def with_room(*given: Any, room: int = room) -> Any:
            *others, payloads, starts = given
            return filter_compressed(*others, payloads[:room], starts)

        monkeypatch.setattr(filtering, "filter_compressed", with_room)
        found = filtered(buf, rows)
        counts.append(count(found))
        if found is not None:
            blocks = inflate(buf, rows[: counts[-1]])
            how = keep[: 2 * counts[-1]], retention[: counts[-1]]
            whole = filter_batches(blocks, *how, now=NOW, delete_retention_ms=1)
            assert found.data.tobytes() == whole.data.tobytes()
    assert counts[0] == 0 < counts[1] < counts[2] < counts[3] == 20


@pytest.mark.parametrize("codec", FAST)
def test_a_malformed_record_gives_the_same_error_as_filter_batches(codec: Codec) -> None:
    broken = bytearray(encode_batch([record(n) for n in (0, 1)]))
    broken[HEADER_V2_SIZE + 4] = 100  # the length of the first key
    payload = compress(codec, broken[HEADER_V2_SIZE:])
    header = encode_batch([record(n) for n in (0, 1)], codec=codec)[:HEADER_V2_SIZE]
    size = (HEADER_V2_SIZE - FRAME_SIZE + len(payload)).to_bytes(4, "big")
    buf, rows = log([header[:8] + size + header[FRAME_SIZE:] + payload])
    keep, retention = arguments(rows)
    told = []
    for call in (
        lambda: filter_batches(inflate(buf, rows), keep, retention, now=NOW, delete_retention_ms=1),
        lambda: filtered(buf, rows),
    ):
        with pytest.raises(CorruptLogError) as error:
            call()
        told.append(str(error.value))
    assert told[0] == told[1]


def test_all_batches_are_refused_without_the_c_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (filtering, compressed):
        monkeypatch.setattr(module, "c_function", lambda *_, **__: (0, 0))
    assert filtered(*log([batch(0, Codec.LZ4)])) is None
    assert scanned(*log([batch(0, Codec.LZ4)])) == 0


@pytest.mark.parametrize("wrong", ["keep", "retention"])
def test_arguments_of_the_wrong_shape_are_refused(wrong: str) -> None:
    buf, rows = log([batch(0, Codec.LZ4)])
    keep, retention = arguments(rows)
    given = {"keep": keep, "retention": retention}
    given[wrong] = given[wrong][1:]
    with pytest.raises(ValueError, match="expected"):
        filter_in_cache(closed(buf, rows), **given, now=NOW, delete_retention_ms=1, limit=LIMIT)


def scanned(buf: Bytes, rows: Rows, *, limit: int = LIMIT) -> int:
    """Return how many batches are scanned. Their columns are those of `scan_records`."""
    found = scan_in_cache(closed(buf, rows), SECRET, limit=limit)
    if found is None:
        return 0
    columns, batches = found
    whole = scan_records(inflate(buf, rows[:batches]), SECRET)
    for name, column in columns._asdict().items():
        assert column.tolist() == getattr(whole, name).tolist(), name
    return batches


@pytest.mark.parametrize("codec", FAST)
def test_columns_equal_those_of_scan_records(codec: Codec) -> None:
    kinds = [codec, Codec.NONE, codec, *(codec for _ in range(20)), Codec.GZIP, codec]
    sizes = [600, 3000, 900, *range(580, 600), 700, 700]
    both = zip(kinds, sizes, strict=True)
    buf, rows = log(batch(10 * n, kind, size) for n, (kind, size) in enumerate(both))
    assert [scanned(buf, rows[at:]) for at in range(len(rows))] == [
        *range(23, 1, -1),
        1,
        0,
        1,
    ]


@pytest.mark.parametrize("codec", FAST)
def test_scanning_stops_before_a_batch_over_the_limit(codec: Codec) -> None:
    sizes = 600, 520_000, 900, 530_000
    buf, rows = log(batch(10 * n, codec, size) for n, size in enumerate(sizes))
    assert scanned(buf, rows, limit=500_000) == 1
    assert scanned(buf, rows) == 3


@pytest.mark.parametrize("codec", FAST)
def test_scanning_stops_before_a_batch_that_cannot_be_decompressed(codec: Codec) -> None:
    buf, rows = log(batch(10 * n, codec, 700) for n in range(3))
    spoiled = buf.copy()
    start, end = int(rows[1]["position"]), int(rows[1]["position"] + rows[1]["size"])
    spoiled[start + HEADER_V2_SIZE] ^= 0xFF
    with pytest.raises(CorruptLogError, match="does not match its CRC"):
        scanned(spoiled, rows)
    rows["crc"][1] = crc32c_plain(spoiled[start + ATTRIBUTES_AT : end].tobytes())
    assert scanned(spoiled, rows) == 1


@pytest.mark.parametrize("codec", FAST)
def test_record_counts_in_headers_cannot_exhaust_memory(codec: Codec) -> None:
    buf, rows = log(batch(10 * n, codec, 700) for n in range(40))
    rows["record_count"][3] = 2**20
    assert scanned(buf, rows) == 3
    rows["record_count"][0] = 2**31 - 1
    assert scanned(buf, rows) == 0
    rows["record_count"][0] = -1
    with pytest.raises(CorruptLogError, match="a record count that the batch has room for"):
        scanned(buf, rows[:2])
