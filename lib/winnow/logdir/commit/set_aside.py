"""Copy the damaged bytes of segments, complete and recorded, before they are removed from the log
(`winnow.logdir.commit.quarantine`).

TOPIC-P/.winnow-quarantine-RUN/manifest.json    what they were, and where
TOPIC-P/.winnow-quarantine-RUN/BASE-START-END   bytes [START, END) of BASE.log

Only people remove these files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from winnow.errors import CorruptLogError, VerificationError
from winnow.logdir.commit.kept import encode_manifest, read_manifest, sha256_of
from winnow.logdir.commit.staging import move_aside
from winnow.logdir.names import LOG, QUARANTINE_PREFIX, STAGING_PREFIX, segment_file
from winnow.state import PartitionState, Segment
from winnow.storage.contract import Storage
from winnow.storage.segment_io import drop_cached

if TYPE_CHECKING:
    from winnow.logdir.damage import Damage  # it loads numba

MANIFEST = "manifest.json"
QUARANTINE_SUFFIX = "-quarantine"


def quarantine_path(directory: str, run_id: str) -> str:
    return f"{directory}/{QUARANTINE_PREFIX}{run_id}"


def staging_path(directory: str, run_id: str) -> str:
    return f"{directory}/{STAGING_PREFIX}{run_id}{QUARANTINE_SUFFIX}"


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
    segments = []
    moved = 0
    for source, damages in damaged:
        ranges = []
        for damage in damages:
            name, sha256 = _copy(storage, directory, source, damage, building)
            ranges.append({"file": name, "sha256": sha256, **asdict(damage)})
            moved += damage.end - damage.start
        segments.append(
            {
                "base_offset": source.base_offset,
                "log_bytes": source.log_bytes,
                "log_mtime_ms": source.log_mtime_ms,
                "damages": ranges,
            }
        )
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
    return moved


def _copy(
    storage: Storage, directory: str, source: Segment, damage: Damage, building: str
) -> tuple[str, str]:
    """Return the name of the copy, and the digest of original and copy when both were read."""
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
    return name, sha256


def settle_quarantine(storage: Storage, directory: str, *, run_id: str) -> None:
    """After a crash: drop the copies if none of their bytes has been removed from the log yet.

    Call it while no swap is under way and the staging directory still exists.
    """
    path = quarantine_path(directory, run_id)
    if not storage.exists(path):
        return
    try:
        segments = _read(storage, path)
    except CorruptLogError:
        return  # an unknown file: Winnow must not remove it
    logs = {segment_file(base, LOG): size for base, size in segments}
    there = {entry.name: entry.size for entry in storage.list_dir(directory)}
    if all(there.get(name) == size for name, size in logs.items()):
        move_aside(storage, path, staging_path(directory, run_id))


def _read(storage: Storage, path: str) -> list[tuple[int, int]]:
    """Return base offset and log size of every segment that bytes were copied from."""
    manifest = read_manifest(storage, f"{path}/{MANIFEST}").fields({"segments"}, None)
    segments = manifest["segments"].items()
    fields = [segment.fields({"base_offset", "log_bytes"}, None) for segment in segments]
    return [(each["base_offset"].integer(), each["log_bytes"].integer()) for each in fields]
