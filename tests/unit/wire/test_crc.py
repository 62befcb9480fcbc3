from __future__ import annotations

import zlib

import crcmod.predefined
from hypothesis import given
from hypothesis import strategies as st

from winnow.wire.buffers import as_bytes
from winnow.wire.crc import crc32, crc32_part, crc32c, crc32c_by_tables, crc32c_plain

judge = crcmod.predefined.mkCrcFun("crc-32c")


def test_check_value_of_the_standard() -> None:
    data = as_bytes(b"123456789")
    assert crc32c(data, 0, 9) == crc32c_by_tables(data, 0, 9) == crc32c_plain(b"123456789") == 0xE3069283
    assert crc32_part(data, 0, 9) == crc32(b"123456789") == 0xCBF43926


@given(st.binary(max_size=100), st.integers(0, 9), st.integers(0, 9))
def test_all_ways_agree_with_an_independent_one_on_any_part(data: bytes, head: int, tail: int) -> None:
    start, end = min(head, len(data)), max(len(data) - tail, min(head, len(data)))
    expected = judge(data[start:end])
    buf = as_bytes(data)
    assert crc32c(buf, start, end) == expected
    assert crc32c_by_tables(buf, start, end) == expected
    assert crc32c_plain(data[start:end]) == expected
    assert crc32_part(buf, start, end) == crc32(data[start:end]) == zlib.crc32(data[start:end])
