"""Which names fill Kafka's own topics: the kernel and its twin."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins.encoding import encode_batch
from tests.twins.records import count_names_plain, name_in_key
from tests.unit.wire.legacy_logs import entry
from tests.unit.wire.logs import log, random_log, record
from winnow.errors import CorruptLogError
from winnow.wire import names as names_module
from winnow.wire.batch import BATCH, Codec
from winnow.wire.buffers import as_bytes
from winnow.wire.inflate import inflate
from winnow.wire.internal_topics import (
    CONSUMER_OFFSETS,
    INTERNAL_TOPICS,
    TRANSACTION_STATE,
    decode_key,
)
from winnow.wire.names import count_names
from winnow.wire.records import scan_records
from winnow.wire.walk import walk_batches

KEYS = st.one_of(
    st.none(),
    st.binary(max_size=9),
    st.builds(
        lambda kind, size, name: struct.pack(">hh", kind, size) + name,
        st.sampled_from([-1, 0, 1, 2, 9, 24]),
        st.sampled_from([-1, 0, 1, 2, 3]),
        st.sampled_from([b"", b"a", b"ab", b"abc", b"abd"]),
    ),
)


def key(name: str, kind: int = 1) -> bytes:
    encoded = name.encode()
    return struct.pack(">hh", kind, len(encoded)) + encoded + struct.pack(">h", 1) + b"t" + bytes(4)


def counted(
    batches: list[bytes], topic: str = CONSUMER_OFFSETS, *, most: int = 10**6
) -> dict[bytes, tuple[int, int]]:
    buf, rows = log(batches)
    blocks = inflate(buf, rows)
    counts, complete = count_names(blocks, topic, most=most)
    assert complete is (len(count_names_plain(blocks, topic)) <= most)
    scanned = scan_records(blocks, (1, 2)).hash
    for seen, usual in ((1, 1_024), (4, 1), (8_192, 1_024), (8_192, 1)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(names_module, "_SEEN_PAIRS", seen)
            patch.setattr(names_module, "_USUAL_NAMES", usual)
            again, _ = count_names(blocks, topic, most=most, hashes=scanned)
        assert again.names == counts.names
        assert again.records.tolist() == counts.records.tolist()
        assert again.bytes.tolist() == counts.bytes.tolist()
    figures = zip(counts.records.tolist(), counts.bytes.tolist(), strict=True)
    return dict(zip(counts.names, figures, strict=True))


def plain(batches: list[bytes], topic: str = CONSUMER_OFFSETS) -> dict[bytes, tuple[int, int]]:
    buf, rows = log(batches)
    blocks = inflate(buf, rows)
    return count_names_plain(blocks, topic)


@given(
    st.lists(st.lists(KEYS, max_size=5), max_size=4),
    st.sampled_from(INTERNAL_TOPICS),
    st.sampled_from(Codec),
)
def test_kernel_agrees_with_twin(keys: list[list[bytes | None]], topic: str, codec: Codec) -> None:
    batches, offset = [], 0
    for some in keys:
        records = [record(offset + at, key) for at, key in enumerate(some)]
        batches.append(
            encode_batch(records, base_offset=offset, last_offset=offset + 5, codec=codec)
        )
        offset += 6
    found = counted(batches, topic)
    assert found == plain(batches, topic)
    assert list(found) == list(plain(batches, topic))


@given(st.integers(0, 10**6))
def test_kernel_agrees_with_twin_on_other_logs(seed: int) -> None:
    assert counted(random_log(seed)) == plain(random_log(seed))


def test_batch_of_one_name_counts_whole() -> None:
    first = encode_batch([record(0, key("a")), record(1, key("a", 0), None)])
    second = encode_batch(
        [record(2, key("b")), record(3, key("b")), record(4, b"no name")], codec=Codec.LZ4
    )
    third = encode_batch([record(5, key("a"))])
    found = counted([first, second, third])
    assert found[b"a"] == (3, len(first) + len(third))
    assert found[b"b"][0] == 2
    assert found[b"b"][1] < len(second)


def test_repeated_keys_are_counted_each_time() -> None:
    """Whole batches of one name, of none, of two, and one with a new key."""
    some: list[list[bytes | None]] = [
        [key("a"), key("a", 0), key("a")],
        [b"no name", None],
        [key("a"), key("b"), key("b"), None, key("a")],
        [key("b")],
    ]
    keys: list[list[bytes | None]] = [*some, *some, [key("a"), key("a", 2)], [], *some]
    batches, offset = [], 0
    for of_batch in keys:
        records = [record(offset + at, one) for at, one in enumerate(of_batch)]
        batches.append(encode_batch(records, base_offset=offset, last_offset=offset + 4))
        offset += 5
    found = counted(batches)
    assert found == plain(batches)
    assert {name: records for name, (records, _) in found.items()} == {b"a": 17, b"b": 9}


def test_key_of_an_unknown_type_has_no_name() -> None:
    batches = [encode_batch([record(0, key("a", 3)), record(1, key("b", 0))])]
    assert list(counted(batches, TRANSACTION_STATE)) == [b"b"]
    assert list(counted(batches, CONSUMER_OFFSETS)) == [b"a", b"b"]


def test_control_batches_have_no_names() -> None:
    marker = encode_batch([record(0, bytes(4), bytes(6))], control=True, transactional=True)
    assert counted([marker]) == {}


def test_old_formats_have_names() -> None:
    buf, rows = as_bytes(entry(0, 1, key=key("old"))), np.zeros(1, BATCH)
    assert walk_batches(buf, 0, 0, rows)[0] == 1
    blocks = inflate(buf, rows)
    counts, _ = count_names(blocks, CONSUMER_OFFSETS, most=1)
    assert (counts.names, counts.records.tolist(), counts.bytes.tolist()) == (
        (b"old",),
        [1],
        [len(buf)],
    )


def test_too_many_names_are_cut_to_the_largest() -> None:
    rng = random.Random(4)
    names = [f"{number:03d}".ljust(rng.randrange(3, 90), "x") for number in range(200)]
    batches = [
        encode_batch([record(n, key(name)), record(n + 1, key(name))])
        for n, name in zip(range(0, 400, 2), names, strict=True)
    ]
    whole = plain(batches)
    found = counted(batches, most=20)
    assert len(found) == 20
    assert found.items() <= whole.items()
    assert min(size for _, size in found.values()) >= max(
        size for name, (_, size) in whole.items() if name not in found
    )


def test_name_agrees_with_the_decoded_key() -> None:
    for topic, data in (
        (CONSUMER_OFFSETS, key("größe")),
        (TRANSACTION_STATE, struct.pack(">hh", 0, 2) + b"tx"),
    ):
        decoded = decode_key(topic, data)
        assert decoded is not None
        assert name_in_key(topic, data) == decoded.name.encode()


def test_damage_is_refused() -> None:
    data = bytearray(encode_batch([record(0, key("a")), record(1, key("b"))]))
    data[61] = 0x7E  # the first record is longer than the batch
    buf, rows = log([bytes(data)])
    blocks = inflate(buf, rows)
    with pytest.raises(CorruptLogError, match="record"):
        count_names(blocks, CONSUMER_OFFSETS, most=1)
    with pytest.raises(CorruptLogError, match="record"):
        count_names_plain(blocks, CONSUMER_OFFSETS)


def test_wrong_number_of_hashes_is_refused() -> None:
    buf, rows = log([encode_batch([record(0, key("a"))])])
    blocks = inflate(buf, rows)
    with pytest.raises(ValueError, match="2 hashes of 1 records"):
        count_names(blocks, CONSUMER_OFFSETS, most=1, hashes=np.zeros((2, 2), np.uint64))


def test_no_records_have_no_names() -> None:
    assert counted([]) == {}
    assert counted([encode_batch([], base_offset=0, last_offset=3)]) == {}
