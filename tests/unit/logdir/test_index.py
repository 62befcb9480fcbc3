"""S1.6 and S1.7; case 76 in part."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins.files import index_plain
from tests.twins.no_numba import without_numba
from winnow.errors import CorruptLogError
from winnow.logdir.batches import Piece
from winnow.logdir.indexes import kernels
from winnow.logdir.indexes.builder import IndexBuilder
from winnow.logdir.indexes.checks import check_offset_index, columns_of
from winnow.logdir.indexes.index import decode_offset_index, decode_time_index
from winnow.logdir.indexes.kernels import warm_up
from winnow.wire.batch import BATCH

BASE = 1000


def _batches(sizes: list[int], timestamps: list[int], spans: list[int] | None = None) -> np.ndarray:
    rows = np.zeros(len(sizes), BATCH)
    rows["size"] = sizes
    rows["position"] = np.cumsum(sizes) - sizes
    spans = spans or [1] * len(sizes)
    rows["last_offset"] = BASE - 1 + np.cumsum(spans)
    rows["base_offset"] = rows["last_offset"] - np.array(spans, np.int64) + 1
    rows["record_count"] = spans
    rows["max_timestamp"] = timestamps
    return rows


def _build(rows: np.ndarray, interval: int, *cuts: int) -> tuple[bytes, bytes]:
    builder = IndexBuilder(base_offset=BASE, index_interval_bytes=interval)
    for chunk in np.split(rows, cuts):
        builder.append(chunk)
    return builder.finish()


def test_entry_is_added_after_more_than_the_interval() -> None:
    rows = _batches([100, 100, 100, 50, 60, 100], [5, 9, 7, 9, 12, 11])
    index, timeindex = _build(rows, 100)
    # 100 bytes are not more than 100. A batch is counted after its own entry.
    assert list(struct.iter_unpack(">ii", index)) == [(2, 200), (4, 350)]
    # The largest timestamp so far, with the first batch that had it. The forced last entry adds
    # nothing here.
    assert list(struct.iter_unpack(">qi", timeindex)) == [(9, 1), (12, 4)]


def test_last_time_entry_is_forced() -> None:
    index, timeindex = _build(_batches([100, 100], [5, 9]), 4096)
    assert index == b""
    assert list(struct.iter_unpack(">qi", timeindex)) == [(9, 1)]


def test_batches_without_timestamps_add_no_time_entries() -> None:
    index, timeindex = _build(_batches([100] * 5, [-1] * 5), 150)
    assert len(index) == 16
    assert timeindex == b""
    assert _build(_batches([], []), 0) == (b"", b"")


@given(
    st.lists(
        st.tuples(st.integers(61, 300), st.integers(-1, 20), st.integers(1, 9)),
        max_size=40,
    ),
    st.integers(0, 400),
    st.lists(st.integers(0, 40), max_size=3).map(sorted),
)
def test_kernel_agrees_with_twin_at_any_chunk_size(
    batches: list[tuple[int, int, int]], interval: int, cuts: list[int]
) -> None:
    sizes, timestamps, spans = (
        (list(column) for column in zip(*batches, strict=True)) if batches else ([], [], [])
    )
    rows = _batches(sizes, timestamps, spans)
    expected = index_plain(rows, base_offset=BASE, interval=interval)
    assert _build(rows, interval, *cuts) == expected
    with without_numba():
        assert _build(rows, interval, *cuts) == expected


def test_value_that_does_not_fit_into_an_entry_is_refused() -> None:
    for field, value in (
        ("last_offset", BASE + 2**31),
        ("position", 2**31),
        ("last_offset", BASE - 1),
    ):
        rows = _batches([100], [1])
        rows[field] = value
        with pytest.raises(CorruptLogError):
            _build(rows, 0)
    rows = _batches([100], [1])
    rows["last_offset"] = BASE + 2**31 - 1
    assert _build(rows, 0)[1] == struct.pack(">qi", 1, 2**31 - 1)


def test_offsets_must_ascend_across_chunks() -> None:
    builder = IndexBuilder(base_offset=BASE, index_interval_bytes=0)
    builder.append(_batches([100, 100], [1, 1]))
    with pytest.raises(CorruptLogError, match="do not ascend"):
        builder.append(_batches([100], [1]))


def test_full_index_is_an_error_as_in_kafka() -> None:
    rows = _batches([100] * 4, [1, 2, 3, 4])
    roomy = IndexBuilder(base_offset=BASE, index_interval_bytes=0, max_index_bytes=48)
    roomy.append(rows)
    assert [len(part) for part in roomy.finish()] == [24, 36]
    tight = IndexBuilder(base_offset=BASE, index_interval_bytes=0, max_index_bytes=47)
    with pytest.raises(CorruptLogError, match="would exceed segment"):
        tight.append(rows)


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_full_time_index_is_an_error_even_without_a_new_entry(cut: int) -> None:
    def built(max_index_bytes: int) -> tuple[bytes, bytes]:
        builder = IndexBuilder(
            base_offset=BASE, index_interval_bytes=0, max_index_bytes=max_index_bytes
        )
        for chunk in np.split(_batches([100] * 4, [1, 2, 2, 2]), [cut]):
            builder.append(chunk)
        return builder.finish()

    assert [len(part) for part in built(36)] == [24, 12]
    with pytest.raises(CorruptLogError, match="would exceed segment"):
        built(24)


def test_log_larger_than_an_entry_can_address_is_refused() -> None:
    """Kafka refuses the append: small v0 and v1 records grow when they become v2 (S5.7)."""
    _build(_batches([2**30, 2**30 - 1], [1, 2]), 0)
    with pytest.raises(CorruptLogError, match="too far into its segment"):
        _build(_batches([2**30, 2**30], [1, 2]), 0)


def _offset_index(data: bytes) -> np.ndarray:
    return decode_offset_index(
        data, "x.index", base_offset=BASE, log_bytes=400, end_offset=BASE + 10
    )


def test_index_reads_back_as_built() -> None:
    index, timeindex = _build(_batches([100, 100, 100, 100], [5, 9, 7, 12]), 100)
    assert _offset_index(index).tolist() == [(BASE + 2, 200)]
    entries = decode_time_index(timeindex, "x.timeindex", base_offset=BASE)
    assert entries.tolist() == [(9, BASE + 1), (12, BASE + 3)]


@pytest.mark.parametrize(
    "entries",
    [
        [(2, 200), (0, 0), (0, 0)],
        [(0, 0)],
        [(2, 200), (2, 300)],
        [(2, 200), (3, 200)],
        [(-1, 200)],
        [(2, 400)],
        [(10, 200)],
        [(2, -5)],
    ],
    ids=[
        "zeros",
        "zero",
        "offset",
        "position",
        "below",
        "beyond the log",
        "beyond the end",
        "negative",
    ],
)
def test_malformed_index_tail_is_refused(entries: list[tuple[int, int]]) -> None:
    with pytest.raises(CorruptLogError, match="at byte"):
        _offset_index(b"".join(struct.pack(">ii", *entry) for entry in entries))


def test_torn_index_is_refused() -> None:
    with pytest.raises(CorruptLogError, match="multiple of 8"):
        _offset_index(struct.pack(">iii", 2, 200, 3))


@pytest.mark.parametrize(
    "entries", [[(5, 1), (0, 0)], [(5, 1), (5, 2)], [(5, 2), (6, 1)], [(5, -1)], [(-1, 1)]]
)
def test_malformed_time_index_is_refused(entries: list[tuple[int, int]]) -> None:
    data = b"".join(struct.pack(">qi", *entry) for entry in entries)
    with pytest.raises(CorruptLogError, match="at byte"):
        decode_time_index(data, "x", base_offset=BASE)


def _check(rows: np.ndarray, *pairs: tuple[int, int]) -> None:
    data = b"".join(struct.pack(">ii", *pair) for pair in pairs)
    batches = columns_of(Piece(np.empty(0, np.uint8), rows, 0))
    check_offset_index(data, "f", batches, base_offset=BASE, log_bytes=1000)


def test_entries_may_name_first_or_last_offsets() -> None:
    rows = _batches([100] * 6, [1] * 6)
    _check(rows, (2, 200), (4, 400))
    _check(rows, (3, 200), (5, 400))
    _check(rows)


@pytest.mark.parametrize(
    "pairs", [[(2, 201)], [(1, 200)], [(4, 200), (5, 400)], [(2, 600)], [(6, 500)]]
)
def test_contradicting_entries_are_refused(pairs: list[tuple[int, int]]) -> None:
    with pytest.raises(CorruptLogError):
        _check(_batches([100] * 6, [1] * 6), *pairs)


def test_entry_with_an_offset_inside_a_batch_is_refused() -> None:
    with pytest.raises(CorruptLogError, match="last offset of a batch"):
        _check(_batches([100] * 2, [1] * 2, [2, 2]), (2, 100))
    with pytest.raises(CorruptLogError):
        _check(_batches([], []), (2, 100))


def test_entry_of_an_old_cleaner_names_the_last_record_that_it_kept() -> None:
    """Kafka 2.8.2: the last batch of a buffer keeps its last offset, and loses that record."""
    rows = _batches([100] * 4, [1] * 4, [4] * 4)
    rows["record_count"][2] = 2
    _check(rows, (9, 200))
    _check(rows, (9, 100), (15, 300))
    for pair in ((5, 100), (13, 300), (9, 300)):
        with pytest.raises(CorruptLogError):
            _check(rows, pair)


@pytest.mark.parametrize("count", [1, 2])
def test_warm_up_compiles_for_one_row_and_for_several(count: int) -> None:
    """An array of one row has another type for numba."""
    warm_up()
    before = list(kernels.index_chunk.signatures)
    IndexBuilder(base_offset=0, index_interval_bytes=0).append(_batches([61] * count, [1] * count))
    assert list(kernels.index_chunk.signatures) == before
