"""Logs with transactions as rows of batch headers. They are sound, and some batches may have been
cleaned away.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from winnow.policy.transaction_runs import EVENT, SegmentRuns, summarise
from winnow.policy.transactions import ABORTED, batch_kinds
from winnow.wire.batch import BATCH, CONTROL, TRANSACTIONAL
from winnow.wire.control import ControlType

COMMIT, ABORT, OTHER = ControlType.COMMIT, ControlType.ABORT, ControlType.UNKNOWN
EMPTY = -2
FAR = 10**9


@dataclass
class Log:
    """Batches in order, the types of its control batches, its transaction index, and where segments
    begin.
    """

    batches: list[tuple[int, int, int, int]] = field(default_factory=list)
    """base offset, last offset, producer, attributes"""
    types: list[int] = field(default_factory=list)
    aborted: list[tuple[int, int, int, int]] = field(default_factory=list)
    bases: list[int] = field(default_factory=lambda: [0])
    next_offset: int = 0

    def data(self, producer: int, count: int = 1) -> int:
        return self._add(producer, count, TRANSACTIONAL)

    def plain(self, producer: int, count: int = 1) -> int:
        return self._add(producer, count, 0)

    def marker(self, producer: int, kind: int) -> int:
        self.types.append(kind)
        return self._add(producer, 1, TRANSACTIONAL | CONTROL)

    def abort(self, producer: int, first: int) -> int:
        marker = self.marker(producer, ABORT)
        self.aborted.append((producer, first, marker, self.next_offset))
        return marker

    def roll(self) -> None:
        if self.bases[-1] != self.next_offset:
            self.bases.append(self.next_offset)

    def _add(self, producer: int, count: int, attributes: int) -> int:
        base = self.next_offset
        self.next_offset += count
        self.batches.append((base, self.next_offset - 1, producer, attributes))
        return base

    @property
    def rows(self) -> NDArray[np.void]:
        made = np.zeros(len(self.batches), BATCH)
        for at, (base, last, producer, attributes) in enumerate(self.batches):
            row = made[at]
            row["base_offset"], row["last_offset"], row["producer_id"] = base, last, producer
            row["attributes"], row["magic"], row["record_count"] = attributes, 2, 1
        return made

    @property
    def all_types(self) -> NDArray[np.int8]:
        return np.array(self.types, np.int8)

    @property
    def index(self) -> NDArray[np.void]:
        return np.array(self.aborted, ABORTED)

    def segments(self) -> list[tuple[int, int]]:
        """Return [base offset, next base offset) of each segment."""
        return list(zip(self.bases, [*self.bases[1:], self.next_offset], strict=True))


@st.composite
def sound_logs(draw: st.DrawFn) -> Log:  # noqa: PLR0912 - one branch for each thing that can happen
    """Draw logs as brokers write and cleaners leave them: any data may be missing, and a marker
    only if its data is missing.
    """
    log, begun, left = Log(), dict[int, int](), dict[int, int]()
    for _ in range(draw(st.integers(0, 30))):
        producer = draw(st.integers(-2, 3))
        what = draw(
            st.sampled_from(
                ["data", "data", "data", "commit", "abort", "plain", "roll", "other", "empty"]
            )
        )
        if what == "roll":
            log.roll()
        elif what == "plain":
            log.plain(producer, draw(st.integers(1, 3)))
        elif what == "other":
            log.marker(producer, OTHER)
        elif what == "empty":
            # A marker alone: no data of its transaction is left.
            if left.get(producer, 0) == 0:
                log.marker(producer, EMPTY)
                begun.pop(producer, None)
        elif what == "data":
            begun.setdefault(producer, log.next_offset)
            count = draw(st.integers(1, 3))
            if draw(st.booleans()):
                log.data(producer, count)
                left[producer] = left.get(producer, 0) + 1
            else:
                log.next_offset += count  # cleaned away
        else:
            had = left.pop(producer, 0)
            first = begun.pop(producer, None)
            if not had and draw(st.booleans()):
                log.next_offset += 1  # cleaned away as well
            elif what == "commit":
                log.marker(producer, COMMIT)
            elif producer < 0 or first is None or (not had and draw(st.booleans())):
                log.marker(producer, ABORT)  # its entry was removed earlier, or nobody wrote one
            else:
                log.abort(producer, first)
    # The index holds the last stable offset after each marker. No later entry begins below it.
    log.aborted = [
        (
            p,
            first,
            marker,
            min([marker + 1, *(f for _, f, m, _ in log.aborted if m > marker and f <= marker)]),
        )
        for p, first, marker, _ in log.aborted
    ]
    return log


def events_of(log: Log, start: int, end: int, *, log_start_offset: int = 0) -> NDArray[np.void]:
    """Return those of the batches from offset `start` up to `end`."""
    rows, kinds = log.rows, batch_kinds(log.rows, log.all_types)
    mine = (rows["base_offset"] >= start) & (rows["base_offset"] < end)
    events = np.empty(int(mine.sum()), EVENT)
    events["producer_id"], events["offset"] = rows["producer_id"][mine], rows["base_offset"][mine]
    events["kind"] = kinds[mine]
    events["live"] = rows["last_offset"][mine] >= log_start_offset
    return events


def runs_of(log: Log, *, high_watermark: int = FAR, log_start_offset: int = 0) -> list[SegmentRuns]:
    found = []
    for start, end in log.segments():
        events = events_of(log, start, end, log_start_offset=log_start_offset)
        index = log.index[(log.index["last_offset"] >= start) & (log.index["last_offset"] < end)]
        found.append(
            summarise(
                events,
                index,
                high_watermark=high_watermark,
                log_start_offset=log_start_offset,
                where=("I", "L"),
            )
        )
    return found
