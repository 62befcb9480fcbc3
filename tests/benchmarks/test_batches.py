"""`encode_batches` writes the same bytes as `encode_batch` called once per batch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.batches import Cells, encode_batches
from tests.twins.encoding import encode_batch
from winnow.wire.batch import Codec
from winnow.wire.buffers import as_bytes
from winnow.wire.plain import Record

STRINGS = st.lists(st.one_of(st.none(), st.binary(max_size=200)), min_size=1, max_size=30)


def cells(strings: list[bytes | None]) -> Cells:
    sizes = np.array([-1 if one is None else len(one) for one in strings], np.int64)
    begins = np.cumsum(np.maximum(sizes, 0)) - np.maximum(sizes, 0)
    return Cells(as_bytes(b"".join(one or b"" for one in strings)), begins, sizes)


def strings(column: Cells) -> list[bytes | None]:
    pairs = zip(column.begin.tolist(), column.size.tolist(), strict=True)
    return [
        None if size < 0 else column.data[begin : begin + size].tobytes() for begin, size in pairs
    ]


def one_by_one(
    keys: Cells,
    values: Cells,
    timestamps: NDArray[np.int64],
    ends: NDArray[np.int64],
    base_offset: int,
    codec: Codec = Codec.NONE,
) -> bytes:
    """The twin of `encode_batches`."""
    columns = zip(timestamps.tolist(), strings(keys), strings(values), strict=True)
    records = [Record(base_offset + i, *row) for i, row in enumerate(columns)]
    begins = [0, *ends.tolist()[:-1]]
    return b"".join(
        encode_batch(records[begin:end], leader_epoch=0, codec=codec)
        for begin, end in zip(begins, ends.tolist(), strict=True)
    )


@given(STRINGS, st.data(), st.sampled_from(Codec), st.integers(0, 2**62))
def test_batches_equal_those_encoded_one_by_one(
    keys: list[bytes | None], data: st.DataObject, codec: Codec, base: int
) -> None:
    n = len(keys)
    values = data.draw(
        st.lists(st.one_of(st.none(), st.binary(max_size=70)), min_size=n, max_size=n)
    )
    stamps = np.array(data.draw(st.lists(st.integers(-1, 2**62), min_size=n, max_size=n)), np.int64)
    ends = np.array(sorted({*data.draw(st.lists(st.integers(1, n), max_size=4)), n}), np.int64)
    columns = cells(keys), cells(values), stamps, ends
    assert encode_batches(*columns, base_offset=base, codec=codec).tobytes() == one_by_one(
        *columns, base, codec
    )


def test_large_and_overlapping_cells_are_encoded() -> None:
    pool = as_bytes(bytes(range(256)) * 500)
    values = Cells(pool, np.array([0, 3, 7], np.int64), np.array([100_000, 3, 0], np.int64))
    columns = (
        cells([b"a", b"b", b"c"]),
        values,
        np.arange(3, dtype=np.int64),
        np.array([1, 3], np.int64),
    )
    assert encode_batches(*columns, base_offset=9).tobytes() == one_by_one(*columns, 9)


def test_no_records_give_no_bytes() -> None:
    none = np.empty(0, np.int64)
    assert not len(encode_batches(cells([]), cells([]), none, none, base_offset=0))


def test_columns_of_different_lengths_are_refused() -> None:
    two, times = cells([b"a", None]), np.zeros(2, np.int64)
    for ends in ([1], [3], [0, 2], [2, 1], [1, 1, 2]):
        with pytest.raises(ValueError, match="batches of"):
            encode_batches(two, two, times, np.array(ends, np.int64), base_offset=0)
    with pytest.raises(ValueError, match="batches of"):
        encode_batches(two, cells([b"a"]), times, np.array([2], np.int64), base_offset=0)


@pytest.mark.parametrize(
    ("begin", "size"), [(-1, 1), (0, 4), (3, 1), (0, -2), (2**63 - 1, 1), (1, 2**63 - 1)]
)
def test_cells_outside_their_data_are_refused(begin: int, size: int) -> None:
    with pytest.raises(ValueError, match="do not lie"):
        Cells(as_bytes(b"abc"), np.array([begin], np.int64), np.array([size], np.int64))
