from __future__ import annotations

import zlib

import crcmod.predefined
import llvmlite.binding
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from tests.twins.crc import crc32c_plain
from tests.twins.no_numba import without_numba
from winnow.wire import crc
from winnow.wire.buffers import Bytes, as_bytes
from winnow.wire.kernels.crc import _advanced_by_tables, crc32_part, crc32c
from winnow.wire.kernels.crc_folding import FEATURES, folded_by, step_bytes, widest_folding

judge = crcmod.predefined.mkCrcFun("crc-32c")


@njit
def by_tables(buf: Bytes, start: int, end: int) -> np.uint32:
    """What CPUs without an instruction for it use."""
    return _advanced_by_tables(np.uint64(0xFFFFFFFF), buf, start, end)


def test_crc_has_the_check_value_of_the_standard() -> None:
    data = as_bytes(b"123456789")
    assert crc32c(data, 0, 9) == by_tables(data, 0, 9) == crc32c_plain(b"123456789") == 0xE3069283
    assert crc32_part(data, 0, 9) == zlib.crc32(b"123456789") == 0xCBF43926
    assert crc.crc32_part(data, 0, 9) == 0xCBF43926


@given(st.binary(max_size=100), st.integers(0, 9), st.integers(0, 9))
def test_all_implementations_agree_on_any_part(data: bytes, head: int, tail: int) -> None:
    start, end = min(head, len(data)), max(len(data) - tail, min(head, len(data)))
    expected = judge(data[start:end])
    buf = as_bytes(data)
    assert crc32c(buf, start, end) == expected
    assert by_tables(buf, start, end) == expected
    assert crc32c_plain(data[start:end]) == expected
    assert crc32_part(buf, start, end) == zlib.crc32(data[start:end])


@given(st.binary(min_size=1, max_size=40), st.integers(0, 2100), st.integers(0, 9))
def test_all_implementations_agree_on_any_length(some: bytes, size: int, start: int) -> None:
    """Includes lengths where a part is folded and some bytes are left over."""
    data = (some * 2110)[: start + size]
    buf = as_bytes(data)
    assert crc32c(buf, start, len(data)) == by_tables(buf, start, len(data)) == judge(data[start:])


@pytest.mark.parametrize("words", FEATURES)
def test_folding_of_each_vector_width_continues_from_any_state(words: int) -> None:
    features = llvmlite.binding.get_host_cpu_features()
    if not all(features.get(name) for name in FEATURES[words]):
        pytest.skip("this CPU has no such vectors")
    folded = folded_by(words)

    @njit
    def compiled(crc: np.uint64, buf: Bytes, pos: int, steps: int) -> np.uint64:
        return folded(crc, buf, pos, steps)

    data = np.random.default_rng(words).integers(0, 256, 5 + 7 * step_bytes(words), np.uint8)
    for steps in (1, 2, 7):
        end = 5 + steps * step_bytes(words)
        state = np.uint64(judge(data[:5].tobytes()) ^ 0xFFFFFFFF)
        assert compiled(state, data, 5, steps) ^ 0xFFFFFFFF == judge(data[:end].tobytes())


def test_widest_vectors_of_the_cpu_are_used() -> None:
    assert (
        widest_folding(
            {"vpclmulqdq": True, "avx512f": True, "avx2": True, "pclmul": True, "sse4.2": True}
        )
        == 8
    )
    assert (
        widest_folding(
            {"vpclmulqdq": True, "avx512f": False, "avx2": True, "pclmul": True, "sse4.2": True}
        )
        == 4
    )
    assert widest_folding({"pclmul": True, "sse4.2": True}) == 2
    assert widest_folding({"sse4.2": True, "avx512f": True}) == 0


@given(data=st.binary(max_size=3000), cut=st.integers(0, 3000))
def test_crc_can_be_extended(data: bytes, cut: int) -> None:
    first = crc.crc32c_extended(0, data[:cut])
    assert first == judge(data[:cut])
    assert crc.crc32c_extended(first, data[cut:]) == judge(data)
    with without_numba():
        assert crc.crc32c_extended(first, data[cut:]) == judge(data)
        assert crc.crc32c_extended(0, bytearray(data[:cut])) == first
        assert crc.crc32c(as_bytes(data), cut // 2, len(data)) == judge(data[cut // 2 :])
    rest = np.frombuffer(data[cut:], np.uint8)
    assert _advanced_by_tables(np.uint64(first ^ 0xFFFFFFFF), rest, 0, len(rest)) == judge(data)
