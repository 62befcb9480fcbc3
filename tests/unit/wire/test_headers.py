"""Passes over the headers of batches, compared with their plain twins."""

from __future__ import annotations

import zlib
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins.headers import (
    bits_of_plain,
    count_records_plain,
    extent_plain,
    summed_plain,
)
from tests.twins.no_numba import without_numba
from winnow.errors import CorruptLogError
from winnow.logdir.indexes.builder import IndexBuilder
from winnow.scan.cut import batches_checksum
from winnow.wire import plain
from winnow.wire.batch import BATCH, bits_of
from winnow.wire.buffers import Rows, as_rows, copied, read_only
from winnow.wire.kernels.headers import count_records, find_areas

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "position": st.sampled_from([-1, 0, 5, 400]),
            "size": st.integers(0, 200),
            "base_offset": st.integers(0, 2**62),
            "last_offset": st.integers(0, 6),
            "record_count": st.sampled_from([-1, 0, 1, 20, 2**31 - 1]),
            "crc": st.integers(0, 2**32 - 1),
            "attributes": st.integers(-(2**15), 2**15 - 1),
            "magic": st.integers(0, 2),
        }
    ),
    max_size=6,
)


def rows_of(given_: list[dict[str, int]]) -> Rows:
    rows = np.zeros(len(given_), BATCH)
    for row, values in zip(rows, given_, strict=True):
        for name, value in values.items():
            row[name] = value
    return as_rows(rows)


@given(ROWS)
def test_bits_are_those_of_any_batch(some: list[dict[str, int]]) -> None:
    rows = rows_of(some)
    assert bits_of(rows) == bits_of_plain(rows)
    assert bits_of(rows[::-1]) == bits_of_plain(rows)


@given(ROWS)
def test_checksum_covers_offset_size_and_crc(some: list[dict[str, int]]) -> None:
    rows = rows_of(some)
    assert batches_checksum(rows, 7) == zlib.crc32(summed_plain(rows), 7)
    with without_numba():
        assert batches_checksum(rows, 7) == zlib.crc32(summed_plain(rows), 7)


@given(ROWS, st.integers(0, 2**6), st.sampled_from([100, 250, 700]))
def test_places_and_counts_of_records_equal_those_of_the_plain_twin(
    some: list[dict[str, int]], mask: int, raw_size: int
) -> None:
    rows = rows_of(some)
    n = len(rows)
    skipped = read_only(np.array([bool(mask >> i & 1) for i in range(n)], np.bool_))
    begin, end, codecs = (np.empty(n, np.int64) for _ in range(3))
    legacy, compressed, unread = (np.empty(n, np.bool_) for _ in range(3))
    found = begin, end, codecs, legacy, compressed, unread
    inside = find_areas(rows, skipped, raw_size, *found)
    expected = plain.find_areas(rows, skipped, raw_size)
    assert inside is (expected is not None)
    if expected is None:
        return
    for array, other in zip(found, expected, strict=True):
        assert np.array_equal(array, other)
    begin, end, unread = (read_only(array) for array in (begin, end, unread))
    total, wrong = count_records(rows, unread, begin, end)
    assert count_records_plain(rows, unread, end - begin) == (total if wrong < 0 else None)
    if wrong >= 0:
        assert count_records_plain(rows[:wrong], unread[:wrong], (end - begin)[:wrong]) == total


@given(ROWS.filter(bool), st.integers(0, 3))
def test_batches_out_of_order_or_bounds_are_refused_for_an_index(
    some: list[dict[str, int]], next_offset: int
) -> None:
    rows = rows_of(some)
    ascending, begin, _ = extent_plain(rows, next_offset)
    builder = IndexBuilder(base_offset=next_offset, index_interval_bytes=0)
    with nullcontext() if ascending and begin >= 0 else pytest.raises(CorruptLogError):
        builder.append(rows)


@given(ROWS)
def test_copies_are_equal_and_writable(some: list[dict[str, int]]) -> None:
    rows = rows_of(some)
    copy = copied(rows)
    assert copy.tobytes() == rows.tobytes()
    copy["position"] += 1
