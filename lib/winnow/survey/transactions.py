"""Combine the walks of a log: its producers and transactions (S3.2, S4.1, S8.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from winnow.errors import CorruptLogError
from winnow.logdir.names import SNAPSHOT, segment_file
from winnow.logdir.snapshots import read_snapshot
from winnow.policy.producers import (
    ProducerState,
    Transaction,
    expire,
    from_entries,
    replay,
    undecided,
)
from winnow.policy.transaction_runs import fold
from winnow.policy.transactions import Carried
from winnow.policy.versions import Rules
from winnow.state import PartitionState, ProducerEntry
from winnow.storage.contract import Storage
from winnow.survey.gather import NONE_ABORTED
from winnow.survey.walk import SegmentWalk, index_and_log
from winnow.wire.buffers import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions:
    """What a log's transactions mean for cleaning it."""

    producers: ProducerState
    """The state of a broker that starts now."""
    last_stable_offset: int
    undecided: Transaction | None
    """The transaction that keeps the last stable offset below the high watermark."""
    compacts_less: bool
    """Whether a broker that starts now would compact beyond the last stable offset."""
    carried: tuple[Carried, ...]
    """Per segment: the state that earlier segments leave."""
    aborted: Array = field(repr=False)
    """Entries of all transaction indexes, dtype ABORTED. Leaves out those that Kafka's cleaner does
    not request, because their markers are below the log start offset (S4.1).
    """


def settle(
    state: PartitionState,
    snapshot: Snapshot,
    walks: Sequence[SegmentWalk],
    *,
    now: int,
    expiration_ms: int,
    rules: Rules,
) -> Transactions:
    """Combine `walks`: of all segments in order, with producers from the snapshot on and with
    transactions.

    Raises CorruptLogError where a transaction index disagrees with the log.

    A transaction that the log shows as open counts as open, even if no snapshot contains it. A
    broker that lost its snapshots would forget it (S8.4), and treat as committed what nobody
    decided. For the same reason a transaction counts as undecided if its marker is not below the
    high watermark, although a broker that loads a later snapshot has forgotten that too. For a
    transaction that begins below the log start offset, the broker's knowledge counts.
    """
    folded = fold(
        [walk.runs for walk in walks],
        high_watermark=state.high_watermark,
        log_start_offset=state.log_start_offset,
        where=lambda number: index_and_log(state.directory, walks[number].base_offset),
    )
    producers = known_producers(snapshot, walks, now=now, expiration_ms=expiration_ms)
    found = undecided(producers, state.high_watermark)
    of_broker = min([state.high_watermark, *(transaction.first_offset for transaction in found)])
    if folded.undecided is not None:
        found.append(folded.undecided)
    stable = min([state.high_watermark, *(transaction.first_offset for transaction in found)])
    if stable < state.log_start_offset:
        # A broker raises it to the log start offset. From 4.0 on it takes the first batch it reads
        # there.
        live = (walk.first_live for walk in walks if walk.first_live is not None)
        raised = (
            state.log_start_offset
            if rules.open_from_log_start
            else next(live, state.log_end_offset)
        )
        stable = min(raised, state.high_watermark)
    aborted = np.concatenate([NONE_ABORTED, *(walk.aborted for walk in walks)])
    return Transactions(
        producers=producers,
        last_stable_offset=stable,
        compacts_less=stable < of_broker and state.log_start_offset < of_broker,
        undecided=min(found, key=lambda t: t.first_offset)
        if stable < state.high_watermark
        else None,
        carried=folded.carried,
        aborted=aborted[aborted["last_offset"] >= state.log_start_offset],
    )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The known producers as of an offset. Every batch from there on must be replayed."""

    offset: int
    entries: tuple[ProducerEntry, ...]


def newest_snapshot(storage: Storage, state: PartitionState) -> Snapshot:
    """Return the snapshot that a broker loads after a clean shutdown (S8.4): the newest readable
    one inside the log. Where a loader was asked after an unclean one, what it knows at the end.

    If none is usable, everything from the log start is replayed. If there is no file at all,
    nothing is known and nothing is replayed. After an unclean shutdown a broker does replay then.
    Snapshots beyond the log end, or beyond the trusted end, are ignored (S8.2).
    """
    end = state.log_end_offset
    if state.recovered is not None and state.recovered.producers is not None:
        return Snapshot(end, state.recovered.producers)
    if state.trusted_end is not None:
        end = min(end, state.trusted_end)
    elif not state.snapshot_offsets and state.recovered is None:
        return Snapshot(end, ())
    usable = [o for o in state.snapshot_offsets if state.log_start_offset < o <= end]
    for offset in sorted(usable, reverse=True):
        try:
            return Snapshot(
                offset,
                read_snapshot(storage, f"{state.directory}/{segment_file(offset, SNAPSHOT)}"),
            )
        except CorruptLogError:
            continue  # like a broker: try the next older one, and replay more
    return Snapshot(state.log_start_offset, ())


def known_producers(
    snapshot: Snapshot, walks: Sequence[SegmentWalk], *, now: int, expiration_ms: int
) -> ProducerState:
    """Return the producer state at the log end offset, as a broker that starts at `now` has it.

    `walks`: of all segments that reach beyond the snapshot, with each producer's last batches from
    its offset on. The state does not contain all completed transactions: see
    `policy.transaction_runs`.
    """
    producers = expire(from_entries(snapshot.entries), now, expiration_ms)
    for walk in walks:
        if len(walk.last_batches):
            producers = replay(producers, walk.last_batches, markers=walk.markers)
    return expire(producers, now, expiration_ms)
