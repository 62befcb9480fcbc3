"""S5.4: which batches survive without their records."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from winnow.policy.survival import (
    DELETE,
    DELETE_EMPTY,
    RETAIN_EMPTY,
    batch_retention,
    emptied_end,
)
from winnow.policy.versions import asked_version
from winnow.wire.batch import BATCH, CONTROL

FAR = 10**9


def batches(*rows: tuple[int, int, int, bool]) -> NDArray[np.void]:
    """Return rows of (last offset, producer id, epoch, control)."""
    made = np.zeros(len(rows), dtype=BATCH)
    for at, (last, pid, epoch, control) in enumerate(rows):
        made[at]["last_offset"] = last
        made[at]["producer_id"] = pid
        made[at]["producer_epoch"] = epoch
        made[at]["attributes"] = CONTROL if control else 0
    return made


def test_case_23_last_batch_of_each_producer_is_kept() -> None:
    rows = batches((0, 1, 0, False), (1, 2, 0, False), (2, 3, 0, False), (3, 2, 0, False))
    codes = batch_retention(rows, last_records={1: (0, 0), 2: (3, 0), 3: (2, 0)}, emptied_end=FAR)
    assert codes.tolist() == [RETAIN_EMPTY, DELETE_EMPTY, RETAIN_EMPTY, RETAIN_EMPTY]
    assert codes.dtype == np.int8


def test_case_25_expired_producer_protects_nothing() -> None:
    rows = batches((0, 1, 0, False), (1, 2, 0, False))
    assert batch_retention(rows, last_records={2: (1, 0)}, emptied_end=FAR).tolist() == [
        DELETE_EMPTY,
        RETAIN_EMPTY,
    ]


def test_case_15_batch_that_ends_the_range_is_kept() -> None:
    rows = batches((4, -1, -1, False), (9, -1, -1, False))
    assert batch_retention(rows, last_records={}, emptied_end=10).tolist() == [
        DELETE_EMPTY,
        RETAIN_EMPTY,
    ]


def test_batches_without_a_producer_are_not_protected() -> None:
    rows = batches((-1, -1, -1, True), (5, -1, 0, True))
    assert (
        batch_retention(rows, last_records={-1: (5, 0), 7: (None, -1)}, emptied_end=FAR).tolist()
        == [DELETE_EMPTY] * 2
    )


def test_case_24_aborted_batch_is_dropped_unless_last_of_its_producer() -> None:
    rows = batches((0, 1, 0, False), (1, 1, 0, False), (2, 1, 0, True))
    discard = np.array([True, True, False])
    codes = batch_retention(rows, last_records={1: (1, 0)}, emptied_end=FAR, discard=discard)
    assert codes.tolist() == [DELETE, RETAIN_EMPTY, DELETE_EMPTY]


def test_case_39_marker_is_kept_if_its_producer_has_no_data_offset() -> None:
    rows = batches((0, 1, 4, False), (1, 1, 4, True), (2, 1, 5, True))
    codes = batch_retention(rows, last_records={1: (None, 5)}, emptied_end=FAR)
    assert codes.tolist() == [DELETE_EMPTY, DELETE_EMPTY, RETAIN_EMPTY]


def test_marker_is_not_kept_if_its_producer_has_a_data_offset() -> None:
    rows = batches((0, 1, 5, False), (1, 1, 5, True))
    assert batch_retention(rows, last_records={1: (0, 5)}, emptied_end=FAR).tolist() == [
        RETAIN_EMPTY,
        DELETE_EMPTY,
    ]


def test_no_batches_give_no_codes() -> None:
    assert batch_retention(batches(), last_records={1: (0, 0)}, emptied_end=5).tolist() == []


@pytest.mark.parametrize(
    ("version", "kept"), [("3.9.1", None), ("3.9.2", 6), ("4.3", 6), ("4.4", 9)]
)
def test_version_decides_which_emptied_batch_is_kept(version: str, kept: int | None) -> None:
    rules = asked_version(version).rules
    assert emptied_end(rules, end_offset=6, high_watermark=9) == kept
    codes = batch_retention(batches((5, -1, 0, False)), last_records={}, emptied_end=kept)
    assert codes.tolist() == [RETAIN_EMPTY if kept == 6 else DELETE_EMPTY]


@pytest.mark.parametrize("discarded", [False, True])
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 6), st.integers(-1, 4), st.integers(0, 2), st.booleans()),
        max_size=12,
    ),
    last=st.dictionaries(
        st.integers(0, 4), st.tuples(st.none() | st.integers(0, 6), st.integers(0, 2))
    ),
    end=st.integers(0, 7),
)
def test_batch_retention_agrees_with_the_rule_in_plain_code(
    rows: list[tuple[int, int, int, bool]],
    last: dict[int, tuple[int | None, int]],
    end: int,
    *,
    discarded: bool,
) -> None:
    def expected(offset: int, pid: int, epoch: int, control: bool) -> int:  # noqa: FBT001
        known = last.get(pid) if pid >= 0 else None
        if known is not None and known[0] is not None and offset == known[0]:
            return RETAIN_EMPTY
        if known is not None and known[0] is None and control and epoch == known[1]:
            return RETAIN_EMPTY
        if offset + 1 == end:
            return RETAIN_EMPTY
        return DELETE if discarded else DELETE_EMPTY

    codes = batch_retention(
        batches(*rows),
        last_records=last,
        emptied_end=end,
        discard=np.full(len(rows), discarded, dtype=np.bool_),
    )
    assert codes.tolist() == [expected(*row) for row in rows]
