"""Keep what is about to be replaced or deleted, under a second name (`winnow.logdir.commit.kept`
has the layout).

Every step is linked and described in a staging directory, made durable, and put in place by one
rename, before the first rename of the swap. So the protocol of the swap does not change (S6.1).
Whatever finishes the swap after a crash, Kafka's loader included, cannot reach the kept files: they
are complete or absent.

While `.winnow-RUN-keep` exists in a partition directory, everything replaced there is kept. The
mode is recorded on disk, so a recovery that finishes the round of a dead run keeps as that run
would have.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from winnow.errors import CorruptLogError
from winnow.logdir.commit.bound_log import bind
from winnow.logdir.commit.kept import (
    RUN_JSON,
    STEP_JSON,
    KeptFile,
    KeptRun,
    Step,
    StepKind,
    encode_manifest,
    identify,
    kept_path,
    read_kept,
    read_manifest,
)
from winnow.logdir.commit.staging import move_aside, remove_staging, staging_run_id
from winnow.logdir.files import files_in, log_bases
from winnow.logdir.names import KEEPING_SUFFIX, LOG, STAGING_PREFIX, segment_file
from winnow.state import PartitionState
from winnow.storage.contract import Entry, Storage


def begin_keeping(
    storage: Storage,
    state: PartitionState,
    *,
    run_id: str,
    now: int,
    cleaner_checkpoint_after: int | None = None,
) -> None:
    """Start to keep what is replaced in this partition. `state`: before the first change. Hold the
    lock.

    `cleaner_checkpoint_after`: where the run is about to move the cleaner checkpoint. If this run
    already keeps here, only this is recorded.
    """
    directory, kept = state.directory, kept_path(state.directory, run_id)
    staging = keeping_path(directory, run_id)
    storage.ensure_dir(staging)
    if storage.exists(kept):
        if cleaner_checkpoint_after is not None:
            _record(storage, kept, _build(storage, staging), cleaner_checkpoint_after)
        return
    building = _build(storage, staging)
    before = {
        "run_id": run_id,
        "topic": state.topic_partition.topic,
        "partition": state.topic_partition.partition,
        "kept_at_ms": now,
        "log_start_offset": state.log_start_offset,
        "log_start_checkpoint": state.log_start_checkpoint,
        "cleaner_checkpoint": state.cleaner_checkpoint,
        "leader_epochs": state.leader_epochs,
        "cleaner_checkpoint_after": cleaner_checkpoint_after,
        "log": asdict(bind(storage, state)),
    }
    storage.create(f"{building}/{RUN_JSON}", encode_manifest(before))
    storage.fsync_dir(building)
    storage.rename(building, kept)
    storage.fsync_dir(directory)


def _record(storage: Storage, kept: str, building: str, cleaner_checkpoint_after: int) -> None:
    """Write the checkpoint into the manifest, unless it is there already."""
    name = "cleaner_checkpoint_after"
    values = read_manifest(storage, f"{kept}/{RUN_JSON}").fields({name}, None)
    if values[name].raw == cleaner_checkpoint_after:
        return
    fields = {known: value.raw for known, value in values.items() if known != "version"}
    fields[name] = cleaner_checkpoint_after
    storage.create(f"{building}/{RUN_JSON}", encode_manifest(fields))
    storage.fsync_dir(building)
    storage.rename(f"{building}/{RUN_JSON}", f"{kept}/{RUN_JSON}")
    storage.fsync_dir(kept)


def keep(
    storage: Storage,
    directory: str,
    names: Sequence[str],
    *,
    outputs: Mapping[int, str] | None = None,
    next_base: int | None = None,
    entries: Sequence[Entry] | None = None,
) -> None:
    """Keep the files `names`, which are about to be removed, if this partition is being kept.

    `outputs`: the staged logs that replace them, by base offset. `next_base`: nothing replaces
    them, and this is the lowest segment that is retained. `entries`: what is in the directory;
    None: it is listed.
    """
    there = storage.list_dir(directory) if entries is None else entries
    dirs = [entry.name for entry in there if entry.is_dir]
    run_id = next(filter(None, (staging_run_id(name, KEEPING_SUFFIX) for name in dirs)), None)
    if run_id is None:
        return
    kept, building = kept_path(directory, run_id), _build(storage, keeping_path(directory, run_id))
    files = []
    for name in names:
        storage.link(f"{directory}/{name}", f"{building}/{name}")
        entry = storage.entry(f"{building}/{name}")
        files.append(asdict(KeptFile(name, entry.size, entry.mtime_ns)))
    logs = sorted((outputs or {}).items())
    step = {
        "kind": StepKind.DELETED if outputs is None else StepKind.REPLACED,
        "files": files,
        "outputs": [asdict(identify(storage, base, path)) for base, path in logs],
        "next_base": next_base,
    }
    storage.create(f"{building}/{STEP_JSON}", encode_manifest(step))
    storage.fsync_dir(building)
    last = max((int(entry.name) for entry in storage.list_dir(kept) if entry.is_dir), default=0)
    storage.rename(building, f"{kept}/{last + 1:06d}")
    storage.fsync_dir(kept)


def end_keeping(storage: Storage, directory: str, *, run_id: str) -> KeptRun | None:
    """Stop keeping in this partition. Return what the run keeps, None if it removed nothing."""
    settle_kept(storage, directory, run_id=run_id)
    remove_staging(storage, keeping_path(directory, run_id))
    if storage.exists(kept_path(directory, run_id)):
        return read_kept(storage, directory, run_id)
    return None


def settle_kept(storage: Storage, directory: str, *, run_id: str, ended: bool = True) -> None:
    """Drop what was kept for a step that never happened: its files are still in place. If the run
    has ended, also drop a run without steps.

    Call it while no swap is under way and the staging directory of `begin_keeping` still exists.
    What is dropped moves into that directory.
    """
    if not storage.exists(kept_path(directory, run_id)):
        return
    try:
        run = read_kept(storage, directory, run_id)
    except CorruptLogError:
        return  # it is left unchanged; an undo reports it
    dropped = [step.path for step in run.steps if not _was_done(storage, directory, step)]
    if ended and len(dropped) == len(run.steps):
        dropped = [run.path]
    for path in dropped:
        move_aside(storage, path, keeping_path(directory, run_id))


def keeping_path(directory: str, run_id: str) -> str:
    """Return the staging directory that exists as long as the run keeps."""
    return f"{directory}/{STAGING_PREFIX}{run_id}{KEEPING_SUFFIX}"


def _build(storage: Storage, staging: str) -> str:
    """Make a directory for contents that are put in place when they are complete."""
    building = f"{staging}/{uuid.uuid4().hex}"
    storage.mkdir(building)
    storage.fsync_dir(staging)
    return building


def _was_done(storage: Storage, directory: str, step: Step) -> bool:
    there = files_in(storage, directory)
    if step.kind is StepKind.DELETED:
        return min(log_bases(there), default=0) > step.bases[0]
    logs = [file for file in step.files if file.suffix == LOG]
    if not all(file.is_in(there) for file in logs):
        return True
    # Compare size and mtime: a batch may have been rewritten in the same size.
    placed = [(segment_file(out.base_offset, LOG), out) for out in step.outputs]
    return all(
        name in there and identify(storage, out.base_offset, f"{directory}/{name}") == out
        for name, out in placed
    )
