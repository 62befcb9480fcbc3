"""What a run has kept of a partition, read from its manifests (`winnow.logdir.commit.keeping`
writes them).

TOPIC-P/.winnow-kept-RUN/run.json             the time, and the log and side files before the run
TOPIC-P/.winnow-kept-RUN/closed.json          an erasure has closed it: undo is refused
TOPIC-P/.winnow-kept-RUN/000001/              one step: a replacement or a deletion
                                step.json     what was removed, and what replaced it
                                N.log, ...    hard links to the removed files
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from winnow.errors import CorruptLogError
from winnow.logdir.commit.bound_log import BoundLog, decode_bound
from winnow.logdir.files import tree_bytes
from winnow.logdir.names import KEPT_PREFIX, LOG, SEGMENT_SUFFIXES, SNAPSHOT, base_offset_of
from winnow.storage.contract import Storage
from winnow.storage.own_json import MAX_LONG, Value, read_json

RUN_JSON = "run.json"
STEP_JSON = "step.json"
CLOSED_JSON = "closed.json"
VERSION = 1
_RUN_FIELDS = (
    "kept_at_ms",
    "log_start_offset",
    "log_start_checkpoint",
    "cleaner_checkpoint",
    "leader_epochs",
)
_STEP_FIELDS = ("kind", "files", "outputs", "next_base")
_HINT = "Another version of Winnow may have written it. `recover --purge` removes what is kept."
_READ_BYTES = 16 * 2**20


class StepKind(StrEnum):
    REPLACED = "replaced"
    """Other segments replaced these."""
    DELETED = "deleted"
    """The start of the log was deleted."""


@dataclass(frozen=True, slots=True)
class KeptFile:
    name: str
    size: int
    mtime_ns: int

    @property
    def suffix(self) -> str:
        return "." + self.name.partition(".")[2]


@dataclass(frozen=True, slots=True)
class Output:
    """A segment that replaced others, identified by its bytes."""

    base_offset: int
    log_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Segments that were removed together."""

    path: str
    kind: StepKind
    files: tuple[KeptFile, ...]
    """All files of these segments, and the producer snapshots that were removed with them."""
    outputs: tuple[Output, ...]
    """Ascending by base offset. Empty if the segments were deleted."""
    next_base: int | None
    """Base offset of the lowest retained segment, if these were deleted."""

    @property
    def bases(self) -> tuple[int, ...]:
        """Return the base offsets of the removed segments, ascending."""
        return tuple(sorted(base_offset_of(file.name) for file in self.files if file.suffix == LOG))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRun:
    """What one run keeps of a partition."""

    run_id: str
    path: str
    kept_at_ms: int
    log_start_offset: int
    """This and the next three fields hold the values before the run."""
    log_start_checkpoint: int | None
    cleaner_checkpoint: int | None
    leader_epochs: tuple[tuple[int, int], ...]
    bound: BoundLog | None
    """The log before the run. None: an older version of Winnow kept this."""
    cleaner_checkpoint_after: int | None
    """Where the run moves the cleaner checkpoint, if it does."""
    closed_by: str | None
    """Why an undo is refused, such as an erasure. None: it is allowed."""
    steps: tuple[Step, ...]
    """In the order in which they were done."""
    bytes: int
    """What a purge frees: of all files that are kept, and of those that describe them."""

    @property
    def segments(self) -> int:
        return sum(len(step.bases) for step in self.steps)


def kept_path(directory: str, run_id: str) -> str:
    return f"{directory}/{KEPT_PREFIX}{run_id}"


def kept_run_ids(storage: Storage, directory: str) -> tuple[str, ...]:
    """Return the ids of all runs that keep something of a partition, ascending."""
    entries = storage.list_dir(directory)
    return tuple(
        entry.name.removeprefix(KEPT_PREFIX)
        for entry in entries
        if entry.is_dir and entry.name.startswith(KEPT_PREFIX)
    )


def read_kept(storage: Storage, directory: str, run_id: str) -> KeptRun:
    """Raises CorruptLogError for unreadable manifests, and files that do not match them."""
    path = kept_path(directory, run_id)
    fields = read_manifest(storage, f"{path}/{RUN_JSON}", _RUN_FIELDS)
    steps = tuple(
        _read_step(storage, f"{path}/{entry.name}")
        for entry in storage.list_dir(path)
        if entry.is_dir
    )
    epochs = [epoch.items(length=2) for epoch in fields["leader_epochs"].items()]
    return KeptRun(
        run_id=run_id,
        path=path,
        kept_at_ms=fields["kept_at_ms"].integer(least=-MAX_LONG),
        log_start_offset=fields["log_start_offset"].integer(),
        log_start_checkpoint=fields["log_start_checkpoint"].integer_or_none(least=-1),
        cleaner_checkpoint=fields["cleaner_checkpoint"].integer_or_none(least=-MAX_LONG),
        leader_epochs=tuple(
            (epoch.integer(least=-1), offset.integer(least=-1)) for epoch, offset in epochs
        ),
        bound=decode_bound(fields["log"]) if "log" in fields else None,
        cleaner_checkpoint_after=after.integer_or_none()
        if (after := fields.get("cleaner_checkpoint_after"))
        else None,
        closed_by=_closed_by(storage, path),
        steps=steps,
        bytes=tree_bytes(storage, path),
    )


def close_kept(storage: Storage, directory: str, *, why: str) -> tuple[str, ...]:
    """Close everything that runs kept of a partition so far: none of it can be put back any more.
    Return the ids of those runs. Hold the lock.

    `why`: who closed them, as `an erasure (run ID)`. They can still be purged.
    """
    run_ids = kept_run_ids(storage, directory)
    for run_id in run_ids:
        path = kept_path(directory, run_id)
        if not storage.exists(f"{path}/{CLOSED_JSON}"):
            storage.create(f"{path}/{CLOSED_JSON}", encode_manifest({"why": why}))
            storage.fsync_dir(path)
    return run_ids


def _closed_by(storage: Storage, path: str) -> str | None:
    """Return why it is closed. A half-written file counts as closed: a crash has left it."""
    if not storage.exists(f"{path}/{CLOSED_JSON}"):
        return None
    try:
        return read_manifest(storage, f"{path}/{CLOSED_JSON}", ["why"])["why"].text()
    except CorruptLogError:
        return "an erasure"


def _read_step(storage: Storage, path: str) -> Step:
    manifest = f"{path}/{STEP_JSON}"
    fields = read_manifest(storage, manifest, _STEP_FIELDS)
    step = Step(
        path=path,
        kind=StepKind(fields["kind"].one_of(*StepKind)),
        files=tuple(_read_file(file) for file in fields["files"].items()),
        outputs=tuple(_read_output(output) for output in fields["outputs"].items()),
        next_base=fields["next_base"].integer_or_none(),
    )
    deleted = step.kind is StepKind.DELETED
    if not step.bases or deleted is (step.next_base is None) or deleted is bool(step.outputs):
        raise fields["kind"].refused("segments and their outcome", "one without the other")
    there = {entry.name: entry for entry in storage.list_dir(path)}
    for file in step.files:
        entry = there.get(file.name)
        if entry is None or (entry.is_file, entry.size, entry.mtime_ns) != (
            True,
            file.size,
            file.mtime_ns,
        ):
            raise CorruptLogError(
                "a kept file has changed",
                expected=f"{file.size} bytes of {file.mtime_ns}",
                found="nothing" if entry is None else f"{entry.size} bytes of {entry.mtime_ns}",
                where=f"{path}/{file.name}",
                hint="The kept files can't be restored. `recover --purge` removes them.",
            )
    return step


def read_manifest(storage: Storage, path: str, needed: Collection[str]) -> Mapping[str, Value]:
    """Return the fields of a manifest of this version. Raises CorruptLogError for anything else."""
    fields = read_json(storage, path, hint=_HINT).fields({"version", *needed}, None)
    fields["version"].version(VERSION)
    return fields


def encode_manifest(fields: Mapping[str, object]) -> bytes:
    return json.dumps({"version": VERSION, **fields}, indent=1).encode()


def sha256_of(storage: Storage, path: str, start: int, end: int) -> str:
    """Return the SHA-256 of bytes [start, end) of a file."""
    digest = hashlib.sha256()
    while start < end:
        part = storage.read_range(path, start, min(_READ_BYTES, end - start))
        if not part:
            break
        digest.update(part)
        start += len(part)
    return digest.hexdigest()


def identify(storage: Storage, base_offset: int, path: str) -> Output:
    """Identify the segment whose log is at `path`. Reads the whole log."""
    size = storage.entry(path).size
    return Output(base_offset, size, sha256_of(storage, path, 0, size))


def _read_file(value: Value) -> KeptFile:
    fields = value.fields({"name", "size", "mtime_ns"}, None)
    return KeptFile(
        _name(fields["name"]), fields["size"].integer(), fields["mtime_ns"].integer(least=-MAX_LONG)
    )


def _read_output(value: Value) -> Output:
    fields = value.fields({"base_offset", "log_bytes", "sha256"}, None)
    return Output(
        fields["base_offset"].integer(), fields["log_bytes"].integer(), fields["sha256"].text()
    )


def _name(value: Value) -> str:
    """A name becomes part of a path, so only names of segment files are accepted."""
    name = value.text()
    digits, _, rest = name.partition(".")
    known = (
        f".{rest}" in {*SEGMENT_SUFFIXES, SNAPSHOT}
        and len(digits) == 20
        and digits.isascii()
        and digits.isdigit()
    )
    if not known or int(digits) > MAX_LONG:
        raise value.refused("the name of a segment's file")
    return name
