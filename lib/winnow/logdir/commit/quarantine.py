"""Move the damaged bytes of segments into quarantine, complete and recorded, and rewrite the
segments without them.

The bytes are copied to disk (`winnow.logdir.commit.set_aside`), read back and compared before the
first segment is replaced by the protocol of the swap (S6.1). The log gets a gap between offsets, as
after a compaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from winnow.logdir.batches import HeaderWalk
from winnow.logdir.commit.keeping import keep
from winnow.logdir.commit.set_aside import set_aside, staging_path
from winnow.logdir.commit.staged_segment import StagedSegment
from winnow.logdir.commit.staging import remove_staging
from winnow.logdir.commit.swap import check_replaceable, exchange
from winnow.logdir.damage import Damage
from winnow.logdir.files import files_of
from winnow.logdir.indexes.index import IndexBuilder
from winnow.logdir.names import LOG, TXNINDEX, segment_file
from winnow.state import PartitionState, Segment
from winnow.storage.contract import Storage
from winnow.storage.segment_io import map_range


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedQuarantine:
    """A segment without its damage: finished, synced and verified, but not in its directory yet."""

    source: Segment
    """As it was when it was read."""
    damages: tuple[Damage, ...]
    paths: Mapping[str, str]
    """Staged file per suffix, under its final name."""
    log_bytes: int

    @property
    def outputs(self) -> Mapping[int, Mapping[str, str]]:
        return {self.source.base_offset: self.paths}


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
    builder = IndexBuilder(
        base_offset=base,
        index_interval_bytes=index_interval_bytes,
        max_index_bytes=segment_index_bytes,
    )
    with StagedSegment(storage, staging, base, unique=False) as staged:
        with map_range(source, 0, segment.log_bytes) as data:
            begins = [0, *(damage.end for damage in damages)]
            ends = [*(damage.start for damage in damages), segment.log_bytes]
            parts = [data[a:b] for a, b in zip(begins, ends, strict=True) if a < b]
            with staged.log() as writer:
                for part in parts:
                    writer.write(part)
            staged.compare(parts)
            del parts, data
        with map_range(staged.paths[LOG], 0, writer.size) as written:
            for rows in HeaderWalk(written, base):
                builder.append(rows)
            del written
        txnindex = None
        if segment.txnindex_bytes is not None:
            txnindex = storage.read_bytes(f"{directory}/{segment_file(base, TXNINDEX)}")
        staged.add_indexes(*builder.finish(), txnindex)
        staged.take_over_attributes(source, storage.entry(source).mtime_ns, txnindex=True)
        storage.fsync_dir(staging)
    return StagedQuarantine(
        source=segment, damages=tuple(damages), paths=staged.paths, log_bytes=writer.size
    )


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
        check_replaceable(storage, directory, sources=[item.source], outputs=item.outputs)
    damaged = [(item.source, item.damages) for item in staged]
    moved = set_aside(storage, state, damaged, run_id=run_id, now=now)
    for item in staged:
        base = item.source.base_offset
        files = check_replaceable(storage, directory, sources=[item.source], outputs=item.outputs)
        keep(storage, directory, files_of(files, [base]), outputs={base: item.paths[LOG]})
        exchange(storage, directory, sources=[base], outputs=item.outputs)
    remove_staging(storage, staging_path(directory, run_id))
    return moved
