"""Which producers a broker would still know of this log, and the last batch of each (S8.4, S5.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.clean.survey.walk import SegmentWalk
from winnow.errors import CorruptLogError
from winnow.logdir.names import SNAPSHOT, segment_file
from winnow.logdir.snapshots import ProducerEntry, read_snapshot
from winnow.policy.producers import ProducerState, expire, from_entries, replay
from winnow.state import PartitionState
from winnow.storage.contract import Storage


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known of the producers as of an offset; every batch from there on is to be replayed."""

    offset: int
    entries: tuple[ProducerEntry, ...]


def newest_snapshot(storage: Storage, state: PartitionState) -> Snapshot:
    """The one that a broker loads after a clean shutdown (S8.4): the newest that can be read and
    lies in the log.

    None of them usable: all is replayed from the log start. No file at all: nothing is known and
    nothing replayed. After an unclean shutdown a broker replays then, too, and here only what lies
    below the trusted end counts (S8.2).
    """
    end = state.log_end_offset
    if state.trusted_end is not None:
        end = min(end, state.trusted_end)
    elif not state.snapshot_offsets:
        return Snapshot(end, ())
    usable = [o for o in state.snapshot_offsets if state.log_start_offset < o <= end]
    for offset in sorted(usable, reverse=True):
        try:
            return Snapshot(
                offset,
                read_snapshot(storage, f"{state.directory}/{segment_file(offset, SNAPSHOT)}"),
            )
        except CorruptLogError:
            continue  # as a broker: the next older one, and more to replay
    return Snapshot(state.log_start_offset, ())


def known_producers(
    snapshot: Snapshot, walks: Sequence[SegmentWalk], *, now: int, expiration_ms: int
) -> ProducerState:
    """The producer state at the log end offset, as a broker that starts at `now` has it.

    `walks`: of all segments that reach beyond the snapshot, with what is left of each producer from
    its offset on. Which transactions were completed is not all in it: see
    `policy.transaction_runs`.
    """
    producers = expire(from_entries(snapshot.entries), now, expiration_ms)
    for walk in walks:
        if len(walk.last_batches):
            producers = replay(producers, walk.last_batches, markers=walk.markers)
    return expire(producers, now, expiration_ms)
