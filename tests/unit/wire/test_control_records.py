"""S2.3: decoding control records. No bytes in them make a kernel misbehave."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins.encoding import encode_batch
from tests.twins.records import decode_control_plain
from winnow.errors import CorruptLogError
from winnow.wire.batch import BATCH, Codec
from winnow.wire.control import ControlType
from winnow.wire.control_records import EMPTY, ControlColumns, decode_control
from winnow.wire.inflate import inflate
from winnow.wire.plain import Record
from winnow.wire.walk import walk_batches

TWINS = pytest.mark.parametrize("decode", [decode_control, decode_control_plain])
VALUE = struct.pack(">hi", 0, 7)


def key(kind: int, *, version: int = 0, more: bytes = b"") -> bytes:
    return struct.pack(">hh", version, kind) + more


def marker(
    *records: Record, offset: int = 0, codec: Codec = Codec.NONE, horizon: int | None = None
) -> bytes:
    return encode_batch(
        list(records),
        base_offset=offset,
        last_offset=offset,
        codec=codec,
        control=True,
        transactional=True,
        producer_id=3,
        producer_epoch=1,
        delete_horizon=horizon,
        max_timestamp=55 if not records else None,
    )


def decoded(decode: object, *batches: bytes) -> ControlColumns:
    data = b"".join(batches)
    rows = np.zeros(len(batches) + 1, BATCH)
    count, _, _ = walk_batches(data, 0, 0, rows)
    assert count == len(batches)
    return decode(inflate(data, rows[:count]))  # type: ignore[operator, no-any-return]


@TWINS
def test_types_epochs_and_timestamps_are_read(decode: object) -> None:
    found = decoded(
        decode,
        marker(Record(0, 100, key(0), VALUE)),
        marker(Record(1, 101, key(1), struct.pack(">hi", 0, -2)), offset=1, codec=Codec.LZ4),
        marker(Record(2, 102, key(1, version=9, more=b"longer"), None), offset=2, horizon=5000),
        marker(Record(3, 103, key(77), b"short"), offset=3),
        marker(offset=4),
    )
    assert found.type.tolist() == [
        ControlType.ABORT,
        ControlType.COMMIT,
        1,
        ControlType.UNKNOWN,
        EMPTY,
    ]
    assert found.coordinator_epoch.tolist() == [7, -2, -1, -1, -1]
    assert found.timestamp.tolist() == [100, 101, 102, 103, 55]


@TWINS
@pytest.mark.parametrize("wrong", [None, b"", b"\0\0\0", struct.pack(">hh", -1, 0)])
def test_key_that_kafka_refuses_is_refused(decode: object, wrong: bytes | None) -> None:
    with pytest.raises(CorruptLogError, match="control record"):
        decoded(decode, marker(Record(0, 100, wrong, VALUE)))


@given(junk=st.binary(max_size=40), cut=st.integers(0, 40))
def test_any_bytes_are_decoded_or_refused(junk: bytes, cut: int) -> None:
    batch = bytearray(marker(Record(0, 100, key(0), VALUE)))
    batch[61 : 61 + cut] = junk
    batch[8:12] = (len(batch) - 12).to_bytes(4)
    try:
        found = decoded(decode_control, bytes(batch))
    except CorruptLogError:
        with pytest.raises(CorruptLogError):
            decoded(decode_control_plain, bytes(batch))
        return
    plain = decoded(decode_control_plain, bytes(batch))
    assert found.type.tolist() == plain.type.tolist()
    assert found.coordinator_epoch.tolist() == plain.coordinator_epoch.tolist()
    assert found.timestamp.tolist() == plain.timestamp.tolist()


def test_no_batches_give_no_control_records() -> None:
    assert len(decode_control(inflate(b"", np.zeros(0, BATCH))).type) == 0
