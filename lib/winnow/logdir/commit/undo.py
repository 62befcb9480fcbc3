"""Restore what a run replaced or deleted (`winnow.logdir.commit.kept`), or remove what it kept.

Steps are undone in reverse order, each by the protocol of the swap with the originals as its
output (S6.1). So a crash leaves a log as a crash of the run itself could have left it. Checkpoints
come first: a first dirty offset that is too low costs work, one that is too high resurrects deleted
keys (S8.7).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from winnow.errors import CorruptLogError
from winnow.logdir.checkpoints import (
    read_leader_epochs,
    read_offset_checkpoint,
    update_offset_checkpoint,
    write_leader_epochs,
)
from winnow.logdir.commit.bound_log import BoundLog, check_bound, moved_on
from winnow.logdir.commit.kept import RUN_JSON, KeptRun, Step, StepKind, identify
from winnow.logdir.commit.staging import move_aside, remove_staging
from winnow.logdir.commit.swap import exchange
from winnow.logdir.files import files_in, log_bases
from winnow.logdir.names import (
    CLEANER_CHECKPOINT,
    INDEX_SUFFIXES,
    LOG,
    LOG_START_CHECKPOINT,
    SNAPSHOT,
    STAGING_PREFIX,
    segment_file,
)
from winnow.state import TopicPartition
from winnow.storage.contract import Storage

_UNDO_SUFFIX = "-undo"
_PURGE_SUFFIX = "-purge"


@dataclass(frozen=True, slots=True)
class TakenBack:
    """One step, and the segments that its originals replace. `restored` is empty if the step is
    undone already or was never done.
    """

    step: Step
    replaced: tuple[int, ...]
    restored: tuple[int, ...]
    """Base offsets, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoPlan:
    run: KeptRun
    bound: BoundLog
    """The log bound to the run. It matches `log`."""
    steps: tuple[TakenBack, ...]
    """In the order in which they are undone."""
    log: Mapping[int, str]
    """The log as it will be: the current path of each `.log`, indexes beside it, by base offset."""

    @property
    def restored(self) -> Mapping[int, int]:
        """Segments that come back for good: base offset to bytes of the log."""
        back: dict[int, int] = {}
        for item in self.steps:
            for base in item.replaced:
                back.pop(base, None)
            for file in item.step.files:
                if file.suffix == LOG and file.base_offset in item.restored:
                    back[file.base_offset] = file.size
        return back

    @property
    def deletions(self) -> bool:
        return any(item.step.kind is StepKind.DELETED for item in self.steps)


def plan_undo(
    storage: Storage, log_dir: str, topic_partition: TopicPartition, run: KeptRun
) -> UndoPlan:
    """Plan the undo of a run in a partition directory without leftovers of a crash.

    Raises CorruptLogError unless the log is what the run left plus anything appended since. Later
    cleanings and deletions relied on the state that the undo would remove. An erasure closes the
    runs before it.
    """
    directory = f"{log_dir}/{topic_partition}"
    bound = _check_open(run)
    bases = log_bases(files_in(storage, directory))
    log = {base: f"{directory}/{segment_file(base, LOG)}" for base in bases}
    if not log:
        raise moved_on("a log", "no segment at all", directory)
    _check_checkpoints(storage, log_dir, topic_partition, run, lowest=min(log))
    steps = []
    for step in reversed(run.steps):
        if step.kind is StepKind.DELETED:
            taken = _plan_deleted(step, log, directory)
        else:
            taken = _plan_replaced(storage, step, log, directory)
        for base in taken.replaced:
            del log[base]
        log |= {base: f"{step.path}/{segment_file(base, LOG)}" for base in taken.restored}
        steps.append(taken)
    check_bound(storage, bound, log, directory)
    return UndoPlan(run=run, bound=bound, steps=tuple(steps), log=log)


def _check_open(run: KeptRun) -> BoundLog:
    hint = f"`recover --purge {run.run_id}` removes what is kept."
    if run.closed_by is not None:
        raise CorruptLogError(
            "can't undo the run: an erasure has run since",
            found=f"{run.closed_by}: what is kept may hold records that were erased",
            where=run.path,
            hint=hint,
        )
    if run.log is None:
        raise CorruptLogError(
            "this run can't be undone: an older version of Winnow kept it, and did not record the "
            "log around it",
            expected=f"`log` in {run.path}/{RUN_JSON}",
            found="none, so it is unknown whether the log was cleaned since",
            where=run.path,
            hint=hint,
        )
    return run.log


def _check_checkpoints(
    storage: Storage, log_dir: str, topic_partition: TopicPartition, run: KeptRun, *, lowest: int
) -> None:
    """Raise CorruptLogError for a log that was cleaned since, or begins later.

    The cleaner checkpoint must be where it was before the run, or where the run moves it. A crash
    of the run or of an undo between the two leaves one of them. Either may have been raised to the
    log start offset.
    """
    log_start = max([run.log_start_offset, *(step.next_base or 0 for step in run.steps)])
    entries = read_offset_checkpoint(storage, f"{log_dir}/{LOG_START_CHECKPOINT}")
    begin = max(entries.get(topic_partition, 0), lowest)
    if begin > log_start:
        where = f"{log_dir}/{topic_partition}"
        raise moved_on(f"a log that begins at {log_start}", f"one that begins at {begin}", where)
    path = f"{log_dir}/{CLEANER_CHECKPOINT}"
    entry = read_offset_checkpoint(storage, path).get(topic_partition)
    known = {run.cleaner_checkpoint, run.cleaner_checkpoint_after} - {None}
    allowed = {run.cleaner_checkpoint, *known, *(max(offset or 0, log_start) for offset in known)}
    if entry not in allowed:
        shown = {offset: "none" if offset is None else str(offset) for offset in (*allowed, entry)}
        offsets = " or ".join(shown[offset] for offset in sorted(allowed, key=str))
        raise moved_on(f"{offsets} for {topic_partition}", shown[entry], path)


def _plan_deleted(step: Step, log: Mapping[int, str], directory: str) -> TakenBack:
    lowest = min(log)
    if lowest != step.next_base and lowest not in step.bases:
        raise moved_on(
            f"a log that begins at {step.next_base}", f"one that begins at {lowest}", directory
        )
    return TakenBack(step, (), tuple(base for base in step.bases if base < lowest))


def _plan_replaced(
    storage: Storage, step: Step, log: Mapping[int, str], directory: str
) -> TakenBack:
    outputs = {out.base_offset: out for out in step.outputs}
    originals = {file.base_offset: file for file in step.files if file.suffix == LOG}
    first, last = min(*outputs, *originals), max(*outputs, *originals)
    here = tuple(sorted(base for base in log if first <= base <= last))
    # A crash of the swap may leave a source behind the end of its replacement (S6.2).
    stayed = {
        base
        for base in here
        if base in originals
        and originals[base].is_in({originals[base].name: storage.entry(log[base])})
    }
    if all(
        base in log and identify(storage, base, log[base]) == out for base, out in outputs.items()
    ):
        strangers = [base for base in here if base not in outputs and base not in stayed]
        if not strangers and here[-1] != max(log):
            return TakenBack(step, here, tuple(sorted(originals)))
    elif set(here) == stayed == originals.keys():
        return TakenBack(step, (), ())
    expected = ", ".join(f"{out.log_bytes} bytes at {out.base_offset}" for out in step.outputs)
    found = ", ".join(f"{storage.entry(log[base]).size} bytes at {base}" for base in here) or "none"
    raise moved_on(f"segments with {expected}, as the run left them", found, directory)


def undo(storage: Storage, log_dir: str, topic_partition: TopicPartition, plan: UndoPlan) -> None:
    """Undo the run. Hold the lock. After a crash: `recovery.recover`, a new plan, another call."""
    directory, run = f"{log_dir}/{topic_partition}", plan.run
    _restore_checkpoints(storage, log_dir, topic_partition, plan)
    staging = f"{directory}/{STAGING_PREFIX}{run.run_id}{_UNDO_SUFFIX}"
    storage.ensure_dir(staging)
    storage.fsync_dir(directory)
    for taken in plan.steps:
        step = taken.step
        if step.kind is StepKind.DELETED:
            # Highest first, logs last: loaders sweep an index without a log.
            for base in reversed(taken.restored):
                for suffixes in (INDEX_SUFFIXES, (LOG,)):
                    names = [segment_file(base, suffix) for suffix in suffixes]
                    _link_back(storage, directory, step, names)
        elif taken.restored:
            _swap_back(storage, directory, staging, taken)
        # The step removed these snapshots, or a loader swept them afterwards (S6.3).
        snapshots = [file.name for file in step.files if file.suffix == SNAPSHOT]
        _link_back(storage, directory, step, snapshots)
        # Before an earlier step is undone: the outcome of this one exists only until then.
        move_aside(storage, step.path, staging)
    move_aside(storage, run.path, staging)
    remove_staging(storage, staging)


def purge(storage: Storage, directory: str, run: str) -> None:
    """Remove what a run kept. `run`: its path. After a crash the recovery removes the rest."""
    staging = f"{directory}/{STAGING_PREFIX}{uuid.uuid4().hex}{_PURGE_SUFFIX}"
    storage.rename(run, staging)
    storage.fsync_dir(directory)
    remove_staging(storage, staging)


def _restore_checkpoints(
    storage: Storage, log_dir: str, topic_partition: TopicPartition, plan: UndoPlan
) -> None:
    """Restore the values before the run. A log start offset that was raised since is kept."""
    run = plan.run
    path = f"{log_dir}/{CLEANER_CHECKPOINT}"
    entry = read_offset_checkpoint(storage, path).get(topic_partition)
    known = [offset for offset in (entry, run.cleaner_checkpoint) if offset is not None]
    least = min(known) if len(known) == 2 else None
    update_offset_checkpoint(storage, path, {topic_partition: least})
    if run.log_start_checkpoint is not None:
        path = f"{log_dir}/{LOG_START_CHECKPOINT}"
        entry = read_offset_checkpoint(storage, path).get(topic_partition, 0)
        most = max(run.log_start_checkpoint, entry)
        update_offset_checkpoint(storage, path, {topic_partition: most})
    if plan.deletions:
        directory = f"{log_dir}/{topic_partition}"
        epochs = read_leader_epochs(storage, directory)
        unfolded = _unfolded(run.leader_epochs, epochs)
        if unfolded != epochs:
            write_leader_epochs(storage, directory, unfolded)


def _unfolded(
    before: Sequence[tuple[int, int]], now: Sequence[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """Return the leader epochs, if the first entry of `now` replaced all at or before it (S7.4)."""
    if not now:
        return tuple(before)
    epoch, offset = now[0]
    folded = tuple(entry for entry in before if entry[0] <= epoch and entry[1] <= offset)
    later = now[1:] if folded and folded[-1][0] == epoch else now
    return (*folded, *later)


def _swap_back(storage: Storage, directory: str, staging: str, taken: TakenBack) -> None:
    outputs: dict[int, dict[str, str]] = {base: {} for base in taken.restored}
    for file in taken.step.files:
        if file.suffix == SNAPSHOT:
            continue
        path = f"{staging}/{file.name}.{uuid.uuid4().hex}"
        storage.link(f"{taken.step.path}/{file.name}", path)
        outputs[file.base_offset][file.suffix] = path
    storage.fsync_dir(staging)
    exchange(storage, directory, sources=taken.replaced, outputs=outputs)


def _link_back(storage: Storage, directory: str, step: Step, names: Sequence[str]) -> None:
    """Put back the files of these names that the step has kept, and sync the directory."""
    kept = {file.name for file in step.files}
    for name in names:
        if name in kept and not storage.exists(f"{directory}/{name}"):
            storage.link(f"{step.path}/{name}", f"{directory}/{name}")
    storage.fsync_dir(directory)
