"""Full collections are rare, so long-lived objects are not scanned again and again."""

from __future__ import annotations

import gc

import pytest

from winnow.runtime.garbage import seldom_collecting


def full_collections(values: int) -> int:
    before = gc.get_stats()[2]["collections"]
    kept = [[number] for number in range(values)]
    found = gc.get_stats()[2]["collections"] - before
    assert len(kept) == values
    return found


def test_only_young_objects_are_collected_inside_the_block() -> None:
    gc.collect()
    assert full_collections(2_000_000) > 0
    with seldom_collecting():
        young = gc.get_stats()[1]["collections"]
        assert full_collections(2_000_000) == 0
        assert gc.get_stats()[1]["collections"] > young


def test_thresholds_are_restored_after_the_block() -> None:
    before = gc.get_threshold()
    with pytest.raises(KeyError), seldom_collecting(), seldom_collecting():
        raise KeyError
    assert gc.get_threshold() == before
