from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins.crc import crc32c_plain
from tests.twins.encoding import encode_batch
from tests.twins.filtering import filter_batches_plain
from tests.twins.walk import decode_batch
from tests.unit.wire.logs import NOW, log, random_log, record
from winnow.errors import CorruptLogError
from winnow.wire.batch import HEADER_V2_SIZE, RECORD_COUNT_AT, Codec
from winnow.wire.buffers import Bytes, Rows
from winnow.wire.choice import Era, Retention
from winnow.wire.filtering import AS_THEY_ARE, Filtered, filter_batches, filter_in_cache
from winnow.wire.inflate import MAX_DECOMPRESSED_BYTES, closed, inflate, inflate_parts
from winnow.wire.plain import Record
from winnow.wire.walk import first_bad_crc

DAY = 86_400_000
COUNTS = ("records_in", "records_out", "copied", "rewritten", "emptied", "dropped")


def filtered(
    batches: list[bytes],
    keep: list[bool],
    retention: list[Retention] | None = None,
    *,
    now: int = NOW,
    delete_retention_ms: int = DAY,
    horizon_cause: list[bool] | None = None,
    horizons: bool = True,
    retain_deletes: bool = True,
) -> Filtered:
    """Return what kernel and twin agree on, whether or not batches that keep no records are
    read.
    """
    buf, rows = log(batches)
    blocks = inflate(buf, rows)
    given_args: tuple[Any, ...] = (
        blocks,
        np.array(keep, np.bool_),
        np.array(retention or [Retention.DELETE_EMPTY] * len(rows), np.int8),
    )
    kwargs: dict[str, Any] = {
        "now": now,
        "delete_retention_ms": delete_retention_ms,
        "era": Era(horizons=horizons, keep_deletes=retain_deletes),
    }
    if horizon_cause is not None:
        kwargs["horizon_cause"] = np.array(horizon_cause, np.bool_)
    try:
        slow = filter_batches_plain(*given_args, **kwargs)
    except CorruptLogError:
        with pytest.raises(CorruptLogError):
            filter_batches(*given_args, **kwargs)
        raise
    fast = filter_batches(*given_args, **kwargs)
    assert fast.data.tobytes() == slow.data.tobytes()
    assert fast.batches.tolist() == slow.batches.tolist()
    assert fast.tombstones.tolist() == slow.tombstones.tolist()
    assert [getattr(fast, name) for name in COUNTS] == [getattr(slow, name) for name in COUNTS]
    assert first_bad_crc(fast.data, fast.batches) == -1
    ends = np.cumsum(rows["record_count"])
    firsts = (ends - rows["record_count"]).tolist()
    spared = [
        first < end and not any(keep[first:end])
        for first, end in zip(firsts, ends.tolist(), strict=True)
    ]
    (unopened,) = inflate_parts(buf, rows, enough=2**62, unread=np.array(spared, np.bool_))
    assert unopened.unread.tolist() == (blocks.compressed & spared).tolist()
    unread = filter_batches(unopened, *given_args[1:], **kwargs)
    assert unread.data.tobytes() == fast.data.tobytes()
    assert unread.tombstones.tolist() == fast.tombstones.tolist()
    assert [getattr(unread, name) for name in COUNTS] == [getattr(fast, name) for name in COUNTS]
    compare_in_cache(buf, rows, *given_args[1:], **kwargs)
    return fast


def compare_in_cache(
    buf: Bytes, rows: Rows, keep: np.ndarray[Any, Any], retention: np.ndarray[Any, Any], **how: Any
) -> None:
    """Filter from each batch on, as many batches as `filter_in_cache` accepts, in both ways."""
    starts = np.cumsum([0, *rows["record_count"]])
    causes = how.pop("horizon_cause", np.zeros(len(rows), np.bool_))
    for at in range(len(rows)):
        kept = keep[starts[at] :]
        one = filter_in_cache(
            closed(buf, rows[at:]),
            *(kept, retention[at:]),
            horizon_cause=causes[at:],
            limit=MAX_DECOMPRESSED_BYTES,
            **how,
        )
        if one is None:
            continue
        some = slice(at, at + one.batches_in)
        kept, cause = keep[starts[at] : starts[some.stop]], causes[some]
        other = filter_batches(
            inflate(buf, rows[some]), kept, retention[some], horizon_cause=cause, **how
        )
        assert one.data.tobytes() == other.data.tobytes()
        assert one.batches.tolist() == other.batches.tolist()
        assert one.tombstones.tolist() == other.tombstones.tolist()
        assert [getattr(one, name) for name in COUNTS] == [getattr(other, name) for name in COUNTS]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_keeping_records_of_an_unread_batch_is_refused(codec: Codec) -> None:
    buf, rows = log([encode_batch([record(0), record(1)], codec=codec)])
    unopened = closed(buf, rows)
    assert unopened.area(0).size == 0
    with pytest.raises(CorruptLogError):
        filter_batches(
            unopened,
            np.array([False, True]),
            np.array([Retention.DELETE_EMPTY], np.int8),
            now=NOW,
            delete_retention_ms=DAY,
        )


def only(result: Filtered) -> tuple[Any, list[Record]]:
    assert len(result.batches) == 1
    return decode_batch(result.data, 0)


@pytest.mark.parametrize("codec", list(Codec))
def test_batch_that_keeps_all_records_is_copied_unchanged(codec: Codec) -> None:
    batch = encode_batch([record(0), record(1)], codec=codec)
    result = filtered([batch], [True, True])
    assert result.data.tobytes() == batch
    assert (result.copied, result.rewritten) == (1, 0)


@pytest.mark.parametrize("codec", list(Codec))
def test_rewritten_batch_keeps_its_header_fields(codec: Codec) -> None:
    records = [record(5, b"a"), record(6, b"b"), record(9, b"c")]
    batch = encode_batch(
        records,
        last_offset=12,
        codec=codec,
        leader_epoch=4,
        producer_id=9,
        producer_epoch=1,
        base_sequence=70,
        transactional=True,
    )
    header, out = only(filtered([batch], [False, True, False]))
    assert out == [records[1]]
    assert (header["base_offset"], header["last_offset"], header["record_count"]) == (5, 12, 1)
    assert (header["leader_epoch"], header["producer_id"], header["producer_epoch"]) == (4, 9, 1)
    assert (header["base_sequence"], header["attributes"]) == (70, 16 | codec)


def test_batch_timestamps_follow_the_retained_records() -> None:
    records = [record(i, timestamp=NOW + t) for i, t in enumerate((0, 5, 50, 3))]
    header, out = only(filtered([encode_batch(records)], [False, True, False, True]))
    assert (header["base_timestamp"], header["max_timestamp"]) == (NOW + 5, NOW + 5)
    assert [r.timestamp for r in out] == [NOW + 5, NOW + 3]


def test_log_append_time_is_kept_for_all_records() -> None:
    batch = encode_batch([record(0), record(1)], log_append_time=NOW + 77)
    header, out = only(filtered([batch], [False, True]))
    assert (header["base_timestamp"], header["max_timestamp"], header["attributes"]) == (
        NOW + 77,
        NOW + 77,
        8,
    )
    assert out[0].timestamp == NOW + 77


def test_tombstone_sets_the_batch_horizon_and_changes_no_timestamp() -> None:
    records = [record(5, timestamp=5), record(6, b"t", None, timestamp=10), record(7, timestamp=15)]
    result = filtered([encode_batch(records)], [True] * 3)
    header, out = only(result)
    assert (header["attributes"], header["base_timestamp"]) == (64, NOW + DAY)
    assert out == records
    assert (result.rewritten, result.tombstones.tolist()) == (1, [1])


@pytest.mark.parametrize(("now", "stays"), [(NOW - 1, True), (NOW, False), (NOW + 1, False)])
def test_tombstone_is_dropped_once_its_batchs_horizon_has_passed(now: int, *, stays: bool) -> None:
    batch = encode_batch([record(0), record(1, b"t", None)], delete_horizon=NOW)
    result = filtered([batch], [True, True], now=now)
    assert (result.data.tobytes() == batch) == stays
    header, out = only(result)
    assert [r.offset for r in out] == ([0, 1] if stays else [0])
    assert (header["attributes"], header["base_timestamp"]) == (64, NOW)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("horizon", [None, 0, NOW - 1])
def test_horizons_are_unchanged_if_asked(codec: Codec, horizon: int | None) -> None:
    """A kept tombstone gets none, and one that has passed drops nothing."""
    records = [record(0), record(1, b"t", None), record(2)]
    batch = encode_batch(records, delete_horizon=horizon, codec=codec)
    header, out = only(
        filtered([batch], [False, True, True], now=AS_THEY_ARE, delete_retention_ms=0)
    )
    assert header["attributes"] == (codec if horizon is None else 64 | codec)
    assert out == records[1:]
    assert horizon is None or header["base_timestamp"] == horizon


def test_superseded_tombstone_sets_no_horizon() -> None:
    header, _ = only(filtered([encode_batch([record(0), record(1, b"t", None)])], [True, False]))
    assert header["attributes"] == 0


def test_empty_value_is_not_a_tombstone() -> None:
    assert filtered([encode_batch([record(0, b"k", b"")])], [True]).copied == 1


def test_null_value_in_a_control_batch_does_not_expire() -> None:
    batch = encode_batch([record(0, b"\x00\x00\x00\x01", None)], control=True, delete_horizon=NOW)
    assert filtered([batch], [True]).copied == 1


def test_marker_of_an_empty_transaction_gets_a_horizon_once() -> None:
    marker = encode_batch(
        [record(0, b"\x00\x00\x00\x01", b"\x00" * 6)], control=True, transactional=True
    )
    header, _ = only(filtered([marker], [True], horizon_cause=[True]))
    assert (header["attributes"], header["base_timestamp"]) == (16 | 32 | 64, NOW + DAY)
    assert filtered([marker], [True], horizon_cause=[False]).copied == 1
    with_horizon = encode_batch(
        [record(0)], control=True, transactional=True, delete_horizon=NOW + 1
    )
    assert filtered([with_horizon], [True], horizon_cause=[True]).copied == 1


def test_empty_header_has_the_fields_of_s5_6() -> None:
    batch = encode_batch(
        [record(5), record(7)],
        last_offset=9,
        codec=Codec.LZ4,
        leader_epoch=2,
        producer_id=9,
        producer_epoch=1,
        base_sequence=3,
        transactional=True,
        delete_horizon=NOW,
    )
    result = filtered([batch], [False, False], [Retention.RETAIN_EMPTY])
    header, out = only(result)
    assert (len(result.data), out, result.emptied) == (HEADER_V2_SIZE, [], 1)
    assert (header["base_offset"], header["last_offset"], header["attributes"]) == (5, 9, 16)
    assert (header["base_timestamp"], header["max_timestamp"]) == (-1, NOW)
    assert (header["producer_id"], header["producer_epoch"], header["base_sequence"]) == (9, 1, 3)
    assert header["leader_epoch"] == 2


def test_batches_without_records_are_dropped_unless_retained() -> None:
    empty = encode_batch([], base_offset=0, last_offset=3, max_timestamp=NOW)
    assert filtered([empty], []).dropped == 1
    assert filtered([empty], [], [Retention.RETAIN_EMPTY]).data.tobytes() == empty
    assert filtered([encode_batch([record(0)])], [True], [Retention.DELETE]).dropped == 1


def test_records_of_deleted_batches_are_not_read() -> None:
    broken = bytearray(encode_batch([record(0)]))
    broken[HEADER_V2_SIZE] = 0xFF
    assert filtered([bytes(broken)], [True], [Retention.DELETE]).dropped == 1
    with pytest.raises(CorruptLogError):
        filtered([bytes(broken)], [True])


def test_keep_flags_stay_aligned_after_deleted_and_empty_batches() -> None:
    batches = [
        encode_batch([record(0), record(1)]),
        encode_batch([], base_offset=2, last_offset=2),
        encode_batch([record(3, b"x"), record(4, b"y")], codec=Codec.SNAPPY),
        encode_batch([record(5, b"z")]),
    ]
    retention = [
        Retention.DELETE,
        Retention.DELETE_EMPTY,
        Retention.DELETE_EMPTY,
        Retention.DELETE_EMPTY,
    ]
    result = filtered(batches, [True, True, False, True, True], retention)
    rows = result.batches
    offsets = [r.offset for p in rows["position"].tolist() for r in decode_batch(result.data, p)[1]]
    assert offsets == [4, 5]
    assert (result.records_in, result.records_out, result.dropped) == (5, 2, 2)


def test_overlong_numbers_are_rewritten_in_javas_shortest_form() -> None:
    # Length, timestamp delta, offset delta, key and value lengths, header count and lengths: each
    # has one byte too many. The record attributes are unused.
    first = bytes.fromhex("9600018000800082006b82007682008200688100")
    second = bytes.fromhex("0c000002010100")
    first = bytes([2 * (len(first) - 2) | 0x80, 0]) + first[2:]
    clean = encode_batch([Record(0, NOW, b"k", b"v", ((b"h", None),))], last_offset=1)
    header = bytearray(clean[:HEADER_V2_SIZE])
    header[8:12] = (HEADER_V2_SIZE - 12 + len(first + second)).to_bytes(4, "big")
    header[RECORD_COUNT_AT:] = (2).to_bytes(4, "big")
    header[17:21] = crc32c_plain(bytes(header[21:]) + first + second).to_bytes(4, "big")
    batch = bytes(header) + first + second
    assert filtered([batch], [True, False]).data.tobytes() == clean
    assert len(filtered([batch], [True, True]).data) < len(batch)


def test_timestamps_that_kafka_cannot_write_are_kept() -> None:
    batch = encode_batch([record(0, timestamp=-5), record(1, timestamp=-9), record(2)])
    result = filtered([batch], [True, True, False])
    assert result.rewritten == 1
    header, records = decode_batch(result.data, 0)
    assert [r.timestamp for r in records] == [-5, -9]
    assert header["max_timestamp"] == -1
    assert filtered([batch], [True, True, True]).copied == 1


def test_records_whose_offsets_do_not_ascend_are_kept_as_they_are() -> None:
    batch = encode_batch(
        [record(7), record(3), record(-2), record(9)], base_offset=3, last_offset=6
    )
    result = filtered([batch], [True, True, True, False])
    header, records = decode_batch(result.data, 0)
    assert [r.offset for r in records] == [7, 3, -2]
    assert (header["base_offset"], header["last_offset"]) == (3, 6)


def test_overflowing_retention_sets_no_horizon() -> None:
    batch = encode_batch([record(0, b"t", None)])
    result = filtered([batch], [True], delete_retention_ms=2**63 - 1)
    assert result.data.tobytes() == batch
    assert result.rewritten == 1


def test_arguments_of_the_wrong_shape_are_refused() -> None:
    buf, rows = log([encode_batch([record(0)])])
    blocks = inflate(buf, rows)
    retention = np.ones(1, np.int8)
    for keep, how in (
        (np.ones(2, np.bool_), retention),
        (np.ones(1, np.bool_), np.full(1, 3, np.int8)),
    ):
        with pytest.raises(ValueError, match=r"expected|retention"):
            filter_batches(blocks, keep, how, now=NOW, delete_retention_ms=DAY)


@settings(max_examples=150)
@given(st.integers(0, 10**6), st.integers(0, 2**32))
def test_kernel_agrees_with_twin_for_any_kept_records(seed: int, choice: int) -> None:
    rng = random.Random(choice)
    batches = random_log(seed)
    total = sum(len(decode_batch(b, 0)[1]) for b in batches)
    share = rng.choice((0.0, 0.3, 0.9, 1.0))
    now = rng.choice((NOW - 1, NOW, NOW + 1, 0, AS_THEY_ARE))
    filtered(
        batches,
        [rng.random() < share for _ in range(total)],
        [rng.choice(list(Retention)) for _ in batches],
        now=now,
        delete_retention_ms=0 if now == AS_THEY_ARE else DAY,
        horizon_cause=[rng.random() < 0.3 for _ in batches],
        horizons=rng.random() < 0.7,
        retain_deletes=rng.random() < 0.5,
    )


def test_without_horizons_the_segment_decides_about_tombstones() -> None:
    tombstone, value = record(0, b"t", None), record(1, b"k")
    batch = encode_batch([tombstone, value])
    kept = filtered([batch], [True, True], horizons=False)
    assert (kept.copied, kept.data.tobytes()) == (1, batch)
    header, records = only(filtered([batch], [True, True], horizons=False, retain_deletes=False))
    assert [r.offset for r in records] == [1]
    assert not header["attributes"] & 64
    assert header["base_timestamp"] == value.timestamp


@settings(max_examples=150)
@given(st.integers(0, 10**6), st.integers(0, 2**32))
def test_kernel_agrees_with_twin_on_damage(seed: int, damage: int) -> None:
    rng = random.Random(damage)
    buf, rows = log(random_log(seed, (Codec.NONE,)))
    spoiled = buf.copy()
    for row in rows:
        if row["size"] > HEADER_V2_SIZE and rng.random() < 0.5:
            at = rng.randrange(
                int(row["position"]) + HEADER_V2_SIZE, int(row["position"] + row["size"])
            )
            spoiled[at] = rng.choice((0, 1, 2, 127, 128, 255, rng.randrange(256)))
    blocks = inflate(spoiled, rows)
    keep = np.array([rng.random() < 0.7 for _ in range(int(rows["record_count"].sum()))], np.bool_)
    retention = np.full(len(rows), Retention.RETAIN_EMPTY, np.int8)
    try:
        slow = filter_batches_plain(blocks, keep, retention, now=NOW, delete_retention_ms=DAY)
    except CorruptLogError:
        with pytest.raises(CorruptLogError):
            filter_batches(blocks, keep, retention, now=NOW, delete_retention_ms=DAY)
        return
    fast = filter_batches(blocks, keep, retention, now=NOW, delete_retention_ms=DAY)
    assert fast.data.tobytes() == slow.data.tobytes()
