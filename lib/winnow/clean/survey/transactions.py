"""What the walks over all segments of a log say together of its producers and transactions (S3.2,
S4.1, S8.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from winnow.clean.survey.gather import NONE_ABORTED
from winnow.clean.survey.producers import Snapshot, known_producers
from winnow.clean.survey.walk import SegmentWalk
from winnow.logdir.names import LOG, TXNINDEX, segment_file
from winnow.policy.producers import ProducerState, Undecided, last_stable_offset, undecided
from winnow.policy.transaction_runs import fold
from winnow.policy.transactions import Carried
from winnow.state import PartitionState

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions:
    """What a log's transactions mean for cleaning it."""

    producers: ProducerState
    """As a broker that starts now would know them."""
    last_stable_offset: int
    undecided: Undecided | None
    """The transaction that keeps it below the high watermark."""
    carried: tuple[Carried, ...]
    """Per segment, by what lies before it."""
    aborted: Array = field(repr=False)
    """Entries of all transaction indexes, dtype ABORTED, but for those that Kafka's cleaner does
    not ask for: their markers lie below the log start offset (S4.1).
    """


def settle(
    state: PartitionState,
    snapshot: Snapshot,
    walks: Sequence[SegmentWalk],
    *,
    now: int,
    expiration_ms: int,
) -> Transactions:
    """`walks`: of all segments in order, with producers from the snapshot on and with transactions.

    Raises CorruptLogError where a transaction index disagrees with the log. A transaction that the
    log shows open counts as open even if no snapshot says so: a broker that lost its snapshots
    would forget it (S8.4), and take for committed what nobody ever decided. For the same reason one
    counts as undecided whose marker is not below the high watermark, though a broker that loads a
    later snapshot has forgotten that, too. Of one that begins below the log start offset counts
    what a broker knows.
    """

    def files(number: int) -> tuple[str, str]:
        base_offset = walks[number].base_offset
        index, log = (
            f"{state.directory}/{segment_file(base_offset, suffix)}" for suffix in (TXNINDEX, LOG)
        )
        return index, log

    folded = fold(
        [walk.runs for walk in walks],
        high_watermark=state.high_watermark,
        log_start_offset=state.log_start_offset,
        where=files,
    )
    producers = known_producers(snapshot, walks, now=now, expiration_ms=expiration_ms)
    found = undecided(producers, state.high_watermark) + (
        [folded.undecided] if folded.undecided else []
    )
    stable = last_stable_offset(found, state.high_watermark)
    if stable < state.log_start_offset:
        # A broker raises it to the log start offset, and that to the batch it reads there.
        live = (walk.first_live for walk in walks if walk.first_live is not None)
        stable = min(next(live, state.log_end_offset), state.high_watermark)
    indexes = [walk.aborted for walk in walks if len(walk.aborted)]
    aborted = np.concatenate(indexes) if indexes else NONE_ABORTED
    return Transactions(
        producers=producers,
        last_stable_offset=stable,
        undecided=min(found, key=lambda t: t.first_offset)
        if stable < state.high_watermark
        else None,
        carried=folded.carried,
        aborted=aborted[aborted["last_offset"] >= state.log_start_offset],
    )
