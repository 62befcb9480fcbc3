"""The parts in which batches are decompressed."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins.encoding import encode_batch
from tests.twins.no_numba import without_numba
from tests.unit.wire.legacy_logs import entry
from tests.unit.wire.logs import log, random_log, record
from winnow.errors import CorruptLogError
from winnow.wire.batch import BATCH, Codec
from winnow.wire.buffers import Buffer, Bytes, Rows
from winnow.wire.codecs import decompress_into
from winnow.wire.inflate import inflate, inflate_parts
from winnow.wire.sink import Sink
from winnow.wire.walk import walk_batches

MIB = 2**20


def batches(codec: Codec, value_bytes: int, *, total: int) -> tuple[Bytes, Rows]:
    """Return batches of about 16 KiB with `total` bytes of random values, which don't shrink."""
    rng, some = random.Random(1), max(1, 2**14 // value_bytes)
    return log(
        encode_batch(
            [record(base + i, b"k", rng.randbytes(value_bytes)) for i in range(some)], codec=codec
        )
        for base in range(0, total // value_bytes, some)
    )


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD, Codec.SNAPPY])
@pytest.mark.parametrize(("value_bytes", "most"), [(1024, 2 * MIB), (100, 64 * MIB)])
def test_parts_of_large_records_fit_the_cache_of_a_processor(
    codec: Codec, value_bytes: int, most: int
) -> None:
    buf, rows = batches(codec, value_bytes, total=5 * MIB)
    whole = inflate(buf, rows)
    parts = list(inflate_parts(buf, rows))
    assert len(parts) == -(-len(whole.inflated) // most)
    assert all(len(part.inflated) < most + 2**16 for part in parts)
    assert b"".join(part.inflated.tobytes() for part in parts) == whole.inflated.tobytes()
    assert np.concatenate([part.rows for part in parts]).tolist() == rows.tolist()


def test_batch_larger_than_a_part_is_decompressed_alone() -> None:
    value = random.Random(2).randbytes(5 * MIB)
    buf, rows = log([encode_batch([record(i, b"k", value)], codec=Codec.LZ4) for i in range(2)])
    assert [len(part.rows) for part in inflate_parts(buf, rows)] == [1, 1]


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_batches_larger_than_a_part_are_decompressed_only_once(
    codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without room for a batch, a kernel gives up, and `decompress_into` begins anew."""
    rng = random.Random(3)
    buf, rows = log(
        encode_batch(
            [record(base + i, b"k", 3 * rng.randbytes(1400)) for i in range(1000)], codec=codec
        )
        for base in range(0, 3000, 1000)
    )
    again: list[Codec] = []

    def begin_anew(sink: Sink, codec: Codec, payload: Buffer, *, limit: int) -> None:
        again.append(codec)
        decompress_into(sink, codec, payload, limit=limit)

    monkeypatch.setattr("winnow.wire.inflate.decompress_into", begin_anew)
    parts = list(inflate_parts(buf, rows))
    assert [len(part.rows) for part in parts] == [1, 1, 1]
    assert again == []


def outcome(data: bytes, rows: Rows) -> object:
    try:
        blocks = inflate(data, rows, limit=MIB)
    except (CorruptLogError, ValueError) as error:
        return type(error), str(error)
    areas = [blocks.area(i).tobytes() for i in range(len(blocks.rows))]
    return areas, blocks.rows.tolist(), *(array.tolist() for array in blocks[3:])


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.data())
def test_damaged_batches_are_inflated_alike_without_numba(seed: int, draw: st.DataObject) -> None:
    data = bytearray(entry(0, seed % 2) + b"".join(random_log(seed)))
    rows = np.zeros(99, BATCH)
    count, _, _ = walk_batches(bytes(data), 0, 0, rows)
    for _ in range(draw.draw(st.integers(0, 3))):
        data[draw.draw(st.integers(0, len(data) - 1))] ^= draw.draw(st.integers(1, 255))
    found = outcome(bytes(data), rows[:count])
    with without_numba():
        assert outcome(bytes(data), rows[:count]) == found
