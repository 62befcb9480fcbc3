"""Rewrite: read one group's segments again and write their survivors as one new segment. It is
staged and verified, and not part of the log yet (S5.3-S5.9). A segment that would replace an equal
one is not written (docs/decisions/0049).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from winnow.cleaning.rewrite.output import CleanedGroup, GroupOutput
from winnow.cleaning.rewrite.sum_up import counts_unread, sum_up
from winnow.cleaning.rewrite.verify import Meant, verify_staged
from winnow.clock import ms_since
from winnow.java_long import delete_horizon
from winnow.logdir.commit.staged_segment import source_mtime_ns, staged_segment
from winnow.logdir.commit.swap import StagedGroup
from winnow.logdir.files import segment_of
from winnow.logdir.indexes.index import last_timestamp_of
from winnow.logdir.listing import first_max_timestamp
from winnow.logdir.names import LOG, segment_file
from winnow.runtime.cores import Cores
from winnow.scan.chunks import PLAIN_CHUNK_BYTES
from winnow.scan.job import GroupJob, PartitionJob
from winnow.scan.resolve import Survivors
from winnow.scan.topic_usage import Holdings, holdings_of
from winnow.state import Segment
from winnow.storage.contract import Entry
from winnow.storage.io_counters import reading_back
from winnow.storage.places import Places, read_ahead
from winnow.storage.segment_io import Bytes, drop_cached, map_range
from winnow.storage.urls import is_remote
from winnow.wire.batch import HEADER_V2_SIZE
from winnow.wire.internal_topics import INTERNAL_TOPICS


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenGroup(CleanedGroup):
    """A staged segment that was read back from the disk and verified, or a source that stays."""

    sources: tuple[Segment, ...]
    """As they were when they were listed."""
    staged: StagedGroup | None = None
    """None if the group is `unchanged`."""
    segment: Segment | None = None
    """The staged segment once it is in place. None if the group is `unchanged`, and on a disk or
    HDFS, where a new name changes the stamp of a file.
    """
    bytes_staged: int = 0
    """Including its index files."""
    duration_ms: int = 0
    """From the first byte read to the last one verified."""


def rewrite_group(
    job: PartitionJob,
    group: GroupJob,
    survivors: Iterable[Survivors],
    *,
    now: int,
    split_done: Callable[[int], None] = lambda _: None,
    cores: Cores | None = None,
) -> Callable[[], RewrittenGroup]:
    """Write the log of one group's output segment into the staging directory. Nothing is written as
    long as the output is the beginning of the only source.

    Return the rest of the work: it syncs and verifies the segment. It takes little memory and may
    be called in another thread. It must be called.

    `split_done`: called with the number of each split that has been read and written. `cores`: see
    `GroupOutput`.

    A task that fails removes its files (`staged_segment`). Raises NoSpaceError beyond
    `group.log_limit`.
    """
    began = time.monotonic()
    if group.stays is not None:
        unread = RewrittenGroup(**counts_unread(group, group.stays), sources=group.segments)
        return lambda: unread
    survivors = list(survivors)
    output = GroupOutput(job, group, survivors, now=now, cores=cores)
    first, last = (
        f"{job.directory}/{segment_file(segment.base_offset, LOG)}"
        for segment in (group.segments[0], group.segments[-1])
    )
    read_ahead(f"{job.directory}/{segment_file(s.base_offset, LOG)}" for s in group.segments)
    pieces = _pieces(output, group, first, split_done)
    piece = next(pieces, None)
    if piece is None and output.source.is_all(*output.indexes()):
        unchanged = RewrittenGroup(
            **output.counts(_holdings(first, output, group, job), unchanged=True),
            summary=sum_up(job, group, output, survivors),
            sources=group.segments,
            duration_ms=ms_since(began),
        )
        return lambda: unchanged
    with ExitStack() as files:
        staged = files.enter_context(staged_segment(Places(), job.staging, group.base_offset))
        mtime_ns = source_mtime_ns(Places(), last)
        with ExitStack() as written:
            log = written.enter_context(staged.log(limit=group.log_limit, mtime_ns=mtime_ns))
            while piece is not None:
                log.write(piece)
                piece = None  # it is large
                # When asked to drop pages that are not on the disk yet, the system starts to write
                # them. The sync at the end then has less to wait for.
                drop_cached(log.path)
                piece = next(pieces, None)
            synced = written.pop_all()
        verified = files.pop_all()

    def finish() -> RewrittenGroup:
        with verified:
            synced.close()
            index, timeindex, txnindex = output.indexes()
            staged.add_indexes(index, timeindex, txnindex)
            staged.take_over_attributes(first, mtime_ns, txnindex=False)
            meant = Meant(
                base_offset=group.base_offset,
                end_offset=job.end_offset,
                log_bytes=output.log_bytes,
                records=output.header_records,
                index_interval_bytes=job.index_interval_bytes,
                segment_index_bytes=job.segment_index_bytes,
                without_horizons=(txnindex or b"")
                if not job.delete_horizons or delete_horizon(now, job.delete_retention_ms) is None
                else None,
            )
            with reading_back():
                checksums = verify_staged(staged.paths, meant)
            entries = staged.entries()
            return RewrittenGroup(
                **output.counts(_holdings(staged.paths[LOG], output, group, job), unchanged=False),
                summary=sum_up(job, group, output, survivors),
                sources=group.segments,
                staged=StagedGroup(
                    base_offset=group.base_offset,
                    sources=tuple(group.segments),
                    paths=staged.paths,
                    checksums=checksums,
                    entries=entries,
                ),
                segment=_in_place(group.base_offset, staged.paths[LOG], entries, timeindex)
                if is_remote(staged.paths[LOG])
                else None,
                bytes_staged=sum(entry.size for entry in entries.values()),
                duration_ms=ms_since(began),
            )

    return finish


def _in_place(
    base_offset: int, path: str, entries: Mapping[str, Entry], timeindex: bytes
) -> Segment:
    """Return the staged segment as it will be listed."""
    return segment_of(
        {segment_file(base_offset, suffix): entry for suffix, entry in entries.items()},
        base_offset,
        last_timeindex_timestamp=last_timestamp_of(timeindex, path, base_offset, None),
        first_batch_max_timestamp=first_max_timestamp(Places().read_range(path, 0, HEADER_V2_SIZE)),
    )


def _pieces(
    output: GroupOutput, group: GroupJob, source: str, split_done: Callable[[int], None]
) -> Iterator[Bytes]:
    """Yield the bytes to write, none if the output is the source. The caller must drop each item
    before it asks for the next.

    What equals the beginning of `source` is held back until something differs, and then copied from
    there.
    """
    held = 0
    for number in group.splits:
        for data in output.of_split(number):
            if output.source.begins_so:
                held = output.log_bytes
            else:
                yield from _beginning(source, held)
                held = 0
                yield data
            del data
        split_done(number)
    if held and not output.source.is_all(*output.indexes()):
        yield from _beginning(source, held)


def _beginning(path: str, end: int) -> Iterator[Bytes]:
    for at in range(0, end, PLAIN_CHUNK_BYTES):
        with map_range(path, at, min(at + PLAIN_CHUNK_BYTES, end)) as buf:
            yield buf


def _holdings(
    path: str, output: GroupOutput, group: GroupJob, job: PartitionJob
) -> Holdings | None:
    if job.topic not in INTERNAL_TOPICS:
        return None
    with map_range(path, 0, output.log_bytes, gradually=True) as buf:
        return holdings_of(buf, group.base_offset, job.topic)
