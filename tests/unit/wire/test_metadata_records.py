"""Records of the metadata log, for any bytes (S9.3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wire.metadata_values import (
    ID_A,
    abort,
    begin,
    broker_config,
    config,
    end,
    feature,
    framed,
    no_op,
    partition,
    remove_topic,
    replicas_of,
    string,
    topic,
)
from winnow.errors import CorruptLogError
from winnow.wire.metadata_records import (
    ConfigRecord,
    Decoded,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    ReplicasRecord,
    TopicRecord,
    TransactionRecord,
    decode_metadata_record,
)

ID = "AAECAwQFBgcICQoLDA0ODw"
DECODED: list[tuple[bytes, MetadataRecord | None]] = [
    (topic("orders"), TopicRecord("orders", ID)),
    (topic("o" * 200), TopicRecord("o" * 200, ID)),
    (partition(7, version=0), PartitionRecord(7, ID, (1,), (1,))),
    (partition(7, version=1), PartitionRecord(7, ID, (1,), (1,), ("A" * 22,))),
    (partition(7, version=2), PartitionRecord(7, ID, (1,), (1,), ("A" * 22,))),
    (
        replicas_of(7, directories=[bytes(16)], version=1),
        ReplicasRecord(7, ID, None, (1,), ("A" * 22,)),
    ),
    (replicas_of(7), ReplicasRecord(7, ID, None, (1,))),
    (replicas_of(7, 3, 1), ReplicasRecord(7, ID, (3, 1), (1,))),
    (replicas_of(7, 3, version=2), ReplicasRecord(7, ID, (3,), (1,))),
    (
        replicas_of(7, 3, 1, removing=[1], adding=[]),
        ReplicasRecord(7, ID, (3, 1), (1,), None, None, (1,), ()),
    ),
    (config("orders", "retention.ms", "1"), ConfigRecord(2, "orders", "retention.ms", "1")),
    (config("orders", "retention.ms", None), ConfigRecord(2, "orders", "retention.ms", None)),
    (config("orders", "cleanup.policy", ""), ConfigRecord(2, "orders", "cleanup.policy", "")),
    (broker_config("", "x", "ü"), ConfigRecord(4, "", "x", "ü")),
    (remove_topic(), RemoveTopicRecord(ID)),
    (feature("metadata.version", 30), FeatureLevelRecord("metadata.version", 30)),
    (no_op(), None),
    (begin(), TransactionRecord.BEGIN),
    (begin(None), TransactionRecord.BEGIN),
    (end(), TransactionRecord.END),
    (abort(), TransactionRecord.ABORT),
]
NAMES = [f"{value[1]}-{number}" for number, (value, _) in enumerate(DECODED)]


@pytest.mark.parametrize(("value", "expected"), DECODED, ids=NAMES)
def test_relevant_records_are_decoded(value: bytes, expected: MetadataRecord | None) -> None:
    assert decode_metadata_record(value) == Decoded(expected)


def test_records_of_a_real_controller_are_decoded() -> None:
    """From the recorded log directory: a topic, whose id is also in c-none-0/partition.metadata,
    and a setting.
    """
    value = bytes.fromhex("01020007632d6e6f6e65eb3c74ad7f0e4a7982a8b9999f76f84e00")
    assert decode_metadata_record(value).record == TopicRecord("c-none", "6zx0rX8OSnmCqLmZn3b4Tg")
    value = b"\x01\x04\x00\x02\x07c-none\x0fcleanup.policy\x08compact\x00"
    assert decode_metadata_record(value).record == ConfigRecord(
        2, "c-none", "cleanup.policy", "compact"
    )


@pytest.mark.parametrize("key", [1, 7, 8, 10, 11, 14, 15, 17, 18, 19, 22, 26, 27, 28, 29])
def test_other_record_types_are_ignored(key: int) -> None:
    assert decode_metadata_record(framed(key, b"\xff" * 9)) == Decoded(None)
    newer = decode_metadata_record(framed(key, b"\xff" * 9, version=77))
    assert newer.record is None
    assert str(newer.newer).endswith("Record of version 77")


def test_change_of_replicas_in_a_newer_version_is_left_out() -> None:
    newer = decode_metadata_record(framed(5, b"\xff" * 9, version=77))
    assert newer == Decoded(None, "PartitionChangeRecord of version 77")


@pytest.mark.parametrize("cut", [3, 10, 22, 24, 30, 40])
def test_incomplete_change_of_replicas_is_an_error(cut: int) -> None:
    with pytest.raises(CorruptLogError, match=r"PartitionChangeRecord can't be read"):
        decode_metadata_record(replicas_of(7, 3, 1)[:cut])


@pytest.mark.parametrize("key", [30, 200, 30_000])
def test_unknown_record_type_is_named(key: int) -> None:
    found = decode_metadata_record(framed(key, b"\xff" * 9, version=77))
    assert found == Decoded(None, f"record of kind {key}")


@pytest.mark.parametrize("key", [4, 12, 20, 23, 24, 25])
def test_unknown_version_is_refused(key: int) -> None:
    with pytest.raises(
        CorruptLogError, match=r"Record has a version that this Winnow.*found 1.*newer Kafka"
    ):
        decode_metadata_record(framed(key, b"\x00" * 64, version=1))


@pytest.mark.parametrize(
    ("value", "record", "kind"),
    [
        (topic("orders"), TopicRecord("orders", ID), "TopicRecord"),
        (partition(7), PartitionRecord(7, ID), "PartitionRecord"),
        (remove_topic(), RemoveTopicRecord(ID), "RemoveTopicRecord"),
    ],
)
def test_names_and_ids_of_newer_versions_are_read(
    value: bytes, record: MetadataRecord, kind: str
) -> None:
    newer = value[:2] + b"\x09" + value[3:-1] + b"\x05more\x01\x00\x02ab"
    assert decode_metadata_record(newer) == Decoded(record, f"{kind} of version 9")


def test_newer_topic_record_without_a_topic_name_is_an_error() -> None:
    with pytest.raises(CorruptLogError, match="a topic name"):
        decode_metadata_record(framed(2, string("/no name") + ID_A, version=1))


@pytest.mark.parametrize(
    "value", [None, b"", b"\x00\x02\x00", b"\x02\x02\x00", b"\x01", b"\x01\x02", b"\xff" * 9]
)
def test_malformed_frame_is_refused(value: bytes | None) -> None:
    with pytest.raises(CorruptLogError, match=r"frame version|api key|version|number"):
        decode_metadata_record(value)


@pytest.mark.parametrize("value", [v for v, _ in DECODED], ids=NAMES)
def test_truncated_value_is_an_error(value: bytes) -> None:
    ids_only = 3 + 4 + 16
    for size in range(ids_only if value[1] == 3 else len(value)):
        with pytest.raises(CorruptLogError, match="expected"):
            decode_metadata_record(value[:size])


@pytest.mark.parametrize("value", [v for v, _ in DECODED if v[1] != 3])
def test_bytes_after_the_fields_are_an_error(value: bytes) -> None:
    with pytest.raises(CorruptLogError, match="found 1 bytes more"):
        decode_metadata_record(value + b"\x00")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (framed(2, string(None) + ID_A + b"\x00"), "a topic name, found null"),
        (framed(2, b"\x03\xff\xfe" + ID_A + b"\x00"), "UTF-8"),
        (framed(2, b"\xff\xff\xff\xff\x0fabc" + ID_A + b"\x00"), "of 4294967294 bytes"),
        (framed(2, b"\xff\xff\xff\xff\xff\xff\x01" + ID_A + b"\x00"), "at most 5 bytes"),
        (framed(9, ID_A + b"\x7f"), "a tag"),
        (framed(9, ID_A + b"\x01\x00\x7fx"), "a tagged field of 127 bytes"),
        (framed(3, b"\xff\xff\xff\xff" + ID_A), "0 or more, found -1"),
        (config("t", "k", "v").replace(b"\x02t", b"\x00"), "a resource name, found null"),
    ],
)
def test_hostile_lengths_are_refused(value: bytes, message: str) -> None:
    with pytest.raises(CorruptLogError, match=message):
        decode_metadata_record(value)


def test_tagged_fields_are_skipped() -> None:
    assert decode_metadata_record(
        framed(9, ID_A + b"\x02\x00\x03abc\x07\x00")
    ).record == RemoveTopicRecord(ID)


def test_repr_of_a_setting_hides_its_value() -> None:
    assert "secret" not in repr(
        decode_metadata_record(broker_config("1", "ssl.key.password", "secret"))
    )


def outcome(value: bytes) -> Decoded | CorruptLogError:
    try:
        return decode_metadata_record(value)
    except CorruptLogError as error:
        return error


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    found = outcome(data)
    assert isinstance(found, Decoded | CorruptLogError)


@given(st.sampled_from([v for v, _ in DECODED]), st.data())
def test_any_changed_byte_is_read_or_refused(value: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(value) - 1))
    found = outcome(value[:at] + bytes([data.draw(st.integers(0, 255))]) + value[at + 1 :])
    assert isinstance(found, Decoded | CorruptLogError)
