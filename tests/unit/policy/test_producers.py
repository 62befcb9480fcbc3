"""S8.4: what a broker knows of producers after loading."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from winnow.policy.producers import (
    Marker,
    ProducerState,
    Transaction,
    expire,
    from_entries,
    last_records,
    replay,
    traces,
    undecided,
    without_data,
)
from winnow.state import ProducerEntry
from winnow.wire.batch import BATCH, CONTROL, TRANSACTIONAL

EMPTY = ProducerState()
BEFORE = 10**6
"""Stands for an offset below those of the batches."""


def batch(
    base: int, last: int, pid: int, *, epoch: int = 0, sequence: int = 0, attributes: int = 0
) -> NDArray[np.void]:
    made = np.zeros(1, dtype=BATCH)
    made["base_offset"], made["last_offset"], made["producer_id"] = base, last, pid
    made["producer_epoch"], made["base_sequence"], made["attributes"] = epoch, sequence, attributes
    made["max_timestamp"], made["record_count"] = 1000 + last, last - base + 1
    return made


MARKER = Marker(coordinator_epoch=7, timestamp=2, aborted=True)


def entry(
    producer_id: int, *, timestamp: int = 0, current_txn_first_offset: int = -1
) -> ProducerEntry:
    return replace(
        without_data(producer_id, 0),
        timestamp=timestamp,
        current_txn_first_offset=current_txn_first_offset,
    )


def stable(state: ProducerState, high_watermark: int) -> int:
    return min(
        [high_watermark, *(found.first_offset for found in undecided(state, high_watermark))]
    )


def test_case_22_last_sequences_and_offsets_are_known() -> None:
    rows = [
        batch(0, 2, 1, sequence=0),
        batch(3, 5, 2, sequence=0),
        batch(6, 7, 3, sequence=0),
        batch(8, 8, 1, sequence=3),
    ]
    state = replay(EMPTY, np.concatenate(rows))
    assert last_records(state) == {1: (8, 0), 2: (5, 0), 3: (7, 0)}
    assert state.producers[2] == ProducerEntry(
        producer_id=2,
        epoch=0,
        last_sequence=2,
        last_offset=5,
        offset_delta=2,
        timestamp=1005,
        coordinator_epoch=-1,
        current_txn_first_offset=-1,
    )
    assert state.producers[1].last_sequence == 3


def test_batches_without_a_producer_add_no_state() -> None:
    assert replay(EMPTY, batch(0, 2, -1, sequence=-1)).producers == {}


def test_new_epoch_replaces_the_old_one_even_if_lower() -> None:
    rows = np.concatenate([batch(0, 0, 1, epoch=3), batch(1, 1, 1, epoch=2)])
    assert last_records(replay(EMPTY, rows)) == {1: (1, 2)}


@pytest.mark.parametrize(("base", "expected"), [(2**31 - 2, 1), (2**31 - 3, 0), (5, 8), (-1, -1)])
def test_sequence_numbers_wrap(base: int, expected: int) -> None:
    assert replay(EMPTY, batch(10, 13, 1, sequence=base)).producers[1].last_sequence == expected


@pytest.mark.parametrize(("now", "left"), [(1999, [1]), (2000, [])])
def test_case_25_producer_expires_exactly_at_its_time(now: int, left: list[int]) -> None:
    state = ProducerState({1: entry(1, timestamp=1000)})
    assert list(expire(state, now=now, expiration_ms=1000).producers) == left


def test_case_25_open_transaction_never_expires() -> None:
    state = ProducerState({1: entry(1, current_txn_first_offset=5)})
    assert list(expire(state, now=10**15, expiration_ms=1).producers) == [1]


def test_open_transaction_limits_the_last_stable_offset() -> None:
    rows = [
        batch(4, 5, 1),
        batch(6, 6, 2, attributes=TRANSACTIONAL),
        batch(7, 7, 2, attributes=TRANSACTIONAL),
    ]
    state = replay(EMPTY, np.concatenate(rows))
    assert state.producers[2].current_txn_first_offset == 6
    assert stable(state, 100) == 6
    assert stable(state, 3) == 3


def test_case_41_marker_at_the_high_watermark_decides_nothing_yet() -> None:
    rows = np.concatenate(
        [
            batch(0, 1, 1, attributes=TRANSACTIONAL),
            batch(2, 2, 1, attributes=TRANSACTIONAL | CONTROL),
        ]
    )
    state = replay(EMPTY, rows, markers={2: MARKER})
    assert state.completed == (Transaction(producer_id=1, first_offset=0, marker_offset=2),)
    assert state.producers[1].current_txn_first_offset == -1
    assert (state.producers[1].timestamp, state.producers[1].coordinator_epoch) == (2, 7)
    assert stable(state, 2) == 0
    assert stable(state, 3) == 3


def test_case_39_marker_of_a_new_epoch_clears_the_data_offset() -> None:
    data = batch(0, 1, 1, attributes=TRANSACTIONAL)
    for epoch, last in ((1, None), (0, 1)):
        rows = np.concatenate([data, batch(2, 2, 1, epoch=epoch, attributes=CONTROL)])
        assert last_records(replay(EMPTY, rows, markers={2: MARKER})) == {1: (last, epoch)}


def test_empty_control_batch_is_ignored_and_undecoded_one_refused() -> None:
    rows = np.concatenate(
        [batch(0, 1, 1, attributes=TRANSACTIONAL), batch(2, 2, 1, attributes=CONTROL)]
    )
    with pytest.raises(ValueError, match="offset 2"):
        replay(EMPTY, rows)
    rows["record_count"][1] = 0
    assert replay(EMPTY, rows).producers[1].current_txn_first_offset == 0


def test_state_is_restored_from_snapshot_entries() -> None:
    full = ProducerEntry(
        producer_id=5,
        epoch=2,
        last_sequence=9,
        last_offset=40,
        offset_delta=3,
        timestamp=77,
        coordinator_epoch=1,
        current_txn_first_offset=30,
    )
    bare = replace(full, producer_id=6, last_offset=-1, current_txn_first_offset=-5)
    state = from_entries([full, bare])
    assert state.producers[5] == full
    assert last_records(state) == {5: (40, 2), 6: (None, 2)}
    assert state.producers[6] == replace(
        bare, last_sequence=-1, offset_delta=0, current_txn_first_offset=-1
    )


ROWS = st.lists(
    st.tuples(
        st.integers(-1, 3),
        st.integers(0, 2),
        st.integers(0, 3),
        st.sampled_from(["data", "txn", "end", "gone"]),
    ),
    max_size=25,
)


@given(rows=ROWS, cut=st.integers(0, 25))
def test_replay_equals_replay_batch_by_batch_and_in_chunks(
    rows: list[tuple[int, int, int, str]], cut: int
) -> None:
    made, markers, offset = [np.zeros(0, dtype=BATCH)], {}, 0
    for pid, epoch, length, kind in rows:
        flags = {"data": 0, "txn": TRANSACTIONAL, "end": CONTROL, "gone": CONTROL}[kind]
        row = batch(offset, offset + length, pid, epoch=epoch, sequence=offset, attributes=flags)
        if kind == "end":
            markers[offset] = replace(MARKER, timestamp=offset)
        elif kind == "gone":
            row["record_count"] = 0
        made.append(row)
        offset += length + 1
    batches = np.concatenate(made)
    at_once = replay(EMPTY, batches, markers=markers)
    in_two = replay(replay(EMPTY, batches[:cut], markers=markers), batches[cut:], markers=markers)
    one_by_one = EMPTY
    for at in range(len(batches)):
        one_by_one = replay(one_by_one, batches[at : at + 1], markers=markers)
    assert at_once == in_two == one_by_one


@given(rows=ROWS, cut=st.integers(0, 25))
def test_replay_of_only_the_relevant_batches_gives_the_same_state(
    rows: list[tuple[int, int, int, str]], cut: int
) -> None:
    made, markers, offset = [np.zeros(0, dtype=BATCH)], {}, 0
    for pid, epoch, length, kind in rows:
        flags = {"data": 0, "txn": TRANSACTIONAL, "end": CONTROL, "gone": TRANSACTIONAL}[kind]
        row = batch(
            offset,
            offset + length,
            max(pid, 0),
            epoch=min(epoch, 1),
            sequence=offset,
            attributes=flags,
        )
        row["producer_epoch"] = len(made) // 9  # epochs never decrease
        if kind == "end":
            markers[offset] = replace(MARKER, timestamp=offset)
        made.append(row)
        offset += length + 1
    batches = np.concatenate(made)
    ends = (batches["attributes"] & CONTROL) != 0
    head = traces(batches[:cut], ends[:cut])
    rest = np.concatenate([head, np.arange(len(batches))[cut:]])
    kept = rest[traces(batches[rest], ends[rest])]
    assert (
        replay(EMPTY, batches[kept], markers=markers).producers
        == replay(EMPTY, batches, markers=markers).producers
    )
    assert len(kept) <= 5 * len(set(batches["producer_id"].tolist()))
    pids = set(batches["producer_id"].tolist())
    opened = ProducerState({pid: entry(pid, current_txn_first_offset=BEFORE) for pid in pids})
    of_all, of_kept = (
        [t for t in replay(opened, some, markers=markers).completed if t.first_offset == BEFORE]
        for some in (batches, batches[kept])
    )
    assert of_kept == of_all
