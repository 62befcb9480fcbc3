"""Check one segment: its log, and its indexes against the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.indexes.checks import check_offset_index, time_index_faults
from winnow.logdir.indexes.index import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    decode_time_index,
    without_preallocated,
)
from winnow.logdir.indexes.txnindex import ENTRY
from winnow.logdir.names import INDEX, TIMEINDEX, TXNINDEX, segment_file
from winnow.policy.transaction_runs import SegmentRuns, summarise
from winnow.policy.txn_entries import EntryFault, EntryPromises, entry_faults, promises
from winnow.storage.contract import Storage
from winnow.survey.gather import decode_aborted
from winnow.verbs.verify.findings import Finding
from winnow.verbs.verify.kinds import Kind
from winnow.verbs.verify.logs import NO_BATCHES, LogCheck, LogFile, check_log

_KIND = {INDEX: Kind.OFFSET_INDEX, TIMEINDEX: Kind.TIME_INDEX}
_ENTRY_SIZE = {INDEX: OFFSET_ENTRY_SIZE, TIMEINDEX: TIME_ENTRY_SIZE}


def check_segment(storage: Storage, file: LogFile, *, max_decompressed_bytes: int) -> LogCheck:
    """Report all that is wrong with a segment, but for indexes that a broker rebuilds (S8.2)."""
    log = check_log(storage, file, max_decompressed_bytes=max_decompressed_bytes)
    found = list(log.findings)
    runs = promised = None
    if file.indexes is not None and not file.recovered:
        missing = "expected an index, found no file"
        for suffix in _KIND:
            if suffix not in file.indexes and file.size:
                name = segment_file(file.base_offset, suffix)
                found.append(file.scope.finding(Kind.MISSING, name, missing))
        for suffix in _KIND:
            if suffix in file.indexes:
                found += _index(storage, file, log, suffix)
        runs, promised, wrong = _transactions(storage, file, log)
        found += wrong
    log = replace(log, batches=NO_BATCHES, events=None)  # the driver needs neither
    return replace(log, findings=tuple(found), runs=runs, promises=promised)


def _index(storage: Storage, file: LogFile, log: LogCheck, suffix: str) -> Iterator[Finding]:
    """Yield what is wrong with an offset index or a time index."""
    scope, name = file.scope, segment_file(file.base_offset, suffix)
    path, base, end = f"{scope.directory}/{name}", file.base_offset, file.end_offset
    try:
        data = storage.read_bytes(path)
        kept = without_preallocated(data, _ENTRY_SIZE[suffix])
        if len(kept) < len(data):
            message = (
                f"expected entries up to the end, found {len(data) - len(kept)} bytes of zeros"
            )
            yield scope.finding(_KIND[suffix], name, message, position=len(kept))
        if suffix == INDEX:
            check_offset_index(
                kept,
                path,
                log.batches,
                base_offset=base,
                log_bytes=file.size,
                end_offset=end,
                sound_bytes=log.sound_bytes,
            )
            return
        entries = decode_time_index(kept, path, base_offset=base, end_offset=end)
        complete = log.sound_bytes == file.size
        if not complete:
            last = int(log.batches["last_offset"][-1]) if len(log.batches) else -1
            entries = entries[entries["offset"] <= last]
        for fault in time_index_faults(entries, log.batches, path, complete=complete):
            yield scope.finding(_KIND[suffix], name, fault)
    except FAILS_ONE_PARTITION as error:
        yield scope.finding(_KIND[suffix], name, error)


def _transactions(
    storage: Storage, file: LogFile, log: LogCheck
) -> tuple[SegmentRuns | None, EntryPromises | None, tuple[Finding, ...]]:
    base, name = file.base_offset, segment_file(file.base_offset, TXNINDEX)
    path = f"{file.scope.directory}/{name}"
    try:
        data = storage.read_bytes(path) if TXNINDEX in (file.indexes or ()) else b""
        aborted = decode_aborted(data, path, base, file.end_offset)
        if log.events is None:
            return None, None, ()
        runs = summarise(
            log.events,
            aborted,
            high_watermark=0,
            log_start_offset=file.scope.log_start_offset,
            where=(path, file.path),
        )
    except FAILS_ONE_PARTITION as error:
        return None, None, (file.scope.finding(Kind.TXN_INDEX, name, error),)
    wrong = tuple(
        txn_index_finding(file, fault)
        for fault in entry_faults(
            aborted, log.events, log.batches, base_offset=base, end_offset=file.end_offset
        )
    )
    return runs, None if wrong else promises(aborted, runs, base_offset=base), wrong


def txn_index_finding(log: LogFile, fault: EntryFault) -> Finding:
    position = None if fault.entry is None else fault.entry * ENTRY.size
    return log.scope.finding(
        Kind.TXN_INDEX, segment_file(log.base_offset, TXNINDEX), fault.message, position=position
    )
