"""Read the ranges of a task. The mode decides about batches that can't be read."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from winnow import batch_memory
from winnow.errors import BatchMemoryError, CorruptLogError, WinnowError
from winnow.kafka_log.options import Mode, Options
from winnow.kafka_log.ranges import ReadRange, Task, Unreadable, planned_again
from winnow.kafka_log.rows import Records, parts_of, problem_row, record_batch
from winnow.logdir.batches import Piece, TornLogError
from winnow.logdir.live.changed import changed_since_view
from winnow.logdir.lock import live_read_views
from winnow.policy.transactions import aborted_batches
from winnow.state import TopicPartition
from winnow.storage.contract import Storage
from winnow.storage.live.read_view import view_of
from winnow.wire.batch import CONTROL, MAX_MAGIC
from winnow.wire.buffers import RecordBlocks, Rows
from winnow.wire.columns import RecordPlaces, record_places
from winnow.wire.inflate import inflate_parts
from winnow.wire.records import crc_error
from winnow.wire.walk import first_bad_crc

_MOST_ROWS, _MOST_HEADERS = 1 << 16, 1 << 18
"""Of a record batch; a single record may have more headers."""
_ENOUGH = 2 << 20
"""How many decompressed bytes are processed at once, besides those of one batch."""


def read_task(
    storage: Storage, options: Options, schema: pa.Schema, task: Task
) -> Iterator[pa.RecordBatch]:
    """Yield Arrow record batches of this schema.

    In mode FAILFAST, raises CorruptLogError for the first thing that can't be read. In every mode,
    raises WinnowError for a file that no longer exists.
    """
    for item in task:
        if isinstance(item, Unreadable):
            yield from _problem(options.mode, schema, item.topic_partition, item.error)
        else:
            yield from _RangeReader(options, schema, item).read(storage)


def _problem(
    mode: Mode,
    schema: pa.Schema,
    topic_partition: TopicPartition,
    error: CorruptLogError,
    **known: Any,  # noqa: ANN401 - as `problem_row` takes them
) -> Iterator[pa.RecordBatch]:
    if mode is Mode.FAILFAST:
        raise error
    if mode is Mode.PERMISSIVE:
        yield problem_row(topic_partition, str(error), schema, **known)


class _RangeReader:
    def __init__(self, options: Options, schema: pa.Schema, wanted: ReadRange) -> None:
        self._options, self._schema, self._range = options, schema, wanted
        self._directory, _, self._segment = wanted.path.rpartition("/")
        self._parts = parts_of(schema)
        self._problem = partial(
            _problem, options.mode, schema, wanted.topic_partition, segment=self._segment
        )

    def read(self, storage: Storage) -> Iterator[pa.RecordBatch]:
        path, changed = self._range.path, None
        try:
            with live_read_views([path]):
                if view_of(path) is not None:
                    try:
                        self._check_unchanged(storage)
                    except (FileNotFoundError, WinnowError) as error:
                        changed = error
                    else:
                        yield from self._batches(storage)
                        return
            if changed is not None:
                yield from self._planned_again(storage, changed)
                return
            self._check_unchanged(storage)
            yield from self._batches(storage)
            self._check_unchanged(storage)
        except FileNotFoundError:
            raise WinnowError(
                "a segment was removed after the read was planned",
                expected="the file",
                found=f"none on host {socket.gethostname()}",
                where=path,
                hint="If a broker or a cleaner has removed it, load the DataFrame again. Otherwise "
                "mount the directory under this path on all hosts of the cluster.",
            ) from None

    def _planned_again(self, storage: Storage, changed: Exception) -> Iterator[pa.RecordBatch]:
        """Read the offsets of a range whose segment a running broker has replaced or removed, or
        whose partition it has moved to another log directory, since the read was planned.

        Raises `changed` if the offsets of the range are unknown.
        """
        moved_to = (f"{path}/{self._range.topic_partition}" for path in self._options.paths)
        directories = [*dict.fromkeys((self._directory, *moved_to))]
        with live_read_views(directories):
            planned = view_of(self._directory)
            there = [
                directory
                for directory in directories
                if planned is not None
                and (view := view_of(directory)) is not None
                and view.program == planned.program
                and storage.exists(directory)
            ]
            again = planned_again(storage, self._range, self._options, [*there, self._directory][0])
            if again is None:
                raise changed
            for part in again:
                reader = _RangeReader(self._options, self._schema, part)
                yield from reader._batches(storage)

    def _check_unchanged(self, storage: Storage) -> None:
        """Check that the file is the one that was planned. Spark plans a DataFrame once, and its
        positions are wrong in a file that was replaced since.
        """
        planned, now = self._range.log, storage.entry(self._range.path)
        same = (now.size, now.mtime_ns) == (planned.size, planned.mtime_ns)
        grown = self._range.may_grow and now.size >= planned.size
        if now.inode != planned.inode or not (same or grown):
            raise WinnowError(
                "a segment has changed since the DataFrame was planned",
                expected=f"{planned.size} bytes",
                found=f"{now.size} bytes"
                if now.size != planned.size
                else "another file or modification time",
                where=self._range.path,
                hint="A cleaner or a broker has replaced it. Load the DataFrame again.",
            )

    def _batches(self, storage: Storage) -> Iterator[pa.RecordBatch]:
        at = self._range.start_byte
        try:
            for piece in self._range.pieces(storage):
                yield from self._piece(piece)
                at = piece.position(-1) + int(piece.rows[-1]["size"])
        except CorruptLogError as error:
            torn = isinstance(error, TornLogError) and self._range.may_be_torn
            if self._options.mode is Mode.FAILFAST or not torn:
                yield from self._told(error, position=at)

    def _piece(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        wanted = piece.rows["max_timestamp"] >= self._options.times.first
        rows = piece.rows[wanted & self._range.touched(piece.rows)]
        begin = 0
        while begin < len(rows):
            bad = first_bad_crc(piece.data, rows[begin:])
            end = len(rows) if bad < 0 else begin + bad
            sound = rows[begin:end]
            if not self._options.include_control:
                sound = sound[(sound["attributes"] & CONTROL == 0) | (sound["magic"] < MAX_MAGIC)]
            yield from self._decoded(piece, sound[~aborted_batches(sound, self._range.aborted)])
            if bad >= 0:
                yield from self._batch_problem(crc_error(rows[end]), piece, rows[end], crc_ok=False)
            begin = end + 1

    def _decoded(self, piece: Piece, rows: Rows) -> Iterator[pa.RecordBatch]:
        try:
            _check_counts(rows)
            for blocks in inflate_parts(piece.data, rows, enough=_ENOUGH):
                found = self._records(piece, blocks)
                rows = rows[len(blocks.rows) :]
                yield from found
                del found, blocks  # free them before the next part is read
        except CorruptLogError as error:
            if len(rows) == 1:
                yield from self._batch_problem(error, piece, rows[0], crc_ok=True)
                return
            half = len(rows) // 2
            yield from self._decoded(piece, rows[:half])
            yield from self._decoded(piece, rows[half:])

    def _records(self, piece: Piece, blocks: RecordBlocks) -> Iterator[pa.RecordBatch]:
        """Parse all records, then return an iterator over record batches of some of them: a column
        takes up to a hundred times the bytes of a small record.
        """
        wanted, times = self._range, self._options.times
        places = record_places(blocks, self._parts)
        headers = int(places.headers.size.max(initial=0))
        _check_items(headers, "a record has too many headers for the memory")
        kept = (places.offset >= wanted.first) & (places.offset < wanted.end)
        kept &= (places.timestamp >= times.first) & (places.timestamp <= times.last)
        chosen = None if kept.all() else np.flatnonzero(kept)
        del kept
        for_columns = partial(Records, wanted.topic_partition, self._segment, piece.start, blocks)
        return (record_batch(for_columns(some), self._schema) for some in _cut(places, chosen))

    def _batch_problem(
        self, error: CorruptLogError, piece: Piece, row: np.void, *, crc_ok: bool
    ) -> Iterator[pa.RecordBatch]:
        error, at = error.inside(self._range.path, piece.start), piece.start + int(row["position"])
        yield from self._told(error, position=at, crc_ok=crc_ok, row=row)

    def _told(self, error: CorruptLogError, **known: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - as `_problem` takes them
        """Raises WinnowError if the broker has changed the bytes while they were read."""
        if changed_since_view(self._directory):
            raise WinnowError(
                "a broker changed files of a partition while they were read",
                where=self._range.path,
                hint="A follower that truncates its log does. Load the DataFrame again.",
            ) from error
        yield from self._problem(error, **known)


def _most_items() -> int:
    """Return how many records a batch, and headers a record, may have. Each takes about 64 bytes
    before it is in a column.
    """
    return batch_memory.batch_budget() // 16


def _check_counts(rows: Rows) -> None:
    """Raise BatchMemoryError for a batch of too many records: its header counts those of v2."""
    largest = int(rows["record_count"].max(initial=0))
    _check_items(largest, "a batch has too many records for the memory")


def _check_items(found: int, problem: str) -> None:
    if found > _most_items():
        raise BatchMemoryError(
            problem,
            expected=f"at most {_most_items()}",
            found=str(found),
            hint=batch_memory.hint(),
        )


def _cut(places: RecordPlaces, chosen: NDArray[np.int64] | None) -> Iterator[RecordPlaces]:
    """Yield the places of the chosen records, all for None, in parts of bounded size."""
    count = len(places.offset) if chosen is None else len(chosen)
    begin = 0
    while begin < count:
        end = min(count, begin + _MOST_ROWS)
        some = np.arange(begin, end) if chosen is None else chosen[begin:end]
        if len(places.headers.size):
            headers = np.cumsum(places.headers.size[some], dtype=np.int64)
            some = some[: max(1, int(np.searchsorted(headers, _MOST_HEADERS, "right")))]
        yield places.take(some)
        begin += len(some)
