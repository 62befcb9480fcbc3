from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins.encoding import encode_batch
from tests.twins.records import find_keys_plain
from tests.twins.siphash import siphash_plain
from tests.unit.wire.logs import log, random_log, record
from winnow.errors import CorruptLogError
from winnow.wire.batch import Codec
from winnow.wire.buffers import as_bytes
from winnow.wire.inflate import inflate
from winnow.wire.key_search import KeySet, find_keys, key_set, key_set_of
from winnow.wire.plain import read_records

SECRET = (2**64 - 1, 12345)


@given(st.integers(0, 2**32), st.data())
def test_kernel_agrees_with_twin(seed: int, data: st.DataObject) -> None:
    """Searches keys of the log itself, keys of the same sizes, and others."""
    buf, rows = log(random_log(seed))
    blocks = inflate(buf, rows)
    there = [
        r.key
        for i, row in enumerate(rows)
        for r in read_records(blocks.area(i), row)
        if r.key is not None
    ]
    chosen = data.draw(st.lists(st.sampled_from(there))) if there else []
    others = data.draw(st.lists(st.binary(max_size=20), max_size=20))
    flipped = [bytes([key[0] ^ 1]) + key[1:] for key in chosen if key]
    keys = key_set_of([*chosen, *others, *flipped], SECRET)
    found = find_keys(blocks, keys)
    assert found.number.tolist() == find_keys_plain(blocks, keys)
    if len(rows):
        assert int(found.size.sum()) == int((blocks.end - blocks.begin).sum())


def test_null_key_never_matches_and_an_empty_one_does() -> None:
    buf, rows = log(
        [encode_batch([record(0, None), record(1, b""), record(2, b"a")], codec=Codec.LZ4)]
    )
    assert find_keys(inflate(buf, rows), key_set_of([b""], SECRET)).number.tolist() == [
        -1,
        0,
        -1,
    ]


def test_no_keys_give_no_matches() -> None:
    buf, rows = log([encode_batch([record(0, b"a"), record(1, b"")])])
    assert find_keys(inflate(buf, rows), key_set_of([], SECRET)).number.tolist() == [-1, -1]


def test_keys_with_equal_hashes_are_compared_by_bytes() -> None:
    """Builds a set in which all keys have the same hash."""
    buf, rows = log(
        [
            encode_batch(
                [record(at, key) for at, key in enumerate([b"aaaaaaaaa", b"aaaaaaaab", b"b", b""])]
            )
        ]
    )
    blocks = inflate(buf, rows)
    hashed = np.uint64(siphash_plain(b"aaaaaaaab", SECRET)[0])
    three = [b"aaaaaaaaa", b"b" * 9, b"aaaaaaaab"]
    starts, sizes = np.arange(0, 27, 9, dtype=np.int64), np.full(3, 9)
    buckets = np.array([0, 3, 3] if hashed < 2**63 else [0, 0, 3], np.int32)
    secret, data = (np.uint64(SECRET[0]), np.uint64(SECRET[1])), as_bytes(b"".join(three))
    alike = KeySet(secret, np.full(3, hashed), starts, sizes, data, buckets)
    assert find_keys(blocks, alike).number.tolist() == [-1, 2, -1, -1]


def test_many_keys_are_found() -> None:
    rng = random.Random(7)
    names = [b"user-%d" % rng.randrange(10**9) for _ in range(5000)]
    buf, rows = log([encode_batch([record(at, key) for at, key in enumerate(names)])])
    keys = key_set_of(names[::2], SECRET)
    assert (np.diff(keys.hashes.view(np.int64).view(np.uint64)) > 0).all()
    found = find_keys(inflate(buf, rows), keys)
    texts = [
        keys.data[at : at + size].tobytes()
        for at, size in zip(keys.starts.tolist(), keys.sizes.tolist(), strict=True)
    ]
    assert [texts[number] if number >= 0 else None for number in found.number.tolist()] == [
        key if key in {*names[::2]} else None for key in names
    ]


def test_keys_outside_their_bytes_are_refused() -> None:
    for ends in ([0, 4], [1, 0], [-1, 2]):
        with pytest.raises(ValueError, match="keys don't lie"):
            key_set(np.array(ends, np.int64), as_bytes(b"abc"), SECRET)


def test_malformed_record_is_refused_with_its_place() -> None:
    batch = bytearray(encode_batch([record(0, b"a")]))
    batch[61] += 2  # the length of the record
    buf, rows = log([bytes(batch)])
    with pytest.raises(CorruptLogError, match="batch at byte 0"):
        find_keys(inflate(buf, rows), key_set_of([b"a"], SECRET))
