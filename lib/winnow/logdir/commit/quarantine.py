"""Move the damaged bytes of segments into quarantine, complete and recorded, and rewrite the
segments without them.

TOPIC-P/.winnow-quarantine-RUN/manifest.json    what they were, and where
TOPIC-P/.winnow-quarantine-RUN/BASE-START-END   bytes [START, END) of BASE.log

The bytes are copied to disk, read back and compared before the first segment is replaced by the
protocol of the swap (S6.1). The log gets a gap between offsets, as after a compaction. Only people
remove the copies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from winnow.errors import CorruptLogError, VerificationError
from winnow.logdir.batches import HeaderWalk
from winnow.logdir.commit.keeping import keep
from winnow.logdir.commit.kept import encode_manifest, read_manifest, sha256_of
from winnow.logdir.commit.staged_segment import StagedSegment
from winnow.logdir.commit.staging import move_aside, remove_staging
from winnow.logdir.commit.swap import check_replaceable, exchange
from winnow.logdir.damage import Damage
from winnow.logdir.files import files_of
from winnow.logdir.indexes.builder import IndexBuilder
from winnow.logdir.names import LOG, QUARANTINE_PREFIX, STAGING_PREFIX, TXNINDEX, segment_file
from winnow.state import PartitionState, Segment
from winnow.storage.contract import Storage
from winnow.storage.segment_io import drop_cached, map_range

MANIFEST = "manifest.json"
QUARANTINE_SUFFIX = "-quarantine"


def quarantine_path(directory: str, run_id: str) -> str:
    return f"{directory}/{QUARANTINE_PREFIX}{run_id}"


def staging_path(directory: str, run_id: str) -> str:
    return f"{directory}/{STAGING_PREFIX}{run_id}{QUARANTINE_SUFFIX}"


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


def set_aside(
    storage: Storage,
    state: PartitionState,
    damaged: Sequence[tuple[Segment, Sequence[Damage]]],
    *,
    run_id: str,
    now: int,
) -> int:
    """Copy the damaged bytes of segments and return how many they are. After a crash all copies
    exist or none.

    The directory `staging_path` must exist. Raises VerificationError if a copy cannot be read back.
    """
    directory = state.directory
    building = f"{staging_path(directory, run_id)}/aside"
    storage.mkdir(building)
    segments = [
        {
            "base_offset": source.base_offset,
            "log_bytes": source.log_bytes,
            "log_mtime_ms": source.log_mtime_ms,
            "damages": [_copied(storage, directory, source, one, building) for one in damages],
        }
        for source, damages in damaged
    ]
    manifest = {
        "run_id": run_id,
        "topic": state.topic_partition.topic,
        "partition": state.topic_partition.partition,
        "moved_at_ms": now,
        "segments": segments,
    }
    storage.create(f"{building}/{MANIFEST}", encode_manifest(manifest))
    storage.fsync_dir(building)
    storage.fsync_dir(staging_path(directory, run_id))
    storage.rename(building, quarantine_path(directory, run_id))
    storage.fsync_dir(directory)
    return sum(one.end - one.start for _, damages in damaged for one in damages)


def _copied(
    storage: Storage, directory: str, source: Segment, damage: Damage, building: str
) -> Mapping[str, object]:
    """Copy the bytes, and describe them, with the digest of original and copy as both were read."""
    name = f"{source.base_offset:020d}-{damage.start}-{damage.end}"
    log, path = f"{directory}/{segment_file(source.base_offset, LOG)}", f"{building}/{name}"
    data = storage.read_range(log, damage.start, damage.end - damage.start)
    storage.create(path, data)
    drop_cached(path)
    sha256 = hashlib.sha256(data).hexdigest()
    if sha256_of(storage, path, 0, damage.end - damage.start) != sha256:
        raise VerificationError(
            "the quarantined copy of damaged bytes differs from the original",
            where=path,
            hint="The disk or the memory of this machine may be failing.",
        )
    return {"file": name, "sha256": sha256, **asdict(damage)}


def settle_quarantine(storage: Storage, directory: str, *, run_id: str) -> None:
    """After a crash: drop the copies if none of their bytes has been removed from the log yet.

    Call it while no swap is under way and the staging directory still exists.
    """
    path = quarantine_path(directory, run_id)
    if not storage.exists(path):
        return
    try:
        manifest = read_manifest(storage, f"{path}/{MANIFEST}").fields({"segments"}, None)
        segments = [
            segment.fields({"base_offset", "log_bytes"}, None)
            for segment in manifest["segments"].items()
        ]
        logs = {
            segment_file(segment["base_offset"].integer(), LOG): segment["log_bytes"].integer()
            for segment in segments
        }
    except CorruptLogError:
        return  # an unknown file: Winnow must not remove it
    there = {entry.name: entry.size for entry in storage.list_dir(directory)}
    if all(there.get(name) == size for name, size in logs.items()):
        move_aside(storage, path, staging_path(directory, run_id))
