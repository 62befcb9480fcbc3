from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins.encoding import write_varint
from winnow.errors import CorruptLogError
from winnow.wire import plain as varint
from winnow.wire.buffers import as_bytes
from winnow.wire.kernels import varint as varint_kernels

LONGS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from(
    [0, -1, 63, 64, -64, -65, 2**31 - 1, -(2**31)]
)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (2**31 - 1, "feffffff0f"),
    ],
)
def test_varint_agrees_with_javas_byteutils(value: int, encoded: str) -> None:
    out = bytearray()
    write_varint(out, value)
    assert out.hex() == encoded
    assert varint.read_varint(bytes(out), 0) == (value, len(out))


@given(LONGS)
def test_kernel_agrees_with_twin_on_writing_and_size(value: int) -> None:
    plain = bytearray()
    write_varint(plain, value)
    out = np.zeros(16, np.uint8)
    end = varint_kernels.write_varint(out, 0, value)
    assert out[:end].tobytes() == bytes(plain)
    assert varint_kernels.size_of_varint(value) == end
    assert varint_kernels.read_varlong(as_bytes(bytes(plain)), 0, end) == (value, end)
    assert varint_kernels.is_shortest(as_bytes(bytes(plain)), 0, end, 10, 1)


@given(
    st.binary(max_size=12)
    | st.lists(st.sampled_from([0, 1, 15, 16, 127, 128, 255]), max_size=12).map(bytes)
)
def test_kernel_agrees_with_twin_on_any_bytes(data: bytes) -> None:
    for plain, kernel in (
        (varint.read_varint, varint_kernels.read_varint),
        (varint.read_varlong, varint_kernels.read_varlong),
    ):
        try:
            expected = plain(data, 0)
        except CorruptLogError:
            expected = (0, -1)
        assert kernel(as_bytes(data), 0, len(data)) == expected


@given(
    st.lists(st.sampled_from([0, 1, 15, 16, 127, 128, 143, 144, 255]), min_size=1, max_size=10).map(
        bytes
    )
)
def test_java_writes_the_shortest_form(data: bytes) -> None:
    for read, longest, top in ((varint.read_varint, 5, 15), (varint.read_varlong, 10, 1)):
        try:
            value, after = read(data, 0)
        except CorruptLogError:
            continue
        again = bytearray()
        write_varint(again, value)
        assert varint_kernels.is_shortest(as_bytes(data), 0, after, longest, top) == (
            bytes(again) == data[:after]
        )


def test_varint_of_six_bytes_is_refused() -> None:
    with pytest.raises(CorruptLogError, match="at most 5 bytes"):
        varint.read_varint(b"\x80\x80\x80\x80\x80\x01", 0)
