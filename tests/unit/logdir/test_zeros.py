"""Zeros at the end of an index that a broker builds anew are found, and cut where they begin."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.data import copy_log_dir
from winnow.errors import CorruptLogError
from winnow.logdir.indexes.zeros import cut, unflushed_zeros
from winnow.storage.local import LocalStorage

STORAGE = LocalStorage()
MIB = 2**20


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return copy_log_dir("clean", tmp_path / "kafka", only=["d-time-0"]) / "d-time-0"


def grow(index: Path) -> bytes:
    """Write zeros behind its entries, which take blocks. Return what it had."""
    data = index.read_bytes()
    with index.open("ab") as file:
        file.write(bytes(MIB))
    return data


def test_only_zeros_from_the_recovery_point_on_are_found_and_cut(partition: Path) -> None:
    first, *_, last = sorted(partition.glob("*.index"))
    kept, before = grow(first), grow(last)
    end = int(last.stem)
    [zeros] = unflushed_zeros(STORAGE, str(partition), end)
    assert (zeros.path, zeros.begin, zeros.end) == (str(last), len(before), len(before) + MIB)
    assert MIB - 8192 <= zeros.block_bytes <= MIB
    cut(STORAGE, zeros)
    assert last.read_bytes() == before
    assert first.read_bytes() == kept + bytes(MIB)
    assert [*unflushed_zeros(STORAGE, str(partition), end)] == []
    assert [one.path for one in unflushed_zeros(STORAGE, str(partition), 0)] == [str(first)]


def test_index_with_entries_behind_zeros_is_left_as_it_is(partition: Path) -> None:
    last = max(partition.glob("*.timeindex"))
    grow(last)
    [zeros] = unflushed_zeros(STORAGE, str(partition), int(last.stem))
    data = bytearray(last.read_bytes())
    data[-6000] = 1
    last.write_bytes(data)
    with pytest.raises(CorruptLogError, match="entries behind its end"):
        cut(STORAGE, zeros)
    assert last.read_bytes() == data
