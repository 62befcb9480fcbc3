"""Walk through the batches of a log in order.

There are two ways. `HeaderWalk` goes through bytes that are in memory or mapped: it touches only
headers. `read_batches` reads a file in pieces: it never maps the file, so truncating it meanwhile
does not crash the reader. It reads every byte, and walks each piece with a `HeaderWalk`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from winnow.errors import CorruptLogError
from winnow.storage.contract import Storage
from winnow.storage.segment_io import load, map_range, release
from winnow.wire.batch import (
    BATCH,
    FRAME,
    FRAME_SIZE,
    HEADER_V2_SIZE,
    MAGIC_AT,
    MAX_MAGIC,
    NO_TIMESTAMP,
    RECORD_OVERHEAD_V0,
    RECORD_OVERHEAD_V1,
    WalkStatus,
    out_of_reach,
)
from winnow.wire.buffers import Bytes, Rows, as_bytes, copied
from winnow.wire.plain import Record, read_records
from winnow.wire.walk import describe, find_batch, first_bad_crc, walk_batches

PIECE_BYTES = 4 << 20
MAX_BATCH_BYTES = 64 << 20
"""Limit on the decompressed size of a batch whose records are shown. Each record becomes an object
of up to thirty times its size.
"""
_SEARCHED_BYTES = 64 << 20
"""How far to search for the next batch after bytes that are not a batch."""
SMALLEST_ENTRY = FRAME_SIZE + RECORD_OVERHEAD_V0
BLOCK_ROWS = 4_096
"""Batches in a block of a walk. With batches of 16 KiB, that is 64 MiB of a segment."""
_ROWS = 1 << 14
_LOADED_AT_ONCE = 1 << 20
"""Of a mapped log. Of a larger batch no more is loaded than this."""


class HeaderWalk:
    """Iterate over blocks of BATCH rows, as far as headers make sense.

    `end`, `least_offset` and `status` describe the walk up to the end of the last block: the
    position of the next entry, the lowest offset it may have, and why the walk stopped there. The
    rows of a block are invalid once the next one is requested.
    """

    def __init__(
        self,
        buf: Bytes,
        least_offset: int,
        *,
        start: int = 0,
        most: int | None = None,
        gradually: bool = False,
        passes: bool = False,
    ) -> None:
        """`start`: byte of `buf` at which the first batch begins. `most`: batches in a block,
        BLOCK_ROWS if None. `gradually`: `buf` is mapped so (`map_range`). Loads headers, and all of
        each batch up to 1 MiB. `passes`: release the pages of a mapped `buf` after each block.

        Iterating raises OSError if the disk can't read a page of a `buf` that is mapped gradually.
        """
        self.end = start
        self.least_offset = least_offset
        self.status = WalkStatus.FULL
        self._buf = buf
        self._most = BLOCK_ROWS if most is None else most
        self._walk = _load_and_walk if gradually else walk_batches
        self._passes = passes

    def __iter__(self) -> Iterator[Rows]:
        rows = np.empty(self._most, BATCH)
        while self.status is WalkStatus.FULL:
            count, self.end, self.status = self._walk(self._buf, self.end, self.least_offset, rows)
            if count:
                self.least_offset = int(rows["last_offset"][count - 1]) + 1
                yield rows[:count]
                if self._passes:
                    release(self._buf, self.end)

    def whole(self, path: str) -> Iterator[Rows]:
        """Yield all blocks. Raises CorruptLogError, before the block it ends, at the first entry
        that is not a batch. `path` is used only in the text.
        """
        for rows in self:
            self.check(path)
            yield rows
        self.check(path)

    def check(self, path: str) -> None:
        """Raise CorruptLogError if the walk stopped before the end of the bytes."""
        if self.status not in (WalkStatus.FULL, WalkStatus.END):
            least = self.least_offset
            raise describe(self.status, self._buf, self.end, least_offset=least, file_name=path)


def largest_timestamp(path: str, log_bytes: int, base_offset: int) -> int:
    """Return the largest maxTimestamp of the batches of a `.log`, -1 if it has none. Raises
    CorruptLogError if it has bytes that are no batch.
    """
    with map_range(path, 0, log_bytes, gradually=True) as buf:
        walk = HeaderWalk(buf, base_offset, gradually=True, passes=True)
        largest = [int(rows["max_timestamp"].max()) for rows in walk.whole(path)]
        del buf, walk
    return max(largest, default=NO_TIMESTAMP)


def _load_and_walk(buf: Bytes, at: int, least: int, rows: Rows) -> tuple[int, int, WalkStatus]:
    """Do as `walk_batches`, piece by piece. Each piece is loaded first."""
    filled = needed = 0
    while True:
        end = min(len(buf), at + max(_LOADED_AT_ONCE, needed))
        load(buf, at, min(end, at + _LOADED_AT_ONCE))
        count, at, status = walk_batches(buf[:end], at, least, rows[filled:])
        if count:
            filled += count
            least = int(rows["last_offset"][filled - 1]) + 1
        if end == len(buf) or status not in (WalkStatus.END, WalkStatus.TORN):
            return filled, at, status
        # If a batch is larger than a piece, the walk needs its end, but reads only its header.
        is_larger = not count and status is WalkStatus.TORN
        needed = FRAME_SIZE + FRAME.unpack_from(buf.data, at)[1] if is_larger else 0


def first_headers(buf: Bytes, start: int, least_offset: int, *, most: int) -> Rows:
    """Return the BATCH rows of at most `most` batches from byte `start` on."""
    blocks = iter(HeaderWalk(buf, least_offset, start=start, most=most))
    return next(blocks, np.empty(0, BATCH))


@dataclass(frozen=True, slots=True)
class End:
    """Where a batch ends and the next entry begins, and the offset after it."""

    position: int
    next_offset: int


def end_of(row: np.void) -> End:
    """Return the end of a batch, a BATCH row."""
    return End(int(row["position"]) + int(row["size"]), int(row["last_offset"]) + 1)


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole batches of a file. Positions in `rows` (BATCH) count from byte `start` of the file."""

    data: Bytes
    rows: Rows
    start: int

    def position(self, i: int) -> int:
        """Byte of the file at which batch `i` begins."""
        return self.start + int(self.rows[i]["position"])


@dataclass(frozen=True, slots=True)
class ReadStop:
    """Why reading stopped before the end of the file, and at which byte."""

    status: WalkStatus
    position: int
    error: CorruptLogError


class TornLogError(CorruptLogError):
    """The file ends inside a batch, or with zeros. No sound batch follows."""


def read_batches(
    storage: Storage,
    path: str,
    *,
    size: int,
    start: int = 0,
    least_offset: int = 0,
    piece_bytes: int = PIECE_BYTES,
) -> Iterator[Piece]:
    """Yield all batches of a file of `size` bytes from byte `start` on. A batch must begin there.

    Raises CorruptLogError, after the batches before it, at the first batch that cannot be read
    (TornLogError if no sound batch follows a cut one, or zeros) or whose offsets do not ascend from
    `least_offset`. Raises it too if the file became shorter.
    """
    least = least_offset
    for item in read_to_stop(
        storage, path, size=size, start=start, least_offset=least_offset, piece_bytes=piece_bytes
    ):
        if isinstance(item, ReadStop):
            error, end = item.error, out_of_reach(least)
            following = None
            if isinstance(error, TornLogError):
                following = find_next(storage, path, item.position, size, least, end)
            if following is None:
                raise error
            found = f"{error.found}, and a batch at byte {following[0]}"
            raise error.like(CorruptLogError, found=found)
        least = int(item.rows[-1]["last_offset"]) + 1
        yield item


def read_to_stop(
    storage: Storage,
    path: str,
    *,
    size: int,
    start: int = 0,
    least_offset: int = 0,
    piece_bytes: int = PIECE_BYTES,
) -> Iterator[Piece | ReadStop]:
    """Like `read_batches`, but a `ReadStop` as the last item replaces the error."""
    at, least = start, least_offset
    usual = wanted = max(piece_bytes, HEADER_V2_SIZE)  # less would not show a batch's length
    while at < size:
        length = min(wanted, size - at)
        data = as_bytes(storage.read_range(path, at, length))
        if len(data) < length:
            raise CorruptLogError(
                "the file became shorter while it was being read",
                expected=f"{size} bytes",
                found=f"{at + len(data)} bytes",
                where=path,
                hint="Something else is writing to it.",
            )
        walk = HeaderWalk(data, least, most=_ROWS)
        if (found := next(iter(walk), None)) is not None:
            yield Piece(data, copied(found), at)
            least = walk.least_offset
            at, wanted = at + walk.end, usual
            continue
        wanted = _needed(data, size - at)
        if walk.status is not WalkStatus.TORN or wanted <= length:
            yield ReadStop(walk.status, at, _fault(walk, data, path, at=at, left=size - at))
            return


def find_next(
    storage: Storage, path: str, position: int, size: int, least_offset: int, end_offset: int
) -> tuple[int, int] | None:
    """Return position and base offset (v0, v1: its offset) of the first sound batch behind byte
    `position` of a file of `size` bytes, with an offset in [least_offset, end_offset). None if
    there is none in the next 64 MiB.
    """
    window = as_bytes(storage.read_range(path, position, min(size - position, _SEARCHED_BYTES)))
    found = find_batch(window, 1, least_offset, end_offset)
    return None if found < 0 else (position + found, FRAME.unpack_from(window.data, found)[0])


def records_of(piece: Piece, i: int, path: str) -> list[Record]:
    """Return the records of batch `i` of a piece of `path`. Raises CorruptLogError."""
    from winnow.wire.inflate import inflate  # noqa: PLC0415 - it loads all codecs: slow for headers

    try:
        blocks = inflate(piece.data, piece.rows[i : i + 1], limit=MAX_BATCH_BYTES)
        return read_records(blocks.area(0), blocks.rows[0])
    except CorruptLogError as error:
        raise error.at(f"{path}, batch at byte {piece.position(i)}") from error


def bad_crcs(piece: Piece) -> Iterator[int]:
    """Yield the rows whose CRC does not match their bytes."""
    begin = 0
    while (found := first_bad_crc(piece.data, piece.rows[begin:])) >= 0:
        yield begin + found
        begin += found + 1


def _needed(data: Bytes, left: int) -> int:
    """Return the bytes of the entry at the start of `data`, at most `left`. 0 if its magic is not
    valid or it does not fit.
    """
    if len(data) <= MAGIC_AT or data[MAGIC_AT] > MAX_MAGIC:
        return 0
    needed = FRAME_SIZE + FRAME.unpack_from(data.data)[1]
    return int(needed) if needed <= left else 0


def _fault(walk: HeaderWalk, data: Bytes, path: str, *, at: int, left: int) -> CorruptLogError:
    status, where = walk.status, f"{path} at byte {at}"
    if left < SMALLEST_ENTRY:
        return TornLogError(
            "too small for any batch",
            expected=f"at least {FRAME_SIZE} bytes and {RECORD_OVERHEAD_V0} (v0), "
            f"{RECORD_OVERHEAD_V1} (v1), or {HEADER_V2_SIZE} bytes (v2)",
            found=f"{left} bytes",
            where=where,
        )
    error = describe(status, data, 0, least_offset=walk.least_offset, file_name=path)
    found = f"{left} bytes up to the end" if status is WalkStatus.TORN else error.found
    kind = TornLogError if status is WalkStatus.TORN or not data.any() else CorruptLogError
    return error.like(kind, found=found, where=where, hint=None)
