"""Rewrite: read one group's segments again and write their survivors as one new segment. It is
staged and verified, and not part of the log yet (S5.3-S5.9). A segment that would replace an equal
one is not written (docs/decisions/0049).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from winnow.cleaning.rewrite.cleaned import CleanedGroup
from winnow.cleaning.rewrite.output import GroupOutput
from winnow.cleaning.rewrite.verify import Meant, verify_staged
from winnow.errors import NoSpaceError
from winnow.java_long import delete_horizon
from winnow.logdir.commit.staged_segment import StagedSegment, source_mtime_ns
from winnow.logdir.commit.swap import StagedGroup
from winnow.logdir.indexes.index import last_timestamp_of
from winnow.logdir.listing import first_max_timestamp
from winnow.logdir.names import LOG, TIMEINDEX, segment_file
from winnow.scan.chunks import PLAIN_CHUNK_BYTES
from winnow.scan.job import GroupJob, PartitionJob
from winnow.state import Segment
from winnow.storage.io_counters import reading_back
from winnow.storage.places import Places, free_bytes
from winnow.storage.segment_io import Bytes, map_range
from winnow.storage.urls import is_remote
from winnow.wire.batch import HEADER_V2_SIZE, NO_TIMESTAMP
from winnow.words import size


def rewrite_group(output: GroupOutput) -> Callable[[], CleanedGroup]:
    """Write the log of one group's output segment into the staging directory. Nothing is written as
    long as the output is the beginning of the only source.

    Return the rest of the work: it syncs and verifies the segment. It takes little memory and may
    be called in another thread. It must be called.

    A task that fails removes its files (`StagedSegment`). Raises NoSpaceError beyond
    `GroupJob.log_limit`.
    """
    job, group = output.job, output.group
    sources = [f"{job.directory}/{segment_file(s.base_offset, LOG)}" for s in group.segments]
    Places().read_ahead(sources)
    pieces = _pieces(output, sources[0])
    piece = next(pieces, None)
    if piece is None and output.is_source():
        return partial(output.cleaned, group.segments[0], unchanged=True)
    if job.keep_free is not None:
        _check_free(job, group)
    with ExitStack() as files:
        staged = files.enter_context(StagedSegment(Places(), job.staging, group.base_offset))
        mtime_ns = source_mtime_ns(Places(), sources[-1])
        with ExitStack() as written:
            log = written.enter_context(staged.log(limit=group.log_limit, mtime_ns=mtime_ns))
            while piece is not None:
                log.write(piece)
                piece = None  # it is large
                piece = next(pieces, None)
            synced = written.pop_all()
        verified = files.pop_all()

    def finish() -> CleanedGroup:
        with verified:
            synced.close()
            indexes = output.indexes()
            staged.add_indexes(*indexes)
            staged.take_over_attributes(sources[0], mtime_ns, txnindex=False)
            meant = Meant(
                base_offset=group.base_offset,
                end_offset=job.end_offset,
                log_bytes=output.log_bytes,
                records=output.header_records,
                index_interval_bytes=job.index_interval_bytes,
                segment_index_bytes=job.segment_index_bytes,
                without_horizons=indexes[2] or b""
                if not job.delete_horizons
                or delete_horizon(output.now, job.delete_retention_ms) is None
                else None,
            )
            with reading_back():
                checksums = verify_staged(staged.paths, meant)
            entries = staged.entries()
            replacing = StagedGroup(
                sources=group.segments,
                paths=staged.paths,
                checksums=checksums,
                entries=entries,
            )
            segment = _as_listed(output)
            if is_remote(log.path):  # elsewhere a new name changes the stamp of a file
                head = Places().read_range(log.path, 0, HEADER_V2_SIZE)
                segment = replace(
                    segment,
                    log_mtime_ms=entries[LOG].mtime_ms,
                    log_stamp=entries[LOG].stamp,
                    first_batch_max_timestamp=first_max_timestamp(head),
                    rebuilt=None,
                )
            return output.cleaned(segment, unchanged=False, staged=replacing)

    return finish


def _check_free(job: PartitionJob, group: GroupJob) -> None:
    """Raise NoSpaceError if too little would remain free: a full disk ends a running broker."""
    left = free_bytes(job.staging, keep_free=job.keep_free or 0)
    if group.most_bytes > left:
        raise NoSpaceError(
            "not enough space beside a running broker",
            expected=f"{size(group.most_bytes)} beside what must stay free, {size(job.keep_free)}",
            found=size(max(left, 0)),
            where=job.staging,
            hint="Free some space, or let less stay free with --keep-free.",
        )


def estimate_group(output: GroupOutput) -> Callable[[], CleanedGroup]:
    """Do as `rewrite_group`, without writing anything."""
    for data in output.read():
        del data
    return partial(output.cleaned, _as_listed(output), unchanged=output.is_source())


def _as_listed(output: GroupOutput) -> Segment:
    """Return the output, except for its stamp and the timestamp of its first batch."""
    group, (index, timeindex, txnindex) = output.group, output.indexes()
    path = f"{output.job.directory}/{segment_file(group.base_offset, TIMEINDEX)}"
    return replace(
        group.segments[-1],  # the output inherits its age (S5.9)
        base_offset=group.base_offset,
        log_bytes=output.log_bytes,
        index_bytes=len(index),
        timeindex_bytes=len(timeindex),
        txnindex_bytes=None if txnindex is None else len(txnindex),
        last_timeindex_timestamp=last_timestamp_of(timeindex, path, group.base_offset, None),
        first_batch_max_timestamp=NO_TIMESTAMP,
        log_stamp=(),
    )


def _pieces(output: GroupOutput, source: str) -> Iterator[Bytes]:
    """Yield the bytes to write, none if the output is the source. The caller must drop each item
    before it asks for the next.

    What equals the beginning of `source` is held back until something differs, and then copied from
    there.
    """
    held = 0
    for data in output.read():
        if output.begins_so:
            held = output.log_bytes
        else:
            yield from _beginning(source, held)
            held = 0
            yield data
        del data
    if held and not output.is_source():
        yield from _beginning(source, held)


def _beginning(path: str, end: int) -> Iterator[Bytes]:
    for at in range(0, end, PLAIN_CHUNK_BYTES):
        with map_range(path, at, min(at + PLAIN_CHUNK_BYTES, end)) as buf:
            yield buf
