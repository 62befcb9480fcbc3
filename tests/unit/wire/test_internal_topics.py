import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winnow.wire.internal_topics import (
    CONSUMER_OFFSETS,
    INTERNAL_TOPICS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    InternalKey,
    decode_key,
    decode_value,
)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def compact(value: str | None) -> bytes:
    return b"\0" if value is None else bytes([len(value) + 1]) + value.encode()


COMMIT_KEY = b"\0\1" + text("g") + text("t") + struct.pack(">i", 3)


def commit_key() -> InternalKey:
    key = decode_key(CONSUMER_OFFSETS, COMMIT_KEY)
    assert key is not None
    return key


def test_key_of_a_committed_offset_is_decoded() -> None:
    key = commit_key()
    assert (key.type, key.name) == ("OffsetCommit", "g")
    assert dict(key.fields) == {"group": "g", "topic": "t", "partition": 3}


@pytest.mark.parametrize(
    "value",
    [
        b"\0\0" + struct.pack(">q", 42) + text("m") + struct.pack(">q", 7),
        b"\0\1" + struct.pack(">q", 42) + text("m") + struct.pack(">qq", 7, 8),
        b"\0\2" + struct.pack(">q", 42) + text("m") + struct.pack(">q", 7),
        b"\0\3" + struct.pack(">qi", 42, -1) + text("m") + struct.pack(">q", 7),
        b"\0\4" + struct.pack(">qi", 42, -1) + compact("m") + struct.pack(">q", 7) + b"\0",
        b"\0\4" + struct.pack(">qi", 42, -1) + compact("m") + struct.pack(">q", 7) + b"\1\0\2ab",
    ],
)
def test_committed_offset_is_decoded_in_all_versions(value: bytes) -> None:
    fields = decode_value(CONSUMER_OFFSETS, commit_key(), value)
    assert fields is not None
    assert dict(fields) == {"offset": 42, "leaderEpoch": -1, "metadata": "m", "commitTimestamp": 7}
    for end in range(len(value)):
        assert decode_value(CONSUMER_OFFSETS, commit_key(), value[:end]) is None
    assert decode_value(CONSUMER_OFFSETS, commit_key(), value + b"x") is None


def test_unknown_version_is_not_decoded() -> None:
    assert decode_value(CONSUMER_OFFSETS, commit_key(), b"\0\5" + bytes(30)) is None


def test_transaction_is_decoded_in_both_versions() -> None:
    key = decode_key(TRANSACTION_STATE, b"\0\0" + text("tx"))
    head = struct.pack(">qhib", 9, 2, 60_000, 4)
    times = struct.pack(">qq", 11, 10)
    plain = b"\0\0" + head + struct.pack(">i", 1) + text("t") + struct.pack(">iii", 2, 0, 5) + times
    flexible = (
        b"\0\1"
        + head
        + b"\2"
        + compact("t")
        + b"\3"
        + struct.pack(">ii", 0, 5)
        + b"\0"
        + times
        + b"\0"
    )
    for value in (plain, flexible):
        fields = decode_value(TRANSACTION_STATE, key, value)
        assert fields is not None
        assert dict(fields) == {
            "producerId": 9,
            "producerEpoch": 2,
            "transactionTimeoutMs": 60_000,
            "state": "CompleteCommit",
            "partitions": "t-0 t-5",
            "lastUpdateTimestamp": 11,
            "startTimestamp": 10,
        }


def test_group_without_members_is_decoded() -> None:
    key = decode_key(CONSUMER_OFFSETS, b"\0\2" + text("g"))
    value = (
        b"\0\3"
        + text("consumer")
        + struct.pack(">i", 5)
        + text("range")
        + b"\xff\xff"
        + struct.pack(">qi", 1, 0)
    )
    fields = decode_value(CONSUMER_OFFSETS, key, value)
    assert fields == (
        ("protocolType", "consumer"),
        ("generation", 5),
        ("protocol", "range"),
        ("leader", None),
        ("members", 0),
    )


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b"\0",
        COMMIT_KEY[:-1],
        COMMIT_KEY + b"x",
        b"\0\x63" + text("g"),  # an unknown type
        b"\0\2" + struct.pack(">h", -1),  # no name
        b"\0\2" + struct.pack(">h", 32767) + b"g",
        b"\0\2" + struct.pack(">h", 1) + b"\xff",  # not UTF-8
    ],
)
def test_hostile_keys_are_not_decoded(key: bytes | None) -> None:
    assert decode_key(CONSUMER_OFFSETS, key) is None


def test_other_topics_have_no_names() -> None:
    assert decode_key("orders", COMMIT_KEY) is None
    assert decode_value("orders", commit_key(), bytes(40)) is None


def test_huge_count_is_refused_at_once() -> None:
    key = decode_key(TRANSACTION_STATE, b"\0\0" + text("tx"))
    value = (
        b"\0\0" + struct.pack(">qhib", 9, 2, 60_000, 4) + struct.pack(">i", 2**31 - 1) + bytes(100)
    )
    assert decode_value(TRANSACTION_STATE, key, value) is None


@given(st.binary(max_size=80), st.sampled_from(INTERNAL_TOPICS))
def test_random_bytes_never_raise(data: bytes, topic: str) -> None:
    key = decode_key(topic, data)
    for known in (key, commit_key()):
        decode_value(topic, known, data)


def test_flipped_bytes_never_raise() -> None:
    rng = random.Random(5)
    share = b"\0\1" + text("g") + bytes(16) + struct.pack(">i", 1)
    decoded = decode_key(SHARE_GROUP_STATE, share)
    assert decoded is not None
    assert decoded.type == "ShareUpdate"
    for _ in range(500):
        mutated = bytearray(rng.choice((share, COMMIT_KEY)))
        mutated[rng.randrange(len(mutated))] = rng.randrange(256)
        for topic in INTERNAL_TOPICS:
            decode_key(topic, bytes(mutated))
