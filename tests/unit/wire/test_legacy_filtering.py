"""The rest of a v0 or v1 batch is written as v2 (S5.3, S5.5 to S5.7)."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins.encoding import encode_batch
from tests.twins.filtering import filter_batches_plain
from tests.twins.legacy import legacy_records
from tests.twins.walk import decode_batch
from tests.unit.wire.legacy_logs import (
    CODECS,
    entry,
    legacy_batch,
    legacy_log,
    random_legacy_log,
    wrapper,
)
from tests.unit.wire.logs import NOW, record
from tests.unit.wire.test_filtering import COUNTS, DAY, only
from winnow.wire.batch import DELETE_HORIZON, HEADER_V2_SIZE, LOG_APPEND_TIME, Codec
from winnow.wire.buffers import Bytes, Rows
from winnow.wire.choice import Era, Retention
from winnow.wire.filtering import Filtered, filter_batches
from winnow.wire.inflate import inflate
from winnow.wire.plain import Record
from winnow.wire.walk import first_bad_crc


@settings(max_examples=200)
@given(seed=st.integers(0, 10**6), choice=st.integers(0, 2**32), deletes=st.booleans())
def test_before_kafka_4_what_remains_keeps_its_format(
    seed: int, choice: int, *, deletes: bool
) -> None:
    rng = random.Random(choice)
    batches = random_legacy_log(seed)
    buf, rows = legacy_log(batches)
    blocks = inflate(buf, rows)
    counts = blocks.rows["record_count"].tolist()
    share = rng.choice((0.3, 0.8, 1.0))
    keep = np.array([rng.random() < share for _ in range(sum(counts))], np.bool_)
    kinds = np.array([rng.choice(list(Retention)) for _ in rows], np.int8)
    found = filter_batches(
        blocks,
        keep,
        kinds,
        now=NOW,
        delete_retention_ms=DAY,
        era=Era(converts=False, keep_deletes=deletes),
    )
    assert first_bad_crc(found.data, found.batches) == -1
    out, headers = legacy_log([found.data.tobytes()])
    assert headers.tolist() == found.batches.tolist()
    left = iter([h for h in headers if h["magic"] < 2])
    ends, emptied = np.cumsum(counts), 0
    for row, batch, kind, end, count in zip(
        rows, batches_of(buf, rows), kinds, ends, counts, strict=True
    ):
        if row["magic"] == 2:
            continue
        mine = keep[end - count : end]
        expected = [
            r
            for r, stays in zip(legacy_records(buf, row), mine, strict=True)
            if stays and (deletes or r.value is not None)
        ]
        if kind == Retention.DELETE or not expected:
            emptied += kind == Retention.RETAIN_EMPTY
            continue
        header = next(left)
        assert header["magic"] == row["magic"]
        assert legacy_records(out, header) == expected
        assert header["last_offset"] >= expected[-1].offset
        if len(expected) == count:
            start = int(header["position"])
            assert out[start : start + int(header["size"])].tobytes() == batch
    assert next(left, None) is None
    assert emptied <= found.emptied


@pytest.mark.parametrize("stamped", [False, True])
@pytest.mark.parametrize("codec", CODECS[1:])
@pytest.mark.parametrize(("magic", "inner"), [(1, (0, 0)), (1, (0, 1)), (0, (1, 1)), (1, (1, 1))])
def test_before_kafka_4_entries_take_the_format_of_their_wrapper(
    magic: int, inner: tuple[int, int], codec: Codec, *, stamped: bool
) -> None:
    """KAFKA-4298: cleaners of old left v0 entries in a v1 wrapper. One that loses no record is
    written again if an entry has another format than its wrapper.
    """
    bits = LOG_APPEND_TIME if stamped and magic else 0
    entries = [entry(n, of, b"k%d" % n, b"v", timestamp=NOW + n) for n, of in enumerate(inner)]
    before = wrapper(1, magic, entries, codec, timestamp=NOW + 9, attributes=bits)
    buf, rows = legacy_log([before])
    blocks = inflate(buf, rows)
    found = filter_batches(
        blocks,
        np.ones(2, np.bool_),
        np.full(1, Retention.DELETE_EMPTY, np.int8),
        now=NOW,
        delete_retention_ms=DAY,
        era=Era(converts=False),
    )
    same = set(inner) == {magic}
    assert (found.copied, found.rewritten, found.records_out) == (same, not same, 2)
    assert (found.data.tobytes() == before) == same
    assert first_bad_crc(found.data, found.batches) == -1
    (row,) = found.batches
    again = inflate(found.data, found.batches)
    assert not again.mixed.any()
    times = [NOW + n if of else -1 for n, of in enumerate(inner)] if magic else [-1, -1]
    if bits:
        times = [NOW + 9] * 2
    assert legacy_records(found.data, row) == [
        Record(n, time, b"k%d" % n, b"v") for n, time in enumerate(times)
    ]
    newest = -1 if not magic else NOW + 9 if bits or same else max(times)
    assert (row["magic"], row["last_offset"], row["max_timestamp"]) == (magic, 1, newest)


def batches_of(buf: Bytes, rows: Rows) -> list[bytes]:
    starts, sizes = rows["position"].tolist(), rows["size"].tolist()
    return [buf[at : at + size].tobytes() for at, size in zip(starts, sizes, strict=True)]


def filtered(
    batches: list[bytes],
    keep: list[bool],
    retention: list[Retention] | None = None,
    *,
    now: int = NOW,
    retain_legacy_deletes: bool = True,
) -> Filtered:
    """Return what kernel and twin agree on."""
    buf, rows = legacy_log(batches)
    blocks = inflate(buf, rows)
    before = blocks.inflated.tobytes()
    chosen = np.array(keep, np.bool_)
    kinds = np.array(retention or [Retention.DELETE_EMPTY] * len(rows), np.int8)
    fast, slow = (
        filtering(
            blocks,
            chosen,
            kinds,
            now=now,
            delete_retention_ms=DAY,
            era=Era(keep_deletes=retain_legacy_deletes),
        )
        for filtering in (filter_batches, filter_batches_plain)
    )
    assert fast.data.tobytes() == slow.data.tobytes()
    assert fast.batches.tolist() == slow.batches.tolist()
    assert [getattr(fast, name) for name in COUNTS] == [getattr(slow, name) for name in COUNTS]
    assert first_bad_crc(fast.data, fast.batches) == -1
    assert (fast.batches["magic"] == 2).all()
    assert blocks.inflated.tobytes() == before
    return fast


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 2**32))
def test_kernel_agrees_with_twin_for_any_kept_records(seed: int, choice: int) -> None:
    rng = random.Random(choice)
    batches = random_legacy_log(seed)
    buf, rows = legacy_log(batches)
    share = rng.choice((0.0, 0.3, 0.9, 1.0))
    filtered(
        batches,
        [rng.random() < share for _ in range(int(inflate(buf, rows).rows["record_count"].sum()))],
        [rng.choice(list(Retention)) for _ in rows],
        now=NOW + rng.choice((-1, 0, 1)),
        retain_legacy_deletes=rng.random() < 0.5,
    )


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_batch_that_keeps_all_records_is_converted(magic: int, codec: Codec) -> None:
    records = [
        Record(5, NOW + 3, b"a", b"v"),
        Record(6, NOW, b"b", b""),
        Record(9, NOW + 7, None, b"w"),
    ]
    result = filtered([legacy_batch(records, magic, codec)], [True] * 3)
    assert (result.copied, result.rewritten) == (0, 3 if codec == Codec.NONE else 1)
    out = [r for p in result.batches["position"].tolist() for r in decode_batch(result.data, p)[1]]
    assert out == [r if magic else Record(r.offset, -1, r.key, r.value) for r in records]
    assert (result.batches["attributes"] == codec).all()
    for name in ("producer_id", "producer_epoch", "base_sequence", "leader_epoch"):
        assert (result.batches[name] == -1).all()


@pytest.mark.parametrize("codec", CODECS[1:])
def test_converted_batch_spans_its_kept_records(codec: Codec) -> None:
    records = [
        record(5, timestamp=NOW),
        record(70, timestamp=NOW + 1),
        record(71),
        record(90, timestamp=NOW + 99),
    ]
    header, out = only(filtered([legacy_batch(records, 1, codec)], [False, True, True, False]))
    assert (header["base_offset"], header["last_offset"], header["record_count"]) == (70, 71, 2)
    assert (header["base_timestamp"], header["max_timestamp"]) == (NOW + 1, NOW + 1)
    assert out == records[1:3]


def test_log_append_time_is_kept() -> None:
    batch = legacy_batch([record(5), record(6)], 1, Codec.GZIP, log_append_time=NOW + 77)
    header, out = only(filtered([batch], [False, True]))
    assert header["attributes"] == LOG_APPEND_TIME | Codec.GZIP
    assert (header["base_timestamp"], header["max_timestamp"], out[0].timestamp) == (NOW + 77,) * 3


@pytest.mark.parametrize("null", [False, True])
def test_v0_records_in_a_stamped_wrapper_take_its_timestamp(*, null: bool) -> None:
    entries = [entry(n, 0, b"k", None if null else b"v") for n in range(3)]
    batch = wrapper(7, 1, entries, Codec.GZIP, timestamp=NOW + 77, attributes=LOG_APPEND_TIME)
    header, out = only(filtered([batch], [False, True, True]))
    assert (header["base_timestamp"], header["max_timestamp"]) == (
        NOW + DAY if null else -1,
        NOW + 77,
    )
    assert [(r.offset, r.timestamp) for r in out] == [(6, NOW + 77), (7, NOW + 77)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_kept_tombstone_gets_a_horizon(magic: int, codec: Codec) -> None:
    header, out = only(filtered([legacy_batch([record(5, b"t", None)], magic, codec)], [True]))
    assert (header["attributes"], header["base_timestamp"]) == (DELETE_HORIZON | codec, NOW + DAY)
    assert out == [Record(5, NOW if magic else -1, b"t", None)]


@pytest.mark.parametrize("codec", CODECS)
def test_only_tombstones_are_dropped_by_the_age_of_their_file(codec: Codec) -> None:
    records = [record(5, b"t", None), record(6, b"e", b""), record(7, b"u", None)]
    result = filtered([legacy_batch(records, 0, codec)], [True] * 3, retain_legacy_deletes=False)
    header, out = only(result)
    assert [r.offset for r in out] == [6]
    assert (header["base_offset"], header["last_offset"], header["attributes"]) == (6, 6, codec)
    assert (result.records_in, result.records_out, result.tombstones.tolist()) == (3, 1, [0])


def test_v2_tombstones_ignore_the_age_of_their_file() -> None:
    batches = [entry(0, 1, b"t", None), encode_batch([record(1, b"t", None)])]
    header, out = only(filtered(batches, [True, True], retain_legacy_deletes=False))
    assert [r.offset for r in out] == [1]
    assert header["attributes"] == DELETE_HORIZON


def test_header_of_the_last_batch_is_kept_where_kafka_throws() -> None:
    """S5.6: Kafka throws here. A broker that finds this header learns the log end, which is all it
    needs.
    """
    batch = wrapper(
        31, 1, [entry(0, 1), entry(3, 1)], Codec.LZ4, timestamp=NOW + 4, attributes=LOG_APPEND_TIME
    )
    result = filtered([batch], [False, False], [Retention.RETAIN_EMPTY])
    header, out = only(result)
    assert (len(result.data), out, result.emptied) == (HEADER_V2_SIZE, [], 1)
    assert (header["base_offset"], header["last_offset"], header["attributes"]) == (
        28,
        31,
        LOG_APPEND_TIME,
    )
    assert (header["base_timestamp"], header["max_timestamp"]) == (-1, NOW + 4)
    for name in ("producer_id", "producer_epoch", "base_sequence", "leader_epoch"):
        assert header[name] == -1
    result = filtered(
        [entry(9, 0, b"t", None)], [True], [Retention.RETAIN_EMPTY], retain_legacy_deletes=False
    )
    header, _ = only(result)
    assert (header["base_offset"], header["last_offset"], header["max_timestamp"]) == (9, 9, -1)


def test_batches_of_all_formats_keep_their_order() -> None:
    batches = [
        entry(0, 0),
        wrapper(3, 0, [entry(1, 0), entry(3, 0)], Codec.SNAPPY),
        wrapper(6, 1, [entry(0, 1), entry(1, 1)], Codec.GZIP),
        entry(7, 1),
        encode_batch([record(8), record(9)], codec=Codec.ZSTD),
        encode_batch([record(10), record(11)]),
    ]
    keep = [True, False, True, True, False, True, True, False, False, True]
    result = filtered(batches, keep)
    rows = result.batches
    out = [r.offset for p in rows["position"].tolist() for r in decode_batch(result.data, p)[1]]
    assert out == [0, 3, 5, 7, 8, 11]
    assert rows["base_offset"].tolist() == [0, 3, 5, 7, 8, 10]
    assert rows["last_offset"].tolist() == [0, 3, 5, 7, 9, 11]


def test_converted_single_records_grow_less_than_threefold() -> None:
    least = entry(0, 0, b"", None)
    assert len(least) == 26
    most = filtered([least], [True], now=2**62)
    assert only(most)[0]["attributes"] == DELETE_HORIZON
    assert len(most.data) == HEADER_V2_SIZE + 7 + 9 < 3 * len(least)
    result = filtered([entry(i, 0, b"", b"") for i in range(50)], [True] * 50)
    assert result.batches["size"].tolist() == [HEADER_V2_SIZE + 7] * 50
