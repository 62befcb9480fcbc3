"""Move the damaged bytes of segments into quarantine, complete and recorded, and rewrite the
segments without them.

The bytes are copied to disk (`winnow.logdir.commit.set_aside`), read back and compared before the
first segment is replaced by the protocol of the swap (S6.1). The log gets a gap between offsets, as
after a compaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from winnow.errors import VerificationError
from winnow.logdir.commit.keeping import keep
from winnow.logdir.commit.set_aside import set_aside, staging_path
from winnow.logdir.commit.staging import remove_staging
from winnow.logdir.commit.swap import check_replaceable, exchange
from winnow.logdir.damage import Damage, whole_rows
from winnow.logdir.index import IndexBuilder
from winnow.logdir.names import (
    INDEX,
    LOG,
    SEGMENT_SUFFIXES,
    TIMEINDEX,
    TXNINDEX,
    segment_file,
)
from winnow.state import PartitionState, Segment
from winnow.storage.contract import Storage
from winnow.storage.segment_io import Bytes, SegmentWriter, drop_cached, map_range

_COMPARED_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedQuarantine:
    """A segment without its damage: finished, synced and verified, but not in its directory yet."""

    source: Segment
    """As it was when it was read."""
    damages: tuple[Damage, ...]
    paths: Mapping[str, str]
    """Staged file per suffix, under its final name."""

    @property
    def log_bytes(self) -> int:
        return self.source.log_bytes - sum(damage.end - damage.start for damage in self.damages)


def stage_segment(
    storage: Storage,
    directory: str,
    segment: Segment,
    damages: Sequence[Damage],
    *,
    staging: str,
    index_interval_bytes: int,
    segment_index_bytes: int,
) -> StagedQuarantine:
    """Write the segment without its damage into the directory `staging`, and read it back.

    Its transaction index is not changed. Raises CorruptLogError and VerificationError.
    """
    base = segment.base_offset
    source = f"{directory}/{segment_file(base, LOG)}"
    paths = {
        suffix: f"{staging}/{segment_file(base, suffix)}" for suffix in (LOG, INDEX, TIMEINDEX)
    }
    with map_range(source, 0, segment.log_bytes) as data:
        parts = [data[start:end] for start, end in _between(damages, segment.log_bytes)]
        with SegmentWriter(paths[LOG]) as writer:
            for part in parts:
                writer.write(part)
        drop_cached(paths[LOG])
        _compare(paths[LOG], parts)
        del parts, data
    builder = IndexBuilder(
        base_offset=base,
        index_interval_bytes=index_interval_bytes,
        max_index_bytes=segment_index_bytes,
    )
    size = storage.entry(paths[LOG]).size
    with map_range(paths[LOG], 0, size) as written:
        for rows in whole_rows(written, 0, base):
            builder.append(rows)
        del written
    for suffix, content in zip((INDEX, TIMEINDEX), builder.finish(), strict=True):
        storage.create(paths[suffix], content)
    if segment.txnindex_bytes is not None:
        paths[TXNINDEX] = f"{staging}/{segment_file(base, TXNINDEX)}"
        storage.create(
            paths[TXNINDEX], storage.read_bytes(f"{directory}/{segment_file(base, TXNINDEX)}")
        )
    mtime_ns = storage.entry(source).mtime_ns
    for path in paths.values():
        storage.copy_attributes(source, path)
        storage.set_mtime_ns(path, mtime_ns)
        storage.fsync_file(path)
    storage.fsync_dir(staging)
    return StagedQuarantine(source=segment, damages=tuple(damages), paths=paths)


def commit_quarantine(
    storage: Storage,
    state: PartitionState,
    staged: Sequence[StagedQuarantine],
    *,
    run_id: str,
    now: int,
) -> int:
    """Move the damage aside, then replace the sources by the staged segments, ascending. Hold the
    lock.

    Returns how many bytes were moved. Raises CorruptLogError before anything is moved if the
    partition has changed, VerificationError if the quarantined bytes cannot be read back.
    """
    directory = state.directory
    for item in staged:
        _check(storage, directory, item)
    damaged = [(item.source, item.damages) for item in staged]
    moved = set_aside(storage, state, damaged, run_id=run_id, now=now)
    for item in staged:
        base = item.source.base_offset
        files = _check(storage, directory, item)
        gone = [
            name for suffix in SEGMENT_SUFFIXES if (name := segment_file(base, suffix)) in files
        ]
        keep(storage, directory, gone, outputs={base: item.paths[LOG]})
        exchange(storage, directory, sources=[base], outputs={base: item.paths})
    remove_staging(storage, staging_path(directory, run_id))
    return moved


def _check(storage: Storage, directory: str, item: StagedQuarantine) -> dict[str, Any]:
    return check_replaceable(
        storage,
        directory,
        sources=[item.source],
        base_offset=item.source.base_offset,
        outputs=[item.paths],
    )


def _between(damages: Sequence[Damage], size: int) -> list[tuple[int, int]]:
    """Return the ranges of a log that are not damaged."""
    edges = [0, *(edge for damage in damages for edge in (damage.start, damage.end)), size]
    return [
        (start, end)
        for number, (start, end) in enumerate(pairwise(edges))
        if not number % 2 and start < end
    ]


def _compare(path: str, parts: Sequence[Bytes]) -> None:
    wanted = sum(len(part) for part in parts)
    with map_range(path, 0, wanted) as written:
        position, same = 0, True
        for part in parts:
            for at in range(0, len(part), _COMPARED_BYTES):
                piece = part[at : at + _COMPARED_BYTES]
                same = same and np.array_equal(
                    written[position + at : position + at + len(piece)], piece
                )
            position += len(part)
        del written
    if not same:
        raise VerificationError(
            "a staged segment is not what was written",
            where=path,
            hint="The disk or the memory of this machine may be failing.",
        )
