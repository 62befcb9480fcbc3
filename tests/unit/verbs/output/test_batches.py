"""How many units are in the private copy at the same time."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winnow.errors import NoSpaceError
from winnow.storage.file_tree import StoredFile
from winnow.verbs.output.source import Unit, batches

SPACE = 100


def _units(sizes: list[int]) -> list[Unit]:
    return [Unit(0, f"t-{n}", (StoredFile(f"t-{n}/a", size, 0),)) for n, size in enumerate(sizes)]


@given(st.lists(st.integers(0, SPACE)))
def test_batches_keep_order_and_fit_the_space(sizes: list[int]) -> None:
    units = _units(sizes)
    found = list(batches(units, SPACE))
    assert [unit for batch in found for unit in batch] == units
    assert all(batch and sum(unit.bytes for unit in batch) <= SPACE for batch in found)
    for one, following in pairwise(found):
        assert sum(unit.bytes for unit in one) + following[0].bytes > SPACE


def test_without_a_limit_there_is_one_batch() -> None:
    units = _units([10**12, 10**12])
    assert list(batches(units, None)) == [units]


def test_unit_larger_than_the_space_is_refused() -> None:
    with pytest.raises(NoSpaceError, match=r"101 bytes for t-1.*--work-space"):
        list(batches(_units([1, SPACE + 1]), SPACE))


def test_directories_of_the_same_partition_are_in_one_batch() -> None:
    names = ("t-0", "u-0", "t-00", "t-0.0123456789abcdef0123456789abcdef-future")
    units = [Unit(n, name, (StoredFile(f"{name}/a", 40, 0),)) for n, name in enumerate(names)]
    found = [[unit.directory for unit in batch] for batch in batches(units, SPACE)]
    assert found == [["t-0", "t-00"], ["u-0", names[3]]]
    with pytest.raises(NoSpaceError, match="80 bytes for t-0"):
        list(batches(units, 79))
