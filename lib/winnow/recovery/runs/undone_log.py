"""Walk the batches of the log as an undo would leave it, before the undo changes anything.

`winnow.logdir.commit.bound_log` has compared the segments that existed before the run. Two checks
remain (docs/decisions/0036):

- What was appended since then is complete. A missing batch or record was cleaned away. What it had
  deleted would come back, even if no checkpoint shows that.
- The transaction indexes and the markers in the log agree (S4.1). Without its marker an aborted
  record would come back as a committed one.
"""

from __future__ import annotations

from itertools import zip_longest

import numpy as np

from winnow.errors import CorruptLogError
from winnow.logdir.batches import Piece, read_batches
from winnow.logdir.commit.bound_log import moved_on
from winnow.logdir.commit.undo import UndoPlan
from winnow.logdir.names import LOG, TXNINDEX
from winnow.policy.transaction_runs import EVENT, SegmentRuns, fold, reduced, summarise
from winnow.storage.contract import Storage
from winnow.survey.gather import decode_aborted, events_of
from winnow.wire.batch import MAX_MAGIC, is_wrapper

_NO_HIGH_WATERMARK = 2**63 - 1
"""Above every offset: it does not matter here whether a transaction is decided."""


def check_undone_log(storage: Storage, plan: UndoPlan) -> None:
    """Raise CorruptLogError if a broker could not have left the log in this state.

    Damage in a segment that existed before the run is no reason: the run may have removed it. The
    transactions of such a log can't be read, so they are not compared.
    """
    paths, log_start = sorted(plan.log.items()), plan.run.log_start_offset
    appended = _Appended(plan.bound.log_end_offset)
    runs: list[SegmentRuns] = []
    damaged = False
    for (base, path), following in zip_longest(paths, paths[1:]):
        index, events = _files(path)[0], [np.empty(0, EVENT)]
        try:
            appended.check_base(base, path)
            size = storage.entry(path).size
            for piece in read_batches(storage, path, size=size, least_offset=base):
                appended.check(piece, path)
                events.append(events_of(piece.data, path, piece.rows, log_start_offset=log_start))
            data = storage.read_bytes(index) if storage.exists(index) else b""
            end = following and following[0]
            aborted = decode_aborted(data, index, base, end)
        except CorruptLogError:
            if base >= plan.bound.active.base_offset:
                raise
            damaged = True
        else:
            runs.append(
                summarise(
                    reduced(np.concatenate(events)),
                    aborted,
                    high_watermark=_NO_HIGH_WATERMARK,
                    log_start_offset=log_start,
                    where=_files(path),
                )
            )
    if not damaged:
        fold(
            runs,
            high_watermark=_NO_HIGH_WATERMARK,
            log_start_offset=log_start,
            where=lambda number: _files(paths[number][1]),
        )


class _Appended:
    """Check that no batch from `log_end_offset` on, appended since the run began, is missing."""

    def __init__(self, log_end_offset: int) -> None:
        self._first = self._expected = log_end_offset

    def check_base(self, base: int, path: str) -> None:
        if base > self._first and base != self._expected:
            raise _missing(self._expected, base, path)

    def check(self, piece: Piece, path: str) -> None:
        rows = piece.rows[piece.rows["last_offset"] >= self._first]
        if not len(rows):
            return
        ends = rows["last_offset"] + 1
        # After an unclean shutdown a broker may have cut off the end. Then its next batch has a
        # lower base offset.
        first = (
            min(self._expected, int(rows["base_offset"][0]))
            if self._expected == self._first
            else self._expected
        )
        expected = np.concatenate([[first], ends[:-1]])
        whole = (rows["base_offset"] == expected) & (
            (rows["magic"] < MAX_MAGIC) | (rows["record_count"] == ends - rows["base_offset"])
        )
        # The header of a compressed v0 or v1 batch does not say at which offset the batch begins.
        wrong = np.flatnonzero(~(whole | is_wrapper(rows)))
        if len(wrong):
            raise _missing(int(expected[wrong[0]]), int(ends[wrong[0]]), path)
        self._expected = int(ends[-1])


def _missing(first: int, end: int, path: str) -> CorruptLogError:
    return moved_on(
        f"every record that was appended since the run, from offset {first} on",
        f"records that are missing below offset {end}",
        path,
    )


def _files(log: str) -> tuple[str, str]:
    return log.removesuffix(LOG) + TXNINDEX, log
