"""Read what a broker recovers after an unclean shutdown: the segments from the recovery point on
(S8.2).

A broker reads these segments batch by batch. It checks the size, the CRC and the offsets of each
batch. It cuts the log after the last valid batch, removes all later segments, and rebuilds the
indexes of the segments that it has read. Here the same bytes are read, and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from itertools import pairwise

import numpy as np

from winnow.advice import COPY
from winnow.errors import CorruptLogError, errors_inside
from winnow.logdir.batches import End, end_of
from winnow.logdir.indexes.builder import IndexBuilder
from winnow.logdir.indexes.txnindex import lies_below
from winnow.logdir.names import LOG, MAX_LONG, TXNINDEX, segment_file
from winnow.pickling import pickled_by_fields
from winnow.state import Recovered, Segment
from winnow.storage.places import Places
from winnow.storage.segment_io import load, map_range, release
from winnow.wire.batch import (
    ATTRIBUTES_AT,
    BATCH,
    CONTROL,
    CRC_AT,
    FRAME,
    FRAME_SIZE,
    HEADER_V2_SIZE,
    MAGIC_AT,
    MAX_MAGIC,
    NO_TIMESTAMP,
    RECORD_OVERHEAD_V0,
    TRANSACTIONAL,
    WalkStatus,
    has_producer,
)
from winnow.wire.buffers import Bytes, Rows
from winnow.wire.control import ControlType
from winnow.wire.crc import crc32_part, crc32c
from winnow.wire.walk import describe, first_bad_crc, walk_batches

READ_AT_ONCE = 8 << 20
"""Bytes whose headers are walked before their checksums: few enough for the caches."""
_ROWS = 4_096
_MAX_SIGNED = 127


@pickled_by_fields
@dataclass(frozen=True, slots=True)
class SegmentRead:
    """What a broker finds when it recovers one segment."""

    segment: Segment
    """As the broker leaves it: with its valid bytes, and the timestamps of its batches."""
    log_bytes: int
    """Size of the file, which the broker cuts to `segment.log_bytes`."""
    next_offset: int
    """The offset after the last valid batch; the base offset if there is none."""
    stopped: str | None
    """Why the rest is cut. None: the file ends with a whole batch."""
    opened: str | None = None
    """See `why_recovered_when_opened`."""


def unflushed_from(bases: Sequence[int], recovery_point: int) -> int:
    """Return how many of these segments (base offsets, ascending) a broker does not recover.

    It begins with the segment that contains the recovery point, and with the last one if the
    recovery point lies beyond the log. Without a segment below it, it recovers all; with the
    highest offset as recovery point, none.
    """
    if recovery_point >= MAX_LONG:
        return len(bases)
    below = sum(base <= recovery_point for base in bases)
    return max(0, below - 1)


def why_recovered_when_opened(
    base_offset: int, *, has_index: bool, txnindex: bytes, one_byte_versions: bool, where: str
) -> str | None:
    """Return why a broker recovers a segment when it opens it, before it recovers the segments from
    the recovery point on; None if it does not. What it cuts then, no later segment goes with.

    `txnindex`: the transaction index, which lies at `where`, empty if there is none. Raises
    CorruptLogError for one that keeps a broker from starting.
    """
    if not has_index:
        return "its offset index is missing"
    if lies_below(txnindex, base_offset, one_byte=one_byte_versions, where=where):
        return "its transaction index is invalid"
    return None


def read_segment(
    directory: str, segment: Segment, *, index_interval_bytes: int, one_byte_versions: bool = True
) -> SegmentRead:
    """Read the `.log` of a listed segment as a broker does that recovers it.

    Raises CorruptLogError where a broker would not simply cut the log: offsets that do not ascend
    in batches whose CRC matches, offsets too far from the base offset, or a control batch that ends
    no transaction.
    """
    base_offset = segment.base_offset
    path = f"{directory}/{segment_file(base_offset, LOG)}"
    builder = IndexBuilder(base_offset=base_offset, index_interval_bytes=index_interval_bytes)
    end, stopped = End(0, base_offset), None
    max_timestamp, first = NO_TIMESTAMP, None
    has_transactions = False
    with map_range(path, 0, segment.log_bytes, gradually=True) as buf:
        for item in valid_batches(buf, path, base_offset):
            if isinstance(item, str):
                stopped = item
                break
            with errors_inside(path):
                builder.append(item)
            _check_control(buf, item, path)
            if first is None:
                first = int(item["max_timestamp"][0])
            max_timestamp = max(max_timestamp, int(item["max_timestamp"].max()))
            has_transactions |= bool((item["attributes"] & (TRANSACTIONAL | CONTROL)).any())
            end = end_of(item[-1])
        del buf
    index, timeindex = builder.finish()
    recovered = replace(
        segment,
        log_bytes=end.position,
        last_timeindex_timestamp=max_timestamp,
        first_batch_max_timestamp=NO_TIMESTAMP if first is None else first,
        rebuilt=(len(index), len(timeindex)),
        rebuilt_txnindex=None if has_transactions else b"",
    )
    txnindex = f"{directory}/{segment_file(base_offset, TXNINDEX)}"
    opened = why_recovered_when_opened(
        base_offset,
        has_index=segment.index_bytes is not None,
        txnindex=b"" if segment.txnindex_bytes is None else Places().read_bytes(txnindex),
        one_byte_versions=one_byte_versions,
        where=txnindex,
    )
    return SegmentRead(recovered, segment.log_bytes, end.next_offset, stopped, opened)


def recovered_end(
    reads: Sequence[SegmentRead], directory: str, unread: Sequence[Segment] = ()
) -> Recovered:
    """Return where the log ends for a broker.

    `reads`: of the segments it recovers, ascending, at least one. It reads none behind a cut.
    `unread`: later segments that were not read.
    Raises CorruptLogError if two segments overlap: a broker would serve records twice. Also for a
    cut that later segments survive, because a broker makes it when it opens the segment.
    """
    cut = next((at for at, read in enumerate(reads) if read.stopped is not None), None)
    if cut is not None and reads[cut].opened is not None and (reads[cut + 1 :] or unread):
        raise _gap(reads[cut], directory)
    kept = reads if cut is None else reads[: cut + 1]
    for read, following in pairwise(kept):
        base, limit = read.segment.base_offset, following.segment.base_offset
        if read.next_offset > limit:
            raise overlap(directory, base, read.next_offset, limit)
    last, active = kept[-1], kept[-1].segment
    removed = {read.segment.base_offset: read.log_bytes for read in reads[len(kept) :]}
    removed |= {segment.base_offset: segment.log_bytes for segment in unread}
    return Recovered(
        first_read=reads[0].segment.base_offset,
        end_offset=last.next_offset,
        cut_segment=None if last.stopped is None else active.base_offset,
        cut_position=active.log_bytes,
        why_cut=last.stopped,
        removed=tuple(sorted(removed)),
        lost_bytes=last.log_bytes - active.log_bytes + sum(removed.values()),
    )


def _gap(read: SegmentRead, directory: str) -> CorruptLogError:
    segment = read.segment
    return CorruptLogError(
        f"a segment is damaged, and {read.opened}",
        expected=f"{read.log_bytes} valid bytes",
        found=f"{segment.log_bytes}: {read.stopped}",
        where=f"{directory}/{segment_file(segment.base_offset, LOG)}",
        hint=f"A broker that starts cuts this segment at offset {read.next_offset} and keeps the "
        "later ones, with a gap. `recover` shows this cut, and what goes with it.",
    )


def overlap(directory: str, base_offset: int, next_offset: int, following: int) -> CorruptLogError:
    """Return the error for a segment that ends behind the base offset of the following one."""
    return CorruptLogError(
        "two segments overlap",
        expected=f"offsets below {following}",
        found=str(next_offset - 1),
        where=f"{directory}/{segment_file(base_offset, LOG)}",
        hint=f"A broker would read records twice. {COPY}",
    )


def whole_end(directory: str, segment: Segment) -> End:
    """Read a `.log` up to the first byte that is not part of a whole batch, and return that end."""
    path = f"{directory}/{segment_file(segment.base_offset, LOG)}"
    end = End(0, segment.base_offset)
    with (
        map_range(path, 0, segment.log_bytes, gradually=True) as buf,
        suppress(CorruptLogError),  # a whole entry that is no batch
    ):
        for item in valid_batches(buf, path, segment.base_offset):
            if not isinstance(item, str):
                end = end_of(item[-1])
    return end


def lost_bytes(directory: str, unread: Sequence[Segment], active: End) -> int:
    """Return how many bytes of the unread last segments of a log a broker will cut off or remove.

    `active`: the end of the last of these segments.
    """
    lost = 0
    for segment in unread:
        whole = 0
        if not lost:
            end = active if segment is unread[-1] else whole_end(directory, segment)
            whole = end.position
        lost += segment.log_bytes - whole
    return lost


def _check_control(buf: Bytes, rows: Rows, path: str) -> None:
    """Raise CorruptLogError for a marker that a broker cannot read: it would stop behind it."""
    control = rows[
        ((rows["attributes"] & CONTROL) != 0) & has_producer(rows) & (rows["magic"] == MAX_MAGIC)
    ]
    if not len(control):
        return
    # Imported here: it loads all codecs, and most logs have no marker.
    from winnow.wire.control_records import EMPTY, MAX_CONTROL_BYTES, decode_control  # noqa: PLC0415
    from winnow.wire.inflate import inflate_parts  # noqa: PLC0415

    with errors_inside(path):
        parts = inflate_parts(buf, control, limit=MAX_CONTROL_BYTES)
        kinds = np.concatenate([decode_control(blocks).type for blocks in parts])
    known = np.isin(kinds, (EMPTY, int(ControlType.ABORT), int(ControlType.COMMIT)))
    if not known.all():
        at = int(np.argmin(known))
        raise CorruptLogError(
            "a control batch of a producer ends no transaction",
            expected="a COMMIT or an ABORT",
            found=f"type {int(kinds[at])}",
            where=f"{path} at byte {int(control['position'][at])}",
            hint="Start a broker once: it recovers the log, or says what it cannot read.",
        )


def valid_batches(
    buf: Bytes, path: str, base_offset: int, *, as_loader: bool = False
) -> Iterator[Rows | str]:
    """Yield BATCH rows of valid batches in pieces, and at last the reason for a cut, if there is
    one. When the next piece is requested, the pages of a mapped `buf` up to there are released.

    Raises CorruptLogError where a broker would not simply cut, before a batch whose CRC matches: if
    its offsets do not ascend, or are invalid. With `as_loader`, offsets may go back, and a magic
    above 2 counts as 2: a loader keeps such batches.
    """
    rows = np.empty(_ROWS, BATCH)
    position, window = 0, READ_AT_ONCE
    first = 0 if as_loader else base_offset
    least = first
    while position < len(buf):
        end = min(len(buf), position + window)
        load(buf, position, end)
        count, after, status = walk_batches(buf[:end], position, least, rows)
        found = rows[:count]
        bad = first_bad_crc(buf, found)
        if bad != 0 and count:
            valid = found[:bad] if bad > 0 else found
            yield valid
            release(buf, end_of(valid[-1]).position)
            least = int(valid["last_offset"][-1]) + 1
        if bad >= 0:
            at = int(found["position"][bad])
            yield f"the CRC of the batch at byte {at} does not match"
            return
        position = after
        if status in (WalkStatus.FULL, WalkStatus.END):
            window = READ_AT_ONCE
        elif status is WalkStatus.TORN and end < len(buf):
            window = READ_AT_ONCE if count else min(window * 2, len(buf))
        elif as_loader and status is WalkStatus.OUT_OF_ORDER and least > first:
            least = first
        else:
            unusual = _of_higher_magic(buf, path, position) if as_loader else None
            if unusual is None:
                yield _why_cut(buf, path, position, status, least)
                return
            yield unusual
            position, least = astuple(end_of(unusual[0]))
            release(buf, position)


def _of_higher_magic(buf: Bytes, path: str, position: int) -> Rows | None:
    """Return the row of a batch whose magic is above 2. No CRC covers the magic, and a broker reads
    every magic from 2 to 127 as 2. None: it is no such batch, or its CRC does not match.
    """
    if len(buf) - position < HEADER_V2_SIZE:
        return None
    size = FRAME_SIZE + int(FRAME.unpack_from(buf.data, position)[1])
    is_higher = MAX_MAGIC < buf[position + MAGIC_AT] <= _MAX_SIGNED
    if not is_higher or not HEADER_V2_SIZE <= size <= len(buf) - position:
        return None
    load(buf, position, position + size)
    batch = np.array(buf[position : position + size])
    batch[MAGIC_AT] = MAX_MAGIC
    row = np.empty(1, BATCH)
    count, _, status = walk_batches(batch, 0, 0, row)
    if int.from_bytes(batch[CRC_AT:ATTRIBUTES_AT].tobytes()) != crc32c(batch, ATTRIBUTES_AT, size):
        return None
    if not count:
        raise describe(status, batch, 0, least_offset=0, file_name=path)
    row["position"] = position
    return row


def _why_cut(buf: Bytes, path: str, position: int, status: WalkStatus, least: int) -> str:
    """Return why a broker cuts the log before an entry that cannot be a batch.

    Raises CorruptLogError if the entry's CRC matches: a broker would not cut there.
    """
    if not buf[position : position + HEADER_V2_SIZE].any():
        return f"zeros follow from byte {position} on"
    if status is WalkStatus.TORN:
        return f"the batch at byte {position} is not whole"
    _, length = FRAME.unpack_from(buf.data, position)
    size = FRAME_SIZE + length
    # To a broker the magic is a signed byte, and anything below 2 is an old format.
    modern = MAX_MAGIC <= buf[position + MAGIC_AT] <= _MAX_SIGNED
    if length < RECORD_OVERHEAD_V0 or (modern and size < HEADER_V2_SIZE):
        return f"the batch at byte {position} has a size of {size} bytes"
    if size > len(buf) - position:
        return f"the batch at byte {position} is not whole"
    crc_at, first = (CRC_AT, ATTRIBUTES_AT) if modern else (FRAME_SIZE, MAGIC_AT)
    crc = crc32c if modern else crc32_part
    load(buf, position, position + size)
    stored = int.from_bytes(buf[position + crc_at : position + crc_at + 4].tobytes())
    if stored != int(crc(buf, position + first, position + size)):
        return f"the CRC of the batch at byte {position} does not match"
    raise describe(status, buf, position, least_offset=least, file_name=path)
