"""S4.1: what transactions decide about batches, compared with Kafka's own procedure."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins.transactions import Aborted, CleanedTransactions
from tests.unit.policy.txn_logs import ABORT, COMMIT, EMPTY, FAR, OTHER, Log, runs_of, sound_logs
from winnow.policy.transaction_runs import fold
from winnow.policy.transactions import Carried, aborted_batches, judge
from winnow.wire.batch import CONTROL, TRANSACTIONAL


def as_kafka(
    log: Log, groups: list[list[tuple[int, int]]], *, log_start_offset: int = 0
) -> tuple[list[bool], list[list[int]]]:
    """Judge as Kafka does: fetch the transactions of each source segment before its batches are
    read (S5.3), except those that end below the log start offset.
    """
    state = CleanedTransactions()
    types = iter(log.types)
    discardable, indexed = [], []
    for group in groups:
        state.index = []
        for start, end in group:
            # `collectAbortedTxns`: in the order of the markers, up to the first after which no
            # older transaction is open.
            for producer, first, last, stable in log.aborted:
                if last < log_start_offset:
                    continue
                if last >= start and first < end:
                    state.add([Aborted(first, producer, last)])
                if last >= start and stable >= end:
                    break
            for base, last, producer, attributes in log.batches:
                if not start <= base < end:
                    continue
                if attributes & CONTROL:
                    kind = next(types)
                    said = state.on_control(
                        producer_id=producer, last_offset=last, kind=None if kind == EMPTY else kind
                    )
                else:
                    said = state.on_batch(
                        producer_id=producer,
                        last_offset=last,
                        transactional=bool(attributes & TRANSACTIONAL),
                    )
                discardable.append(said)
        indexed.append([transaction.last_offset for transaction in state.index])
    return discardable, indexed


@settings(max_examples=300, deadline=None)
@given(log=sound_logs(), data=st.data())
def test_groups_are_judged_separately_as_kafka_judges_the_round(
    log: Log, data: st.DataObject
) -> None:
    segments = log.segments()
    groups: list[list[tuple[int, int]]] = []
    for segment in segments:
        if groups and data.draw(st.booleans()):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    log_start = data.draw(st.integers(0, log.next_offset), label="log start offset")
    discardable, indexed = as_kafka(log, groups, log_start_offset=log_start)
    folded = fold(
        runs_of(log, log_start_offset=log_start),
        high_watermark=FAR,
        log_start_offset=log_start,
        where=lambda _: ("I", "L"),
    )
    index = log.index[log.index["last_offset"] >= log_start]
    rows, types = log.rows, log.all_types
    control = (rows["attributes"] & CONTROL) != 0
    found: list[bool] = []
    for group, wanted in zip(groups, indexed, strict=True):
        mine = (rows["base_offset"] >= group[0][0]) & (rows["base_offset"] < group[-1][1])
        at = segments.index(group[0])
        judged = judge(
            rows[mine],
            types[mine[control]],
            aborted=index,
            before=folded.carried[at],
        )
        found += judged.discardable.tolist()
        assert judged.indexed.tolist() == wanted
    assert found == discardable


@given(log=sound_logs(), cut=st.integers(0, 30), start=st.integers(0, 60))
def test_split_continues_from_the_state_of_the_previous_one(log: Log, cut: int, start: int) -> None:
    rows, types = log.rows, log.all_types
    control = (rows["attributes"] & CONTROL) != 0
    index = log.index[log.index["last_offset"] >= start] if len(log.index) else log.index
    at_once = judge(rows, types, aborted=index)
    first = judge(rows[:cut], types[: control[:cut].sum()], aborted=index)
    second = judge(
        rows[cut:],
        types[control[:cut].sum() :],
        aborted=index,
        before=first.after,
    )
    assert [*first.discardable, *second.discardable] == at_once.discardable.tolist()
    assert [*first.indexed, *second.indexed] == at_once.indexed.tolist()
    assert second.after == at_once.after


def test_case_28_only_batches_from_first_offset_to_marker_are_aborted() -> None:
    log = Log()
    log.plain(7)
    first = log.data(7, 2)
    log.data(8)
    log.plain(7)
    log.data(7)
    log.abort(7, first)
    log.data(7)
    rows = log.rows
    assert aborted_batches(rows, log.index).tolist() == [
        False,
        True,
        False,
        False,
        True,
        False,
        False,
    ]
    assert not aborted_batches(rows, log.index[:0]).any()
    assert not aborted_batches(rows[:0], log.index).any()


def test_case_35_empty_data_batch_keeps_its_marker() -> None:
    log = Log()
    log.abort(7, log.data(7))
    judged = judge(log.rows, log.all_types, aborted=log.index)
    assert judged.discardable.tolist() == [True, False]
    assert judged.indexed.tolist() == [1]


@pytest.mark.parametrize("kind", [COMMIT, ABORT])
def test_cases_29_34_marker_is_discardable_only_without_earlier_data(
    kind: int,
) -> None:
    log = Log()
    if kind == ABORT:
        log.abort(7, 0)
    else:
        log.marker(7, kind)
    alone = judge(log.rows, log.all_types, aborted=log.index)
    assert (alone.discardable.tolist(), alone.indexed.tolist()) == ([True], [])
    carried = judge(log.rows, log.all_types, aborted=log.index, before=Carried(frozenset({7, 9})))
    assert carried.discardable.tolist() == [False]
    assert carried.indexed.tolist() == ([0] if kind == ABORT else [])
    assert carried.after == Carried(frozenset({9}))


def test_case_31_empty_control_batch_is_discardable_other_markers_not() -> None:
    log = Log()
    log.data(7)
    log.marker(7, EMPTY)
    log.marker(7, OTHER)
    judged = judge(log.rows, log.all_types, aborted=log.index)
    assert judged.discardable.tolist() == [False, True, False]
    assert judged.after == Carried(frozenset({7}))


def test_aborted_data_below_the_log_start_counts_for_the_next_commit() -> None:
    """Kafka's cleaner does not look up its entry: the ABORT marker has no transaction, and the
    COMMIT has data (S4.1).
    """
    log = Log()
    log.abort(7, log.data(7))
    log.marker(7, COMMIT)
    log.marker(7, COMMIT)
    known = judge(log.rows, log.all_types, aborted=log.index)
    assert known.discardable.tolist() == [True, False, True, True]
    unknown = judge(log.rows, log.all_types, aborted=log.index[:0])
    assert unknown.discardable.tolist() == [False, True, False, True]
    first = judge(log.rows[:2], log.all_types[:1], aborted=log.index[:0])
    assert first.after == Carried(lingering=frozenset({7}))
    assert judge(
        log.rows[2:], log.all_types[1:], aborted=log.index[:0], before=first.after
    ).discardable.tolist() == [
        False,
        True,
    ]
