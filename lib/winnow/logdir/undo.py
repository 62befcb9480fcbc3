"""Put back what a run replaced or deleted (`winnow.logdir.kept`), or remove what it kept.

Steps are taken back last first, each by the protocol of the swap with the originals as its output (S6.1), so that a
crash leaves a log such as a crash of the run itself could have left. Checkpoints come first: a first dirty offset that
is too low costs work, one that is too high resurrects deleted keys (S8.7).
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
from winnow.logdir.keeping import in_place
from winnow.logdir.kept import KeptFile, KeptRun, Step, StepKind, identify
from winnow.logdir.names import (
    CLEANER_CHECKPOINT,
    INDEX_SUFFIXES,
    LOG,
    LOG_START_CHECKPOINT,
    SNAPSHOT,
    STAGING_PREFIX,
    base_offset_of,
    segment_file,
)
from winnow.logdir.staging import move_aside, remove_staging
from winnow.logdir.state import TopicPartition
from winnow.logdir.swap import exchange
from winnow.storage.contract import Storage

_UNDO_SUFFIX = "-undo"
_PURGE_SUFFIX = "-purge"


@dataclass(frozen=True, slots=True)
class TakenBack:
    """One step, and the segments that make place for its originals; none: it is back already, or was never done."""

    step: Step
    replaced: tuple[int, ...]
    restored: tuple[int, ...]
    """Base offsets, ascending."""


@dataclass(frozen=True, slots=True)
class UndoPlan:
    run: KeptRun
    steps: tuple[TakenBack, ...]
    """In the order in which they are to be taken back."""

    @property
    def restored(self) -> Mapping[int, int]:
        """Segments that come back and stay: base offset to bytes of the log."""
        back: dict[int, int] = {}
        for item in self.steps:
            for base in item.replaced:
                back.pop(base, None)
            for file in item.step.files:
                if file.suffix == LOG and base_offset_of(file.name) in item.restored:
                    back[base_offset_of(file.name)] = file.size
        return back

    @property
    def deletions(self) -> bool:
        return any(item.step.kind is StepKind.DELETED for item in self.steps)


def plan_undo(storage: Storage, directory: str, run: KeptRun) -> UndoPlan:
    """What undoing a run means for a partition directory in which nothing is left of a crash.

    Raises CorruptLogError unless what the run left is still there, byte for byte: whoever has cleaned or deleted since
    went by it. Records appended since are no obstacle, they lie behind it.
    """
    entries = storage.list_dir(directory)
    log = {
        base_offset_of(entry.name): f"{directory}/{entry.name}"
        for entry in entries
        if entry.is_file and entry.name.endswith(LOG)
    }
    if not log:
        raise _moved_on("a log", "no segment at all", directory)
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
    return UndoPlan(run, tuple(steps))


def _plan_deleted(step: Step, log: Mapping[int, str], directory: str) -> TakenBack:
    lowest = min(log)
    if lowest != step.next_base and lowest not in step.bases:
        raise _moved_on(f"a log that begins at {step.next_base}", f"one that begins at {lowest}", directory)
    return TakenBack(step, (), tuple(base for base in step.bases if base < lowest))


def _plan_replaced(storage: Storage, step: Step, log: Mapping[int, str], directory: str) -> TakenBack:
    outputs = {out.base_offset: out for out in step.outputs}
    originals = {base_offset_of(file.name): file for file in step.files if file.suffix == LOG}
    first, last = min(*outputs, *originals), max(*outputs, *originals)
    here = tuple(sorted(base for base in log if first <= base <= last))
    # What a crash of the swap may leave: a source behind the end of what took its place (S6.2).
    stayed = {base for base in here if base in originals and _is_as_old(storage, log[base], originals[base])}
    if all(base in log and identify(storage, base, log[base]) == out for base, out in outputs.items()):
        strangers = [base for base in here if base not in outputs and base not in stayed]
        if not strangers and here[-1] != max(log):
            return TakenBack(step, here, tuple(sorted(originals)))
    elif set(here) == stayed == originals.keys():
        return TakenBack(step, (), ())
    expected = ", ".join(f"{out.log_bytes} bytes at {out.base_offset}" for out in step.outputs)
    found = ", ".join(f"{storage.entry(log[base]).size} bytes at {base}" for base in here) or "none"
    raise _moved_on(f"segments with {expected}, as the run left them", found, directory)


def _is_as_old(storage: Storage, path: str, file: KeptFile) -> bool:
    return in_place({file.name: storage.entry(path)}, file)


def _moved_on(expected: str, found: str, where: str) -> CorruptLogError:
    return CorruptLogError(
        "the log has moved on since the run",
        expected=expected,
        found=found,
        where=where,
        hint="A later run or a broker has compacted or deleted here. If it was a run that kept what it replaced, undo "
        "that one first.",
    )


def undo(storage: Storage, log_dir: str, topic_partition: TopicPartition, plan: UndoPlan) -> None:
    """Does it. Hold the lock. After a crash, `recovery.recover`, a new plan and this again go on with the rest."""
    directory, run = f"{log_dir}/{topic_partition}", plan.run
    _restore_checkpoints(storage, log_dir, topic_partition, plan)
    staging = f"{directory}/{STAGING_PREFIX}{run.run_id}{_UNDO_SUFFIX}"
    storage.ensure_dir(staging)
    storage.fsync_dir(directory)
    for taken in plan.steps:
        if taken.step.kind is StepKind.DELETED:
            _prepend(storage, directory, taken)
        elif taken.restored:
            _swap_back(storage, directory, staging, taken)
        _restore_snapshots(storage, directory, taken.step)
        # Before an earlier step is taken back: the outcome of this one is there only until then.
        move_aside(storage, taken.step.path, staging)
    move_aside(storage, run.path, staging)
    remove_staging(storage, staging)


def purge(storage: Storage, directory: str, run: str) -> None:
    """Removes what a run kept. `run`: the path of it. Gone at once for an undo; a crash leaves it for the recovery."""
    staging = f"{directory}/{STAGING_PREFIX}{uuid.uuid4().hex}{_PURGE_SUFFIX}"
    storage.rename(run, staging)
    storage.fsync_dir(directory)
    remove_staging(storage, staging)


def _restore_checkpoints(storage: Storage, log_dir: str, topic_partition: TopicPartition, plan: UndoPlan) -> None:
    """As they were before the run; only a log start offset that has been raised since stays."""
    run = plan.run
    path = f"{log_dir}/{CLEANER_CHECKPOINT}"
    entry = read_offset_checkpoint(storage, path).get(topic_partition)
    known = [offset for offset in (entry, run.cleaner_checkpoint) if offset is not None]
    update_offset_checkpoint(storage, path, {topic_partition: min(known) if len(known) == 2 else None})
    path = f"{log_dir}/{LOG_START_CHECKPOINT}"
    entry = read_offset_checkpoint(storage, path).get(topic_partition)
    if run.log_start_checkpoint is not None:
        update_offset_checkpoint(storage, path, {topic_partition: max(run.log_start_checkpoint, entry or 0)})
    if plan.deletions:
        directory = f"{log_dir}/{topic_partition}"
        epochs = read_leader_epochs(storage, directory)
        before = _unfolded(run.leader_epochs, epochs)
        if before != epochs:
            write_leader_epochs(storage, directory, before)


def _unfolded(before: Sequence[tuple[int, int]], now: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Leader epochs, if the first entry of `now` stands for all of those at or before it (S7.4)."""
    if not now:
        return tuple(before)
    epoch, offset = now[0]
    folded = tuple(entry for entry in before if entry[0] <= epoch and entry[1] <= offset)
    later = now[1:] if folded and folded[-1][0] == epoch else now
    return (*folded, *later)


def _prepend(storage: Storage, directory: str, taken: TakenBack) -> None:
    """The reverse of a deletion: highest first, and of each segment the log last. An index without one is swept."""
    for base in reversed(taken.restored):
        files = {file.suffix: file.name for file in taken.step.files if base_offset_of(file.name) == base}
        for suffix in (*INDEX_SUFFIXES, LOG):
            if suffix == LOG:
                storage.fsync_dir(directory)
            name = files.get(suffix)
            if name is not None and not storage.exists(f"{directory}/{name}"):
                storage.link(f"{taken.step.path}/{name}", f"{directory}/{name}")
        storage.fsync_dir(directory)


def _swap_back(storage: Storage, directory: str, staging: str, taken: TakenBack) -> None:
    outputs: dict[int, dict[str, str]] = {base: {} for base in taken.restored}
    for file in taken.step.files:
        if file.suffix == SNAPSHOT:
            continue
        path = f"{staging}/{file.name}.{uuid.uuid4().hex}"
        storage.link(f"{taken.step.path}/{file.name}", path)
        outputs[base_offset_of(file.name)][file.suffix] = path
    storage.fsync_dir(staging)
    exchange(storage, directory, sources=taken.replaced, outputs=outputs)


def _restore_snapshots(storage: Storage, directory: str, step: Step) -> None:
    """Those that went with the step, and those that a loader swept when it finished the swap (S6.3)."""
    for file in step.files:
        if file.suffix == SNAPSHOT and not storage.exists(f"{directory}/{file.name}"):
            storage.link(f"{step.path}/{file.name}", f"{directory}/{file.name}")
    storage.fsync_dir(directory)
