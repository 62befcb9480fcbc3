"""Checks that need all segments of a partition together, and the checkpoints (S4.1, S6.3, S8.4)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import takewhile

from winnow.errors import FAILS_ONE_PARTITION, CorruptLogError
from winnow.logdir.lookup import Segments
from winnow.logdir.names import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    TXNINDEX,
)
from winnow.policy.transaction_runs import SegmentRuns, fold
from winnow.policy.txn_entries import EntryFault, Unexplained, across, unexplained_fault
from winnow.state import TopicPartition
from winnow.storage.places import Places
from winnow.verbs.verify.directories import DirectoryCheck, PartitionPlace
from winnow.verbs.verify.findings import Finding, Scope
from winnow.verbs.verify.kinds import Kind
from winnow.verbs.verify.log_dirs import LogDirCheck
from winnow.verbs.verify.segments import SegmentCheck, SegmentFiles, txn_index_finding
from winnow.wire.batch import CONTROL, TRANSACTIONAL

_LIMITS = (LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT)
"""Checkpoints with an offset that the log must reach. The log start comes first: if it is too high,
a broker deletes the log.
"""


def all_findings(
    log_dir: LogDirCheck,
    place: PartitionPlace,
    directory: DirectoryCheck,
    logs: Sequence[SegmentCheck],
) -> Iterator[Finding]:
    """Yield findings of the directory, of each of its logs (`logs`, in the order of
    `directory.logs`), and of them together.
    """
    yield from directory.findings
    for log in logs:
        yield from log.findings
    yield from _together(log_dir, place, directory, logs[: directory.segments])


def _together(
    log_dir: LogDirCheck,
    place: PartitionPlace,
    directory: DirectoryCheck,
    checks: Sequence[SegmentCheck],
) -> Iterator[Finding]:
    segments = directory.logs[: directory.segments]
    yield from _transactions(place, segments, checks)
    yield from _entries(place, segments, checks)
    if not log_dir.clean_shutdown or not checks:
        return
    if not directory.snapshots and any(check.producers for check in checks):
        message = "expected a producer snapshot, because producers have written here, found none"
        yield place.scope.finding(Kind.MISSING, "", message)
    if checks[-1].complete:
        yield from _end(log_dir, place.scope, checks[-1].next_offset)


def _end(log_dir: LogDirCheck, scope: Scope, end_offset: int) -> Iterator[Finding]:
    if scope.topic is None or scope.partition is None:
        return
    key = TopicPartition(scope.topic, scope.partition)
    for name in _LIMITS:
        offset = log_dir.checkpoints.get(name, {}).get(key, 0)
        if offset > end_offset:
            message = (
                f"expected the log to reach offset {offset}, which is in {name}, found that it "
                f"ends at {end_offset}"
            )
            yield scope.finding(Kind.CHECKPOINT, "", message, offsets=(end_offset, offset - 1))
            return


def _transactions(
    place: PartitionPlace, segments: Sequence[SegmentFiles], checks: Sequence[SegmentCheck]
) -> Iterator[Finding]:
    """Check transactions that span segments, as far as all earlier segments are known."""
    runs: list[SegmentRuns] = []
    for check in checks:
        if check.runs is None:
            break
        runs.append(check.runs)
    at = bisect_left(
        range(len(runs)), True, key=lambda number: _fault(place, runs[: number + 1]) is not None
    )
    error = _fault(place, runs)
    if error is not None:
        yield place.scope.finding(Kind.TXN_INDEX, segments[at].name(TXNINDEX), error)


def _entries(
    place: PartitionPlace, segments: Sequence[SegmentFiles], checks: Sequence[SegmentCheck]
) -> Iterator[Finding]:
    """Check what transaction indexes say of earlier segments. Report each one's first fault."""
    known = [
        (check.runs, check.promises)
        for check in takewhile(lambda c: c.promises is not None, checks)
    ]
    reported: set[int] = set()
    for found in across(
        [(runs, promised) for runs, promised in known if runs is not None and promised is not None]
    ):
        number, fault = (
            (found.segment, _looked_up(place, found)) if isinstance(found, Unexplained) else found
        )
        if fault is not None and number not in reported:
            reported.add(number)
            yield txn_index_finding(segments[number].log, fault)


def _looked_up(place: PartitionPlace, found: Unexplained) -> EntryFault | None:
    try:
        batch = Segments(Places(), place.scope.directory).find_offset(found.offset)
    except FAILS_ONE_PARTITION:
        return None  # this is a finding of its own
    if batch is None:
        return None
    row = batch.piece.rows[batch.row]
    if row["base_offset"] > found.offset:
        return None  # a cleaning removed it
    data = (int(row["attributes"]) & (TRANSACTIONAL | CONTROL)) == TRANSACTIONAL
    begins_at, producer = int(row["base_offset"]), int(row["producer_id"])
    return unexplained_fault(found, begins_at=begins_at, producer=producer, data=data)


def _fault(place: PartitionPlace, runs: Sequence[SegmentRuns]) -> CorruptLogError | None:
    try:
        fold(
            runs,
            high_watermark=0,
            log_start_offset=place.log_start_offset,
            where=lambda _: ("", ""),
        )
    except CorruptLogError as error:
        return error
    return None
