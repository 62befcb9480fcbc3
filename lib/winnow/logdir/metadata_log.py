"""The files of the cluster's metadata log: its snapshots and segments, batch by batch, down to the
values of their records (S9.3).

The log has ordinary v2 batches but is never compacted. From the first batch that counts to the last
one, each begins where the previous one ended. A gap means that records are missing, and settings
with them.

A crash can tear the end of the last segment. As in Kafka, the log then ends with its last whole
batch.

Records are decoded one by one, and only one batch is decompressed at a time. A controller does not
compress its batches. So the compressed ones of a log may not have many bytes in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from winnow.budget import Budget
from winnow.errors import CorruptLogError, OversizedBatchError
from winnow.logdir.batches import HeaderWalk
from winnow.logdir.damage import damage_in
from winnow.logdir.files import files_in, log_bases
from winnow.logdir.names import LOG, METADATA_SNAPSHOT, segment_file
from winnow.storage.contract import Storage
from winnow.storage.segment_io import map_range
from winnow.storage.size_limits import check_size
from winnow.wire.batch import BATCH, CODEC_MASK, CONTROL, HEADER_V2_SIZE, MAX_MAGIC, Codec
from winnow.wire.buffers import Bytes, Rows
from winnow.wire.control import ControlType, QuorumRecord, control_type, read_quorum_record
from winnow.wire.inflate import inflate
from winnow.wire.plain import Record, each_record
from winnow.wire.walk import first_bad_crc

_MAX_BATCH_BYTES = 16 * 1024 * 1024
"""Compressed or not. A controller writes no batch of more than 8 MiB."""
_MAX_DECOMPRESSED_BYTES = 64 * 1024 * 1024
_LEAST_RECORD = 64
"""As many decompressed bytes count for a record of a compressed batch: small ones take time."""
_ANY_OFFSET = 2**63 - 1
_LENGTH_AT, _FRAME, _TO_MAGIC, _LEAST_LENGTH = 8, 12, 17, 14
"""The length of a batch: where it lies, what comes before the bytes that it counts, and the least
that a broker looks at.
"""


@dataclass(frozen=True, slots=True)
class MetadataValue:
    """A record's value, which may be null, and its offset."""

    offset: int
    data: bytes | None
    where: str
    """File and byte of its batch, for errors."""
    quorum: QuorumRecord | None = None
    """What a control record says; None for a data record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """Where a metadata log or a snapshot ends. Of two logs of one cluster, that with the higher
    (`epoch`, `offset`) is newer, as in the elections of its controllers.
    """

    offset: int
    """The offset after the last record."""
    epoch: int
    """The leader epoch of the last record; -1 if there is none."""
    timestamp: int
    """When the last record was written, in ms since the epoch; -1 if unknown."""
    torn: str | None = None
    """What follows the last whole batch, if anything does."""
    missing: str | None = None
    """Which records are missing before it, as in `offsets 40 to 62`. The first gap is named."""
    below: int | None = None
    """Where the segments end, if that is below the newest snapshot: the log has lost its end, or a
    node was killed between the download of a snapshot and the truncation of its log.
    """


def decompression_budget() -> Budget:
    """Return a new budget for the compressed batches of a metadata log and its snapshots."""
    return Budget(
        _MAX_DECOMPRESSED_BYTES,
        "decompressed bytes",
        "the compressed batches of a metadata log are too large",
        hint="A controller does not compress them. Find out who wrote this log. The settings are "
        "unknown: name the topics in --topic-configs FILE.",
        error=OversizedBatchError,
    )


def list_snapshots(storage: Storage, directory: str) -> list[tuple[int, str]]:
    """Return end offset and name of each snapshot, newest first. It holds the state made by all
    records below its end offset. Unfinished (`.checkpoint.part`) and deleted ones do not match.
    """
    names = filter(METADATA_SNAPSHOT.fullmatch, files_in(storage, directory))
    return [(int(name[:20]), name) for name in sorted(names, reverse=True)]


def read_snapshot(
    storage: Storage,
    path: str,
    use: Callable[[MetadataValue], object] = lambda _: None,
    *,
    complete: bool = True,
    budget: Budget | None = None,
) -> LogEnd:
    """Call `use` with each record of a snapshot, in order. Return the end of the log that the
    snapshot replaces. Raises CorruptLogError if it is incomplete, before any record is read, or if
    it is damaged, after `use` got the records before that place.

    `complete`: False reads it as a broker does, which misses neither the footer nor a last batch
    that goes beyond the end of the file. `budget`: for compressed batches; None: a new one.
    """
    name = METADATA_SNAPSHOT.fullmatch(path.rpartition("/")[2])
    offset, epoch = (0, -1) if name is None else map(int, name.groups())
    budget = decompression_budget() if budget is None else budget
    timestamp, begun = -1, False
    with _mapped(storage, path) as whole:
        buf = whole if complete else whole[: _end_of_whole_batches(whole)]
        if complete:
            _check_footer(buf, path, budget)
        for rows in _batches(buf, path, least_offset=0):
            if not begun:
                _check_end(buf, rows[0], path, 0, ControlType.SNAPSHOT_HEADER, budget)
            begun = True
            timestamp = max(timestamp, int(rows["max_timestamp"].max()))
            for value in _values(buf, rows, path, budget):
                use(value)
        if not begun:
            raise _incomplete(path, 0, ControlType.SNAPSHOT_HEADER, "no batch")
    return LogEnd(offset=offset, epoch=epoch, timestamp=timestamp)


def read_log(
    storage: Storage,
    directory: str,
    use: Callable[[MetadataValue], object],
    *,
    start: int,
    unclean: bool = False,
    whole: bool = True,
    budget: Budget | None = None,
) -> LogEnd:
    """Call `use` with each record at or above offset `start`, in order. Return the end of the
    log. Without a batch at or above `start`, it ends there. `unclean`: no clean shutdown was
    marked. `whole`: if False, continue after missing records, as a broker does. `budget`: limit for
    compressed batches; by default a new budget.

    Raises CorruptLogError if a batch before the last whole one is damaged, or if records from
    `start` on are missing and the log has to be `whole`, after `use` got the records before that
    place.
    """
    bases = log_bases(files_in(storage, directory))
    # The snapshot covers everything below the last segment that begins at or before `start`.
    bases = bases[max(sum(base <= start for base in bases) - 1, 0) :]
    budget = decompression_budget() if budget is None else budget
    expected = min([start, *bases])
    torn: str | None = None
    missing: str | None = None
    epoch = timestamp = -1
    for base in bases:
        path = f"{directory}/{segment_file(base, LOG)}"
        if base != expected:
            if whole or base < expected:
                raise _gap(expected, base, path)
            missing = missing or f"offsets {expected} to {base - 1}"
            expected = base
        with _mapped(storage, path) as mapped:
            buf = mapped
            if base == bases[-1]:
                buf, torn = _without_torn_end(mapped, path, base, unclean=unclean)
            for rows in _batches(buf, path, least_offset=base):
                ends = np.append(expected, rows["last_offset"] + 1)
                wrong = np.flatnonzero(rows["base_offset"] != ends[:-1])
                for at in wrong:
                    end, found = int(ends[at]), int(rows[at]["base_offset"])
                    if whole or found < end:
                        raise _gap(end, found, _where(rows[at], path))
                    missing = missing or f"offsets {end} to {found - 1}"
                expected = int(ends[-1])
                if expected > start:
                    epoch = int(rows["leader_epoch"][-1])
                    timestamp = int(rows["max_timestamp"][-1])
                for value in _values(buf, rows[rows["last_offset"] >= start], path, budget):
                    if value.offset >= start:
                        use(value)
    segments_end = expected if bases else 0
    return LogEnd(
        offset=max(expected, start),
        below=segments_end if segments_end < start else None,
        epoch=epoch,
        timestamp=timestamp,
        torn=torn,
        missing=missing,
    )


def _mapped(storage: Storage, path: str) -> AbstractContextManager[Bytes]:
    """Map a whole file: a sparse one of the largest size that is allowed would fill the memory."""
    size = storage.entry(path).size
    check_size(path, size)
    return map_range(path, 0, size)


def _end_of_whole_batches(buf: Bytes) -> int:
    """Return where a batch begins that goes beyond the end (`FileLogInputStream.nextBatch`). Bytes
    that can be no batch are left to be found.
    """
    at = 0
    while len(buf) - at > _TO_MAGIC:
        length = int.from_bytes(buf[at + _LENGTH_AT : at + _FRAME].tobytes(), signed=True)
        if length < _LEAST_LENGTH:
            return len(buf)
        if at + _FRAME + length > len(buf):
            return at
        at += _FRAME + length
    return at


def _without_torn_end(
    buf: Bytes, path: str, base: int, *, unclean: bool
) -> tuple[Bytes, str | None]:
    """Return the bytes up to the first damage if only damage follows it, and a description of what
    was left out.

    A power failure can lose any page of the last segment: after an unclean shutdown the log ends at
    the first damage, as for a broker, even if whole batches follow. After a clean one such damage
    is kept: no crash caused it, and the batches after it count.
    """
    first = next(damage_in(buf, base_offset=base, end_offset=_ANY_OFFSET), None)
    if first is None or (first.end < len(buf) and not unclean):
        return buf, None
    if first.end < len(buf):
        words = (
            f"is damaged in bytes {first.start} to {first.end}, and "
            f"{len(buf) - first.end} bytes of later batches follow"
        )
    else:
        words = (
            f"ends with {len(buf) - first.start} bytes that are not a whole batch, "
            f"from byte {first.start} on"
        )
    return buf[: first.start], f"{path} {words}"


def _gap(expected: int, found: int, where: str) -> CorruptLogError:
    return CorruptLogError(
        "records of the metadata log are missing",
        expected=f"offset {expected}",
        found=f"offset {found}",
        where=where,
        hint="Without them no setting can be relied on: name the topics in --topic-configs FILE.",
    )


def _batches(buf: Bytes, path: str, *, least_offset: int) -> Iterator[Rows]:
    """Yield all batches of a file in blocks, with their CRCs checked."""
    walk = HeaderWalk(buf, least_offset)
    for rows in walk:
        legacy = np.flatnonzero(rows["magic"] < MAX_MAGIC)
        if len(legacy):
            row = rows[legacy[0]]
            raise CorruptLogError(
                "a metadata log has batches of message format v2 only",
                expected=f"magic {MAX_MAGIC}",
                found=f"magic {row['magic']}",
                where=_where(row, path),
            )
        _check_crcs(buf, rows, path)
        yield rows
    walk.check(path)


def _check_crcs(buf: Bytes, rows: Rows, path: str) -> None:
    bad = first_bad_crc(buf, rows)
    if bad >= 0:
        raise CorruptLogError(
            "wrong CRC",
            expected="that of the batch's bytes",
            found=str(rows[bad]["crc"]),
            where=_where(rows[bad], path),
        )


def _values(buf: Bytes, rows: Rows, path: str, budget: Budget) -> Iterator[MetadataValue]:
    for row in rows:
        where, is_control = _where(row, path), int(row["attributes"]) & CONTROL
        for record in _records(buf, row, path, budget):
            quorum = None
            if is_control:
                try:
                    quorum = read_quorum_record(record.key, record.value)
                except CorruptLogError as error:
                    raise error.at(f"{where}, offset {record.offset}") from error
            yield MetadataValue(record.offset, record.value, where, quorum)


def _check_footer(buf: Bytes, path: str, budget: Budget) -> None:
    """Check the end of a snapshot. Only headers are read on the way to it."""
    last = None
    walk = HeaderWalk(buf, 0)
    for rows in walk:
        last = rows[-1:].copy()
    walk.check(path)
    if last is None:
        raise _incomplete(path, 0, ControlType.SNAPSHOT_HEADER, "no batch")
    _check_crcs(buf, last, path)
    _check_end(buf, last[0], path, -1, ControlType.SNAPSHOT_FOOTER, budget)


def _check_end(
    buf: Bytes, row: np.void, path: str, at: int, wanted: ControlType, budget: Budget
) -> None:
    """Check the header (`at` 0) or the footer (`at` -1) of a snapshot: its first or last record."""
    found = _control_types(buf, row, path, budget)
    if not found or found[at] != wanted:
        raise _incomplete(path, at, wanted, "something else")


def _incomplete(path: str, at: int, wanted: ControlType, found: str) -> CorruptLogError:
    return CorruptLogError(
        "a snapshot of the metadata log is not complete",
        expected=f"a control record {wanted.name} at its {'end' if at else 'start'}",
        found=found,
        where=path,
    )


def _control_types(buf: Bytes, row: np.void, path: str, budget: Budget) -> list[ControlType]:
    """Return the types of the records of a control batch (S2.3); empty for any other batch."""
    if not int(row["attributes"]) & CONTROL:
        return []
    return [control_type(record.key) for record in _records(buf, row, path, budget)]


def _records(buf: Bytes, row: np.void, path: str, budget: Budget) -> Iterator[Record]:
    try:
        yield from each_record(_area(buf, row, budget), row, headers=False)
    except CorruptLogError as error:
        raise error.at(_where(row, path)) from error


def _area(buf: Bytes, row: np.void, budget: Budget) -> Bytes:
    """Return the records of a batch, decompressed."""
    begin, end = int(row["position"]) + HEADER_V2_SIZE, int(row["position"]) + int(row["size"])
    if end - begin > _MAX_BATCH_BYTES:
        raise OversizedBatchError(
            "a batch of a metadata log is too large",
            expected=f"at most {_MAX_BATCH_BYTES} bytes",
            found=f"{end - begin} bytes",
        )
    if int(row["attributes"]) & CODEC_MASK == Codec.NONE:
        return buf[begin:end]
    area = inflate(buf, np.array([row], BATCH), limit=_MAX_BATCH_BYTES).area(0)
    budget.take(max(len(area), _LEAST_RECORD * int(row["record_count"])))
    return area


def _where(row: np.void, path: str) -> str:
    return f"{path} at byte {row['position']}"
