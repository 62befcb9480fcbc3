from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.cleaning.partitions import batch, record
from winnow.errors import CorruptLogError
from winnow.scan import chunks
from winnow.scan.chunks import batches_of, chunks_of
from winnow.wire.batch import BATCH, Codec, bits_of, is_wrapper
from winnow.wire.buffers import as_bytes


def rows(
    sizes: list[int], counts: list[int], codec: Codec
) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    made = np.zeros(len(sizes), BATCH)
    made["size"], made["record_count"], made["attributes"] = sizes, counts, int(codec)
    made["magic"], made["last_offset"] = 2, 10
    made["position"] = np.concatenate([[0], np.cumsum(sizes)[:-1]]) if sizes else 0
    return made


@settings(deadline=None)
@given(
    batches=st.lists(st.tuples(st.integers(110, 500), st.integers(0, 5)), max_size=30),
    chunk_bytes=st.integers(1, 2000),
    codec=st.sampled_from([Codec.NONE, Codec.ZSTD]),
)
def test_chunks_cover_each_batch_once(
    batches: list[tuple[int, int]], chunk_bytes: int, codec: Codec
) -> None:
    made = rows([size for size, _ in batches], [count for _, count in batches], codec)
    total = sum(count for _, count in batches)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "_CHUNK_BYTES", 1 if codec is Codec.NONE else chunk_bytes)
        found = list(
            chunks_of(
                made, total, bits=bits_of(made), plain=chunk_bytes if codec is Codec.NONE else 1
            )
        )
    assert [i for some in found for i in range(some.start, some.stop)] == list(range(len(batches)))
    for some in found:
        inside = made[some]
        assert len(inside) == 1 or int(inside["size"].sum()) <= chunk_bytes


def test_uncompressed_batches_are_one_chunk_by_default() -> None:
    made = rows([2**24, 2**24], [3, 4], Codec.NONE)
    assert list(chunks_of(made, 7, bits=bits_of(made))) == [slice(0, 2)]


def test_old_format_batches_count_one_record_or_a_guess_per_wrapper() -> None:
    made = rows([100, 34 * 5, 2**24], [-1, -1, 8], Codec.NONE)
    made["magic"], made["attributes"] = [0, 1, 2], [Codec.NONE, Codec.LZ4, Codec.NONE]
    assert is_wrapper(made).tolist() == [False, True, False]
    assert list(chunks_of(made, 15, bits=bits_of(made))) == [slice(0, 2), slice(2, 3)], (
        "converted a chunk at a time"
    )


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("told", [6, 8])
def test_record_count_other_than_expected_is_refused(codec: Codec, told: int) -> None:
    made = rows([200, 200], [3, 4], codec)
    with pytest.raises(CorruptLogError, match=f"expected {told} records, found 7"):
        list(chunks_of(made, told, bits=bits_of(made)))


def test_batch_positions_are_relative_to_the_split() -> None:
    data = batch(record(5)) + batch(record(6), record(7))
    found = batches_of(as_bytes(data), "some.log", 5)
    assert found["position"].tolist() == [0, len(batch(record(5)))]
    assert found["last_offset"].tolist() == [5, 7]


def test_garbage_in_a_split_is_refused_with_file_and_byte() -> None:
    data = batch(record(5)) + b"\x00" * 80
    with pytest.raises(CorruptLogError, match=f"some.log at byte {len(batch(record(5)))}"):
        batches_of(as_bytes(data), "some.log", 5)


def test_empty_split_has_no_batches() -> None:
    assert len(batches_of(as_bytes(b""), "some.log", 42)) == 0
