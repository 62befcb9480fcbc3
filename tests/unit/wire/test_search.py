from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins.encoding import encode_batch
from tests.twins.no_numba import without_numba
from tests.twins.walk import find_batch_plain
from tests.unit.wire.legacy_logs import entry
from tests.unit.wire.logs import random_log, record
from winnow.wire.walk import find_batch

END = 2**50


def find(data: bytes, start: int = 0, least: int = 0, end: int = END) -> int:
    found = find_batch(data, start, least, end)
    assert found == find_batch_plain(data, start, least, end)
    with without_numba():
        assert found == find_batch(data, start, least, end)
    return found


@given(seed=st.integers(0, 2**32), garbage=st.binary(max_size=120))
def test_kernel_agrees_with_twin(seed: int, garbage: bytes) -> None:
    rng = random.Random(seed)
    data = bytearray(garbage + b"".join(random_log(seed)))
    for _ in range(rng.randrange(3)):
        data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
    find(bytes(data), rng.randrange(len(data)))


@pytest.mark.parametrize("batch", [encode_batch([record(7)]), entry(7, 0), entry(7, 1)])
def test_batch_of_any_version_is_found_after_garbage(batch: bytes) -> None:
    data = b"\x02garbage\x00" * 9 + batch
    assert find(data) == 81
    assert find(data, 82) == -1
    assert find(data, least=8) == -1
    assert find(data, end=7) == -1
    assert find(data[:-1]) == -1


def test_crafted_headers_do_not_force_unlimited_checksums() -> None:
    """Every few bytes there is a header that claims all remaining bytes."""
    size = 1 << 20
    data = bytearray(size)
    header = bytearray(encode_batch([record(7)])[:61])
    for at in range(0, size - 61, 61):
        header[8:12] = (size - at - 12).to_bytes(4)
        data[at : at + 61] = header
    assert find_batch(bytes(data), 0, 0, END) == -1
    with without_numba():
        assert find_batch(bytes(data), 0, 0, END) == -1
