"""Rewrite: read one group's segments again and write what survives as one new segment, staged, verified, not yet part
of the log (S5.3-S5.9).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from winnow.engine.chunks import batches_of, chunks_of
from winnow.engine.job import GroupJob, PartitionJob
from winnow.engine.resolve import Survivors
from winnow.engine.verify import verify_staged
from winnow.logdir.index import IndexBuilder
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, segment_file
from winnow.logdir.swap import StagedGroup
from winnow.policy.survival import batch_retention
from winnow.storage.local import LocalStorage
from winnow.storage.segment_io import SegmentWriter, drop_cached, map_range
from winnow.wire.batch import CONTROL
from winnow.wire.filtering import filter_batches
from winnow.wire.inflate import inflate


@dataclass(frozen=True, slots=True)
class RewrittenGroup:
    """A staged segment that was read back from the disk and found to be what it should be."""

    staged: StagedGroup
    records_before: int
    records_after: int
    bytes_after: int


def rewrite_group(job: PartitionJob, group: GroupJob, survivors: Iterable[Survivors], *, now: int) -> RewrittenGroup:
    """Writes the output segment of one group into the staging directory and verifies it.

    The file names carry a fresh id: a task that Spark runs twice, or late, writes beside the other, never over it.
    """
    keep = {number: np.zeros(job.splits[number].records, np.bool_) for number in group.splits}
    for kept in survivors:
        keep[kept.split][np.frombuffer(kept.numbers, np.uint32)] = True
    storage = LocalStorage()
    storage.ensure_dir(job.staging)
    attempt = uuid.uuid4().hex
    paths = {
        suffix: f"{job.staging}/{segment_file(group.base_offset, suffix)}.{attempt}"
        for suffix in (LOG, INDEX, TIMEINDEX)
    }
    index = IndexBuilder(
        base_offset=group.base_offset,
        index_interval_bytes=job.index_interval_bytes,
        max_index_bytes=job.segment_index_bytes,
    )
    records_in = records_out = 0
    with SegmentWriter(paths[LOG]) as log:
        for number in group.splits:
            split = job.splits[number]
            source = f"{job.directory}/{segment_file(split.base_offset, LOG)}"
            with map_range(source, split.start, split.end) as buf:
                batches = batches_of(buf, source, split.base_offset)
                keep[number] |= _control_records(batches)
                for some, records in chunks_of(batches, split.records):
                    rows = batches[some]
                    filtered = filter_batches(
                        inflate(buf, rows, limit=job.max_decompressed_bytes),
                        rows,
                        keep[number][records],
                        batch_retention(rows, last_records=job.last_records, end_offset=job.end_offset),
                        now=now,
                        delete_retention_ms=job.delete_retention_ms,
                    )
                    output = filtered.batches.copy()
                    output["position"] += log.size
                    index.append(output)
                    log.write(filtered.data)
                    records_in += filtered.records_in
                    records_out += filtered.records_out
                    del rows, filtered
                # Asked to forget pages that are not on the disk yet, the system starts to write them: the sync at the
                # end then has less to wait for.
                drop_cached(paths[LOG])
                del batches, buf
            del keep[number]
        log_bytes = log.size
    index_bytes, timeindex_bytes = index.finish()
    storage.create(paths[INDEX], index_bytes)
    storage.create(paths[TIMEINDEX], timeindex_bytes)
    _take_over_attributes(storage, job, group, paths)
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
    )


def _control_records(batches: np.ndarray[tuple[int], np.dtype[np.void]]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """A bool per record: control records have no key to compare and stay unless their batch goes (S5.5)."""
    counts = np.maximum(batches["record_count"], 0)
    return np.repeat((batches["attributes"] & CONTROL) != 0, counts)


def _take_over_attributes(storage: LocalStorage, job: PartitionJob, group: GroupJob, paths: dict[str, str]) -> None:
    """Owner and mode of the first source, modification time of the last (S5.9, S8.5)."""
    owner = f"{job.directory}/{segment_file(group.base_offset, LOG)}"
    age = f"{job.directory}/{segment_file(group.segments[-1].base_offset, LOG)}"
    # In whole milliseconds, as Kafka sets it.
    mtime_ns = os.stat(age).st_mtime_ns // 1_000_000 * 1_000_000
    for path in paths.values():
        storage.copy_attributes(owner, path)
        storage.set_mtime_ns(path, mtime_ns)
        storage.fsync_file(path)
