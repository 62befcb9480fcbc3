"""List an ordinary local partition directory in a few calls. A survey of many partitions uses it.

`winnow.logdir.listing` returns the same, file by file. It also handles every other directory and
reports what is wrong with it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise

import numpy as np

from winnow.errors import CorruptLogError
from winnow.logdir.checkpoints import read_leader_epochs
from winnow.logdir.files import log_bases
from winnow.logdir.listing import SegmentListing, first_max_timestamp, list_segments
from winnow.logdir.names import (
    INDEX,
    LEADER_EPOCHS,
    LOG,
    PARTITION_METADATA,
    SNAPSHOT,
    TIMEINDEX,
    TXNINDEX,
    base_offset_of,
    segment_file,
)
from winnow.small_work import is_small
from winnow.state import Segment
from winnow.storage.guarded import held, open_dir
from winnow.storage.live.read_view import view_of
from winnow.storage.local import stamp_of
from winnow.storage.places import Places
from winnow.storage.urls import is_remote
from winnow.wire.batch import HEADER_V2_SIZE, out_of_reach
from winnow.wire.buffers import as_bytes

_ROOM = 4 * 2**20
"""Buffer for all indexes of a partition. If they need more, speed no longer depends on it."""

_SEGMENT_NS = 200_000
"""Time that a listing file by file takes for a segment."""


def list_sound(directory: str, *, most_bytes: int | None = None) -> SegmentListing | None:
    """Like `list_segments`, but None if anything is unusual, or if the logs have more than
    `most_bytes` together.
    """
    if is_remote(directory) or view_of(directory) is not None:
        return None
    with suppress(OSError, CorruptLogError), held(open_dir(directory), directory) as descriptor:
        return _listed(directory, descriptor, most_bytes)
    return None


def _listed(directory: str, descriptor: int, most_bytes: int | None) -> SegmentListing | None:
    """Raises OSError or CorruptLogError where `list_segments` may have more to report."""
    status: dict[str, os.stat_result] = {}
    rest: set[str] = set()
    with os.scandir(descriptor) as found:
        for entry in found:
            if not entry.is_file(follow_symlinks=False):
                return None
            if entry.name.endswith((LOG, TXNINDEX)):
                status[entry.name] = entry.stat(follow_symlinks=False)
            else:
                rest.add(entry.name)
    if most_bytes is not None and sum(one.st_size for one in status.values()) > most_bytes:
        return None
    bases = log_bases(status)
    snapshots = sorted(base_offset_of(name) for name in rest if name.endswith(SNAPSHOT))
    indexes = [segment_file(base, suffix) for base in bases for suffix in (INDEX, TIMEINDEX)]
    needed = {*indexes, *(segment_file(base, LOG) for base in bases)}
    usual = {LEADER_EPOCHS, PARTITION_METADATA}
    usual |= {segment_file(base, TXNINDEX) for base in bases}
    usual |= {segment_file(offset, SNAPSHOT) for offset in snapshots}
    if not bases or not needed <= status.keys() | rest <= needed | usual:
        return None
    if is_small(len(bases) * _SEGMENT_NS):
        listing = list_segments(Places(), directory)
        return None if listing.problems or listing.leftovers else listing
    segments = _segments(descriptor, bases, indexes, status)
    if segments is None:
        return None
    return SegmentListing(
        directory=directory,
        segments=segments,
        snapshot_offsets=tuple(snapshots),
        leader_epochs=read_leader_epochs(Places(), directory),
        leftovers=(),
        problems=(),
    )


def _segments(
    descriptor: int,
    bases: Sequence[int],
    indexes: Sequence[str],
    status: Mapping[str, os.stat_result],
) -> tuple[Segment, ...] | None:
    """Return None unless all indexes are sound. `indexes`: the names of both, by ascending base."""
    from winnow.logdir.indexes.kernels import indexes_are_sound  # noqa: PLC0415 - with numba
    from winnow.storage.small_files import read_small_files  # noqa: PLC0415 - with numba

    logs = [segment_file(base, LOG) for base in bases]
    entries, heads = np.empty(_ROOM, np.uint8), np.empty(HEADER_V2_SIZE * len(logs) + 1, np.uint8)
    entries_at = read_small_files(descriptor, indexes, _ROOM, entries)
    heads_at = read_small_files(descriptor, logs, HEADER_V2_SIZE, heads)
    if entries_at is None or heads_at is None:
        return None
    timestamps = np.empty(len(bases), np.int64)
    if not indexes_are_sound(
        as_bytes(entries),
        entries_at,
        np.array(bases),
        np.array([*bases[1:], out_of_reach(bases[-1])]),
        np.array([status[log].st_size for log in logs]),
        timestamps,
    ):
        return None
    sizes = np.diff(entries_at).reshape(-1, 2).tolist()
    first_bytes = [heads[begin:end].tobytes() for begin, end in pairwise(heads_at.tolist())]
    return tuple(
        Segment(
            base_offset=base,
            log_bytes=status[log].st_size,
            log_mtime_ms=status[log].st_mtime_ns // 1_000_000,
            index_bytes=index_bytes,
            timeindex_bytes=timeindex_bytes,
            txnindex_bytes=status[txn_index].st_size
            if (txn_index := segment_file(base, TXNINDEX)) in status
            else None,
            last_timeindex_timestamp=timestamp,
            first_batch_max_timestamp=first_max_timestamp(head),
            log_stamp=stamp_of(status[log]),
            log_links=status[log].st_nlink,
        )
        for base, log, (index_bytes, timeindex_bytes), timestamp, head in zip(
            bases, logs, sizes, timestamps.tolist(), first_bytes, strict=True
        )
    )
