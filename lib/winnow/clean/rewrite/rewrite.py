"""Rewrite: read one group's segments again and write their survivors as one new segment. It is
staged and verified, and not part of the log yet (S5.3-S5.9).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from winnow.clean.result import RecordsRemoved
from winnow.clean.rewrite.output import GroupOutput
from winnow.clean.rewrite.verify import Meant, verify_staged
from winnow.clean.scan.job import GroupJob, PartitionJob
from winnow.clean.scan.resolve import Survivors
from winnow.clean.scan.topic_usage import Holdings, holdings_of
from winnow.java_long import delete_horizon
from winnow.logdir.commit.swap import StagedGroup
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, TXNINDEX, segment_file
from winnow.runtime.cores import Cores
from winnow.runtime.stopwatch import ms_since
from winnow.storage.contract import Storage
from winnow.storage.places import Places
from winnow.storage.segment_io import SegmentWriter, drop_cached, map_range
from winnow.wire.internal_topics import INTERNAL_TOPICS


@dataclass(frozen=True, slots=True)
class RewrittenGroup:
    """A staged segment that was read back from the disk and verified."""

    staged: StagedGroup
    records_before: int
    records_after: int
    bytes_after: int
    bytes_staged: int
    """Including its index files."""
    tombstones: tuple[int, ...]
    """See `PartitionResult.tombstones`."""
    duration_ms: int
    """From the first byte read to the last one verified."""
    removed: RecordsRemoved
    checksum: int
    """See `batches_checksum`; `source_checksums`: of the sources, by base offset."""
    source_checksums: Mapping[int, int]
    holdings: Holdings | None = None
    """See `holdings_of`."""

    @property
    def base_offset(self) -> int:
        return self.staged.base_offset

    @property
    def source_bases(self) -> tuple[int, ...]:
        return self.staged.source_bases


def rewrite_group(
    job: PartitionJob,
    group: GroupJob,
    survivors: Iterable[Survivors],
    *,
    now: int,
    split_done: Callable[[int], None] = lambda _: None,
    cores: Cores | None = None,
) -> RewrittenGroup:
    """Write the output segment of one group into the staging directory and verify it.

    `split_done`: called with the number of each split that has been read and written. `cores`: see
    `GroupOutput`.

    File names contain a fresh id: a task that Spark runs twice, or late, never overwrites another's
    files. The driver creates and removes the directory, so a task that runs after that fails. A
    task that fails removes its files, because others may need the space. Raises NoSpaceError beyond
    `group.log_limit`.
    """
    began = time.monotonic()
    attempt = uuid.uuid4().hex
    paths = {
        suffix: f"{job.staging}/{segment_file(group.base_offset, suffix)}.{attempt}"
        for suffix in (LOG, INDEX, TIMEINDEX)
    }
    try:
        output = GroupOutput(job, group, survivors, now=now, cores=cores)
        return _write(
            job, group, output, paths, now=now, attempt=attempt, began=began, split_done=split_done
        )
    except BaseException:
        for path in paths.values():
            with suppress(OSError):
                Places().unlink(path)
        raise


def _write(
    job: PartitionJob,
    group: GroupJob,
    output: GroupOutput,
    paths: dict[str, str],
    *,
    now: int,
    attempt: str,
    began: float,
    split_done: Callable[[int], None],
) -> RewrittenGroup:
    """`paths`: by suffix. The path of a transaction index is added if one is needed."""
    storage = Places()
    mtime_ns = log_mtime_ns(storage, job.directory, group.segments[-1].base_offset)
    with SegmentWriter(paths[LOG], limit=group.log_limit, mtime_ns=mtime_ns) as log:
        for number in group.splits:
            for data in output.of_split(number):
                log.write(data)
                del data
                # When asked to drop pages that are not on the disk yet, the system starts to write
                # them. The sync at the end then has less to wait for.
                drop_cached(paths[LOG])
            split_done(number)
    index, timeindex, txnindex = output.indexes()
    storage.create(paths[INDEX], index)
    storage.create(paths[TIMEINDEX], timeindex)
    if txnindex is not None:
        paths[TXNINDEX] = f"{job.staging}/{segment_file(group.base_offset, TXNINDEX)}.{attempt}"
        storage.create(paths[TXNINDEX], txnindex)
    take_over_attributes(
        storage, job.directory, paths, first=group.base_offset, last=group.segments[-1].base_offset
    )
    checksums = verify_staged(
        paths,
        Meant(
            base_offset=group.base_offset,
            end_offset=job.end_offset,
            log_bytes=output.log_bytes,
            records=output.records_after,
            index_interval_bytes=job.index_interval_bytes,
            segment_index_bytes=job.segment_index_bytes,
            without_horizons=(txnindex or b"")
            if delete_horizon(now, job.delete_retention_ms) is None
            else None,
        ),
    )
    return RewrittenGroup(
        staged=StagedGroup(
            base_offset=group.base_offset,
            sources=tuple(segment for segment in group.segments),
            paths=paths,
            checksums=checksums,
        ),
        records_before=output.records_before,
        records_after=output.records_after,
        bytes_after=output.log_bytes,
        bytes_staged=sum(storage.entry(path).size for path in paths.values()),
        tombstones=output.tombstones,
        duration_ms=ms_since(began),
        removed=output.removed,
        checksum=output.checksum,
        source_checksums=output.source_checksums,
        holdings=_holdings(paths[LOG], output.log_bytes, group.base_offset, job.topic),
    )


def _holdings(path: str, log_bytes: int, base_offset: int, topic: str) -> Holdings | None:
    if topic not in INTERNAL_TOPICS:
        return None
    with map_range(path, 0, log_bytes, gradually=True) as buf:
        return holdings_of(buf, base_offset, topic)


def take_over_attributes(
    storage: Storage, directory: str, paths: dict[str, str], *, first: int, last: int
) -> None:
    """Copy owner and mode of the first source, and the modification time of the last, except for
    transaction indexes (S5.9, S8.5).

    `paths`: the staged files by suffix, synced on return. `first`, `last`: base offsets.
    """
    mtime_ns = log_mtime_ns(storage, directory, last)
    for suffix, path in paths.items():
        storage.copy_attributes(f"{directory}/{segment_file(first, LOG)}", path)
        if suffix != TXNINDEX:
            storage.set_mtime_ns(path, mtime_ns)
        storage.fsync_file(path)


def log_mtime_ns(storage: Storage, directory: str, base_offset: int) -> int:
    """Return the modification time of a log, in whole milliseconds, as Kafka sets it."""
    return (
        storage.entry(f"{directory}/{segment_file(base_offset, LOG)}").mtime_ns
        // 1_000_000
        * 1_000_000
    )
