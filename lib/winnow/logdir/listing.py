"""One partition directory, as the names, sizes and ends of its files show it (S1.2, S8.3, S8.5)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest

from winnow.advice import REBUILT
from winnow.errors import CorruptLogError
from winnow.logdir.batches import largest_timestamp
from winnow.logdir.checkpoints import read_leader_epochs
from winnow.logdir.commit.leftovers import leftover_names, preparations
from winnow.logdir.commit.lost import check_end, lost_error, lost_segments, only_in_deleted
from winnow.logdir.files import difference, segment_of
from winnow.logdir.indexes.index import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    decode_offset_index,
    last_timestamp_of,
    written_entries,
)
from winnow.logdir.names import (
    HIGH_WATERMARK_CHECKPOINT,
    INDEX,
    LEADER_EPOCHS,
    LOG,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    TIMEINDEX,
    base_offset_of,
    seen,
    segment_file,
)
from winnow.logdir.survey import Checkpoints
from winnow.logdir.unflushed import SegmentRead, recovered_end, unflushed_from
from winnow.pickling import pickled_by_fields
from winnow.state import PartitionState, Recovered, Segment, TopicPartition
from winnow.storage.contract import Entry, Storage
from winnow.storage.places import Places
from winnow.wire.batch import (
    HEADER_V2_SIZE,
    MAGIC_AT,
    MAX_MAGIC,
    MAX_TIMESTAMP_AT,
    NO_TIMESTAMP,
    out_of_reach,
)

_READ_WHOLE = (INDEX, TIMEINDEX, LEADER_EPOCHS)
"""Ends of the names of files that are read whole."""
_ENTRY_SIZES = {INDEX: OFFSET_ENTRY_SIZE, TIMEINDEX: TIME_ENTRY_SIZE}
_MAX_TIMESTAMPS_AT = {1: 18, MAX_MAGIC: MAX_TIMESTAMP_AT}
"""By magic. In a v1 record it follows offset, length, CRC, magic and attributes (S2.1)."""


@pickled_by_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentListing:
    """The contents of a partition directory. If `problems` is empty, all of it can be trusted."""

    directory: str
    segments: tuple[Segment, ...]
    """Ascending by base offset."""
    snapshot_offsets: tuple[int, ...]
    leader_epochs: tuple[tuple[int, int], ...]
    leftovers: tuple[str, ...]
    """Names left by an interrupted cleaning or deletion; `recovery.recover` deals with them."""
    problems: tuple[CorruptLogError, ...]
    preparations: tuple[str, ...] = ()
    """Names of staging directories that `commit` may use (S8.12). They are not leftovers."""
    unflushed: tuple[int, ...] = ()
    """Base offsets of the segments that a broker recovers. Only sizes and times of their files are
    known, until `recovered_listing` receives what was read.
    """
    recovered: Recovered | None = None
    """See `PartitionState.recovered`."""
    deleted_end: tuple[str, ...] = ()
    """See `only_in_deleted`."""


def list_segments(storage: Storage, directory: str) -> SegmentListing:
    """Read sizes, times, index files and the first batch header of each segment, but not the log.

    Never raises CorruptLogError. Everything found wrong is in `problems`, one for each finding.
    """
    found = _look(storage, directory)
    return _listing(storage, found, to_read=found.bases)


def list_below(storage: Storage, directory: str, trusted_end: int) -> SegmentListing:
    """Do as `list_segments`, but read only sizes and times of segments that do not end at or below
    `trusted_end`: a crash may have damaged them (S8.2).
    """
    found = _look(storage, directory)
    return _listing(storage, found, to_read=_below(found.bases, trusted_end))


def list_after_crash(storage: Storage, directory: str, recovery_point: int) -> SegmentListing:
    """Do as `list_segments`, but read only sizes and times of segments that a broker recovers
    because of its recovery point (S8.2). These are `unflushed`.
    """
    found = _look(storage, directory)
    first = unflushed_from(found.bases, recovery_point)
    listing = _listing(storage, found, to_read=found.bases[:first])
    return replace(listing, unflushed=tuple(found.bases[first:]))


def list_again(
    storage: Storage,
    directory: str,
    known: PartitionState,
    *,
    trusted_end: int | None = None,
    entries: Sequence[Entry] | None = None,
) -> SegmentListing:
    """Do as `list_segments` or `list_below`, after a change of the partition.

    `known`: the state from before. Segments whose files have not changed since are taken from it.
    If that log was read after an unclean shutdown, it ends where it did. `entries`: of the
    directory, if it has just been listed.
    """
    found, recovered = _look(storage, directory, entries), known.recovered
    if recovered is not None:
        found = replace(found, bases=[b for b in found.bases if b not in recovered.removed])
    same = {
        segment.base_offset: segment
        for segment in known.segments
        if (log := found.files.get(segment_file(segment.base_offset, LOG))) is not None
        and log.stamp == segment.log_stamp
        and (recovered is not None or difference(found.files, segment) is None)
    }
    to_read = found.bases if trusted_end is None else _below(found.bases, trusted_end)
    listing = _listing(storage, found, to_read=[b for b in to_read if b not in same], same=same)
    return listing if recovered is None else replace(listing, recovered=recovered)


def _below(bases: Sequence[int], trusted_end: int) -> list[int]:
    return [base for base, following in pairwise(bases) if following <= trusted_end]


@dataclass(frozen=True, slots=True)
class _Found:
    """What the names and the types of the entries of a partition directory say."""

    directory: str
    entries: Sequence[Entry]
    files: Mapping[str, Entry]
    bases: Sequence[int]
    """Of the `.log` files, ascending."""
    snapshot_offsets: tuple[int, ...]
    problems: list[CorruptLogError]


def _look(storage: Storage, directory: str, entries: Sequence[Entry] | None = None) -> _Found:
    entries = seen(storage.list_dir(directory) if entries is None else entries)
    files = {entry.name: entry for entry in entries if entry.is_file}
    problems = [
        CorruptLogError(
            "not a regular file",
            expected="a file",
            # The lock does not protect the target of a link, and deleting the link would leave it.
            found=entry.kind,
            where=f"{directory}/{entry.name}",
            hint="Winnow skips the partition. Find out what happened to the segment.",
        )
        for entry in entries
        if (entry.is_link or not entry.is_file)
        and entry.name.endswith((*SEGMENT_SUFFIXES, SNAPSHOT))
    ]
    offsets: dict[str, list[int]] = {LOG: [], SNAPSHOT: []}
    for name in files:
        for suffix, found in offsets.items():
            if name.endswith(suffix):
                with _noting(problems, directory):
                    found.append(base_offset_of(name))
    bases, snapshots = sorted(offsets[LOG]), tuple(sorted(offsets[SNAPSHOT]))
    return _Found(directory, entries, files, bases, snapshots, problems)


def _listing(
    storage: Storage,
    found: _Found,
    *,
    to_read: Collection[int],
    same: Mapping[int, Segment] | None = None,
) -> SegmentListing:
    """Return the listing. Of the segments at the bases `to_read`, the indexes and the first batch
    header are read; those in `same` are known; of all others, only sizes and times are.
    """
    directory, files, problems = found.directory, found.files, found.problems
    known = same or {}
    needed = {name for name in files if name.endswith(_READ_WHOLE)}
    needed -= {segment_file(base, suffix) for base in known for suffix in (INDEX, TIMEINDEX)}
    Places().read_ahead(f"{directory}/{name}" for name in sorted(needed))
    chosen = frozenset(to_read)
    segments = [
        known[base]
        if base in known
        else _segment(storage, directory, files, base=base, following=following, problems=problems)
        if base in chosen
        else segment_of(files, base)
        for base, following in zip_longest(found.bases, found.bases[1:])
    ]
    leader_epochs: tuple[tuple[int, int], ...] = ()
    with _noting(problems):
        leader_epochs = read_leader_epochs(storage, directory)
    leftovers: tuple[str, ...] = ()
    with _noting(problems, directory):
        leftovers = leftover_names(storage, directory, found.entries)
        if lost := lost_segments(storage, directory, found.entries):
            problems.insert(0, lost_error(lost, directory))
    return SegmentListing(
        directory=directory,
        segments=tuple(segments),
        snapshot_offsets=found.snapshot_offsets,
        leader_epochs=leader_epochs,
        leftovers=leftovers,
        problems=tuple(problems),
        preparations=preparations(storage, directory, found.entries),
        deleted_end=only_in_deleted({name: entry.size for name, entry in files.items()}),
    )


@contextmanager
def _noting(problems: list[CorruptLogError], where: str | None = None) -> Iterator[None]:
    """Add the error of the block, if there is one. `where`: in place of its own."""
    try:
        yield
    except CorruptLogError as problem:
        problems.append(problem if where is None else problem.at(where))


def recovered_listing(
    listing: SegmentListing, reads: Sequence[SegmentRead], unread: Sequence[Segment] = ()
) -> SegmentListing:
    """Return the log that a broker recovers (S8.2). `reads`: of all unflushed segments, ascending,
    except those in `unread`, which lie behind a cut.

    Segments behind a cut are left out, and leader epochs that begin at the end or later.
    """
    recovered = recovered_end(reads, listing.directory, unread)
    found = {read.segment.base_offset: read.segment for read in reads}
    return replace(
        listing,
        segments=tuple(
            found.get(segment.base_offset, segment)
            for segment in listing.segments
            if segment.base_offset not in recovered.removed
        ),
        leader_epochs=tuple(
            entry for entry in listing.leader_epochs if entry[1] < recovered.end_offset
        ),
        recovered=recovered,
    )


def _segment(
    storage: Storage,
    directory: str,
    files: Mapping[str, Entry],
    *,
    base: int,
    following: int | None,
    problems: list[CorruptLogError],
) -> Segment:
    log = files[segment_file(base, LOG)]
    end_offset = out_of_reach(base) if following is None else following
    last_timestamp = NO_TIMESTAMP
    for suffix in (INDEX, TIMEINDEX):
        name = segment_file(base, suffix)
        path = f"{directory}/{name}"
        with _noting(problems):
            if name not in files and log.size:
                raise CorruptLogError(
                    "a segment lacks an index file",
                    expected=path,
                    found="no such file",
                    hint=f"Without an .index, {REBUILT}",
                )
            data = storage.read_bytes(path) if name in files else b""
            written = written_entries(data, _ENTRY_SIZES[suffix])
            if suffix == INDEX:
                decode_offset_index(
                    written, path, base_offset=base, log_bytes=log.size, end_offset=end_offset
                )
                continue
            last_timestamp = last_timestamp_of(written, path, base, end_offset)
            if len(written) < len(data):
                # The index was never cut, so its last entry is missing, too.
                last_timestamp = largest_timestamp(f"{directory}/{log.name}", log.size, base)
    head = storage.read_range(f"{directory}/{log.name}", 0, HEADER_V2_SIZE)
    first = first_max_timestamp(head)
    return segment_of(
        files, base, last_timeindex_timestamp=last_timestamp, first_batch_max_timestamp=first
    )


def first_max_timestamp(head: bytes) -> int:
    """Return the first batch's maxTimestamp, -1 if there is none or it is unknown (S3.4). `head`:
    the first bytes of the log, as many as a v2 header has.
    """
    if len(head) <= MAGIC_AT:
        return NO_TIMESTAMP
    at = _MAX_TIMESTAMPS_AT.get(head[MAGIC_AT])
    if at is None or len(head) < at + 8:
        return NO_TIMESTAMP
    return int.from_bytes(head[at : at + 8], signed=True)


def resolve(
    listing: SegmentListing,
    *,
    log_dir: str,
    topic_partition: TopicPartition,
    checkpoints: Checkpoints,
    log_end_offset: int,
    clean_shutdown: bool,
    trusted_end: int | None = None,
    lost_bytes: int = 0,
) -> PartitionState:
    """Resolve the offsets as a broker's loader would (S8.3).

    `log_end_offset`: the offset after the last batch of the last segment, its base offset if it is
    empty. `clean_shutdown`: the broker wrote the checkpoints when it stopped. `trusted_end`: as in
    `list_below`. The high watermark is lowered to it and to the active segment, so that no rule
    applies to what lies above (S8.2). `lost_bytes`: see `PartitionState`.

    Raises CorruptLogError without a segment, and for a log start offset beyond the log end offset:
    a broker deletes the log then (S6.3). Raises LostSegmentError if it ends below another
    checkpoint; without a clean shutdown only if `.deleted` files may have its end.
    """
    if not listing.segments:
        raise CorruptLogError(
            "a partition without a segment",
            expected="at least one .log file",
            found="none",
            where=listing.directory,
            hint="Start a broker once: it creates an empty one.",
        )
    log_start_checkpoint = checkpoints.log_start.get(topic_partition)
    if log_start_checkpoint is not None and log_start_checkpoint > log_end_offset:
        raise CorruptLogError(
            "the log ends before its log start offset",
            expected=f"a log start offset of at most {log_end_offset}",
            found=f"{log_start_checkpoint} in log-start-offset-checkpoint",
            where=listing.directory,
            hint="A broker would delete this log. First find out what truncated it.",
        )
    if log_end_offset < listing.segments[-1].base_offset:
        raise CorruptLogError(
            "the log ends before its active segment begins",
            expected=f"at least {listing.segments[-1].base_offset}",
            found=str(log_end_offset),
            where=listing.directory,
        )
    if clean_shutdown or listing.deleted_end:
        check_end(
            log_end_offset,
            high_watermark=checkpoints.high_watermark.get(topic_partition, 0),
            recovery_point=checkpoints.recovery_point.get(topic_partition, 0),
            snapshot=max(listing.snapshot_offsets, default=0) if clean_shutdown else 0,
            directory=listing.directory,
            deleted=listing.deleted_end,
        )
    log_start = max(log_start_checkpoint or 0, listing.segments[0].base_offset)
    committed = checkpoints.high_watermark.get(topic_partition)
    high_watermark = min(max(committed or 0, log_start), log_end_offset)
    is_lost = not committed and log_start < log_end_offset
    if trusted_end is not None:
        high_watermark = min(high_watermark, trusted_end, listing.segments[-1].base_offset)
    return PartitionState(
        log_dir=log_dir,
        topic_partition=topic_partition,
        segments=listing.segments,
        log_start_offset=log_start,
        log_end_offset=log_end_offset,
        high_watermark=high_watermark,
        cleaner_checkpoint=checkpoints.cleaner.get(topic_partition),
        log_start_checkpoint=log_start_checkpoint,
        snapshot_offsets=listing.snapshot_offsets,
        leader_epochs=listing.leader_epochs,
        trusted_end=trusted_end,
        lost_bytes=lost_bytes,
        lost_high_watermark=_lost_high_watermark(checkpoints, committed) if is_lost else None,
        recovered=listing.recovered,
    )


def _lost_high_watermark(checkpoints: Checkpoints, committed: int | None) -> str:
    """Return what the checkpoint has in place of a partition's high watermark."""
    if committed is not None:
        return f"the high watermark in {HIGH_WATERMARK_CHECKPOINT} is 0"
    if checkpoints.high_watermark:
        return f"{HIGH_WATERMARK_CHECKPOINT} has no entry of the partition"
    return f"{HIGH_WATERMARK_CHECKPOINT} {checkpoints.no_high_watermarks}"
