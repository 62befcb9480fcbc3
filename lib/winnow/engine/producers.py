"""Which producers a broker would still know of this log, and the last batch of each (S8.4, S5.4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from winnow.engine.walk import SegmentWalk
from winnow.errors import CorruptLogError
from winnow.logdir.names import SNAPSHOT, segment_file
from winnow.logdir.snapshots import ProducerEntry, read_snapshot
from winnow.logdir.state import PartitionState
from winnow.policy.producers import Producer, ProducerState, expire, replay
from winnow.storage.contract import Storage


def known_producers(
    storage: Storage, state: PartitionState, walks: Sequence[SegmentWalk], *, now: int, expiration_ms: int
) -> ProducerState:
    """The producer state at the log end offset, as a broker that starts at `now` after a clean shutdown has it.

    The newest valid snapshot not beyond the log's end, then every later batch. No snapshot at all: nothing is known.
    """
    if not state.snapshot_offsets:
        return ProducerState()
    start, entries = _newest_snapshot(storage, state)
    producers = expire(_from_entries(entries), now, expiration_ms)
    for walk in walks:
        later = walk.last_batches["last_offset"] >= start
        producers = replay(producers, walk.last_batches[later])
    return expire(producers, now, expiration_ms)


def _newest_snapshot(storage: Storage, state: PartitionState) -> tuple[int, tuple[ProducerEntry, ...]]:
    usable = [o for o in state.snapshot_offsets if state.log_start_offset < o <= state.log_end_offset]
    for offset in sorted(usable, reverse=True):
        try:
            return offset, read_snapshot(storage, f"{state.directory}/{segment_file(offset, SNAPSHOT)}")
        except CorruptLogError:
            continue  # as a broker: the next older one, and more to replay
    return state.log_start_offset, ()


def _from_entries(entries: Iterable[ProducerEntry]) -> ProducerState:
    return ProducerState(
        {
            entry.producer_id: Producer(
                epoch=entry.epoch,
                last_data_offset=_or_none(entry.last_offset),
                offset_delta=entry.offset_delta,
                last_sequence=entry.last_sequence,
                timestamp=entry.timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_first_offset=_or_none(entry.current_txn_first_offset),
            )
            for entry in entries
        }
    )


def _or_none(offset: int) -> int | None:
    return None if offset < 0 else offset
