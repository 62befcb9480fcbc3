"""Entries that Kafka writes are sound, whoever appends: a leader, or a follower that gets many
batches at once and truncates. Others are reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.policy.txn_logs import ABORT, COMMIT, Log, events_of, runs_of
from winnow.policy.transaction_runs import reduced
from winnow.policy.txn_entries import EntryFault, across, entry_faults, promises
from winnow.wire.batch import CONTROL, TRANSACTIONAL

_FAR = 2**31


@dataclass
class Batch:
    producer: int
    attributes: int
    kind: int = 0
    epoch: int = 0
    offset: int = -1


@dataclass
class Replica:
    """Appends as `UnifiedLog.append` and `ProducerStateManager` do, in Kafka's own steps. Every
    batch has one offset.
    """

    batches: list[Batch] = field(default_factory=list)
    entries: list[tuple[int, int, int, int]] = field(default_factory=list)
    bases: list[int] = field(default_factory=lambda: [0])

    def append(self, batches: Sequence[Batch]) -> None:
        """Append the batches of one fetch."""
        ongoing, current = self._state()
        completed = []
        for batch in batches:
            batch.offset = len(self.batches)
            self.batches.append(batch)
            if not batch.attributes & TRANSACTIONAL:
                continue
            if batch.attributes & CONTROL:
                if batch.producer in current:
                    completed.append((batch, current.pop(batch.producer)))
            elif batch.producer not in current:
                current[batch.producer] = batch.offset
                ongoing[batch.offset] = batch.producer
        for marker, first in completed:
            others = [at for at, producer in ongoing.items() if producer != marker.producer]
            stable = min(others, default=marker.offset + 1)
            if marker.kind == ABORT:
                self.entries.append((marker.producer, first, marker.offset, stable))
            del ongoing[first]

    def roll(self) -> None:
        if self.bases[-1] < len(self.batches):
            self.bases.append(len(self.batches))

    def truncate(self, end: int) -> None:
        """As `TransactionIndex.truncateTo`: entries stay whose markers do."""
        del self.batches[end:]
        self.entries = [entry for entry in self.entries if entry[2] < end]
        self.bases = [base for base in self.bases if base < end] or [0]

    def _state(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return the open transactions, and where that of each producer begins."""
        current: dict[int, int] = {}
        for batch in self.batches:
            if batch.attributes & CONTROL:
                current.pop(batch.producer, None)
            elif batch.attributes & TRANSACTIONAL:
                current.setdefault(batch.producer, batch.offset)
        return {first: producer for producer, first in current.items()}, current

    def log(self, *, without: frozenset[int] = frozenset()) -> Log:
        """`without`: data at these offsets was cleaned away."""
        kept = [b for b in self.batches if b.offset not in without or b.attributes & CONTROL]
        return Log(
            batches=[(b.offset, b.offset, b.producer, b.attributes) for b in kept],
            types=[b.kind for b in kept if b.attributes & CONTROL],
            aborted=list(self.entries),
            bases=list(self.bases),
            next_offset=len(self.batches),
        )

    def faults(self, *, without: frozenset[int] = frozenset()) -> list[EntryFault]:
        log = self.log(without=without)
        return list(_faults(log, {batch.offset: batch.epoch for batch in self.batches}))


def _faults(log: Log, epochs: dict[int, int]) -> Iterator[EntryFault]:
    batches = np.array(
        [(base, last, epochs[base]) for base, last, _, _ in log.batches],
        [("base_offset", np.int64), ("last_offset", np.int64), ("leader_epoch", np.int32)],
    )
    promised = []
    for runs, (start, end) in zip(runs_of(log), log.segments(), strict=True):
        end = end if end != log.segments()[-1][1] else start + _FAR  # noqa: PLW2901
        index, rows = log.index, batches["base_offset"]
        index = index[(index["last_offset"] >= start) & (index["last_offset"] < end)]
        mine = batches[(rows >= start) & (rows < end)]
        events = reduced(events_of(log, start, end))
        yield from entry_faults(index, events, mine, base_offset=start, end_offset=end)
        promised.append((runs, promises(index, runs, base_offset=start)))
    held = {base: (base, p if a & TRANSACTIONAL and not a & CONTROL else None)
            for base, _, p, a in log.batches}  # fmt: skip
    yield from (fault for _, fault in across(promised, held.get))


def data(producer: int) -> Batch:
    return Batch(producer, TRANSACTIONAL)


def plain() -> Batch:
    return Batch(-1, 0)


def abort(producer: int) -> Batch:
    return Batch(producer, TRANSACTIONAL | CONTROL, ABORT)


@st.composite
def replicas(draw: st.DrawFn) -> Replica:
    """Draw replicas that append fetches of several batches, roll, and truncate at a new epoch."""
    replica, epoch = Replica(), 0
    for _ in range(draw(st.integers(1, 6))):
        what = draw(st.sampled_from(["append", "append", "append", "roll", "truncate"]))
        if what == "roll":
            replica.roll()
        elif what == "truncate" and len(replica.batches) > replica.bases[-1]:
            least = replica.bases[-1] + 1
            replica.truncate(draw(st.integers(least, len(replica.batches))))
            epoch += 1
        kinds = st.sampled_from(["data", "data", "plain", "abort", "abort", "commit"])
        fetched = []
        for kind in draw(st.lists(kinds, max_size=12)):
            producer = draw(st.integers(0, 2))
            made = {"data": data, "abort": abort}.get(kind, data)(producer)
            if kind == "plain":
                made = plain()
            elif kind == "commit":
                made = Batch(producer, TRANSACTIONAL | CONTROL, COMMIT)
            fetched.append(replace(made, epoch=epoch))
        replica.append(fetched)
    return replica


@settings(max_examples=300, deadline=None)
@given(replica=replicas(), gone=st.frozensets(st.integers(0, 40)))
def test_entries_of_a_follower_are_sound(replica: Replica, gone: frozenset[int]) -> None:
    """Also after a cleaning, which removes data."""
    assert replica.faults() == []
    assert replica.faults(without=gone) == []


@settings(max_examples=300, deadline=None)
@given(replica=replicas(), dice=st.data())
def test_last_stable_offset_above_all_that_kafka_writes_is_reported(
    replica: Replica, dice: st.DataObject
) -> None:
    """Above the next transaction of another producer, or in the middle of nothing, without a
    truncation after the marker.
    """
    found = [
        n
        for n, (_, _, marker, _) in enumerate(replica.entries)
        if replica.batches[-1].epoch == replica.batches[marker].epoch
    ]
    if not found:
        return
    number = dice.draw(st.sampled_from(found))
    producer, first, marker, _ = replica.entries[number]
    begins = [
        b.offset
        for b in replica.batches[marker + 1 :]
        if b.attributes & (TRANSACTIONAL | CONTROL) == TRANSACTIONAL and b.producer != producer
    ]
    end = len(replica.batches)
    wrong = [lso for lso in range(marker + 2, end) if not begins or lso != begins[0]]
    if not wrong:
        return
    replica.entries[number] = producer, first, marker, dice.draw(st.sampled_from(wrong))
    assert replica.faults() != []


def _follower(*fetch: Batch) -> Replica:
    replica = Replica()
    replica.append(fetch)
    return replica


def test_follower_names_where_the_next_transaction_begins() -> None:
    """The finding was 'expected up to 400, after the marker, found 403'."""
    replica = _follower(data(1), abort(1), plain(), plain(), data(2), abort(2), plain())
    assert replica.entries == [(1, 0, 1, 4), (2, 4, 5, 6)]
    assert replica.faults() == []
    assert replica.faults(without=frozenset({2, 3, 4})) == []


def test_next_transaction_of_the_same_producer_does_not_count() -> None:
    """`ProducerStateManager.findNextIncompleteTxn` leaves it out."""
    replica = _follower(data(1), abort(1), data(1), plain(), data(2), abort(1), abort(2))
    assert replica.entries == [(1, 0, 1, 4), (1, 2, 5, 4), (2, 4, 6, 7)]
    assert replica.faults() == []


@pytest.mark.parametrize("found", [3, 5, 6, 7, 2**62])
def test_other_offsets_after_the_marker_are_reported(found: int) -> None:
    replica = _follower(data(1), abort(1), plain(), plain(), data(2), abort(2), plain())
    replica.entries[0] = 1, 0, 1, found
    [fault] = replica.faults()
    assert fault == EntryFault(
        "expected a last stable offset up to 2, after the marker, or 4, where the next transaction "
        f"begins, found {found}",
        0,
    )


def test_truncated_replica_keeps_the_offset_of_what_was_cut() -> None:
    replica = _follower(data(1), abort(1), plain(), plain(), data(2))
    replica.truncate(3)
    assert replica.faults() == []  # nothing has come after it
    replica.append([replace(plain(), epoch=1), replace(plain(), epoch=1)])
    assert replica.entries == [(1, 0, 1, 4)]
    assert replica.faults() == []
    assert _follower(data(1), abort(1), plain(), plain(), plain()).faults() == []


def test_offset_in_the_next_segment_is_reported() -> None:
    """A follower appends a fetch to one segment."""
    replica = _follower(data(1), abort(1), plain())
    replica.roll()
    replica.append([plain(), data(2)])
    replica.entries[0] = 1, 0, 1, 4
    assert [fault.entry for fault in replica.faults()] == [0]
