"""Rewrite: read one group's segments again and write what survives as one new segment, staged, verified, not yet part
of the log (S5.3-S5.9).
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from winnow.engine.chunks import batches_of, chunks_of
from winnow.engine.fates import BatchFates
from winnow.engine.holders import Holdings, holdings_of
from winnow.engine.job import GroupJob, PartitionJob
from winnow.engine.resolve import Survivors
from winnow.engine.result import RecordsRemoved
from winnow.engine.stopwatch import ms_since
from winnow.engine.tally import batches_checksum, removed_records
from winnow.engine.tombstones import by_age, none_of_any_age
from winnow.engine.verify import verify_staged
from winnow.logdir.index import IndexBuilder
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, TXNINDEX, segment_file
from winnow.logdir.swap import StagedGroup
from winnow.logdir.txnindex import encode_txn_index
from winnow.policy.survival import batch_retention
from winnow.storage.local import LocalStorage
from winnow.storage.segment_io import SegmentWriter, drop_cached, map_range
from winnow.wire.batch import CONTROL
from winnow.wire.filtering import filter_batches
from winnow.wire.inflate import inflate_parts
from winnow.wire.internal_topics import INTERNAL_TOPICS

_Bits: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.bool_]]"


@dataclass(frozen=True, slots=True)
class RewrittenGroup:
    """A staged segment that was read back from the disk and found to be what it should be."""

    staged: StagedGroup
    records_before: int
    records_after: int
    bytes_after: int
    bytes_staged: int
    """With its index files."""
    tombstones: tuple[int, ...]
    """See `PartitionResult.tombstones`."""
    duration_ms: int
    """From the first byte read to the last one verified."""
    removed: RecordsRemoved
    checksum: int
    """See `batches_checksum`; of the sources by base offset."""
    source_checksums: Mapping[int, int]
    holdings: Holdings | None = None
    """See `holdings_of`."""


def rewrite_group(
    job: PartitionJob,
    group: GroupJob,
    survivors: Iterable[Survivors],
    *,
    now: int,
    split_done: Callable[[int], None] = lambda _: None,
) -> RewrittenGroup:
    """Writes the output segment of one group into the staging directory and verifies it.

    `split_done`: told the number of each split that has been read and written.

    The file names carry a fresh id: a task that Spark runs twice, or late, writes beside the other, never over it. The
    driver has made the directory and takes it away: a task that comes after that fails. One that fails leaves none of
    its files: others may need the room. NoSpaceError beyond `group.log_limit`.
    """
    began = time.monotonic()
    attempt = uuid.uuid4().hex
    paths = {
        suffix: f"{job.staging}/{segment_file(group.base_offset, suffix)}.{attempt}"
        for suffix in (LOG, INDEX, TIMEINDEX)
    }
    try:
        return _write(
            job, group, _by_number(survivors), paths, attempt=attempt, now=now, began=began, split_done=split_done
        )
    except BaseException:
        for path in paths.values():
            with suppress(OSError):
                os.unlink(path)
        raise


def _write(
    job: PartitionJob,
    group: GroupJob,
    keep: dict[int, _Bits],
    paths: dict[str, str],
    *,
    attempt: str,
    now: int,
    began: float,
    split_done: Callable[[int], None],
) -> RewrittenGroup:
    """`keep`: see `_by_number`. `paths`: by suffix; that of a transaction index is added if it is needed."""
    log_mtime_ms = {segment.base_offset: segment.log_mtime_ms for segment in group.segments}
    storage = LocalStorage()
    index = IndexBuilder(
        base_offset=group.base_offset,
        index_interval_bytes=job.index_interval_bytes,
        max_index_bytes=job.segment_index_bytes,
    )
    records_in = records_out = checksum = 0
    removed, source_checksums = RecordsRemoved(), dict.fromkeys((s.base_offset for s in group.segments), 0)
    tombstones = none_of_any_age()
    fates = BatchFates(job.aborted, group.open_producers, group.lingering, now=now)
    with SegmentWriter(paths[LOG], limit=group.log_limit) as log:
        for number in group.splits:
            split = job.splits[number]
            source = f"{job.directory}/{segment_file(split.base_offset, LOG)}"
            with map_range(source, split.start, split.end) as buf:
                batches = batches_of(buf, source, split.base_offset)
                fates.judge(buf, batches, source)
                source_checksums[split.base_offset] = batches_checksum(batches, source_checksums[split.base_offset])
                kept = keep.pop(number, np.empty(0, np.bool_))
                done = 0
                for some in chunks_of(batches, split.records):
                    first = some.start
                    for blocks in inflate_parts(buf, batches[some], limit=job.max_decompressed_bytes):
                        part = slice(first, first + len(blocks.rows))
                        first = part.stop
                        stays = _of_chunk(kept, done, blocks.rows, fates.discard[part])
                        done += len(stays)
                        filtered = filter_batches(
                            blocks,
                            blocks.rows,
                            stays,
                            batch_retention(
                                batches[part],
                                last_records=job.last_records,
                                end_offset=job.end_offset,
                                discard=fates.discard[part],
                            ),
                            now=now,
                            delete_retention_ms=job.delete_retention_ms,
                            horizon_cause=fates.horizon_cause[part],
                            retain_legacy_deletes=log_mtime_ms[split.base_offset] > job.legacy_delete_horizon_ms,
                        )
                        output = filtered.batches.copy()
                        output["position"] += log.size
                        index.append(output)
                        log.write(filtered.data)
                        records_in += filtered.records_in
                        records_out += filtered.records_out
                        checksum = batches_checksum(output, checksum)
                        removed += removed_records(
                            blocks.rows,
                            stays,
                            fates.discard[part],
                            records_in=filtered.records_in,
                            records_out=filtered.records_out,
                        )
                        tombstones += by_age(filtered.batches, filtered.tombstones, now)
                        del blocks, filtered
                # Asked to forget pages that are not on the disk yet, the system starts to write them: the sync at the
                # end then has less to wait for.
                drop_cached(paths[LOG])
                del batches, buf
            split_done(number)
        log_bytes = log.size
    index_bytes, timeindex_bytes = index.finish()
    storage.create(paths[INDEX], index_bytes)
    storage.create(paths[TIMEINDEX], timeindex_bytes)
    if fates.indexed:
        paths[TXNINDEX] = f"{job.staging}/{segment_file(group.base_offset, TXNINDEX)}.{attempt}"
        storage.create(paths[TXNINDEX], encode_txn_index(fates.indexed))
    take_over_attributes(storage, job.directory, paths, first=group.base_offset, last=group.segments[-1].base_offset)
    verify_staged(
        paths,
        base_offset=group.base_offset,
        end_offset=job.end_offset,
        log_bytes=log_bytes,
        records=records_out,
        index_interval_bytes=job.index_interval_bytes,
        segment_index_bytes=job.segment_index_bytes,
    )
    return RewrittenGroup(
        staged=StagedGroup(
            base_offset=group.base_offset,
            sources=tuple(segment for segment in group.segments),
            paths=paths,
        ),
        records_before=records_in,
        records_after=records_out,
        bytes_after=log_bytes,
        bytes_staged=sum(storage.entry(path).size for path in paths.values()),
        tombstones=tuple(tombstones.tolist()),
        duration_ms=ms_since(began),
        removed=removed,
        checksum=checksum,
        source_checksums=source_checksums,
        holdings=_holdings(paths[LOG], log_bytes, group.base_offset, job.topic),
    )


def _holdings(path: str, log_bytes: int, base_offset: int, topic: str) -> Holdings | None:
    if topic not in INTERNAL_TOPICS:
        return None
    with map_range(path, 0, log_bytes) as buf:
        return holdings_of(buf, base_offset, topic)


def _by_number(survivors: Iterable[Survivors]) -> dict[int, _Bits]:
    """For each split, by the number of a record, whether it survives; records after the last that does are left out."""
    parts: dict[int, list[np.ndarray[Any, np.dtype[np.uint32]]]] = {}
    for some in survivors:
        parts.setdefault(some.split, []).append(np.frombuffer(some.numbers, np.uint32))
    keep = {}
    for split, numbers in parts.items():
        keep[split] = np.zeros(1 + max(int(part.max(initial=0)) for part in numbers), np.bool_)
        for part in numbers:
            keep[split][part] = True
    return keep


def _of_chunk(keep: _Bits, done: int, rows: np.ndarray[Any, np.dtype[np.void]], discard: _Bits) -> _Bits:
    """A bool per record of these batches, the first of which has the number `done` in its split.

    Control records have no key to compare and stay unless all of their batch is to go (`discard`; S5.5).
    """
    counts = rows["record_count"].astype(np.int64)
    stays = np.zeros(int(counts.sum()), np.bool_)
    known = keep[done : done + len(stays)]
    stays[: len(known)] = known
    control = (rows["attributes"] & CONTROL) != 0
    if control.any():
        stays |= np.repeat(control & ~discard, counts)
    return stays


def take_over_attributes(
    storage: LocalStorage, directory: str, paths: dict[str, str], *, first: int, last: int
) -> None:
    """Owner and mode of the first source, modification time of the last, though not of transactions (S5.9, S8.5).

    `paths`: the staged files by suffix, synced when this returns. `first`, `last`: base offsets.
    """
    # In whole milliseconds, as Kafka sets it.
    mtime_ns = os.stat(f"{directory}/{segment_file(last, LOG)}").st_mtime_ns // 1_000_000 * 1_000_000
    for suffix, path in paths.items():
        storage.copy_attributes(f"{directory}/{segment_file(first, LOG)}", path)
        if suffix != TXNINDEX:
            storage.set_mtime_ns(path, mtime_ns)
        storage.fsync_file(path)
