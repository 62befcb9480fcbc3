"""Write a partition's log like a broker: append, roll, and leave all side files (S1, S8.4).

For tests, benchmarks and demo data. Clear rather than fast. Data of a real broker comes from the
broker.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from tests.log_writer.leader_batches import NOBODY, Producer, data_batch, marker_batch
from tests.log_writer.producer_snapshots import ProducerSnapshots
from tests.log_writer.segment_writer import SegmentConfig, SegmentWriter
from tests.log_writer.shared_files import write_new
from tests.log_writer.whole_batches import whole_batches
from winnow.errors import CorruptLogError
from winnow.logdir.checkpoints import fold_leader_epochs, read_leader_epochs, write_leader_epochs
from winnow.logdir.names import LEADER_EPOCHS, LOG, PARTITION_METADATA, base_offset_of, segment_file
from winnow.storage.creating import ensure_directories
from winnow.storage.local import LocalStorage
from winnow.wire.batch import MAX_MAGIC, MAX_OFFSET_SPAN, Codec
from winnow.wire.buffers import Rows
from winnow.wire.plain import Record
from winnow.wire.walk import first_bad_crc


class LogWriter:
    """The log of one partition: in a new directory, or continued after a clean shutdown.

    config = SegmentConfig(segment_bytes=65536)
    with LogWriter("/logs/t-0", config, clock=lambda: 1_800_000_000_000) as log:
        log.append_records([Record(0, 1_800_000_000_000, b"key", b"value")])

    `clock`: ms since the epoch, asked with every append. `log_start_offset`: a new log begins
    there; of an existing one it is what the log directory's checkpoint says. `topic_id`: for
    `partition.metadata`, written if there is none. `producer_expiration_ms`: when opening,
    producers idle for that long are forgotten (S8.4).

    Files are complete only after `close()`. Nothing is fsynced but the leader epochs.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        config: SegmentConfig | None = None,
        *,
        clock: Callable[[], int],
        log_start_offset: int = 0,
        leader_epoch: int = 0,
        topic_id: str | None = None,
        producer_expiration_ms: int = 86_400_000,
    ) -> None:
        self.directory = os.path.realpath(directory)
        self.config = config or SegmentConfig()
        self.leader_epoch = leader_epoch
        """What `append_records` and `append_marker` stamp."""
        self._clock = clock
        self._storage = LocalStorage()
        ensure_directories(self.directory)
        if topic_id is not None and not self._storage.exists(
            f"{self.directory}/{PARTITION_METADATA}"
        ):
            self._write(PARTITION_METADATA, f"version: 0\ntopic_id: {topic_id}".encode())
        if not self._storage.exists(f"{self.directory}/{LEADER_EPOCHS}"):
            self._write(LEADER_EPOCHS, b"")
        self._epochs = read_leader_epochs(self._storage, self.directory)
        names = (entry.name for entry in self._storage.list_dir(self.directory) if entry.is_file)
        self._bases = sorted(base_offset_of(name) for name in names if name.endswith(LOG))
        is_new = not self._bases
        if is_new:
            self._bases.append(log_start_offset)
        rows = None if is_new else self._active_rows()
        self._log_start_offset = max(log_start_offset, self._bases[0])
        self._log_end_offset = (
            int(rows["last_offset"][-1]) + 1 if rows is not None and len(rows) else self._bases[-1]
        )
        kept = tuple(entry for entry in self._epochs if entry[1] < self._log_end_offset)
        self._set_epochs(fold_leader_epochs(kept, log_start_offset))
        now_ms = clock()
        self._producers = ProducerSnapshots(
            self.directory,
            bases=self._bases,
            log_start_offset=self._log_start_offset,
            log_end_offset=self._log_end_offset,
            now_ms=now_ms,
            expiration_ms=producer_expiration_ms,
        )
        # Last, since it stays open.
        self._segment: SegmentWriter | None = SegmentWriter(
            self.directory, self._bases[-1], self.config, created_ms=now_ms, resume=rows
        )

    @property
    def log_start_offset(self) -> int:
        return self._log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The next append's first offset, unless that jumps ahead."""
        return self._log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """First offset of the oldest open transaction, or the log start offset in it; else the log
        end offset.
        """
        first = self._producers.table.first_open_offset
        return self._log_end_offset if first is None else max(first, self._log_start_offset)

    @property
    def segment_bases(self) -> tuple[int, ...]:
        """Base offsets of all segments, ascending; the last one is the active segment's."""
        return tuple(self._bases)

    def append(self, data: bytes) -> None:
        """One append as a follower does it: whole batches of any version, with offsets and leader
        epochs of their own.

        Offsets may jump ahead, as those of a compacted log do. All of `data` goes into one segment.
        Raises CorruptLogError, with nothing written, for what Kafka refuses: damaged batches,
        offsets that were there already, a v2 batch without a leader epoch, more than a segment can
        hold, a marker that ends nothing.
        """
        rows = self._read(data)
        now_ms = self._clock()
        first = int(rows["base_offset"][0])
        last_offset = int(rows["last_offset"][-1])
        if len(data) > self.config.segment_bytes:
            raise CorruptLogError(
                "an append is larger than a segment",
                expected=f"at most {self.config.segment_bytes} bytes (segment.bytes)",
                found=f"{len(data)}",
                where=f"offset {first}",
            )
        if self._active.must_roll(
            size=len(data),
            max_timestamp=int(rows["max_timestamp"].max()),
            last_offset=last_offset,
            now_ms=now_ms,
        ):
            # Of a wrapper only the last offset is known without decompressing it; its first one
            # can't be lower.
            legacy = int(rows["magic"][0]) < MAX_MAGIC
            self._roll(last_offset - MAX_OFFSET_SPAN if legacy else first, now_ms)
        self._active.check_room(rows)
        aborts = self._producers.append(data, rows)
        for row in rows:
            self._assign_epoch(
                int(row["leader_epoch"]), int(row["base_offset"]), magic=int(row["magic"])
            )
        self._active.append(data, rows, now_ms=now_ms)
        self._log_end_offset = last_offset + 1
        for aborted in aborts:
            self._active.append_aborted(aborted)

    def append_records(
        self,
        records: Sequence[Record],
        *,
        codec: Codec = Codec.NONE,
        producer: Producer = NOBODY,
        base_sequence: int | None = None,
        transactional: bool = False,
        log_append_time: bool = False,
    ) -> int:
        """One batch as a leader appends it; returns its base offset. The offsets of `records` are
        not looked at.

        `base_sequence`: where none is given, it follows that producer's last batch.
        `log_append_time`: as by `message.timestamp.type=LogAppendTime`, now.
        """
        base = self._log_end_offset
        if base_sequence is None and producer != NOBODY:
            base_sequence = self._producers.table.next_sequence(
                producer.producer_id, producer.epoch
            )
        batch = data_batch(
            records,
            base_offset=base,
            leader_epoch=self.leader_epoch,
            codec=codec,
            producer=producer,
            base_sequence=-1 if base_sequence is None else base_sequence,
            transactional=transactional,
            log_append_time=self._clock() if log_append_time else None,
        )
        self.append(batch)
        return base

    def append_marker(
        self,
        producer: Producer,
        *,
        commit: bool,
        coordinator_epoch: int = 0,
        timestamp: int | None = None,
    ) -> int:
        """The end of a producer's transaction, as its coordinator has it written (S2.3); returns
        its offset.

        `timestamp`: now, unless given. With transaction version 2 (KIP-890) the coordinator raises
        the epoch for it.
        """
        offset = self._log_end_offset
        batch = marker_batch(
            producer,
            commit=commit,
            offset=offset,
            leader_epoch=self.leader_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=self._clock() if timestamp is None else timestamp,
        )
        self.append(batch)
        return offset

    def become_leader(self, epoch: int) -> None:
        """From here on the log has a new leader epoch, even if nothing more is appended."""
        self.leader_epoch = epoch
        self._assign_epoch(epoch, self._log_end_offset, magic=MAX_MAGIC)

    def raise_log_start_offset(self, offset: int) -> None:
        """As after `DeleteRecords`: records below are no longer served. Retention deletes their
        segments later.

        Raises ValueError for an offset outside of the log. A lower one than before changes nothing,
        as in Kafka.
        """
        if not 0 <= offset <= self._log_end_offset:
            raise ValueError(f"{offset} is not in 0..{self._log_end_offset}")
        if offset > self._log_start_offset:
            self._log_start_offset = offset
            self._set_epochs(fold_leader_epochs(self._epochs, offset))
            self._producers.follow_log_start(offset)

    def roll(self) -> None:
        """A new active segment at the log end offset, as retention and the cleaner want one.

        Nothing happens if there is an empty one already.
        """
        if self._bases[-1] != self._log_end_offset:
            self._roll(self._log_end_offset, self._clock())

    def close(self) -> None:
        """Completes all files, as a broker does on its way down. Once more does nothing."""
        if self._segment is not None:
            self._producers.take()
            self._segment.finish()
            self._segment = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def _active(self) -> SegmentWriter:
        if self._segment is None:
            raise ValueError(f"the log in {self.directory} is closed")
        return self._segment

    def _read(self, data: bytes) -> Rows:
        """The batches that `data` consists of, judged as an append is."""
        rows = whole_batches(data, least_offset=self._log_end_offset, file_name="append")
        if not len(rows):
            raise CorruptLogError("nothing to append", expected="a batch", found="no bytes")
        bad = first_bad_crc(data, rows)
        if bad >= 0:
            raise CorruptLogError("wrong CRC", where=f"append at byte {int(rows['position'][bad])}")
        if ((rows["magic"] == MAX_MAGIC) & (rows["leader_epoch"] < 0)).any():
            raise CorruptLogError(
                "a batch has no leader epoch",
                expected="0 or more",
                found="-1",
                hint="The leader stamps it; give one to encode_batch.",
            )
        return rows

    def _roll(self, at_least: int, now_ms: int) -> None:
        base = max(at_least, self._log_end_offset)
        if base == self._bases[-1]:
            return  # an empty segment that is full: Kafka makes the same one again
        self._active.finish()
        self._bases.append(base)
        self._segment = SegmentWriter(self.directory, base, self.config, created_ms=now_ms)
        self._producers.take(base)

    def _assign_epoch(self, epoch: int, offset: int, *, magic: int) -> None:
        """`LeaderEpochFileCache.assign`; old formats have no epochs, and Kafka forgets all it knew
        of them.
        """
        if magic < MAX_MAGIC:
            self._set_epochs(())
        elif not self._epochs or epoch != self._epochs[-1][0] or offset < self._epochs[-1][1]:
            before = list(self._epochs)
            while before and (before[-1][0] >= epoch or before[-1][1] >= offset):
                before.pop()
            self._set_epochs((*before, (epoch, offset)))

    def _set_epochs(self, epochs: tuple[tuple[int, int], ...]) -> None:
        if epochs != self._epochs:
            self._epochs = epochs
            write_leader_epochs(self._storage, self.directory, epochs)

    def _active_rows(self) -> Rows:
        base = self._bases[-1]
        path = f"{self.directory}/{segment_file(base, LOG)}"
        return whole_batches(self._storage.read_bytes(path), least_offset=base, file_name=path)

    def _write(self, name: str, content: bytes) -> None:
        write_new(f"{self.directory}/{name}", content)
