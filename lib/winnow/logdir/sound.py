"""The usual partition directory of this machine, listed in a few calls: what a survey of a great many is made of.

`winnow.logdir.listing` says the same of it, file by file, and of every other one what is wrong with it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

from winnow.errors import CorruptLogError
from winnow.logdir.checkpoints import read_leader_epochs
from winnow.logdir.listing import SegmentListing, first_max_timestamp
from winnow.logdir.names import (
    INDEX,
    LEADER_EPOCHS,
    LOG,
    PARTITION_METADATA,
    SNAPSHOT,
    TIMEINDEX,
    TXNINDEX,
    base_offset_of,
)
from winnow.logdir.sound_kernels import last_timestamps
from winnow.logdir.state import Segment
from winnow.storage.local import stamp_of
from winnow.storage.open_store import is_remote
from winnow.storage.places import Places
from winnow.storage.small_files import read_small_files
from winnow.wire.batch import HEADER_V2_SIZE, MAX_OFFSET_SPAN
from winnow.wire.buffers import as_bytes

_ROOM = 4 * 2**20
"""For all indexes of a partition. Where there are more, it matters little how they are read."""
_DIGITS = 20


def list_sound(directory: str) -> SegmentListing | None:
    """As `list_segments`; None where anything at all is unusual."""
    if is_remote(directory):
        return None
    with suppress(OSError, CorruptLogError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return _listed(directory, descriptor)
        finally:
            os.close(descriptor)
    return None


def _listed(directory: str, descriptor: int) -> SegmentListing | None:
    """Raises OSError or CorruptLogError where `list_segments` may have to say more."""
    sizes: dict[str, os.stat_result] = {}
    rest = set()
    with os.scandir(descriptor) as found:
        for entry in found:
            if not entry.is_file(follow_symlinks=False):
                return None
            name = entry.name
            if name.endswith((LOG, TXNINDEX)):
                sizes[name] = entry.stat(follow_symlinks=False)
            else:
                rest.add(name)
    logs = sorted(name for name in sizes if name.endswith(LOG))
    stems = [name.removesuffix(LOG) for name in logs]
    indexes = [stem + suffix for stem in stems for suffix in (INDEX, TIMEINDEX)]
    if len(sizes) - len(logs) != sum(stem + TXNINDEX in sizes for stem in stems) or not rest.issuperset(indexes):
        return None
    rest.difference_update(indexes, (LEADER_EPOCHS, PARTITION_METADATA))
    usual = all(len(stem) == _DIGITS for stem in stems) and all(_is_snapshot(name) for name in rest)
    segments = _segments(descriptor, stems, sizes) if logs and usual else None
    if segments is None:
        return None
    return SegmentListing(
        directory=directory,
        segments=segments,
        snapshot_offsets=tuple(sorted(map(base_offset_of, rest))),
        leader_epochs=read_leader_epochs(Places(), directory),
        leftovers=(),
        problems=(),
    )


def _is_snapshot(name: str) -> bool:
    return len(name) == _DIGITS + len(SNAPSHOT) and name.endswith(SNAPSHOT)


def _segments(descriptor: int, stems: Sequence[str], sizes: Mapping[str, os.stat_result]) -> tuple[Segment, ...] | None:
    """`stems`: names without a suffix, ascending. None unless all indexes are sound."""
    count = len(stems)
    names = [stem + suffix for stem in stems for suffix in (INDEX, TIMEINDEX)] + [stem + LOG for stem in stems]
    most = np.full(3 * count, _ROOM)
    most[2 * count :] = HEADER_V2_SIZE
    room = np.empty(_ROOM, np.uint8)
    bounds = read_small_files(descriptor, names, most, room)
    if bounds is None:
        return None
    bases = [base_offset_of(stem) for stem in stems]
    logs = [sizes[stem + LOG] for stem in stems]
    timestamps = np.empty(count, np.int64)
    if not last_timestamps(
        as_bytes(room),
        bounds[: 2 * count + 1],
        np.array(bases),
        np.array([*bases[1:], bases[-1] + MAX_OFFSET_SPAN + 1]),
        np.array([log.st_size for log in logs]),
        timestamps,
    ):
        return None
    at = bounds.tolist()
    heads = room[at[2 * count] : at[-1]].tobytes()
    begin = at[2 * count]
    return tuple(
        Segment(
            base,
            log.st_size,
            log.st_mtime_ns // 1_000_000,
            at[2 * number + 1] - at[2 * number],
            at[2 * number + 2] - at[2 * number + 1],
            sizes[stem + TXNINDEX].st_size if stem + TXNINDEX in sizes else None,
            timestamp,
            first_max_timestamp(heads[at[2 * count + number] - begin : at[2 * count + number + 1] - begin]),
            stamp_of(log),
        )
        for number, (stem, base, log, timestamp) in enumerate(zip(stems, bases, logs, timestamps.tolist(), strict=True))
    )
