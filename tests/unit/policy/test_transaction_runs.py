"""How transactions span the segments of a log, and where its index contradicts it (case 42)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.policy.txn_logs import ABORT, COMMIT, FAR, Log, runs_of, sound_logs
from winnow.errors import CorruptLogError
from winnow.policy.producers import Transaction
from winnow.policy.transaction_runs import Fold, fold
from winnow.wire.batch import CONTROL, TRANSACTIONAL


def folded(log: Log, *, high_watermark: int = FAR, log_start_offset: int = 0) -> Fold:
    runs = runs_of(log, high_watermark=high_watermark, log_start_offset=log_start_offset)
    return fold(
        runs,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        where=lambda n: (f"{n}.txnindex", f"{n}.log"),
    )


def one_by_one(log: Log, high_watermark: int, log_start: int) -> tuple[list[set[int]], int | None]:
    """Return the producers open at each segment's start, and the first undecided offset at or above
    the log start offset.
    """
    opened: set[int] = set()
    live: dict[int, int] = {}
    undecided, at_start, types = [], {}, iter(log.types)
    for base in log.bases:
        at_start[base] = set[int]()
    starts = list(log.bases)
    for base, last, producer, attributes in log.batches:
        while starts and base >= starts[0]:
            at_start[starts.pop(0)] = set(opened)
        if attributes & CONTROL:
            if next(types) in (ABORT, COMMIT):
                opened.discard(producer)
                first = live.pop(producer, base)
                if first < high_watermark <= base and producer >= 0:
                    undecided.append(first)
        elif attributes & TRANSACTIONAL:
            opened.add(producer)
            if last >= log_start:
                live.setdefault(producer, base)
    for start in starts:
        at_start[start] = set(opened)
    undecided += [first for producer, first in live.items() if producer >= 0]
    return [at_start[base] for base in log.bases], min(undecided, default=None)


@settings(max_examples=300, deadline=None)
@given(log=sound_logs(), high_watermark=st.integers(0, 60), log_start=st.integers(0, 60))
def test_segment_summaries_agree_with_a_walk_of_the_whole_log(
    log: Log, high_watermark: int, log_start: int
) -> None:
    opened, undecided = one_by_one(log, high_watermark, log_start)
    found = folded(log, high_watermark=high_watermark, log_start_offset=log_start)
    assert [set(carried.open_producers) for carried in found.carried] == opened
    assert (found.undecided.first_offset if found.undecided else None) == undecided


def test_case_33_transaction_spans_data_and_marker_segments() -> None:
    log = Log()
    first = log.data(7)
    log.roll()
    log.data(8)
    log.roll()
    log.abort(7, first)
    found = folded(log)
    assert [carried.open_producers for carried in found.carried] == [set(), {7}, {7, 8}]
    assert found.undecided == Transaction(first_offset=1, producer_id=8, marker_offset=None)
    assert "producer 8 has a transaction open since offset 1" in str(found.undecided)


@pytest.mark.parametrize("roll", [False, True])
@pytest.mark.parametrize(("high_watermark", "first"), [(4, None), (3, 1), (2, 1), (1, None)])
def test_case_41_marker_at_the_high_watermark_is_undecided(
    high_watermark: int, first: int | None, *, roll: bool
) -> None:
    log = Log()
    log.marker(7, COMMIT)
    log.data(7, 2)
    if roll:
        log.roll()
    log.marker(7, COMMIT)
    found = folded(log, high_watermark=high_watermark).undecided
    assert (found.first_offset if found else None) == first
    if found:
        assert "ends at 3, not below the high watermark" in str(found)


@pytest.mark.parametrize("roll", [False, True])
def test_case_42_abort_marker_with_data_but_no_entry_is_refused(*, roll: bool) -> None:
    log = Log()
    log.data(7)
    if roll:
        log.roll()
    log.marker(7, ABORT)
    with pytest.raises(
        CorruptLogError, match=r"producer 7 from offset 0 to its ABORT marker at 1.*index.* and .*"
    ):
        folded(log)


@pytest.mark.parametrize("roll", [False, True])
def test_abort_marker_below_the_log_start_needs_no_entry(*, roll: bool) -> None:
    """Kafka's cleaner does not look up aborted transactions that end there, and writes no entries
    for them (S5.8).
    """
    log = Log()
    log.data(7)
    if roll:
        log.roll()
    log.marker(7, ABORT)
    assert folded(log, log_start_offset=2).undecided is None
    assert folded(log, log_start_offset=1).undecided is None, (
        "a broker that read the log from 1 on had no entry to write"
    )
    with pytest.raises(CorruptLogError, match="disagree"):
        folded(log, log_start_offset=0)


@pytest.mark.parametrize("roll", [False, True])
def test_aborted_data_at_the_log_start_needs_an_entry_from_there(*, roll: bool) -> None:
    log = Log()
    log.data(7)
    second = log.data(7, 2)
    log.data(7)
    if roll:
        log.roll()
    log.abort(7, second)
    for log_start in (second, second + 1):
        assert folded(log, log_start_offset=log_start).undecided is None
        undecided = folded(log, log_start_offset=log_start, high_watermark=4).undecided
        assert undecided == Transaction(first_offset=second, producer_id=7, marker_offset=4)
    log.aborted = []
    with pytest.raises(CorruptLogError, match="from offset 1 to its ABORT marker at 4"):
        folded(log, log_start_offset=second + 1)


def test_case_42_entry_without_its_marker_is_refused() -> None:
    log = Log()
    log.abort(7, log.data(7))
    log.types[0] = COMMIT
    with pytest.raises(
        CorruptLogError, match=r"producer 7 at offset 1.*found none there in the log"
    ):
        folded(log)


@pytest.mark.parametrize("roll", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_case_42_entry_that_begins_after_the_data_is_refused(*, second: bool, roll: bool) -> None:
    log = Log()
    if second:
        log.marker(7, COMMIT)
    first = log.data(7)
    if roll:
        log.roll()
    log.abort(7, first + 1)
    with pytest.raises(CorruptLogError, match="disagree"):
        folded(log)


@pytest.mark.parametrize("roll", [False, True])
def test_case_42_entry_across_another_marker_is_refused(*, roll: bool) -> None:
    log = Log()
    first = log.data(7)
    log.marker(7, COMMIT)
    if roll:
        log.roll()
    log.data(7)
    log.abort(7, first)
    with pytest.raises(CorruptLogError, match="found a marker at offset 1"):
        folded(log)


def test_abort_marker_without_data_needs_no_entry() -> None:
    log = Log()
    log.marker(7, ABORT)
    assert folded(log).undecided is None
